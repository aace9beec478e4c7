"""Regions around predictions, and conformal quantiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from math import ceil
from typing import Any

import numpy as np

from ovk.base import Array, Indices, State, unnamed


@dataclass(frozen=True, repr=False)
class Regions(State):
    """Regions around predictions: an interval for each output, or a box or ellipsoid for all outputs.

    Parameters
    ----------
    predictions : (n, d) array
        Predictions; like `lower` and `upper` a data frame if the model learned from one.
    lower, upper : (n, d) arrays
        Ends of the interval of each output, or of the box around an ellipsoid. Infinite after too few rows, unless
        outputs are bounded; nan without a prediction.
    radius : (n, k) array
        Largest score inside the region; k = d intervals, or 1 for a joint region.
    covered : (n, k) array
        Whether the region contains the outcome, 1 or 0; nan if unknown (see `contains`).
    scatter : (n, d, d) array, optional
        Covariance that shapes an ellipsoid.

    See Also
    --------
    ACI, WithIntervals, ovk.OVKRidge

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import ACI
    >>> y = np.random.default_rng(0).standard_normal((2000, 1))
    >>> regions = ACI(0.8).regions_then_learn(np.zeros((2000, 1)), y)
    >>> regions.covered.mean().round(2), regions.upper[-1].round(1)
    (np.float64(0.8), array([1.5]))
    """

    _stored = {"predictions": "n d nan", "lower upper": "n d inf", "radius": "n k inf", "covered": "n k nan"}

    predictions: Array
    lower: Array
    upper: Array
    radius: Array
    covered: Array
    scatter: Array | None = None

    def __len__(self) -> int:
        return len(self.predictions)

    def __repr__(self) -> str:
        n, d = self.predictions.shape
        sizes = f"{n:,} row{'s' * (n != 1)} of {d:,} output{'s' * (d != 1)}"
        if n == 0:
            return f"Regions({sizes})"
        ends = zip(unnamed(self.lower)[0, :3], unnamed(self.upper)[0, :3], strict=True)
        first = [f"[{low:.4g}, {high:.4g}]" for low, high in ends] + ["..."] * (d > 3)
        return f"Regions({sizes}; first: {', '.join(first)})"

    def chosen(self, rows: Any) -> Regions:
        """The regions of these rows, as arrays."""
        arrays = [getattr(self, one.name) for one in fields(self)]
        return Regions(*(None if array is None else unnamed(array)[rows] for array in arrays))  # type: ignore[arg-type]

    @property
    def width(self) -> Array:
        """(n, d) upper minus lower."""
        return self.upper - self.lower

    def scaled(self, factor: Array, offset: float) -> Regions:
        """The regions of the outputs times `factor` (d,) > 0 plus `offset`."""
        scatter = None if self.scatter is None else self.scatter * np.multiply.outer(factor, factor)
        radius = self.radius if self._joint else self.radius * factor
        predictions, lower, upper = (
            unnamed(ends) * factor + offset for ends in (self.predictions, self.lower, self.upper)
        )
        return Regions(predictions, lower, upper, radius, self.covered, scatter)

    def named(self, name: Callable[[Array], Array]) -> Regions:
        return replace(self, predictions=name(self.predictions), lower=name(self.lower), upper=name(self.upper))

    @property
    def _joint(self) -> bool:
        """Whether there is one region for all outputs."""
        return self.scatter is not None or self.radius.shape[1] != self.predictions.shape[1]

    def contains(self, Y: Array) -> Array:
        """(n, k) 1 where the region contains the outputs Y (n, d), 0 where it does not, nan where all are missing."""
        Y = np.asarray(unnamed(Y), dtype=np.float64).reshape(self.predictions.shape)
        seen = np.isfinite(Y)
        predictions, lower, upper = unnamed((self.predictions, self.lower, self.upper))
        inside = (lower <= Y) & (upper >= Y)
        if not self._joint:
            return np.where(seen, inside.astype(np.float64), np.nan)
        if self.scatter is None:
            joint = (inside | ~seen).all(axis=1)
        else:
            joint = np.array([self._in_ellipsoid(i, Y[i] - predictions[i], seen[i]) for i in range(len(Y))])
            joint &= ~self._outside_box(Y).any(axis=1)
        return np.where(seen.any(axis=1), joint.astype(np.float64), np.nan)[:, None]

    def _outside_box(self, Y: Array) -> Array:
        """(n, d) outputs outside the box around an ellipsoid, which may be clipped; the slack is for rounding."""
        lower, upper = unnamed((self.lower, self.upper))
        with np.errstate(invalid="ignore", over="ignore"):
            width = upper - lower
            slack = np.where(np.isfinite(width), 1e-9 * width, 0.0)
            result: Array = np.isfinite(lower) & (lower - slack > Y) | np.isfinite(upper) & (upper + slack < Y)
        return result

    def _in_ellipsoid(self, i: int, r: Array, seen: Array) -> bool:
        assert self.scatter is not None
        if not seen.any() or np.isposinf(self.radius[i, 0]):
            return True
        part = self.scatter[i][np.ix_(seen, seen)]
        return bool(np.sqrt(r[seen] @ np.linalg.solve(part, r[seen])) <= self.radius[i, 0] * (1 + 1e-12))


def concatenate(parts: Sequence[Regions]) -> Regions:
    # The scatter is None in all parts or in none.
    each = [[getattr(part, one.name) for part in parts] for one in fields(Regions)]
    return Regions(*(None if arrays[0] is None else np.concatenate(arrays) for arrays in each))  # type: ignore[arg-type]


def conformal_rank(n: int, level: float) -> int:
    """The conformal quantile of n scores is the k-th smallest, k = ceil((n + 1) level); infinite if k > n."""
    # Rounding may move (n + 1) level above a whole number.
    return ceil((n + 1) * level - 1e-9)


def rows_needed(level: float) -> int:
    """The smallest number n of scores with a finite conformal quantile, conformal_rank(n, level) <= n."""
    return ceil((level - 1e-9) / (1.0 - level))


def masses(seen: Array, groups: Indices | None) -> Array:
    """(n,) the probability of each score in the distribution of a new one; the rest up to 1 is at infinity.

    Each of n scores has 1 / (n + 1). If the rows form K groups and the new row is in another group, the scores of a
    group share 1 / (K + 1) (Lee, Barber and Willett, 2023). `seen` (n,): whether there is a score; `groups` (n,).
    """
    if groups is None:
        return np.asarray(seen / (seen.sum() + 1.0))
    _, numbers = np.unique(groups, return_inverse=True)
    counts = np.bincount(numbers, weights=seen)
    own = np.divide(1.0, counts, out=np.zeros(len(counts)), where=counts > 0)
    return np.asarray(seen * own[numbers] / ((counts > 0).sum() + 1.0))


def upper_quantile(values: Array, mass: Array, level: float) -> Array:
    """The smallest of `values` (..., n) at which the cumulative mass (n,) reaches `level`, infinite if none does."""
    order = np.argsort(values, axis=-1)
    # Rounding may keep a sum of n equal masses below the level.
    reached = np.cumsum(mass[order], axis=-1) >= level - 1e-12
    first = np.take_along_axis(order, reached.argmax(axis=-1)[..., None], axis=-1)
    found = np.take_along_axis(values, first, axis=-1)[..., 0]
    return np.where(reached[..., -1], found, np.inf)


#: Smallest allowed eigenvalue of a correlation matrix.
MIN_EIGENVALUE = 1e-8


def shrunk(C: Array, n: float, *, complete: bool = False) -> Array:
    """Correlations C (d, d) from n rows, shrunk by the factor n / (n + d) and made positive definite.

    Moments over different rows need not be positive definite; `complete`: all outputs were observed in all rows.
    """
    d = len(C)
    C = C * (n / (n + d))
    np.fill_diagonal(C, 1.0)
    added = MIN_EIGENVALUE - (1.0 if complete else float(np.linalg.eigvalsh(C)[0]))
    return C if added <= 0 else (C + added * np.eye(d)) / (1.0 + added)
