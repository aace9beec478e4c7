"""Curves that were each seen at points of their own, brought to one grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ovk._types import Array
from ovk.curves.grid import BadGrid, Grid


def common_grid(times: Sequence[Any], values: Sequence[Any], period: float | None = None) -> tuple[Grid, Array]:
    """The grid of all points at which any curve was seen, and the curves on it with nan where they were not.

    Parameters
    ----------
    times, values : for each curve its points and its values there

    Returns
    -------
    grid, (n, d) curves

    Examples
    --------
    >>> from ovk.curves import common_grid
    >>> grid, Y = common_grid([[0.0, 1.0], [0.5, 1.0]], [[1.0, 2.0], [3.0, 4.0]])
    >>> grid.points
    array([0. , 0.5, 1. ])
    >>> Y
    array([[ 1., nan,  2.],
           [nan,  3.,  4.]])
    """
    if len(times) != len(values) or len(times) == 0:
        raise BadGrid(f"times and values must hold as many curves, got {len(times)} and {len(values)}")
    pairs = [
        (np.asarray(t, dtype=np.float64), np.asarray(y, dtype=np.float64)) for t, y in zip(times, values, strict=True)
    ]
    for i, (t, y) in enumerate(pairs):
        if t.ndim != 1 or t.shape != y.shape:
            raise BadGrid(f"curve {i} must have a value for each of its points, got shapes {t.shape} and {y.shape}")
        if len(np.unique(t)) < len(t):
            raise BadGrid(f"curve {i} has two values at one point: keep one of them, or their mean")
    points = np.unique(np.concatenate([t for t, _ in pairs]))
    grid = Grid(points, period)
    grid.checked()
    Y = np.full((len(pairs), len(points)), np.nan)
    for i, (t, y) in enumerate(pairs):
        Y[i, np.searchsorted(points, t)] = y
    return grid, Y
