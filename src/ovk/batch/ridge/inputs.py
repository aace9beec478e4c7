"""Inputs of comparable scales and without gaps: what lies between the user's inputs and those that kernels see."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from ovk._state import State
from ovk._types import Array, Indices

#: A column whose deviation is below this part of its mean is constant but for rounding.
CONSTANT = 1e-12


@dataclass
class InputScaling(State):
    """z = (x - centre) factor, column by column; 0 where x is missing, and a further column that says so.

    Attributes
    ----------
    centre : (p,) weighted means of what was not missing
    factor : (p,) one over the weighted deviations; 0 for a column that was constant: it said nothing, and at new
        points it must not count either
    gaps : columns in which values were missing; each has an indicator behind the others, 1 where one is missing

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.batch.ridge.inputs import InputScaling
    >>> X = np.array([[1.0, 5.0], [3.0, 5.0], [np.nan, 5.0]])
    >>> InputScaling.learn(X)(X)
    array([[-1.,  0.,  0.],
           [ 1.,  0.,  0.],
           [ 0.,  0.,  1.]])
    """

    centre: Array
    factor: Array
    gaps: Indices = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    @classmethod
    def learn(cls, X: Array, weight: Array | None = None, *, scale: bool = True, indicators: int = 0) -> InputScaling:
        """The scales of inputs (n, p), rows counted by their weights (n,).

        `scale` False only fills gaps. The last `indicators` columns, of which two rows differ by 0 or 1, stay as they
        are: two categories are then as far apart as two ordinary values of a standardised number.
        """
        mean, deviation = mean_and_deviation(X, weight)
        varies = deviation > CONSTANT * np.abs(mean)
        factor = np.divide(1.0, deviation, out=np.zeros(len(mean)), where=varies)
        kept = slice(None) if not scale else slice(len(mean) - indicators, None)
        factor[kept] = 1.0
        return cls(mean if scale else np.zeros(len(mean)), factor, np.flatnonzero(np.isnan(X).any(axis=0)))

    def __call__(self, X: Any) -> Array:
        X = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
        missing = np.isnan(X)
        scaled: Array = np.where(missing, 0.0, (X - self.centre) * self.factor)
        return np.hstack([scaled, missing[:, self.gaps].astype(np.float64)]) if len(self.gaps) else scaled

    def slopes(self, J: Array) -> Array:
        """Derivatives (n, d, p) in the inputs, from those in the scaled ones."""
        return J[:, :, : len(self.factor)] * self.factor


def mean_and_deviation(A: Array, weight: Array | None = None) -> tuple[Array, Array]:
    """Weighted means and standard deviations, (p,) each, of the numbers in each column that are not nan."""
    seen = ~np.isnan(A)
    mass = seen * (1.0 if weight is None else weight[:, None])
    mass = mass / np.maximum(mass.sum(axis=0), 1e-300)
    mean = (mass * np.where(seen, A, 0.0)).sum(axis=0)
    return mean, np.sqrt((mass * np.where(seen, A - mean, 0.0) ** 2).sum(axis=0))
