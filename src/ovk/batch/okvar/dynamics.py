"""Learned dynamics: the right-hand side, its Jacobian, predictions one step ahead, and forecasts.

    next state:       x(t+1) = b + h(x(t))
    rate of change:   dx/dt  = b - decay x + h(x)

and, with periods, the waves of `regression.py` at the time of the next state. h, b and decay refer to standardised
states and time in steps; the methods of `FittedDynamics` take and return series and states in the units of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ovk.base import Array
from ovk.batch.okvar.regression import steady, waves, windows
from ovk.batch.okvar.series import TimeSeries, Units, low_passed, relaxed
from ovk.ovkernels import Expansion


@dataclass(frozen=True, eq=False)
class FittedDynamics:
    """Learned dynamics; the parameters are those of `OKVAR`, with time counted in steps."""

    h: Expansion
    constant: Array  # (d,)
    decay: Array  # (d,)
    target: str
    lag: int
    memory: float
    units: Units
    periods: Array  # (P,)
    season: Array  # (2 P, d) coefficients of their waves

    def drift(self, X: Any) -> Array:
        Z = self._standard_windows(X)
        values = self._right_hand_side(Z, Z[:, : len(self.decay)])
        if self.target == "next":
            return self.units.original(values)
        return np.asarray(self.units.scale * values / self.units.step)

    def jacobian(self, X: Any = None) -> Array:
        J = self.standard_jacobian(None if X is None else self._standard_windows(X))
        scale = self.units.scale
        J = J * scale[:, None] / np.tile(scale, self.lag)
        return J if self.target == "next" else J / self.units.step

    def standard_jacobian(self, Z: Array | None = None) -> Array:
        """The Jacobian for standardised states Z and time in steps; at the training points by default."""
        J = self.h.jacobian(self.h.support if Z is None else Z)
        if self.target != "next":
            each = np.arange(len(self.decay))
            J[:, each, each] -= self.decay
        return J

    def predict(self, series: TimeSeries) -> Array:
        """The state one step after each row of a series, (n, d); nan if its window has a gap."""
        values, view = self._views(series)
        seen = windows(view, self.lag)
        known = ~(np.isnan(seen).any(axis=1) | np.isnan(values).any(axis=1))
        result = np.full(values.shape, np.nan)
        if known.any():
            result[known] = self._step(seen[known], values[known]) + self._waves(series.times[known] + self.units.step)
        return self.units.original(result)

    def one_step_pairs(self, series: list[TimeSeries]) -> tuple[Array, Array]:
        """States observed one usual step after a known one, and their predictions, both (n, d)."""
        usual = [steady(one, self.units.step, 1) for one in series]
        Y = np.concatenate([one.values[1:][same] for one, same in zip(series, usual, strict=True)])
        F = np.concatenate([self.predict(one)[:-1][same] for one, same in zip(series, usual, strict=True)])
        known = ~np.isnan(F).any(axis=1) & ~np.isnan(Y).all(axis=1)
        return Y[known], F[known]

    def forecast(self, series: TimeSeries, steps: int) -> Array:
        last, view = (values[-self.lag :] for values in self._views(series))
        if len(last) < self.lag or np.isnan(last).any() or np.isnan(view).any():
            raise ValueError(f"X must end in {self.lag} consecutive complete states")
        return self.units.original(self._paths(last[None], view[None], self._season_after(series.times[-1:], steps))[0])

    def forecast_errors(self, series: TimeSeries, steps: int) -> Array:
        """Errors (n, steps, d), in standard units, of forecasts from each state without gaps in its window.

        nan where the outcome is missing or after the end of the series.
        """
        values, view = self._views(series)
        ends = np.arange(self.lag, len(values))
        rows = ends[:, None] + np.arange(-self.lag, 0)
        known = ~np.isnan(values[rows] + view[rows]).any(axis=(1, 2))
        rows, ends = rows[known], ends[known]
        paths = self._paths(values[rows], view[rows], self._season_after(series.times[ends - 1], steps))
        outcomes = np.concatenate([values, np.full((steps, values.shape[1]), np.nan)])
        return np.asarray(outcomes[ends[:, None] + np.arange(steps)] - paths)

    def _standard_windows(self, X: Any) -> Array:
        X = np.asarray(X, dtype=np.float64)
        d = len(self.decay)
        if X.ndim != 2 or X.shape[1] != d * self.lag:
            columns = f"{d * self.lag} columns, {d} variables at {self.lag} times (newest first)"
            raise ValueError(f"X must have {columns}, got shape {X.shape}")
        if not np.isfinite(X).all():
            raise ValueError("X must be finite, got NaN or infinity")
        return np.asarray((X - np.tile(self.units.mean, self.lag)) / np.tile(self.units.scale, self.lag))

    def _views(self, series: TimeSeries) -> tuple[Array, Array]:
        """The standardised states of a series, and the inputs of h."""
        standard = self.units.standardised(series)
        return standard.values, low_passed(standard, self.memory).values

    def _waves(self, times: Array) -> Array:
        """S' w at times in the units of the data, (n, d)."""
        return np.asarray(waves(times / self.units.step, self.periods) @ self.season)

    def _season_after(self, times: Array, steps: int) -> Array:
        """The waves at the steps after each of n times, (n, steps, d)."""
        following = times[:, None] + self.units.step * np.arange(1, steps + 1)
        return self._waves(following.ravel()).reshape(*following.shape, -1)

    def _right_hand_side(self, seen: Array, x: Array) -> Array:
        """The next state, or the rate of change, for windows `seen` (n, d lag) and states x (n, d)."""
        values = self.constant + self.h(seen)
        return values if self.target == "next" else values - self.decay * x

    def _step(self, seen: Array, x: Array) -> Array:
        if self.target == "next":
            return self._right_hand_side(seen, x)
        if self.target == "increment":
            return np.asarray(x + self._right_hand_side(seen, x))
        # The input of h follows x with memory, and is x otherwise.
        return np.asarray(runge_kutta(self._velocity, np.stack([x, seen if self.memory else x]), 1.0, 4)[0])

    def _velocity(self, state: Array) -> Array:
        x, seen = state
        if not self.memory:
            change = self._right_hand_side(x, x)
            return np.stack([change, change])
        return np.stack([self._right_hand_side(seen, x), (x - seen) / self.memory])

    def _paths(self, last: Array, view: Array, season: Array) -> Array:
        """Standardised paths (r, steps, d) from the last states (r, lag, d) and inputs of h, plus `season`."""
        (r, _, d), steps = last.shape, season.shape[1]
        x, seen = last[:, -1], view[:, ::-1]
        path = np.empty((r, steps, d))
        for k in range(steps):
            following = self._step(seen.reshape(r, -1), x) + season[:, k]
            newest = relaxed(seen[:, 0], x, following, 1.0, self.memory) if self.memory else following
            seen = np.concatenate([newest[:, None], seen[:, :-1]], axis=1)
            path[:, k] = x = following
        return path


def runge_kutta(velocity: Callable[[Array], Array], state: Array, span: float, steps: int) -> Array:
    """The state after the time `span`, by classical Runge-Kutta steps."""
    h = span / steps
    for _ in range(steps):
        a = velocity(state)
        b = velocity(state + 0.5 * h * a)
        c = velocity(state + 0.5 * h * b)
        d = velocity(state + h * c)
        state = state + h / 6.0 * (a + 2.0 * b + 2.0 * c + d)
    return state
