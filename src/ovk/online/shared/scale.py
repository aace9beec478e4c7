"""Units in which learners work: columns centred and scaled by rows seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ovk.base import Array, Mask, State

#: Inputs further than this many deviations from their mean, and residuals larger than this, count as this many.
MAX_DEVIATIONS = 6.0
#: Share of the labels that may be wild.
MAX_OUTLIER_SHARE = 0.002


@dataclass
class Scale(State):
    """Centre and scale of columns.

    Parameters
    ----------
    centre, scale : (p,) centre and scale of each column
    """

    centre: Array
    scale: Array

    @classmethod
    def from_rows(cls, X: Array, few: float = 1.0) -> Self:
        """Mean and deviation of the columns, without values far outside their quartiles; nan is ignored.

        A column in which more than the share `few` of the values, and more than one, is that far outside keeps them.
        """
        if not len(X):
            return cls(np.zeros(X.shape[1]), np.ones(X.shape[1]))
        X = np.where(np.isfinite(X), X, np.nan)
        with np.errstate(all="ignore"):
            low, middle, high = np.nan_to_num(_quantiles(X))
        # Where most values are the same the quartiles say nothing, and no value is left out.
        reach = np.where(high > low, 20.0 * (high - low), np.inf)
        far = np.abs(X - middle) > reach
        # More than a few are not wild, but what happens now and then: rain, or a machine that is mostly off.
        far &= far.sum(axis=0) <= max(1, few * len(X))
        kept = np.where(far, np.nan, X)
        known = np.isfinite(kept)
        count = np.maximum(known.sum(axis=0), 1)
        centre = np.where(known, kept, 0.0).sum(axis=0) / count
        deviations = np.where(known, kept - centre, 0.0)
        largest = np.maximum(np.abs(deviations).max(axis=0), np.finfo(float).tiny)
        scale = largest * np.sqrt(np.sum((deviations / largest) ** 2, axis=0) / count)
        # A column that is constant so far keeps the scale of its size.
        tiny = 1e-10 * np.maximum(np.abs(centre), np.finfo(float).tiny)
        return cls(centre, np.where(scale > tiny, scale, np.where(centre == 0.0, 1.0, np.abs(centre))))

    def unknown(self) -> Mask:
        """(p,) columns without any value, or with 0 only."""
        mask: Mask = (self.centre == 0.0) & (self.scale == 1.0)
        return mask

    def inputs(self, X: Array) -> Array:
        """Standardised rows within `MAX_DEVIATIONS`; a missing value is the mean."""
        Z: Array = (X - self.centre) / self.scale
        np.minimum(np.maximum(Z, -MAX_DEVIATIONS, out=Z), MAX_DEVIATIONS, out=Z)
        Z[np.isnan(Z)] = 0.0
        return Z

    def outputs(self, Y: Array) -> Array:
        """Standardised labels, nan where missing."""
        return (Y - self.centre) / self.scale

    def predictions(self, Z: Array) -> Array:
        """Back in the caller's units."""
        return self.centre + self.scale * Z


def clip_outliers(Y: Array) -> Array:
    """(n, d) labels moved to at most three times the distance of the quartiles outside them; nan stays nan."""
    low, _, high = _quantiles(Y)
    # Where most values are the same the quartiles say nothing.
    reach = np.where(high > low, 3.0 * (high - low), np.inf)
    moved: Array = np.clip(Y, low - reach, high + reach)
    return moved


def _quantiles(X: Array) -> Array:
    if np.isfinite(X).all():
        return np.quantile(X, [0.25, 0.5, 0.75], axis=0)
    columns = [x[np.isfinite(x)] for x in X.T]
    return np.stack([np.quantile(x, [0.25, 0.5, 0.75]) if len(x) else np.zeros(3) for x in columns], axis=1)


# Limits on residuals that follow their size, so that an outlier teaches no more than an inlier.
#
# The limit of the next row is `factor` times the largest residual so far, which decays by `LIMIT_DECAY` a row. A larger
# residual is clipped to the limit, which then grows:
#
#     l_(t+1) = max(4 l_t, l_t^(1/2))                              if |r_t| > l_t,
#     l_(t+1) = max(LIMIT_DECAY l_t, factor |r_t|, MIN_LIMIT)      otherwise.
#
# One outlier thus raises the limit for a while, and stays small next to labels, whose deviation is 1. A lasting change
# is followed within a few rows: from `MIN_LIMIT`, the fifth row of a burst may be 3 deviations away. An infinite limit
# stays infinite until `first_limit` replaces it.

#: Factor by which limits fade in a row.
LIMIT_DECAY = 0.995
#: Limits stay above this, in units in which the labels have a deviation of about 1.
MIN_LIMIT = 1e-3
#: Share of the residuals that the first limit is taken from.
INLIER_QUANTILE = 0.98
#: Rows before the first limit, of whose second half it is taken; and the factor where nobody chooses one.
ROWS_BEFORE_LIMIT, LIMIT_FACTOR = 50, 3.0


def first_limit(residuals: Array, factor: float) -> Array:
    """(d,) limits after (n, d) residuals that were not limited; infinite where they are all 0 or nan."""
    size = np.abs(np.nan_to_num(residuals))
    # The few largest may be wild.
    large = factor * np.quantile(size, INLIER_QUANTILE, axis=0, method="lower")
    limit: Array = np.where(large > 0.0, np.maximum(large, MIN_LIMIT), np.inf)
    return limit


def next_limit(limit: Array, residual: Array, factor: float) -> Array:
    """(d,) limits after the (d,) residuals of a row; that of a missing label, whose residual is nan, stays."""
    size = np.abs(residual)
    fading = np.maximum(np.maximum(LIMIT_DECAY * limit, factor * size), MIN_LIMIT)
    grown: Array = np.where(size > limit, np.maximum(4.0 * limit, np.sqrt(limit)), fading)
    return np.where(np.isnan(grown), limit, grown)


def limits_along(limit: Array, residuals: Array, factor: float) -> Array:
    """(n + 1, d) limits of rows and after the last one, as long as the (n, d) residuals stay within them."""
    fades = LIMIT_DECAY ** np.arange(len(residuals) + 1.0)[:, None]
    raised = np.vstack([limit, factor * np.abs(residuals) / fades[1:]])
    limits: Array = np.maximum(np.maximum.accumulate(raised, axis=0) * fades, MIN_LIMIT)
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
        need = ROWS_BEFORE_LIMIT - len(self.early)
        limit = self.limit
        if need > 0:
            if len(residuals) <= need:
                return len(residuals)
            limit = _after_first(np.vstack([self.early, residuals[:need]]))
        need = max(need, 0)
        limits = limits_along(limit, residuals[need:], LIMIT_FACTOR)
        wild = (np.abs(residuals[need:]) > limits[:-1]).any(axis=1)
        return need + (int(wild.argmax()) if wild.any() else len(residuals) - need)

    def moved(self, residuals: Array) -> Array:
        """(n, d) residuals of rows, of which at most the last is wild, within the limits; goes on to the next row."""
        found = residuals.copy()
        need = min(max(ROWS_BEFORE_LIMIT - len(self.early), 0), len(residuals))
        if need:
            self.early = np.vstack([self.early, residuals[:need]])
            if len(self.early) == ROWS_BEFORE_LIMIT:
                self.limit = _after_first(self.early)
        for i in range(need, len(residuals)):
            found[i] = np.clip(residuals[i], -self.limit, self.limit)
            self.limit = next_limit(self.limit, residuals[i], LIMIT_FACTOR)
        return found


def _after_first(residuals: Array) -> Array:
    # The first rows of a learner that knows nothing have large residuals.
    return first_limit(residuals[len(residuals) // 2 :], LIMIT_FACTOR)
