"""Irregularly sampled curves on a common grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ovk.base import Array, check_choice, check_int, positive
from ovk.curves.grid import Grid, GridError, as_grid
from ovk.curves.product import ProductGrid

Curve = tuple[Array, Array]

#: The grid is the union of all points if it has at most this many points, or twice as many as the longest curve.
MAX_UNION_POINTS = 50
#: Otherwise the minimum and maximum number of bins, and the maximum number of values of incomplete curves.
MIN_BINS, MAX_BINS, MAX_INCOMPLETE_VALUES = 20, 100, 4000
#: Points closer than this share of a period coincide after folding.
PHASE_TOLERANCE = 1e-9


def common_grid(
    times: Sequence[Any],
    values: Sequence[Any],
    period: float | None = None,
    *,
    points: int | Literal["auto", "all"] = "auto",
    within: Literal["mean", "nearest"] = "mean",
    grid: Any = None,
) -> tuple[Grid, Array]:
    """Put irregularly sampled curves on a common grid, with nan where a curve has no value.

    Parameters
    ----------
    times : sequence of arrays
        The points of each curve.
    values : sequence of arrays
        Its values there.
    period : float, optional
        Length after which curves repeat. Points that span a period or more are folded into [0, period); where two
        points of a curve coincide, such as 0 and the period, the curve has the mean of both values.
    points : int, "all" or "auto"
        An integer: a regular grid of that many points, the centres of bins; empty bins are dropped. "all": all points
        of all curves, with the values unchanged. "auto": "all" if there are at most 50 points, or at most twice as many
        as the longest curve has; else 20 to 100 bins, such that incomplete curves have about 4,000 values in total.
    within : "mean" or "nearest"
        The value of a curve in a bin. "mean": the mean of its values, moved to the centre by linear interpolation
        between the means of neighbouring bins. "nearest": the value nearest to the centre. Means predict better, but
        intervals are then those of means: narrower than those of single values if bins have several values of a curve.
    grid : `Grid` or its points, optional
        Use this grid, for example that of a fitted model, instead of `points`; values go to the nearest point. A `Grid`
        has its own period.

    Returns
    -------
    grid : `Grid`
        The common grid.
    Y : (n, d) array
        The curves on it.

    See Also
    --------
    Grid, ovk.FunctionalRidge

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
    >>> common_grid([[0.0, 0.5, 1.0]], [[1.0, 2.0, 3.0]], period=1.0)[1]  # 0 and 1 have the same phase
    array([[2., 2.]])
    >>> common_grid([[0.0, 0.4, 1.1]], [[1.0, 3.0, 2.0]], grid=grid)[1].round(2)
    array([[1.  , 2.86, 2.14]])
    """
    check_choice(within, "within", ("mean", "nearest"))
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
    if points == "all" or (points == "auto" and len(union) <= max(MAX_UNION_POINTS, 2 * longest)):
        Y = np.full((len(curves), len(union)), np.nan)
        for i, (t, y) in enumerate(curves):
            Y[i, np.searchsorted(union, t)] = y
        return _without_empty(everywhere, Y)
    if points != "auto":
        regular = _regular(everywhere, check_int(points, "points", least=2))
        return _without_empty(regular, _binned(curves, regular, within))
    count = min(max(longest, MAX_UNION_POINTS), MAX_BINS)
    while True:
        regular = _regular(everywhere, count)
        Y = _binned(curves, regular, within)
        # Complete curves are fast to learn, however many values they have.
        if count == MIN_BINS or not np.isnan(Y).any() or np.count_nonzero(~np.isnan(Y)) <= MAX_INCOMPLETE_VALUES:
            return _without_empty(regular, Y)
        count = max(MIN_BINS, int(0.8 * count))


def _given(grid: Any, period: float | None, points: Any) -> Grid:
    if points != "auto":
        raise ValueError("grid and points cannot be combined: a grid has its own points")
    if isinstance(grid, ProductGrid):
        raise GridError("grid must be a grid of one variable, got a ProductGrid")
    if isinstance(grid, Grid) and period is not None and period != grid.period:
        raise ValueError(f"grid has the period {grid.period}, got period={period!r}: omit period")
    given = as_grid(grid) if period is None else Grid(as_grid(grid).checked(), period)
    given.checked()
    return given


def _checked(times: Sequence[Any], values: Sequence[Any]) -> list[Curve]:
    """The curves as arrays, sorted by time."""
    if len(times) != len(values) or len(times) == 0:
        raise GridError(f"times and values must have the same number of curves, got {len(times)} and {len(values)}")
    found = []
    for i, pair in enumerate(zip(times, values, strict=True)):
        t, y = (np.asarray(part, dtype=np.float64) for part in pair)
        if t.ndim != 1 or t.shape != y.shape:
            raise GridError(f"curve {i} must have one value per point, got shapes {t.shape} and {y.shape}")
        if len(np.unique(t)) < len(t):
            raise GridError(f"curve {i} has two values at the same point: keep one of them, or their mean")
        order = np.argsort(t)
        found.append((t[order], y[order]))
    return found


def _folded(curves: list[Curve], period: float) -> list[Curve]:
    """Curves folded into one period; values at coinciding points are averaged."""
    every = np.concatenate([t for t, _ in curves])
    if not np.isfinite(every).all() or np.ptp(every) < period:
        return curves
    folded = [np.mod(t, period) for t, _ in curves]
    # 1.3 and 0.3 have the same phase up to rounding.
    union = np.unique(np.concatenate(folded))
    union = union[np.append(True, np.diff(union) > PHASE_TOLERANCE * period)]
    found = []
    for t, (_, y) in zip(folded, curves, strict=True):
        number = np.searchsorted(union, t, side="right") - 1
        number[t > period * (1.0 - PHASE_TOLERANCE) + union[0]] = 0
        t, y, number = t[~np.isnan(y)], y[~np.isnan(y)], number[~np.isnan(y)]
        held = np.bincount(number, minlength=len(union))
        found.append((union[held > 0], np.bincount(number, y, len(union))[held > 0] / held[held > 0]))
    return found


def _regular(everywhere: Grid, count: int) -> Grid:
    """A regular grid of `count` points over the same interval or circle."""
    first, last = everywhere.checked()[[0, -1]]
    if everywhere.period is None:
        return Grid(np.linspace(first, last, count))
    return Grid(first + everywhere.period * np.arange(count) / count, everywhere.period)


def _without_empty(grid: Grid, Y: Array) -> tuple[Grid, Array]:
    """The grid and the curves without points at which no curve has a value."""
    seen = ~np.isnan(Y).all(axis=0)
    return (grid, Y) if seen.all() or seen.sum() < 2 else (Grid(grid.checked()[seen], grid.period), Y[:, seen])


def _binned(curves: list[Curve], grid: Grid, within: str) -> Array:
    """(n, d) curves, with each value in the bin of the nearest grid point."""
    centres, count, period = grid.checked(), len(grid), grid.period
    # The end of a period belongs to the bin around its start.
    closed = centres if period is None else np.append(centres, centres[0] + period)
    edges = 0.5 * (closed[1:] + closed[:-1])
    Y = np.full((len(curves), count), np.nan)
    for i, (t, y) in enumerate(curves):
        t, y = t[~np.isnan(y)], y[~np.isnan(y)]
        if len(t) == 0:
            continue
        try:
            t = grid.inside(t, beyond=True)
        except GridError as error:
            raise GridError(f"curve {i}: {error}") from error
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
