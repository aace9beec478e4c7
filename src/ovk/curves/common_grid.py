"""Curves that were each seen at points of their own, on one grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ovk._params import check_int
from ovk._types import Array
from ovk.curves.grid import BadGrid, Grid

Curve = tuple[Array, Array]

#: The union of all points is taken where it has at most this many, or twice as many as one curve.
FEW_POINTS = 50
#: Fewest and most points that are chosen, and the number of values of curves with gaps that makes them fewer.
FEWEST, MOST, VALUES = 20, 100, 4000


def common_grid(
    times: Sequence[Any],
    values: Sequence[Any],
    period: float | None = None,
    *,
    points: int | Literal["auto", "all"] = "auto",
    within: Literal["mean", "nearest"] = "mean",
) -> tuple[Grid, Array]:
    """One grid for curves that were each seen at points of their own, and the curves on it, nan where they were not.

    Parameters
    ----------
    times, values : for each curve its points and its values there
    period : float, optional
        Length after which curves repeat.
    points : int, "all" or "auto"
        A number: a regular grid of so many points, each the centre of a bin. "all": every point at which any curve
        was seen, with the values as they are. "auto": all of them if they are at most 50 or at most twice as many as
        the longest curve has; else from 20 to 100 bins, so few that curves with gaps have about 4,000 values together.
    within : "mean" or "nearest"
        What a curve is in a bin. "mean": the mean of its values there, moved to the centre along straight lines to the
        neighbouring means. "nearest": the value nearest to the centre. Means predict better. Intervals for them are
        about means, and narrower than those for single values where bins hold several values of a curve.

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
    >>> common_grid([[0.0, 0.1, 1.0], [0.8, 1.0]], [[1.0, 3.0, 2.0], [3.0, 4.0]], points=2)[1]
    array([[2. , 2. ],
           [nan, 3.5]])
    """
    if within not in ("mean", "nearest"):
        raise ValueError(f"within must be 'mean' or 'nearest', got {within!r}")
    if isinstance(points, str) and points not in ("auto", "all"):
        raise ValueError(f"points must be a number, 'auto' or 'all', got {points!r}")
    curves = _checked(times, values)
    union = np.unique(np.concatenate([t for t, _ in curves]))
    everywhere = Grid(union, period)
    everywhere.checked()
    longest = max(len(t) for t, _ in curves)
    if points == "all" or (points == "auto" and len(union) <= max(FEW_POINTS, 2 * longest)):
        Y = np.full((len(curves), len(union)), np.nan)
        for i, (t, y) in enumerate(curves):
            Y[i, np.searchsorted(union, t)] = y
        return everywhere, Y
    if points != "auto":
        return _binned(curves, everywhere, check_int(points, "points", least=2), within)
    count = min(max(longest, FEW_POINTS), MOST)
    while True:
        grid, Y = _binned(curves, everywhere, count, within)
        # Curves without gaps are quick however many values they have.
        if count == FEWEST or not np.isnan(Y).any() or np.count_nonzero(~np.isnan(Y)) <= VALUES:
            return grid, Y
        count = max(FEWEST, int(0.8 * count))


def _checked(times: Sequence[Any], values: Sequence[Any]) -> list[Curve]:
    """The curves as arrays, in the order of time."""
    if len(times) != len(values) or len(times) == 0:
        raise BadGrid(f"times and values must hold as many curves, got {len(times)} and {len(values)}")
    found = []
    for i, pair in enumerate(zip(times, values, strict=True)):
        t, y = (np.asarray(part, dtype=np.float64) for part in pair)
        if t.ndim != 1 or t.shape != y.shape:
            raise BadGrid(f"curve {i} must have a value for each of its points, got shapes {t.shape} and {y.shape}")
        if len(np.unique(t)) < len(t):
            raise BadGrid(f"curve {i} has two values at one point: keep one of them, or their mean")
        order = np.argsort(t)
        found.append((t[order], y[order]))
    return found


def _binned(curves: list[Curve], everywhere: Grid, count: int, within: str) -> tuple[Grid, Array]:
    """Curves in bins around the points of a regular grid, and that grid."""
    first, last = everywhere.checked()[[0, -1]]
    if everywhere.period is None:
        centres = np.linspace(first, last, count)
    else:
        centres = first + everywhere.period * np.arange(count) / count
    size = centres[1] - centres[0]
    Y = np.full((len(curves), count), np.nan)
    for i, (t, y) in enumerate(curves):
        t, y = t[~np.isnan(y)], y[~np.isnan(y)]
        bins = np.rint((t - first) / size).astype(np.intp)
        if everywhere.period is not None:
            # The end of a period is in the bin around its start.
            t, bins = np.where(bins == count, t - everywhere.period, t), bins % count
        if within == "nearest":
            far_first = np.argsort(-np.abs(t - centres[bins]), kind="stable")
            Y[i, bins[far_first]] = y[far_first]
        elif len(t):
            held = np.bincount(bins, minlength=count)
            full = held > 0
            middles, means = (np.bincount(bins, part, count)[full] / held[full] for part in (t, y))
            Y[i, full] = np.interp(centres[full], middles, means, period=everywhere.period)
    return Grid(centres, everywhere.period), Y
