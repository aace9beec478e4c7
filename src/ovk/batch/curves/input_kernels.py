"""Kernels to choose from where inputs are curves, alone or with numbers beside them.

With k of the curves, a Gaussian of their L2 distance, and h of the standardised numbers, candidates are

    k   and   k + h + k h

that is a function of the curves alone, for numbers that say nothing, and the sum of one of the curves, one of the
numbers, and one of both together. The lengths of k and h are 1, 3 and 9
times the median distance of the training inputs, each with each. So neither counts for more because it has more columns
or larger units, and leaving out one curve at a time finds how fast the outputs change along each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk._types import Array
from ovk.curves import Grid
from ovk.kernels import Gaussian, OnColumns, OnCurves, ScalarKernel, median_distance
from ovk.targets import FILL

#: Lengths of the Gaussians in median distances.
FACTORS = (1.0, 3.0, 9.0)


def without_gaps(X: Any, grid: Grid) -> Array:
    """Inputs (n, p) that start with a curve on the grid, its gaps filled (`Grid.filled`); no other may be nan.

    >>> without_gaps(np.array([[1.0, np.nan, 3.0, 7.0]]), Grid.regular(3))
    array([[1., 2., 3., 7.]])
    """
    inputs: Array = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
    d = len(grid)
    if X.shape[1] < d:
        raise ValueError(f"X has {X.shape[1]} columns but input_grid has {d} points: a row of X starts with the curve")
    if not np.isnan(inputs).any():
        return inputs
    missing = np.argwhere(np.isnan(inputs[:, d:]))
    if len(missing):
        row, column = missing[0]
        raise ValueError(
            f"Input X contains NaN, first in row {row}, column {d + column}, a number beside the curve: {FILL}"
        )
    return np.hstack([grid.filled(inputs[:, :d]), inputs[:, d:]])


def input_kernels(X: Array, grid: Grid) -> list[ScalarKernel]:
    """The candidates for inputs (n, p) that start with a curve on the grid, the other columns being numbers.

    >>> len(input_kernels(np.random.default_rng(0).standard_normal((20, 5)), Grid.regular(3)))
    12
    """
    d = len(grid)
    length = median_distance(X[:, :d] * grid.roots())
    curves = [OnCurves(Gaussian(factor * length), grid) for factor in FACTORS]
    if X.shape[1] == d:
        return [*curves]
    numbers = X[:, d:]
    # A row that is repeated counts once, as it does in the median distance.
    scales = np.unique(X, axis=0)[:, d:].std(axis=0)
    scales = np.where(scales > 0, scales, 1.0)
    lengths = scales * median_distance(numbers / scales)
    first = [OnColumns(curve, np.arange(d)) for curve in curves]
    rest = [OnColumns(Gaussian(factor * lengths), np.arange(d, X.shape[1])) for factor in FACTORS]
    return [*first, *[k + h + k * h for k in first for h in rest]]
