"""Nonlinear vector autoregression in the space of an operator-valued kernel."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from scipy import stats
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ovk.base import (
    Aggregate,
    Array,
    NamedOutputs,
    OutputFrame,
    Parameters,
    check_choice,
    check_int,
    in_interval,
    library_of,
    positive,
    track,
)
from ovk.batch.okvar.alternate import AlternatingMinimiser, Coupling, OKVARSolution, coupling_on, with_operator
from ovk.batch.okvar.dynamics import FittedDynamics
from ovk.batch.okvar.networks import Network, choose, edge_scores, edge_signs, pooled_p_values, surrogate_targets
from ovk.batch.okvar.regression import TARGETS, SeriesRegression, checked_periods, integrals, steady, transitions
from ovk.batch.okvar.series import TimeSeries, Units, low_passed, read_series, smoothed
from ovk.intervals import masses, upper_quantile
from ovk.kernels import Gaussian
from ovk.objectives import Penalty, r2_observed
from ovk.ovkernels import Expansion, OperatorKernel, as_operator_kernel

#: Maximum number of blocks that are held out to measure forecast errors.
MAX_HELD_OUT_BLOCKS = 10


@dataclass(eq=False, repr=False)
class OKVAR(NamedOutputs, Parameters):
    r"""Nonlinear vector autoregression :math:`x_{t+1} = h(x_t) + \epsilon` with an operator-valued kernel.

    From one or several multivariate time series it learns h(x) = sum_l K(x, x_l) c_l and a constant b by minimising

        sum_t |y_t - b - h(x_t)|^2 + alpha |h|^2 + Omega(C)  (+ operator_weight |B|_1 when K = k B is learned as well).

    The Jacobian of h shows which variables act on which others (`network`).

    Parameters
    ----------
    kernel : operator-valued kernel or scalar kernel, optional
        For example ``Gaussian(2.0) * Identity()``, or ``Gaussian(2.0) * Identity() & Transformable(Gaussian(1.0))``.
        Its inputs are standardised states, unless `standardize` is False. Default ``Gaussian() * Identity()``.
    alpha : float
        Weight of the norm; 0 is allowed with a penalty.
    penalty : penalty of `ovk.objectives`, optional
        Omega, for example ``L1(0.1)`` or ``L1L2(0.1)``, for sparse coefficients or few support points.
    learn_operator : bool
        Learn the operator B of ``k * B``, or of ``(k * B) & K``, together with C, starting from the one in the kernel.
    operator_weight : float > 0
        Weight of the sum of |B_ij|. Otherwise B can grow without bound while C shrinks.
    lag : int
        Number of states that are the input of h: x(t), ..., x(t - lag + 1).
    target : {"next", "increment", "integral"}
        What is predicted: the next state; the rate of change (x(t+s) - x(t)) / s; or the whole curve, as the integral
        of the rate of change. "integral" suits slowly sampled, noisy series: noise enters once, not as differences. The
        last two learn `dx/dt = b - decay x + h(x)`.
    decay : bool
        Learn an unpenalised linear decay >= 0 for each variable, with the targets "increment" and "integral".
    smoothing : float
        Width, in steps of the series, of a local linear smoother that is applied first; it also fills gaps.
    memory : float
        Time constant, in steps, of a low-pass filter on the input of h, for causes that lag behind the measured
        variables, as proteins lag behind their mRNA.
    periods : sequence of numbers, optional
        Known cycles, such as ``[24, 168]`` for a day and a week of hourly rows, in the units of the times (seconds for
        dates; rows without times). The constant of each variable then includes an unpenalised wave of each period,
        which forecasts continue.
    standardize : bool
        Subtract the mean of each variable and divide it by its standard deviation first.
    fit_intercept : bool
        Learn an unpenalised constant b for each variable.
    tol : float
        Relative distance of the objective to its minimum at which proximal steps stop; with ``target="integral"`` and a
        penalty, the relative size of the gradient mapping.
    max_iter : int
        Maximum number of proximal steps.
    max_rounds : int
        Maximum number of rounds of learning B, of 20 proximal steps each.

    Attributes
    ----------
    kernel_ : the kernel with all learned parameters
    operator_ : (d, d) B, or None for kernels without a single operator
    dual_coef_ : (m, d) coefficients C
    X_fit_ : (m, d lag) inputs x_l, standardised
    intercept_, decay_ : (d,) b and the decays, for standardised variables and time in steps
    season_ : (2 P, d) cosines, then sines, of the `periods`, for standardised variables; only with periods
    mean_, scale_ : (d,) means and standard deviations of the variables
    step_ : time between two points
    objective_ : list of the objective after every step
    names_ : names of the variables; x0, x1, ... if the series has none
    dynamics_ : constant, decay and h in one object, from which predictions and networks are computed
    residuals_ : (n, d) one-step residuals
    bic_ : Bayesian information criterion
    converged_ : whether the objective is within a fraction `tol` of its minimum; with a learned B and a penalty, of a
        stationary point
    n_iter_ : proximal steps of the last minimisation for C, 1 for a closed form

    See Also
    --------
    best_okvar, consensus, Network

    Examples
    --------
    Two coupled variables; the second drives the first.

    >>> import numpy as np
    >>> from ovk import OKVAR
    >>> rng = np.random.default_rng(0)
    >>> x = np.zeros((200, 2))
    >>> for t in range(199):
    ...     x[t + 1] = [0.5 * x[t, 0] + np.tanh(x[t, 1]), 0.5 * x[t, 1]] + 0.3 * rng.standard_normal(2)
    >>> model = OKVAR(alpha=1.0).fit(x)
    >>> model.network(top_k=1).edges[0][:2]
    ('x1', 'x0')
    >>> model.forecast(3).shape
    (3, 2)
    """

    _default_factories = {"kernel": Gaussian}

    _state_classes = {"series_": TimeSeries}
    _stored = {
        "X_fit_": "n p",
        "dual_coef_": "n d",
        "intercept_ mean_ scale_": "d",
        "decay_": "d | None",
        "operator_": "d d | None",
        "series_": list[TimeSeries],
        "kernel_": OperatorKernel,
        "bic_": "* inf",
    }

    kernel: Any = None
    alpha: float = 1.0
    penalty: Penalty | None = None
    learn_operator: bool = False
    _: KW_ONLY
    operator_weight: float = 1.0
    lag: int = 1
    target: str = "next"
    decay: bool = True
    smoothing: float = 0.0
    memory: float = 0.0
    periods: Any = None
    standardize: bool = True
    fit_intercept: bool = True
    tol: float = 1e-3
    max_iter: int = 5000
    max_rounds: int = 20

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None, *, series: Any = None, times: Any = None) -> Self:
        """Learn from time series.

        Parameters
        ----------
        X : (n, d) array, list of arrays, or data frame
            One series; a list of series; or one table with all series below each other, identified by `series`. nan
            where missing.
        y : None
            Ignored.
        series : column name or (n,) labels, optional
            The series of each row.
        times : column name, (n,) numbers or dates, or a list of them for a list of series, optional
            Times of the rows; equally spaced by default.
        """
        with self._fitting(X):
            self.series_ = read_series(self, X, series, times)
            self.__dict__.pop("output_frame_", None)
            if (library := library_of(X)) is not None:
                self.output_frame_ = OutputFrame(library, list(self.names_))
            units = Units.from_series(self.series_, self.names_, self.standardize)
            self.mean_, self.scale_, self.step_ = units.mean, units.scale, units.step
            minimiser, solution = self._learn(self._regression(self.series_, units))
            self.objective_, self.converged_ = solution.objective, solution.converged
            self.bic_ = minimiser.bic(solution)
            self.n_iter_ = 1 if solution.info is None else max(solution.info.iterations, 1)
            minimiser.warn_if_zero(solution)
        return self

    def regression(self, X: Any, *, series: Any = None, times: Any = None) -> SeriesRegression:
        """The regression problem that `fit` solves for these series; the model is not changed."""
        reader: Self = clone(self)
        read = read_series(reader, X, series, times)
        return reader._regression(read, Units.from_series(read, reader.names_, self.standardize))

    def _regression(self, series: list[TimeSeries], units: Units) -> SeriesRegression:
        check_int(self.lag, "lag")
        check_choice(self.target, "target", TARGETS)
        if self.target == "integral" and self.lag != 1:
            raise ValueError(f"lag must be 1 with target='integral', got {self.lag}")
        cycles = checked_periods(self.periods, units.step, self.target)
        width, inertia = positive(self.smoothing, "smoothing", zero=True), positive(self.memory, "memory", zero=True)
        observed = [smoothed(units.standardised(one), width) for one in series]
        seen = [low_passed(one, inertia) for one in observed]
        if self.target == "integral":
            found = integrals(observed, seen, constant=self.fit_intercept, decay=self.decay)
        else:
            rates = self.target == "increment"
            usual = np.concatenate([steady(one, units.step, 1) for one in series])
            if not rates and len(usual) and usual.mean() < 0.5:
                raise ValueError(
                    f"target='next' requires equally spaced times, but only {usual.sum()} of {len(usual)} steps are "
                    f"the usual one, {units.step:g}: use target='increment' or 'integral'"
                )
            columns: dict[str, Any] = {"constant": self.fit_intercept, "decay": self.decay, "periods": cycles}
            found = transitions(observed, seen, self.lag, rates=rates, **columns)
        if len(found.Y) == 0:
            lengths = [len(one) for one in series]
            points = f"n_samples={lengths[0]}" if len(lengths) == 1 else f"series of lengths {lengths}"
            raise ValueError(
                f"X must contain {self.lag + 1} consecutive complete points with lag={self.lag}, equally spaced for "
                f"target='next', got {points}: pass smoothing to fill gaps, or another target for unequal steps"
            )
        return found

    def _learn(self, regression: SeriesRegression) -> tuple[AlternatingMinimiser, OKVARSolution]:
        """Minimise, and store the learned function."""
        weight = positive(self.operator_weight, "operator_weight") if self.learn_operator else 0.0
        d = regression.Y.shape[1]
        given: OperatorKernel = clone(as_operator_kernel(Gaussian() if self.kernel is None else self.kernel))
        kernel = given.resolve(regression.Z, d)
        B, coupling = coupling_on(kernel, regression.Z, d, self.learn_operator)
        minimiser = AlternatingMinimiser(
            coupling, regression, self.alpha, self.penalty, weight, self.tol, self.max_iter, self.max_rounds
        )
        solution = minimiser.minimise(B)
        theta, self.decay_ = regression.coefficients(minimiser.values(solution.B, solution.C))
        self.__dict__.pop("season_", None)
        if self.periods is not None:
            self.season_ = theta[: 2 * len(np.atleast_1d(self.periods))]
        self.intercept_ = theta[-1] if self.fit_intercept else np.zeros(d)
        self.kernel_ = with_operator(kernel, solution.B) if self.learn_operator else kernel
        self.X_fit_, self.dual_coef_ = regression.Z, solution.C
        self.operator_ = None if type(coupling) is Coupling else solution.B
        return minimiser, solution

    @property
    def names_(self) -> tuple[str, ...]:
        """Names of the variables; x0, x1, ... if the series has none."""
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        return tuple(map(str, names))

    @property
    def output_names_(self) -> list[str]:
        """The same as `names_`: the outputs are the variables."""
        return list(self.names_)

    @property
    def expansion_(self) -> Expansion:
        """h without constant and decay, on standardised states."""
        return self.dynamics_.h

    @property
    def dynamics_(self) -> FittedDynamics:
        """The learned dynamics, from which all predictions are computed."""
        check_is_fitted(self)
        h, units = Expansion(self.kernel_, self.X_fit_, self.dual_coef_), Units(self.mean_, self.scale_, self.step_)
        periods = checked_periods(self.periods, self.step_, self.target)
        season = self.season_ if len(periods) else np.zeros((0, len(self.decay_)))
        return FittedDynamics(
            h, self.intercept_, self.decay_, self.target, self.lag, float(self.memory), units, periods, season
        )

    @property
    def residuals_(self) -> Array:
        """Residuals (n, d) of the one-step predictions on the training series."""
        observed, predicted = self.dynamics_.one_step_pairs(self.series_)
        return observed - predicted

    def drift(self, X: Any) -> Array:
        """The learned right-hand side at states X (n, d lag), without waves: the next state, or the rate of change."""
        return self.dynamics_.drift(X)

    def jacobian(self, X: Any = None) -> Array:
        """Derivative of `drift` in the state, in closed form, (n, d, d lag); at the training points by default."""
        return self.dynamics_.jacobian(X)

    def predict(self, X: Any, *, series: Any = None, times: Any = None) -> Array:
        """The state one step after each row, (n, d); nan where its past is missing.

        X, series and times are as in `fit`; series follow each other. Without times, points are one step apart. A model
        that was fitted to a data frame predicts data frames.
        """
        dynamics = self.dynamics_
        found = np.concatenate([dynamics.predict(one) for one in read_series(self, X, series, times, self.step_)])
        # Sorted by series and times, the rows need not follow the order of the index.
        return self._named(found, X if series is None and times is None else None)

    def score(self, X: Any, y: Any = None, *, series: Any = None, times: Any = None) -> float:
        """R^2 of the one-step predictions, averaged over variables."""
        check_is_fitted(self)
        observed, predicted = self.dynamics_.one_step_pairs(read_series(self, X, series, times, self.step_))
        if len(observed) < 2:
            raise ValueError(f"X must contain at least two transitions of the usual step, got {len(observed)}")
        return r2_observed(observed, predicted)

    def forecast(self, steps: int, X: Any = None, *, times: Any = None, interval: float | None = None) -> Any:
        """The states that follow a series.

        Parameters
        ----------
        steps : int
            Number of states.
        X : (n, d) array, optional
            The series to continue; by default the training series, if there is only one.
        times : (n,) array, optional
            Times of X; without them a model with `periods` counts from time 0.
        interval : float in (0, 1), optional
            Level of intervals whose widths come from measured errors: the model is fitted again without each of up
            to ten blocks of the training series, and forecasts the states within that block.

        Returns
        -------
        array or data frame
            (steps, d), a data frame if the model was fitted to one; with `interval`, a tuple of it and the lower and
            upper ends.
        """
        found = self.series_ if X is None else read_series(self, X, None, times, self.step_)
        if len(found) != 1:
            whose = "the model was fitted to" if X is None else "X holds"
            raise ValueError(f"forecast continues one series, but {whose} {len(found)}: pass one series as X")
        middle = self.dynamics_.forecast(found[0], check_int(steps, "steps"))
        if interval is None:
            return self._named(middle, None)
        half = self._half_widths(steps, in_interval(interval, "interval", 1e-6, 1 - 1e-6))
        return self._named((middle, middle - half, middle + half), None)

    def refitted(self, series: list[TimeSeries]) -> Self:
        """A new model with the same parameters, fitted to these series."""
        fresh: Self = clone(self)
        return fresh.fit([one.values for one in series], times=[one.times for one in series])

    def _half_widths(self, steps: int, level: float) -> Array:
        """(steps, d) half widths of forecast intervals, from errors of models that have not learned the outcomes.

        The errors e_h of the forecasts h steps ahead within held-out blocks have root mean squares s_h, and the half
        width is q s_h, q the conformal quantile of |e_h| / s_h over all steps. The blocks are few and forecasts within
        a block overlap, so s_h is a mean of about m independent squares, m the number of disjoint forecasts of h steps.
        q is multiplied by the ratio of the quantiles of Student's t with m degrees of freedom and of the normal.
        """
        size = max(steps, 2) + self.lag
        blocks = []
        for k, one in enumerate(self.series_):
            count = max(1, min(MAX_HELD_OUT_BLOCKS, len(one) // size))
            edges = np.linspace(0, len(one), count + 1).astype(int).tolist()
            blocks += [(k, *ends) for ends in pairwise(edges) if ends[1] - ends[0] > self.lag]
        if len(blocks) < 2:
            raise ValueError(
                f"interval with steps={steps} and lag={self.lag} requires {2 * size} points of a series, got at most "
                f"{max(map(len, self.series_))}: forecast fewer steps"
            )
        errors, folds = [], min(MAX_HELD_OUT_BLOCKS, len(blocks))
        for fold in track(range(folds), "testing forecasts", folds):
            held = blocks[fold::folds]
            kept = []
            for k, one in enumerate(self.series_):
                cuts = [0, *(end for series, *ends in held if series == k for end in ends), len(one)]
                kept += [one.part(a, b) for a, b in zip(cuts[::2], cuts[1::2], strict=True) if b - a > self.lag]
            model = self.refitted(kept)
            for k, start, end in held:
                # The states before a block are the start of its first forecast.
                tested = self.series_[k].part(max(start - self.lag, 0), end)
                errors.append(model.scale_ * model.dynamics_.forecast_errors(tested, steps))
        E = np.concatenate(errors)
        seen = np.isfinite(E)
        counts = seen.sum(axis=0)
        if not counts.all():
            raise ValueError(f"no forecast {steps} steps ahead could be tested: forecast fewer steps")
        s = np.maximum(np.sqrt(np.nansum(E**2, axis=0) / counts), np.finfo(float).tiny)
        scores = np.where(seen, np.abs(E) / s, np.inf).reshape(-1, E.shape[2])
        q = [upper_quantile(score, masses(np.isfinite(score), None), level) for score in scores.T]
        disjoint = np.maximum(counts / np.arange(1, steps + 1)[:, None], 1.0)
        p = 0.5 + 0.5 * level
        factor = stats.t.ppf(p, disjoint) / stats.norm.ppf(p)
        return np.asarray(np.array(q) * s * factor)

    def edge_scores(self, *, aggregate: Aggregate = "mean_abs", balance: float = 0.0) -> Array:
        """Strength of the effect of each variable on each other variable, (d, d): row i, column j for i acting on j.

        Derivatives of the right-hand side on standardised states at the training points, combined by `aggregate`; the
        largest over the lags.

        Parameters
        ----------
        aggregate : {"mean_abs", "mean", "median", "max_abs"} or a function from (n, d, d) to (d, d)
            "mean_abs" and "max_abs" aggregate absolute values; the others take the absolute value of the aggregate.
            J[t, i, j] is the derivative of output i in input j.
        balance : float in [0, 1]
            Divide the scores of all edges into a variable by their mean to this power: 1 gives all variables the same
            scale, 0 changes nothing.
        """
        return edge_scores(self.dynamics_.standard_jacobian(), aggregate, balance)

    def network(
        self,
        threshold: float | None = None,
        top_k: int | None = None,
        fdr: float | None = None,
        *,
        aggregate: Aggregate = "mean_abs",
        balance: float = 0.0,
        n_permutations: int = 20,
        random_state: int | np.random.Generator | None = None,
    ) -> Network:
        """Which variables act on which others.

        Parameters
        ----------
        threshold : float, optional
            Choose edges with a larger score.
        top_k : int, optional
            Choose this many edges, the strongest.
        fdr : float, optional
            Choose edges at this false discovery rate (Benjamini and Hochberg). p-values come from fits to surrogate
            targets that depend only on their own past: what it explains of them, plus the residual of another series,
            shifted in time and with a random sign. Scores of all pairs are pooled.
        aggregate, balance
            As in `edge_scores`.
        n_permutations : int
            Number of fits for `fdr`.
        random_state : int, Generator or None
            Seed or generator for the surrogates of `fdr`.
        """
        dynamics = self.dynamics_
        J = dynamics.standard_jacobian()
        scores, p_values = edge_scores(J, aggregate, balance), None
        if fdr is not None:
            regression, rng = self._regression(self.series_, dynamics.units), np.random.default_rng(random_state)
            null = []
            for _ in track(range(check_int(n_permutations, "n_permutations")), "fitting surrogates"):
                twin: Self = clone(self)
                twin.mean_, twin.scale_, twin.step_ = self.mean_, self.scale_, self.step_
                twin._learn(regression.with_targets(surrogate_targets(regression, rng)))
                null.append(twin.edge_scores(aggregate=aggregate, balance=balance))
            p_values = pooled_p_values(scores, np.array(null))
        return Network(scores, choose(scores, threshold, top_k, p_values, fdr), edge_signs(J), self.names_)
