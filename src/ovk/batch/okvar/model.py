"""Nonlinear vector autoregression in the space of an operator-valued kernel."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from ovk._validation import Array, positive, whole
from ovk.batch.okvar.alternate import Fit, Settings, Steps
from ovk.batch.okvar.coupling import Coupling, Decomposable, Fixed, learnable, take_out, with_operator
from ovk.batch.okvar.inference import NetworkInference
from ovk.batch.okvar.series import Series, low_passed, smoothed, usual_step
from ovk.batch.okvar.transitions import TARGETS, Regression, integrals, steady, transitions
from ovk.kernels import Gaussian
from ovk.ovkernels import OperatorKernel, Separable, as_operator_kernel
from ovk.penalties import Penalty


class OKVAR(NetworkInference):
    r"""Vector autoregression :math:`x_{t+1} = h(x_t) + \epsilon` with h in the space of an operator-valued kernel.

    From one or several multivariate time series it learns h(x) = sum_l K(x, x_l) c_l and a constant b by minimising

        sum_t |y_t - b - h(x_t)|^2 + alpha |h|^2 + Omega(C)  (+ operator_weight |B|_1 when K = k B is learned as well)

    and reads off the Jacobian of h which variables act on which others (`network`).

    Parameters
    ----------
    kernel : operator-valued kernel, or scalar kernel; default ``Gaussian() * Identity()``
        For instance ``Gaussian(2.0) * Identity()``, or ``Gaussian(2.0) * Identity() & Transformable(Gaussian(1.0))``.
        It sees standardised states, unless `standardize` is False.
    alpha : float
        Weight of the norm; 0 is allowed with a penalty.
    penalty : penalty of `ovk.penalties`, optional
        Omega, for instance ``L1(0.1)`` or ``L1L2(0.1)``, for few coefficients or few support points.
    learn_operator : bool
        Learn the operator B of ``k * B``, or of ``(k * B) & K``, in turn with C, from the one in the kernel.
    operator_weight : float > 0
        Weight of the sum of |B_ij|. Without it B could grow for ever while C shrinks.
    lag : int
        States that h sees: x(t), ..., x(t - lag + 1).
    target : {"next", "increment", "integral"}
        What is predicted: the next state; the rate of change (x(t+s) - x(t)) / s; or the whole curve, as the integral
        of the rate of change from its start. The third suits slowly sampled, noisy series: noise enters once, not as
        differences. For the last two, `dx/dt = b - decay x + h(x)`.
    decay : bool
        Give each variable a linear decay >= 0 of its own, not penalised, with the targets "increment" and "integral".
    smoothing : float
        Width, in steps of the series, of a local linear smoother run over the series first; it also fills gaps.
    memory : float
        Time constant, in steps, of a low pass through which h sees the series: what acts may lag behind what is
        measured, as proteins do behind their mRNA.
    standardize : bool
        Divide each variable by its standard deviation and take its mean off first.
    fit_intercept : bool
        Give each variable a constant b of its own, not penalised.
    tol, max_iter : of the proximal steps; relative size of the gradient mapping, and number of steps
    max_rounds : int
        Rounds of learning C and B in turn.

    Attributes
    ----------
    kernel_ : the kernel with everything that was learned filled in
    operator_ : (d, d) B, or None for kernels without a single operator
    dual_coef_ : (m, d) coefficients C
    X_fit_ : (m, d lag) inputs x_l, standardised
    intercept_, decay_ : (d,) b and the decays, for standardised variables and time in steps
    mean_, scale_ : (d,) with which variables were standardised
    step_ : time between two points
    objective_ : list of the objective after every step
    residuals_ : (n, d) one-step residuals
    bic_ : Bayesian information criterion
    converged_ : whether the stopping rules were met
    n_iter_ : proximal steps of the last minimisation for C, 1 for a closed form

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

    def __init__(
        self,
        kernel: Any = None,
        alpha: float = 1.0,
        penalty: Penalty | None = None,
        learn_operator: bool = False,
        *,
        operator_weight: float = 1.0,
        lag: int = 1,
        target: str = "next",
        decay: bool = True,
        smoothing: float = 0.0,
        memory: float = 0.0,
        standardize: bool = True,
        fit_intercept: bool = True,
        tol: float = 1e-3,
        max_iter: int = 5000,
        max_rounds: int = 20,
    ) -> None:
        self.kernel = kernel
        self.alpha = alpha
        self.penalty = penalty
        self.learn_operator = learn_operator
        self.operator_weight = operator_weight
        self.lag = lag
        self.target = target
        self.decay = decay
        self.smoothing = smoothing
        self.memory = memory
        self.standardize = standardize
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.max_rounds = max_rounds

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None, *, series: Any = None, times: Any = None) -> Self:
        """Learn from time series.

        Parameters
        ----------
        X : one series (n, d); a list of such; or a table with all series below each other, told apart by `series`
            nan where nothing was observed.
        y : ignored
        series : name of a column of the data frame X, or (n,) labels, optional
            The series of each row.
        times : name of a column, (n,) numbers or dates, or a list of such for a list of series, optional
            Without it the points are taken to be equally spaced.
        """
        with self._all_or_nothing():
            self._fit(self._read(X, series, times, reset=True), None)
        return self

    def fit_series(self, series: list[Series]) -> Self:
        """Learn from series that were checked before."""
        with self._all_or_nothing():
            self.n_features_in_ = series[0].values.shape[1]
            self._fit(series, None)
        return self

    def regression(self, X: Any, *, series: Any = None, times: Any = None) -> Regression:
        """What `fit` would regress on what, with the inputs of h and the weights of the integrals; nothing is kept."""
        twin: Self = clone(self)
        read = twin._read(X, series, times, reset=True)
        twin._check_parameters()
        twin._standardise(read)
        return twin._regression(read)

    def _fit(self, series: list[Series], start: Fit | None) -> Fit:
        self._check_parameters()
        self._standardise(series)
        self.series_ = series
        regression = self._regression(series)
        steps, fit = self._learn(regression, start)
        self._store(steps, fit)
        self._judge(steps, fit)
        return fit

    def _standardise(self, series: list[Series]) -> None:
        self.step_ = usual_step(series)
        rows = np.concatenate([one.values for one in series])
        unseen = np.flatnonzero(np.isnan(rows).all(axis=0))
        if len(unseen):
            raise ValueError(f"variable {self._names(rows.shape[1])[unseen[0]]!r} was never observed: leave it out")
        d = rows.shape[1]
        self.mean_, self.scale_ = np.zeros(d), np.ones(d)
        if self.standardize:
            self.mean_, spread = np.nanmean(rows, axis=0), np.nanstd(rows, axis=0)
            # A variable that never changes has no scale.
            self.scale_ = np.where(spread > 1e-12 * np.maximum(np.abs(self.mean_), 1e-300), spread, 1.0)

    def _check_parameters(self) -> None:
        positive(self.alpha, "alpha", zero=True)
        whole(self.lag, "lag")
        positive(self.smoothing, "smoothing", zero=True)
        positive(self.memory, "memory", zero=True)
        whole(self.max_rounds, "max_rounds")
        if self.target not in TARGETS:
            raise ValueError(f"target must be one of {', '.join(map(repr, TARGETS))}, got {self.target!r}")
        if self.target == "integral" and self.lag != 1:
            raise ValueError(f"target='integral' is about rates of change now: it needs lag=1, got {self.lag}")
        if self.penalty is not None and not isinstance(self.penalty, Penalty):
            raise ValueError(f"penalty must be a penalty of ovk.penalties or None, got {self.penalty!r}")
        if self.alpha == 0 and self.penalty is None:
            raise ValueError("alpha must be > 0 without a penalty, got 0: the system would be singular")
        if self.learn_operator:
            positive(self.operator_weight, "operator_weight")

    def _views(self, series: list[Series]) -> tuple[list[Series], list[Series]]:
        """Series in standard units and steps, smoothed; and what h sees of them."""
        standard = [Series((one.values - self.mean_) / self.scale_, one.times / self.step_) for one in series]
        smooth = [smoothed(one, float(self.smoothing)) for one in standard]
        return smooth, [low_passed(one, float(self.memory)) for one in smooth]

    def _regression(self, series: list[Series]) -> Regression:
        """What is regressed on what; an error when the series hold nothing to learn from."""
        observed, seen = self._views(series)
        if self.target == "integral":
            found = integrals(observed, seen, constant=self.fit_intercept, decay=self.decay)
        else:
            if self.target == "next":
                self._check_steps(series)
            found = transitions(
                observed,
                seen,
                self.lag,
                1.0,
                rates=self.target == "increment",
                constant=self.fit_intercept,
                decay=self.decay,
            )
        if len(found.Y) == 0:
            lengths = [len(one) for one in series]
            points = f"n_samples={lengths[0]}" if len(lengths) == 1 else f"series of lengths {lengths}"
            raise ValueError(
                f"there is no transition to learn from in {points} with lag={self.lag}: a series needs at least "
                f"{self.lag + 1} points in a row without holes, equally spaced for target='next' (give smoothing to "
                "fill holes, or target='increment' or 'integral' for unequal steps)"
            )
        return found

    def _check_steps(self, series: list[Series]) -> None:
        """Next states are a step apart: most of the steps have to be the same."""
        same = np.concatenate([steady(one, self.step_, 1) for one in series])
        if len(same) and same.mean() < 0.5:
            raise ValueError(
                f"only {same.sum()} of the {len(same)} steps in time are the usual one, {self.step_:g}, and "
                "target='next' learns from those alone: use target='increment' or 'integral', which know of time"
            )

    def _learn(self, regression: Regression, start: Fit | None = None) -> tuple[Steps, Fit]:
        """Minimise; the kernel that was used is left in `kernel_`."""
        d = regression.Y.shape[1]
        given: OperatorKernel = clone(as_operator_kernel(Gaussian() if self.kernel is None else self.kernel))
        kernel = given.resolve(regression.Z, d)
        B, coupling = self._coupling(kernel, regression.Z, d)
        settings = Settings(
            float(self.alpha),
            self.penalty,
            float(self.operator_weight) if self.learn_operator else 0.0,
            positive(self.tol, "tol"),
            whole(self.max_iter, "max_iter"),
            self.max_rounds,
        )
        steps = Steps(coupling, regression, settings)
        fit = steps.start(B)
        if start is not None and start.C.shape == fit.C.shape:
            fit.B, fit.C = (start.B if self.learn_operator else B), start.C
        if self.learn_operator:
            steps.alternate(fit)
            kernel = with_operator(kernel, fit.B)
        else:
            steps.learn_coefficients(fit)
        self.kernel_ = kernel
        return steps, fit

    def _coupling(self, kernel: OperatorKernel, Z: Array, d: int) -> tuple[Array, Coupling]:
        if self.learn_operator:
            return learnable(kernel).dense(), take_out(kernel, Z, d)
        if isinstance(kernel, Separable):
            return kernel.operator.dense(), Decomposable(kernel.scalar(Z))
        return np.eye(d), Fixed(kernel.gram(Z))

    def _store(self, steps: Steps, fit: Fit) -> None:
        """Keep the function that was learned."""
        F = steps.values(fit)
        theta, self.decay_ = steps.nuisance.coefficients(F)
        self.intercept_ = theta[-1] if self.fit_intercept else np.zeros(len(self.decay_))
        self.X_fit_, self.dual_coef_ = steps.regression.Z, fit.C
        has_operator = self.learn_operator or isinstance(self.kernel_, Separable)
        self.operator_ = fit.B if has_operator else None

    def _twin(self, regression: Regression) -> Self:
        twin: Self = clone(self)
        twin.mean_, twin.scale_, twin.step_ = self.mean_, self.scale_, self.step_
        steps, fit = twin._learn(regression)
        twin._store(steps, fit)
        return twin

    def _judge(self, steps: Steps, fit: Fit) -> None:
        """Keep how well it went, and say what went wrong."""
        self.objective_ = fit.objective
        self.converged_ = fit.converged
        self.n_iter_ = 1 if fit.info is None else max(fit.info.iterations, 1)
        self.bic_ = self._criterion(steps, fit)
        self.residuals_ = self._one_step_residuals()
        if self.penalty is not None and not fit.C.any():
            warnings.warn(
                f"the penalty {self.penalty!r} leaves no coefficient, so h is zero: lower its weight", stacklevel=4
            )
        elif self.learn_operator and not fit.B.any():
            warnings.warn(
                f"operator_weight={self.operator_weight:g} leaves no entry of the operator, so h is zero: lower it",
                stacklevel=4,
            )

    def _criterion(self, steps: Steps, fit: Fit) -> float:
        """n log(mean squared residual) of each variable, plus log(n) for each parameter."""
        R = steps.nuisance.residual(steps.values(fit))
        seen = steps.nuisance.seen.sum(axis=0)
        others = steps.regression.E.shape[1] * len(seen) + int((self.decay_ > 0).sum())
        squares = np.maximum((R**2).sum(axis=0), 1e-300)
        used = seen > 0
        likelihood = float((seen[used] * np.log(squares[used] / seen[used])).sum())
        return float(likelihood + np.log(seen.sum()) * (steps.freedom(fit) + others))
