"""Limits on residuals that follow their size, so that a wild label teaches no more than an ordinary one.

The limit of the next row is a multiple `factor` of the largest residual seen, which fades by `FADE` a row. A residual
beyond the limit is cut to it, and then the limit grows:

    l_(t+1) = max(4 l_t, l_t^(1/2))                        if |r_t| > l_t,
    l_(t+1) = max(FADE l_t, factor |r_t|, FLOOR)           otherwise.

One wild label thus raises the limit for a while, and stays small beside the labels, whose deviation is 1. A lasting
change of the residuals is followed after a few rows: where an output has been quiet for so long that its limit is at
`FLOOR`, the fifth row of a burst may be 3 deviations away. An infinite limit stays infinite; `first_limit` replaces it
by one from residuals.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ovk._state import State
from ovk._types import Array

#: Factor by which limits fade in a row.
FADE = 0.995
#: Limits stay above this, in units in which the labels have a deviation of about 1.
FLOOR = 1e-3
#: Share of the residuals that the first limit is taken from.
MOST = 0.98
#: Rows before the first limit, of whose second half it is taken; and the factor where nobody chooses one.
FIRST, FACTOR = 50, 3.0


def first_limit(residuals: Array, factor: float) -> Array:
    """(d,) limits after (n, d) residuals that were not limited; infinite where they are all 0 or nan."""
    size = np.abs(np.nan_to_num(residuals))
    # The few largest may be wild.
    large = factor * np.quantile(size, MOST, axis=0, method="lower")
    limit: Array = np.where(large > 0.0, np.maximum(large, FLOOR), np.inf)
    return limit


def next_limit(limit: Array, residual: Array, factor: float) -> Array:
    """(d,) limits after the (d,) residuals of a row; that of a missing label, whose residual is nan, stays."""
    size = np.abs(residual)
    fading = np.maximum(np.maximum(FADE * limit, factor * size), FLOOR)
    grown: Array = np.where(size > limit, np.maximum(4.0 * limit, np.sqrt(limit)), fading)
    return np.where(np.isnan(grown), limit, grown)


def limits_along(limit: Array, residuals: Array, factor: float) -> Array:
    """(n + 1, d) limits of rows and after the last one, as long as the (n, d) residuals stay within them."""
    fades = FADE ** np.arange(len(residuals) + 1.0)[:, None]
    raised = np.vstack([limit, factor * np.abs(residuals) / fades[1:]])
    limits: Array = np.maximum(np.maximum.accumulate(raised, axis=0) * fades, FLOOR)
    limits[0] = limit
    return limits


@dataclass
class ResidualLimits(State):
    """The limits of a learner that moves a label which is further than its limit from its prediction to that distance.

    Attributes
    ----------
    limit : (d,) limits of the next row; infinite in the first rows
    early : (n, d) residuals of the first rows, until there are enough for a limit
    """

    limit: Array
    early: Array = field(default_factory=lambda: np.empty((0, 0)))

    @classmethod
    def start(cls, d: int) -> ResidualLimits:
        """Before the first row, for d outputs."""
        return cls(np.full(d, np.inf), np.empty((0, d)))

    def ordinary(self, residuals: Array) -> int:
        """How many of the next rows, with residuals (n, d), 0 for labels that are missing, come before a wild one."""
        need = FIRST - len(self.early)
        limit = self.limit
        if need > 0:
            if len(residuals) <= need:
                return len(residuals)
            limit = _after_first(np.vstack([self.early, residuals[:need]]))
        need = max(need, 0)
        limits = limits_along(limit, residuals[need:], FACTOR)
        wild = (np.abs(residuals[need:]) > limits[:-1]).any(axis=1)
        return need + (int(wild.argmax()) if wild.any() else len(residuals) - need)

    def moved(self, residuals: Array) -> Array:
        """(n, d) residuals of rows, of which at most the last is wild, within the limits; goes on to the next row."""
        found = residuals.copy()
        need = min(max(FIRST - len(self.early), 0), len(residuals))
        if need:
            self.early = np.vstack([self.early, residuals[:need]])
            if len(self.early) == FIRST:
                self.limit = _after_first(self.early)
        for i in range(need, len(residuals)):
            found[i] = np.clip(residuals[i], -self.limit, self.limit)
            self.limit = next_limit(self.limit, residuals[i], FACTOR)
        return found


def _after_first(residuals: Array) -> Array:
    # The first rows of a learner that knows nothing have large residuals.
    return first_limit(residuals[len(residuals) // 2 :], FACTOR)
