"""Units in which learners work: columns centred and scaled by rows seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ovk._state import State
from ovk._types import Array, Mask

#: Inputs further than this many deviations from their mean, and residuals larger than this, count as this many.
DEVIATIONS = 6.0
#: Share of the labels that may be wild.
FEW = 0.002


@dataclass
class StreamUnits(State):
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
        """Standardised rows within `DEVIATIONS`; a missing value is the mean."""
        Z: Array = (X - self.centre) / self.scale
        np.minimum(np.maximum(Z, -DEVIATIONS, out=Z), DEVIATIONS, out=Z)
        Z[np.isnan(Z)] = 0.0
        return Z

    def outputs(self, Y: Array) -> Array:
        """Standardised labels, nan where missing."""
        return (Y - self.centre) / self.scale

    def predictions(self, Z: Array) -> Array:
        """Back in the caller's units."""
        return self.centre + self.scale * Z


def within_fences(Y: Array) -> Array:
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
