"""What a fitted autoregression can do: the right-hand side, its Jacobian, predictions and forecasts."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from ovk._params import Parameters
from ovk._validation import Array, positive, whole
from ovk.batch.okvar.dynamics import Dynamics, forecast_paths, one_step
from ovk.batch.okvar.series import Series, gather, low_passed, split
from ovk.batch.okvar.transitions import steady
from ovk.expansion import Expansion
from ovk.metrics import r2_observed
from ovk.ovkernels import OperatorKernel


class FittedDynamics(Parameters):
    """States are standardised with `mean_` and `scale_`, times counted in steps of `step_`."""

    target: str
    lag: int
    memory: float
    kernel_: OperatorKernel
    X_fit_: Array
    dual_coef_: Array
    intercept_: Array
    decay_: Array
    mean_: Array
    scale_: Array
    step_: float
    series_: list[Series]
    residuals_: Array

    def _names(self, d: int) -> tuple[str, ...]:
        names = getattr(self, "feature_names_in_", None)
        return tuple(map(str, names)) if names is not None else tuple(f"x{j}" for j in range(d))

    def _read(self, X: Any, series: Any, times: Any, *, reset: bool) -> list[Series]:
        table = gather(X, series, times)
        rows = validate_data(self, table.rows, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")
        if np.isinf(rows).any():
            raise ValueError("Input X contains infinity: replace it by nan where nothing was observed")
        return split(np.asarray(rows), table.lengths, table.times, 1.0 if reset else self.step_)

    @property
    def expansion_(self) -> Expansion:
        """h without constant and decay, on standardised states."""
        check_is_fitted(self)
        return Expansion(self.kernel_, self.X_fit_, self.dual_coef_)

    @property
    def dynamics_(self) -> Dynamics:
        """The learned dynamics on standardised states, with time in steps."""
        return Dynamics(self.expansion_, self.intercept_, self.decay_, self.target, self.lag, float(self.memory))

    def _windows(self, X: Any) -> Array:
        """Checked windows of states, standardised, (n, d lag)."""
        X = np.asarray(X, dtype=np.float64)
        d = len(self.mean_)
        if X.ndim != 2 or X.shape[1] != d * self.lag:
            raise ValueError(
                f"X must have {d * self.lag} columns, the {d} variables at {self.lag} times (the newest first), got "
                f"shape {X.shape}"
            )
        if not np.isfinite(X).all():
            raise ValueError("X must be finite here: there is no derivative at a state that is not known")
        return np.asarray((X - np.tile(self.mean_, self.lag)) / np.tile(self.scale_, self.lag))

    def drift(self, X: Any) -> Array:
        """The learned right-hand side at states X (n, d lag): the next state; for other targets the rate of change."""
        check_is_fitted(self)
        Z = self._windows(X)
        values = self.dynamics_.right_hand_side(Z, Z[:, : len(self.mean_)])
        if self.target == "next":
            return np.asarray(self.mean_ + self.scale_ * values)
        return np.asarray(self.scale_ * values / self.step_)

    def jacobian(self, X: Any = None) -> Array:
        """Derivative of `drift` in the state, in closed form, (n, d, d lag); at the training points by default."""
        check_is_fitted(self)
        J = self._standard_jacobian(self.X_fit_ if X is None else self._windows(X))
        J = J * self.scale_[:, None] / np.tile(self.scale_, self.lag)
        return J if self.target == "next" else J / self.step_

    def _standard_jacobian(self, Z: Array) -> Array:
        J = self.expansion_.jacobian(Z)
        if self.target != "next":
            each = np.arange(len(self.mean_))
            J[:, each, each] -= self.decay_
        return J

    def predict(self, X: Any, *, series: Any = None, times: Any = None) -> Array:
        """The state one step after each row, (n, d); nan where its past is not known.

        X, series and times are as in `fit`; series come one after the other. Without times the points are a step apart.
        """
        check_is_fitted(self)
        read = self._read(X, series, times, reset=False)
        return np.concatenate([self._predict(one) for one in read])

    def _predict(self, series: Series) -> Array:
        standard = Series((series.values - self.mean_) / self.scale_, series.times / self.step_)
        view = low_passed(standard, float(self.memory))
        return np.asarray(self.mean_ + self.scale_ * one_step(self.dynamics_, standard.values, view.values))

    def _one_step(self, series: list[Series]) -> tuple[Array, Array]:
        """States that were seen a step after a known one, and what was predicted."""
        truth, guess = [], []
        for one in series:
            if len(one) < 2:
                continue
            usual = steady(one, self.step_, 1)
            truth.append(one.values[1:][usual])
            guess.append(self._predict(one)[:-1][usual])
        if not truth:
            return np.empty((0, len(self.mean_))), np.empty((0, len(self.mean_)))
        Y, F = np.concatenate(truth), np.concatenate(guess)
        known = ~np.isnan(F).any(axis=1) & ~np.isnan(Y).all(axis=1)
        return Y[known], F[known]

    def _one_step_residuals(self) -> Array:
        truth, guess = self._one_step(self.series_)
        return truth - guess

    def score(self, X: Any, y: Any = None, *, series: Any = None, times: Any = None) -> float:
        """R^2 of the prediction one step ahead, averaged over variables."""
        check_is_fitted(self)
        truth, guess = self._one_step(self._read(X, series, times, reset=False))
        if len(truth) < 2:
            raise ValueError("X must hold at least two transitions of the usual step to be scored")
        return r2_observed(truth, guess)

    def forecast(
        self,
        steps: int,
        X: Any = None,
        *,
        interval: float | None = None,
        n_paths: int = 500,
        random_state: int | np.random.Generator | None = None,
    ) -> Any:
        """The states that follow a series.

        Parameters
        ----------
        steps : how many
        X : (n, d) the series to go on from; by default the one that was learned from, if it was one
        interval : level of an interval in (0, 1), optional
            From a residual bootstrap: paths in which each step is followed by a residual of the fit, drawn at random.
            It holds the noise of the series, not the uncertainty of h.
        n_paths : paths drawn for it
        random_state : int, Generator or None

        Returns
        -------
        (steps, d); with `interval`, a tuple of it, the lower and the upper ends
        """
        check_is_fitted(self)
        steps = whole(steps, "steps")
        if X is None:
            if len(self.series_) != 1:
                raise ValueError(f"the model was fitted to {len(self.series_)} series: give X, the one to go on from")
            series = self.series_[0]
        else:
            found = self._read(X, None, None, reset=False)
            if len(found) != 1:
                raise ValueError(f"X must be one series to go on from, got {len(found)}")
            series = found[0]
        standard = Series((series.values - self.mean_) / self.scale_, series.times / self.step_)
        view = low_passed(standard, float(self.memory)).values[-self.lag :]
        last = standard.values[-self.lag :]
        if len(last) < self.lag or np.isnan(last).any() or np.isnan(view).any():
            raise ValueError(f"X must end in {self.lag} states in a row without holes to go on from")
        path = forecast_paths(self.dynamics_, last[None], view[None], steps, None, None)[0]
        middle = self.mean_ + self.scale_ * path
        if interval is None:
            return middle
        level = positive(interval, "interval")
        if level >= 1:
            raise ValueError(f"interval must be a number in (0, 1), got {interval!r}")
        known = self.residuals_[~np.isnan(self.residuals_).any(axis=1)] / self.scale_
        if len(known) == 0:
            raise ValueError("there are no residuals of whole states to draw from: give smoothing to fill holes")
        rng = np.random.default_rng(random_state)
        many = whole(n_paths, "n_paths")
        start, seen = np.repeat(last[None], many, axis=0), np.repeat(view[None], many, axis=0)
        paths = forecast_paths(self.dynamics_, start, seen, steps, known - known.mean(axis=0), rng)
        ends = np.quantile(paths, [0.5 * (1 - level), 0.5 * (1 + level)], axis=0)
        return middle, self.mean_ + self.scale_ * ends[0], self.mean_ + self.scale_ * ends[1]
