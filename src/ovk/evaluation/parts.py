"""A stretch of a stream: which rows it has, and the errors on them alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from ovk._params import check_int
from ovk._types import Array, Mask
from ovk.evaluation.conformal.result import IntervalResult, interval_counts
from ovk.evaluation.running import checkpoints

if TYPE_CHECKING:
    from ovk.evaluation.result import LearnerErrors, ProgressiveResult


def stretch(rows: Any, n: int, times: Any = None, name: str = "rows") -> slice:
    """The rows that are meant, as a slice with both ends.

    Parameters
    ----------
    rows : the last so many of them, or a slice whose ends are numbers of rows, or dates where `times` are known; what
        ends with a date goes up to that date, and not beyond
    n : how many there are
    times : (n,) dates or numbers that do not decrease, optional
    name : what the argument is called

    >>> import numpy as np
    >>> stretch(3, 10), stretch(slice(2, 5), 10)
    (slice(7, 10, None), slice(2, 5, None))
    >>> days = np.arange("2024-01-01", "2024-01-11", dtype="datetime64[D]")
    >>> stretch(slice("2024-01-03", "2024-01-05"), 10, days)
    slice(2, 5, None)
    """
    if not isinstance(rows, slice):
        return slice(max(0, n - check_int(rows, name)), n)
    if rows.step not in (None, 1):
        raise ValueError(f"{name} must be a slice without a step, got {rows!r}")
    ends = (_row(rows.start, times, "left", name), _row(rows.stop, times, "right", name))
    first, last, _ = slice(*ends).indices(n)
    if first >= last:
        raise ValueError(f"{name} must hold some of the {n:,} rows, got {rows!r}")
    return slice(first, last)


def _row(end: Any, times: Any, side: Any, name: str) -> int | None:
    """The number of a row that is given by it or by a date."""
    if end is None:
        return None
    if not isinstance(end, (str, date, np.datetime64)):
        return check_int(end, f"the ends of {name}", least=-(2**62))
    if times is None or times.dtype.kind != "M":
        raise ValueError(f"{name} ends at {end!r}, but the dates of the rows are not known: run progressive with time=")
    return int(np.searchsorted(times, np.datetime64(end), side=side))


def part_of(result: ProgressiveResult, rows: Any) -> ProgressiveResult:
    """The result on a stretch of its rows."""
    if result.predictions is None or result.targets is None or result.inputs is None:
        raise ValueError("the result did not keep its rows: run progressive with keep='all'")
    where = stretch(rows, result.n_rows, result.times)
    d, n = len(result.outputs), where.stop - where.start
    F, Y = (A[where].reshape(n, d) for A in (result.predictions, result.targets))
    untested = min(n, max(0, result.untested - where.start))
    invalid = np.asarray(~np.isfinite(result.inputs[where]).all(axis=1) | np.isinf(Y).any(axis=1))
    skipped: Mask = invalid & np.isnan(F).any(axis=1)
    counted = np.isfinite(Y) & ~skipped[:, None] & (np.arange(n) >= untested)[:, None]
    # Curves begin with the first row that is tested, as they do in a whole stream.
    marks = np.union1d(checkpoints(untested, n), [n])
    counts = np.cumsum(counted, axis=0, dtype=np.float64)[marks - 1]
    own = result.baseline_predictions
    beside = zip(result.baselines, () if own is None else own, strict=True)
    found = result.intervals
    return replace(
        result,
        model=_errors(result.model, F, Y, counted, counts, marks),
        baselines=tuple(_errors(one, P[where].reshape(n, d), Y, counted, counts, marks) for one, P in beside),
        baseline_predictions=None if own is None else tuple(P[where] for P in own),
        rows=marks,
        counts=counts,
        predictions=result.predictions[where],
        inputs=result.inputs[where],
        targets=result.targets[where],
        n_rows=n,
        untested=untested,
        n_skipped=int(skipped.sum()),
        support_rows=None,
        support_sizes=None,
        intervals=None if found is None else _intervals(found, where, np.where(counted, Y, np.nan), marks),
        drift=None,
        times=None if result.times is None else result.times[where],
        start=result.start + where.start,
    )


def _errors(learner: LearnerErrors, F: Array, Y: Array, counted: Mask, counts: Array, marks: Any) -> LearnerErrors:
    with np.errstate(over="ignore", invalid="ignore"):
        errors = np.where(counted, F - Y, 0.0)
        n = np.where(counts > 0, counts, np.nan)
        squares, absolute = (np.cumsum(A, axis=0)[marks - 1] / n for A in (errors**2, np.abs(errors)))
    # How long a part of the rows took is not known.
    return replace(learner, mse_curve=squares, mae_curve=absolute, seconds=float("nan"))


def _intervals(found: IntervalResult, where: slice, Y: Array, marks: Any) -> IntervalResult:
    if found.regions is None:
        raise ValueError("the result did not keep its intervals: run progressive with keep='all'")
    regions = found.regions.chosen(where)
    sums = [np.cumsum(count, axis=0, dtype=np.float64)[marks - 1] for count in interval_counts(regions, Y)]
    tested, covered, bounded, widths = sums
    return replace(found, rows=marks, tested=tested, covered=covered, bounded=bounded, widths=widths, regions=regions)
