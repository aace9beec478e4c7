"""Curves that were each seen at points of their own, on one grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ovk.base import Array, check_int, positive
from ovk.curves.grid import BadGrid, Grid, as_grid
from ovk.curves.product import ProductGrid

Curve = tuple[Array, Array]

#: The union of all points is taken where it has at most this many, or twice as many as one curve.
MAX_UNION = 50
#: Fewest and most points that are chosen, and the number of values of curves with gaps that makes them fewer.
MIN_BINS, MAX_BINS, VALUES_WITH_GAPS = 20, 100, 4000
#: Part of a period within which two points are the same after folding.
SAME_PHASE = 1e-9


def common_grid(
    times: Sequence[Any],
    values: Sequence[Any],
    period: float | None = None,
    *,
    points: int | Literal["auto", "all"] = "auto",
    within: Literal["mean", "nearest"] = "mean",
    grid: Any = None,
) -> tuple[Grid, Array]:
    """One grid for curves that were each seen at points of their own, and the curves on it, with nan in their gaps.

    Parameters
    ----------
    times, values : for each curve its points and its values there
    period : float, optional
        Length after which curves repeat. Points that span a period or more are folded into [0, period); where two
        points of a curve then meet, such as 0 and the period itself, the curve has the mean of both values.
    points : int, "all" or "auto"
        A number: a regular grid of that many points, each the centre of a bin; empty bins are left out. "all": every
        point at which any curve was seen, with the values as they are. "auto": all of them if they are at most 50 or at
        most twice as many as the longest curve has; else from 20 to 100 bins, so few that curves with gaps have about
        4,000 values together.
    within : "mean" or "nearest"
        What a curve is in a bin. "mean": the mean of its values there, moved to the centre along straight lines to the
        neighbouring means. "nearest": the value nearest to the centre. Means predict better. Intervals for them are
        about means, and narrower than those for single values where bins hold several values of a curve.
    grid : `Grid` or its points, optional
        Put the curves on this grid, for instance that of a fitted model: a point is the centre of the bin of all that
        is nearest to it. In the place of `points`; a `Grid` has its own period.

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
    >>> common_grid([[0.0, 0.5, 1.0]], [[1.0, 2.0, 3.0]], period=1.0)[1]  # 0 and 1 are one phase
    array([[2., 2.]])
    >>> common_grid([[0.0, 0.4, 1.1]], [[1.0, 3.0, 2.0]], grid=grid)[1].round(2)
    array([[1.  , 2.86, 2.14]])
    """
    if within not in ("mean", "nearest"):
        raise ValueError(f"within must be 'mean' or 'nearest', got {within!r}")
    if isinstance(points, str) and points not in ("auto", "all"):
        raise ValueError(f"points must be a number, 'auto' or 'all', got {points!r}")
    curves = _checked(times, values)
    if grid is not None:
        given = _given(grid, period, points)
        return given, _binned(curves, given, within)
    curves = curves if period is None else _folded(curves, positive(period, "period"))
    union = np.unique(np.concatenate([t for t, _ in curves]))
    everywhere = Grid(union, period)
    everywhere.checked()
    longest = max(len(t) for t, _ in curves)
    if points == "all" or (points == "auto" and len(union) <= max(MAX_UNION, 2 * longest)):
        Y = np.full((len(curves), len(union)), np.nan)
        for i, (t, y) in enumerate(curves):
            Y[i, np.searchsorted(union, t)] = y
        return _without_empty(everywhere, Y)
    if points != "auto":
        regular = _regular(everywhere, check_int(points, "points", least=2))
        return _without_empty(regular, _binned(curves, regular, within))
    count = min(max(longest, MAX_UNION), MAX_BINS)
    while True:
        regular = _regular(everywhere, count)
        Y = _binned(curves, regular, within)
        # Curves without gaps are quick however many values they have.
        if count == MIN_BINS or not np.isnan(Y).any() or np.count_nonzero(~np.isnan(Y)) <= VALUES_WITH_GAPS:
            return _without_empty(regular, Y)
        count = max(MIN_BINS, int(0.8 * count))


def _given(grid: Any, period: float | None, points: Any) -> Grid:
    """A grid of the user's, checked; nothing else may say what it is."""
    if points != "auto":
        raise ValueError("give grid or points, not both: a grid has its own points")
    if isinstance(grid, ProductGrid):
        raise BadGrid("common_grid is about curves: a ProductGrid is one of functions of several variables")
    if isinstance(grid, Grid) and period is not None and period != grid.period:
        raise ValueError(f"grid has the period {grid.period}, got period={period!r}: leave period out")
    given = as_grid(grid) if period is None else Grid(as_grid(grid).checked(), period)
    given.checked()
    return given


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


def _folded(curves: list[Curve], period: float) -> list[Curve]:
    """Curves whose points fit into a period; of points that meet there the mean."""
    every = np.concatenate([t for t, _ in curves])
    if not np.isfinite(every).all() or np.ptp(every) < period:
        return curves
    folded = [np.mod(t, period) for t, _ in curves]
    # 1.3 and 0.3 are the same phase, and differ by rounding.
    union = np.unique(np.concatenate(folded))
    first = np.append(True, np.diff(union) > SAME_PHASE * period)
    union = union[first]
    found = []
    for t, (_, y) in zip(folded, curves, strict=True):
        number = np.searchsorted(union, t, side="right") - 1
        number[t > period * (1.0 - SAME_PHASE) + union[0]] = 0
        t, y, number = t[~np.isnan(y)], y[~np.isnan(y)], number[~np.isnan(y)]
        held = np.bincount(number, minlength=len(union))
        found.append((union[held > 0], np.bincount(number, y, len(union))[held > 0] / held[held > 0]))
    return found


def _regular(everywhere: Grid, count: int) -> Grid:
    """A regular grid of `count` points over the same interval, or circle."""
    first, last = everywhere.checked()[[0, -1]]
    if everywhere.period is None:
        return Grid(np.linspace(first, last, count))
    return Grid(first + everywhere.period * np.arange(count) / count, everywhere.period)


def _without_empty(grid: Grid, Y: Array) -> tuple[Grid, Array]:
    """The grid and the curves without the points at which no curve has a value: nothing is learned there."""
    seen = ~np.isnan(Y).all(axis=0)
    return (grid, Y) if seen.all() or seen.sum() < 2 else (Grid(grid.checked()[seen], grid.period), Y[:, seen])


def _binned(curves: list[Curve], grid: Grid, within: str) -> Array:
    """(n, d) curves, each value in the bin of the point of the grid that is nearest to it."""
    centres, count, period = grid.checked(), len(grid), grid.period
    # The end of a period is in the bin around its start.
    closed = centres if period is None else np.append(centres, centres[0] + period)
    edges = 0.5 * (closed[1:] + closed[:-1])
    Y = np.full((len(curves), count), np.nan)
    for i, (t, y) in enumerate(curves):
        t, y = t[~np.isnan(y)], y[~np.isnan(y)]
        if len(t) == 0:
            continue
        try:
            t = grid.inside(t, beyond=True)
        except BadGrid as error:
            raise BadGrid(f"curve {i}: {error}") from error
        bins = np.searchsorted(edges, t)
        if period is not None:
            t, bins = np.where(bins == count, t - period, t), bins % count
        if within == "nearest":
            far_first = np.argsort(-np.abs(t - centres[bins]), kind="stable")
            Y[i, bins[far_first]] = y[far_first]
        else:
            held = np.bincount(bins, minlength=count)
            full = held > 0
            middles, means = (np.bincount(bins, part, count)[full] / held[full] for part in (t, y))
            Y[i, full] = np.interp(centres[full], middles, means, period=period)
    return Y
