"""Running the learned dynamics forward, on standardised states with time in steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ovk._validation import Array
from ovk.batch.okvar.series import relaxed
from ovk.batch.okvar.transitions import windows
from ovk.expansion import Expansion


class Dynamics(NamedTuple):
    """b + h for next states; b - decay x + h for rates of change.

    Attributes
    ----------
    h : the expansion
    b, decay : (d,)
    target : "next", "increment" or "integral"
    lag : states that h sees
    memory : time constant of the low pass through which it sees them, 0 for none
    """

    h: Expansion
    b: Array
    decay: Array
    target: str
    lag: int
    memory: float

    def right_hand_side(self, seen: Array, x: Array) -> Array:
        """The next state, or the rate of change, for windows `seen` (n, d lag) and states x (n, d)."""
        values = self.b + self.h(seen)
        return values if self.target == "next" else values - self.decay * x

    def step(self, seen: Array, x: Array) -> Array:
        """States (n, d) one step after x."""
        if self.target == "next":
            return self.right_hand_side(seen, x)
        if self.target == "increment":
            return np.asarray(x + self.right_hand_side(seen, x))
        return self._integrate(seen, x)

    def _integrate(self, p: Array, x: Array) -> Array:
        """Runge and Kutta over one step, four parts; p follows x when there is memory, and is x otherwise."""
        parts = 4
        state = np.stack([x, p if self.memory else x])
        h = 1.0 / parts
        for _ in range(parts):
            a = self._velocity(state)
            b = self._velocity(state + 0.5 * h * a)
            c = self._velocity(state + 0.5 * h * b)
            d = self._velocity(state + h * c)
            state = state + h / 6.0 * (a + 2.0 * b + 2.0 * c + d)
        return np.asarray(state[0])

    def _velocity(self, state: Array) -> Array:
        x, p = state
        if not self.memory:
            change = self.right_hand_side(x, x)
            return np.stack([change, change])
        return np.stack([self.right_hand_side(p, x), (x - p) / self.memory])


def one_step(dynamics: Dynamics, values: Array, view: Array) -> Array:
    """The state one step after each row of a series, (n, d); nan where its window has a hole."""
    seen = windows(view, dynamics.lag)
    known = ~(np.isnan(seen).any(axis=1) | np.isnan(values).any(axis=1))
    result = np.full(values.shape, np.nan)
    if known.any():
        result[known] = dynamics.step(seen[known], values[known])
    return result


def forecast_paths(
    dynamics: Dynamics,
    last: Array,
    view: Array,
    steps: int,
    residuals: Array | None,
    rng: np.random.Generator | None,
) -> Array:
    """Paths (r, steps, d) that go on from the last states (r, lag, d) and what h sees of them.

    With residuals, one of them drawn at random is added after every step.
    """
    r, _, d = last.shape
    x, seen = last[:, -1], view[:, ::-1]
    path = np.empty((r, steps, d))
    for k in range(steps):
        following = dynamics.step(seen.reshape(r, -1), x)
        if residuals is not None and rng is not None:
            following = following + residuals[rng.integers(len(residuals), size=r)]
        newest = relaxed(seen[:, 0], x, following, 1.0, dynamics.memory) if dynamics.memory else following
        seen = np.concatenate([newest[:, None], seen[:, :-1]], axis=1)
        path[:, k] = x = following
    return path
