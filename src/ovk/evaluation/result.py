"""What a progressive evaluation found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt

from ovk.base import Array, Mask, check_int
from ovk.evaluation.conformal.learner import IntervalResult, interval_counts
from ovk.evaluation.drift import DriftResult
from ovk.evaluation.running import checkpoints

# A stretch of a stream: which rows it has, and the errors on them alone.


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


#: Errors that differ by no more than this part are called alike: as a percentage they would round to 0.
ALIKE = 0.005

#: Outputs shown in a table; of more, only the first and the last ones.
SHOWN = 12

#: Most outputs that are named in a sentence.
NAMED = 4


@dataclass(frozen=True)
class LearnerErrors:
    """Errors of one learner over the rows so far, in the units of the outputs.

    Attributes
    ----------
    name : what it is called in tables and plots
    mse_curve, mae_curve : (checkpoints, d) mean squared and mean absolute error of all predictions so far
    seconds : time it took
    """

    name: str
    mse_curve: Array
    mae_curve: Array
    seconds: float

    @property
    def mse(self) -> Array:
        """(d,) mean squared error of each output over the whole stream."""
        return _last(self.mse_curve)

    @property
    def mae(self) -> Array:
        """(d,) mean absolute error of each output over the whole stream."""
        return _last(self.mae_curve)


def _last(curve: Array) -> Array:
    return curve[-1] if len(curve) else np.full(curve.shape[1], np.nan)


@dataclass(frozen=True)
class ProgressiveResult:
    """Errors of predictions that were all made before their own outputs were seen, in the units of the outputs.

    Attributes
    ----------
    model : `LearnerErrors` of the model: its name, `mse_curve` and `mae_curve` (checkpoints, d), `mse` and `mae` (d,),
        `seconds`
    baselines : the same for each baseline, over the same rows
    rows : (checkpoints,) rows read when the curves were noted; the last one is all of them
    counts : (checkpoints, d) predictions of each output tested by then
    predictions : (n, d), or (n,) if y was one-dimensional; nan in untested and in skipped rows; None if not kept
    inputs, targets : (n, p) and, in the shape of the predictions, all rows read; None if not kept
    features, outputs : names
    n_rows : rows read
    untested : how many of these came first and were learned but not tested
    n_skipped : rows not learned: invalid ones, and for estimators that refuse them those with a missing output
    support_rows, support_sizes : number of support points after so many rows, at the end of each chunk in which a
        checkpoint fell; None for models without `support_`
    intervals : `IntervalResult` with coverage and widths, None if no intervals were asked for
    delay : how much later outputs came, such as "50 rows"; "" where they came at once
    drift : `DriftResult`: losses of late, alarms, and what the experts of a learner that has some did; None of a `part`
    times : (n,) when the rows were, as `time` was given to `progressive`; None if it was not
    baseline_predictions : of each baseline, in the shape of the predictions; None if not kept
    start : rows of the stream before these, where this is a `part` of another result

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK
    >>> from ovk.evaluation import progressive
    >>> X = np.linspace(0, 9, 300)[:, None]
    >>> result = progressive(OLOK(alpha=0.0), X, np.sin(5 * X), baselines=["mean"])
    >>> result.predictions.shape, result.mse.shape, int(result.rows[-1])
    ((300, 1), (1,), 300)
    >>> bool(result.mse < result.baselines[0].mse)
    True
    """

    model: LearnerErrors
    baselines: tuple[LearnerErrors, ...]
    rows: npt.NDArray[np.int64]
    counts: Array
    predictions: Array | None
    inputs: Array | None
    targets: Array | None
    features: tuple[str, ...]
    outputs: tuple[str, ...]
    n_rows: int
    untested: int
    n_skipped: int
    support_rows: npt.NDArray[np.int64] | None
    support_sizes: npt.NDArray[np.int64] | None
    intervals: IntervalResult | None = None
    drift: DriftResult | None = None
    delay: str = ""
    times: Any = None
    baseline_predictions: tuple[Array, ...] | None = None
    start: int = 0

    @property
    def mse(self) -> Array:
        """(d,) mean squared error of the model."""
        return self.model.mse

    @property
    def mae(self) -> Array:
        """(d,) mean absolute error of the model."""
        return self.model.mae

    @property
    def seconds(self) -> float:
        """Time that the model took to predict and learn; reading, scaling and baselines not counted."""
        return self.model.seconds

    @property
    def rows_per_second(self) -> float:
        """Rows that the model predicted and learned in a second."""
        return self.n_rows / self.seconds if self.seconds > 0 else float("nan")

    def part(self, rows: int | slice) -> ProgressiveResult:
        """The result on a stretch of the rows alone: errors of the model and of the baselines, coverage and widths.

        Nothing is learned again: predictions are those made along the whole stream. It takes ``keep="all"``.

        Parameters
        ----------
        rows : the last so many rows; or a slice of the rows, whose ends may be dates if `progressive` was given `time`,
            such as ``slice("2007-01-01", None)``

        Examples
        --------
        >>> import numpy as np
        >>> from ovk import OLOK, progressive
        >>> X = np.random.default_rng(0).uniform(size=(1000, 2))
        >>> result = progressive(OLOK(), X, X @ [1.0, 2.0], intervals=0.8, keep="all")
        >>> late = result.part(slice(500, 800))
        >>> late.n_rows, bool(late.mse < result.mse), bool(abs(late.intervals.coverage[0] - 0.8) < 0.05)
        (300, True, True)
        """
        return part_of(self, rows)

    def against_best_baseline(self) -> tuple[str, float] | None:
        """Name of the best baseline, and the ratio of the model's mean squared error to that of it.

        Over several outputs it is the geometric mean, since ratios of errors have no units. None if nothing was tested.
        """
        compared = self._relative("mse")
        return None if compared is None or not np.isfinite(compared[1][0]) else (compared[0], float(compared[1][0]))

    def _relative(self, error: str) -> tuple[str, Array] | None:
        """Name of the best baseline, and for each learner the geometric mean over outputs of its error over that."""
        E = np.array([getattr(learner, error) for learner in (self.model, *self.baselines)])
        # An output that was never seen, or that a baseline knows exactly, has no ratio.
        known = (np.isfinite(E[1:]) & (E[1:] > 0)).all(axis=0)
        if len(E) == 1 or not known.any():
            return None
        with np.errstate(divide="ignore"):
            scores = np.log(E[:, known]).mean(axis=1)
        best = int(scores[1:].argmin())
        return self.baselines[best].name, np.exp(scores - scores[1 + best])

    def conclusion(self) -> str:
        """One sentence: how the model compares with its best baseline, and for which outputs that one is better."""
        compared = self.against_best_baseline()
        if compared is None:
            return "Nothing can be said of the model yet: no row was tested beside a baseline."
        best, ratio = compared
        if abs(ratio - 1) <= ALIKE:
            alike = f"The model is as good as {best!r}, the best baseline: their mean squared errors are within 1%"
            return f"{alike}{self._but(best)}."
        if ratio < 1:
            below = f"The model's mean squared error is {1 - ratio:.0%} below that of {best!r}, the best baseline"
            return f"{below}{self._but(best)}."
        return f"{best!r} is better: the model's mean squared error is {ratio - 1:.0%} above it."

    def _but(self, best: str) -> str:
        """The outputs for which a baseline is better, by squared or by absolute error; empty if there are none."""
        other = next(one for one in self.baselines if one.name == best)
        squared, absolute = self.mse > other.mse, self.mae > other.mae
        if len(self.outputs) == 1:
            return f"; by mean absolute error {best!r} is better" if absolute.any() else ""
        both = (("", squared), (" by mean absolute error", absolute & ~squared))
        worse = [f"for {_listed(self.outputs, where)}{by}" for by, where in both if where.any()]
        return f"; {best!r} is better {' and '.join(worse)}" if worse else ""

    def summary(self) -> str:
        """The errors of model and baselines as a table to print.

        Of several outputs, which may have several units, the last line is the error relative to the best baseline: the
        geometric mean over outputs of the ratio to its error, as in `conclusion`.
        """
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        tested = self.n_rows - self.untested
        pace = f", in {self.seconds:.2f} s ({self.rows_per_second:,.0f} a second)" if np.isfinite(self.seconds) else ""
        of = f"rows {self.start:,} to {self.start + self.n_rows - 1:,} of a stream: " if not pace else ""
        yield f"{of}{tested:,} rows predicted, then learned{pace}"
        if self.untested:
            yield f"{self.untested:,} {'row' if self.untested == 1 else 'rows'} before them learned, not tested"
        if self.delay:
            yield f"labels {self.delay} late"
        if self.n_skipped:
            yield f"{self.n_skipped:,} rows not learned"
        if self.support_sizes is not None and len(self.support_sizes):
            yield f"{int(self.support_sizes[-1]):,} support points"
        learners = (self.model, *self.baselines)
        for title, error in (("mean squared error", "mse"), ("mean absolute error", "mae")):
            errors = np.array([getattr(learner, error) for learner in learners])
            compared = self._relative(error)
            last = None if compared is None else (f"relative to {compared[0]}", compared[1])
            yield ""
            yield from _table(title, [learner.name for learner in learners], self.outputs, errors, last)
        if self.intervals is not None:
            yield ""
            yield from self._interval_lines(self.intervals)

    def _interval_lines(self, found: IntervalResult) -> Iterator[str]:
        joint = "" if found.region == "each" else f" ({found.region} of all outputs: {found.coverage[0]:.1%} covered)"
        yield f"{found.target:.0%} intervals by {found.name}{joint}"
        if found.n_unbounded:
            yield f"{self._unbounded(found)} had no bounds: too few errors were known"
        if joint:
            yield from _table("intervals", ["mean width"], self.outputs, found.width[None])
            return
        both, last = np.stack([found.coverage, found.width]), np.array([np.nan, np.nan])
        if np.isfinite(found.coverage).any():
            last[0] = np.nanmean(found.coverage)
        yield from _table("intervals", ["coverage", "mean width"], self.outputs, both, ("mean of outputs", last))

    def _unbounded(self, found: IntervalResult) -> str:
        """How many outcomes of which outputs had infinite intervals."""
        tested = found.tested[-1]
        missing = tested - found.bounded[-1]
        alike = len(set(missing)) == len(set(tested)) == 1
        if alike or found.region != "each":
            each = " of each output" if found.region == "each" and len(self.outputs) > 1 else ""
            return f"{found.n_unbounded:,} of {int(tested[0]):,} outcomes{each}"
        counts = {self.outputs[q]: f"{missing[q]:,.0f} of {tested[q]:,.0f}" for q in np.flatnonzero(missing)}
        shown = [f"{count} outcomes of {name}" for name, count in list(counts.items())[:NAMED]]
        return ", ".join(shown) + (f" and some of {len(counts) - NAMED} more outputs" if len(counts) > NAMED else "")


def _listed(outputs: tuple[str, ...], where: Mask) -> str:
    """Names of some outputs, in words."""
    names = [name for name, one in zip(outputs, where, strict=True) if one]
    if len(names) > NAMED:
        names = [*names[: NAMED - 1], f"{len(names) - NAMED + 1} more outputs"]
    return " and ".join([*([", ".join(names[:-1])] if len(names) > 1 else []), names[-1]])


def _table(
    title: str, names: list[str], outputs: tuple[str, ...], errors: Array, last: tuple[str, Array] | None = None
) -> Iterator[str]:
    """A line for each output, and of several outputs one for all of them; a column for each learner."""
    last = None if len(outputs) == 1 else last
    first = max(len(name) for name in (*outputs, "mean absolute error", *([] if last is None else [last[0]])))
    widths = [max(len(name), 9) for name in names]

    def line(head: str, cells: list[str]) -> str:
        return "  ".join([head.ljust(first), *(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))])

    yield line(title, names)
    yield line("-" * first, ["-" * width for width in widths])
    d = len(outputs)
    for q, output in enumerate(outputs):
        if d <= SHOWN or q < SHOWN - 2 or q == d - 1:
            yield line(output, [_number(value) for value in errors[:, q]])
        elif q == SHOWN - 2:
            yield f"... {d - SHOWN + 1} more outputs"
    if last is not None:
        yield line(last[0], [_number(value) for value in last[1]])


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.4g}"
