"""What a progressive evaluation found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt

from ovk.base import Array, Labels, Times, check_int, unnamed
from ovk.evaluation.running import DriftResult, ratio
from ovk.evaluation.task import MAX_NAMES, ScoreTable, Task, checkpoints, encoded
from ovk.intervals import Regions

# A stretch of a stream: which rows it has, and the errors on them alone.


def stretch(rows: Any, n: int, times: Any = None, name: str = "rows") -> slice:
    """The rows that are meant out of n, as a slice with both ends.

    `rows`: the last so many, or a slice whose ends are numbers of rows, or dates where `times` (n,) are known; what
    ends with a date goes up to that date, and not beyond. `name` is what the argument is called.
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


@dataclass(frozen=True)
class IntervalResult:
    """Coverage and width of regions that were all made before their outputs were seen.

    Attributes
    ----------
    name : the method
    target : the coverage that was asked for
    region : "each", "box" or "ellipsoid"
    rows : (checkpoints,) rows read by then
    tested, covered : (checkpoints, k) how many regions of observed outputs there were by then, and how many held them;
        k = d, or 1 for a region of all outputs
    bounded, widths : (checkpoints, d) how many intervals were finite, and the sum of their widths
    regions : all of them (nan in a warm-up), None if not kept

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK, progressive
    >>> X = np.random.default_rng(0).uniform(size=(1000, 2))
    >>> found = progressive(OLOK(), X, X @ [1.0, 2.0], intervals=0.8).intervals
    >>> found.name, bool(abs(found.coverage[0] - 0.8) < 0.06)
    ('ACI', True)
    """

    name: str
    target: float
    region: str
    rows: npt.NDArray[np.int64]
    tested: Array
    covered: Array
    bounded: Array
    widths: Array
    regions: Regions | None

    @property
    def coverage(self) -> Array:
        """(k,) share of regions that held what was observed."""
        return _last_ratio(self.covered, self.tested)

    @property
    def width(self) -> Array:
        """(d,) mean width of the intervals that were finite."""
        return _last_ratio(self.widths, self.bounded)

    @property
    def n_unbounded(self) -> int:
        """How many regions of observed outputs were infinite, as the first ones are; the most over the outputs."""
        return int((self.tested[-1] - self.bounded[-1]).max()) if len(self.tested) else 0

    def part(self, rows: slice, Y: Array, marks: Times) -> IntervalResult:
        """The result on some of the rows, whose outputs are Y (n, d), with checkpoints at `marks`."""
        if self.regions is None:
            raise ValueError("the result did not keep its intervals: run progressive with keep='all'")
        regions = self.regions.chosen(rows)
        sums = [np.cumsum(count, axis=0, dtype=np.float64)[marks - 1] for count in interval_counts(regions, Y)]
        tested, covered, bounded, widths = sums
        return replace(
            self, rows=marks, tested=tested, covered=covered, bounded=bounded, widths=widths, regions=regions
        )


def _last_ratio(sums: Array, counts: Array) -> Array:
    return ratio(sums[-1], counts[-1]) if len(sums) else np.full(sums.shape[1], np.nan)


def interval_counts(regions: Regions, Y: Array) -> tuple[Array, Array, Array, Array]:
    """What is counted of regions of outputs Y (n, d): tested and covered (n, k), bounded and their widths (n, d)."""
    width = unnamed(regions.width)
    seen, finite = ~np.isnan(regions.covered), np.isfinite(width)
    # Only rows whose outputs were observed count, here as there.
    finite &= np.isfinite(Y).any(axis=1, keepdims=True) if regions.covered.shape[1] == 1 else np.isfinite(Y)
    return seen, np.where(seen, regions.covered, 0.0), finite, np.where(finite, width, 0.0)


#: Outputs or classes shown in a table.
MAX_ROWS_SHOWN = 12


@dataclass(frozen=True)
class ProgressiveResult:
    """How well rows were predicted, each before its own outputs were seen.

    Attributes
    ----------
    task : `REGRESSION` or `CLASSIFICATION`
    model : scores of the model. Regression: `RegressionScores` with `mse` and `mae` (d,), `mse_curve` and `mae_curve`
        (checkpoints, d), in the units of the outputs. Classes: `ClassScores` with `accuracy`, `log_loss`, `kappa`,
        `auc`, `confusion` and the `curve` of the accuracy. Both have `name` and `seconds`
    baselines : the same for each baseline, over the same rows
    rows : (checkpoints,) rows read when the curves were noted; the last one is all of them
    predictions : (n, d), or (n,) if y was one-dimensional, nan in untested and in skipped rows; labels (n,) of classes,
        None in skipped rows; None if not kept
    inputs, targets : (n, p) and, in the shape of the predictions, all rows read; None if not kept
    features, outputs : names
    classes : (K,) labels, in the order of the confusion matrices; empty for regression
    n_rows : rows read
    untested : how many of these came first and were learned but not tested
    n_skipped : rows not learned: invalid ones, and for estimators that refuse them those with a missing output
    n_missing : rows without any output
    support_rows, support_sizes : number of support points after so many rows, at the end of each chunk in which a
        checkpoint fell; None for models without `support_`
    intervals : `IntervalResult` with coverage and widths, None if no intervals were asked for
    delay : how much later outputs came, such as "50 rows"; "" where they came at once
    drift : `DriftResult`: losses of late, alarms, and what the experts of a learner that has some did; None of a `part`
    times : (n,) when the rows were, as `time` was given to `progressive`; None if it was not
    probabilities : (n, K) of classes, nan in skipped rows; None for regression and if not kept
    baseline_predictions : of each baseline, in the shape of the predictions or probabilities; None if not kept
    start : rows of the stream before these, where this is a `part` of another result

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK, AutoStreamClassifier
    >>> from ovk.evaluation import progressive
    >>> X = np.linspace(0, 9, 300)[:, None]
    >>> result = progressive(OLOK(alpha=0.0), X, np.sin(5 * X), baselines=["mean"])
    >>> result.predictions.shape, result.mse.shape, int(result.rows[-1])
    ((300, 1), (1,), 300)
    >>> bool(result.mse < result.baselines[0].mse)
    True
    >>> result = progressive(AutoStreamClassifier(), np.arange(4.0)[:, None], ["a", "b", "b", "b"])
    >>> result.classes.tolist(), [round(one.accuracy, 2) for one in result.baselines]
    (['a', 'b'], [0.67, 0.33])
    """

    task: Task[Any]
    model: Any
    baselines: tuple[Any, ...]
    rows: npt.NDArray[np.int64]
    predictions: Any
    inputs: Array | None
    targets: Any
    features: tuple[str, ...]
    outputs: tuple[str, ...]
    classes: Labels
    n_rows: int
    untested: int
    n_skipped: int
    n_missing: int
    support_rows: npt.NDArray[np.int64] | None = None
    support_sizes: npt.NDArray[np.int64] | None = None
    intervals: IntervalResult | None = None
    drift: DriftResult | None = None
    delay: str = ""
    times: Any = None
    probabilities: Array | None = None
    baseline_predictions: tuple[Array, ...] | None = None
    start: int = 0

    @property
    def learners(self) -> tuple[Any, ...]:
        """Scores of the model, and of the baselines."""
        return (self.model, *self.baselines)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the outputs, or of the classes."""
        return self.outputs if self.task.numeric else tuple(map(str, self.classes.tolist()))

    @property
    def counts(self) -> Array:
        """(checkpoints, d) predictions of each output tested by then; of regression."""
        return np.asarray(self.model.counts)

    @property
    def mse(self) -> Array:
        """(d,) mean squared error of the model."""
        return np.asarray(self.model.mse)

    @property
    def mae(self) -> Array:
        """(d,) mean absolute error of the model."""
        return np.asarray(self.model.mae)

    @property
    def seconds(self) -> float:
        """Time that the model took to predict and learn; reading, scaling and baselines not counted."""
        return float(self.model.seconds)

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
        if self.predictions is None or self.targets is None or self.inputs is None:
            raise ValueError("the result did not keep its rows: run progressive with keep='all'")
        where = stretch(rows, self.n_rows, self.times)
        n = where.stop - where.start
        codes = self.targets if self.task.numeric else encoded(self.targets, self.classes)[0]
        Y = self.task.outputs(codes[where], self.classes)
        F = (self.predictions if self.probabilities is None else self.probabilities)[where].reshape(Y.shape)
        untested = min(n, max(0, self.untested - where.start))
        skipped = self.task.skipped(self.inputs[where], Y, F)
        counted = np.isfinite(Y) & ~skipped[:, None] & (np.arange(n) >= untested)[:, None]
        # Curves begin with the first row that is tested, as they do in a whole stream.
        marks = np.union1d(checkpoints(untested, n), [n])
        own = self.baseline_predictions or ()
        scores = []
        for one, P in zip(self.learners, (F, *(P[where].reshape(Y.shape) for P in own)), strict=True):
            scores.append(one.fresh())
            scores[-1].add(P, Y, counted, marks)
            # How long a part of the rows took is not known.
            scores[-1].seconds = float("nan")
        return replace(
            self,
            model=scores[0],
            baselines=tuple(scores[1:]),
            baseline_predictions=tuple(P[where] for P in own),
            rows=marks,
            predictions=self.predictions[where],
            inputs=self.inputs[where],
            targets=self.targets[where],
            probabilities=None if self.probabilities is None else self.probabilities[where],
            n_rows=n,
            untested=untested,
            n_skipped=int(skipped.sum()),
            n_missing=int((~np.isfinite(Y).any(axis=1)).sum()),
            support_rows=None,
            support_sizes=None,
            intervals=None
            if self.intervals is None
            else self.intervals.part(where, np.where(counted, Y, np.nan), marks),
            drift=None,
            times=None if self.times is None else self.times[where],
            start=self.start + where.start,
        )

    def against_best_baseline(self) -> tuple[str, float] | None:
        """Name of the best baseline, and the ratio of the model's error to that of it; None if nothing was tested.

        The error is the mean squared error, over several outputs the geometric mean of the ratios, since these have no
        units; of classes it is the share of wrong labels.
        """
        return self.task.against_best_baseline(self.learners)

    def conclusion(self) -> str:
        """One sentence: how the model compares with its best baseline, and for which outputs that one is better."""
        return self.task.conclusion(self.learners, self.names)

    def summary(self) -> str:
        """The scores of model and baselines as tables to print.

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
        if self.n_missing and not self.task.numeric:
            yield f"{self.n_missing:,} rows without a label"
        if self.support_sizes is not None and len(self.support_sizes):
            yield f"{int(self.support_sizes[-1]):,} support points"
        for table in self.task.tables(self.learners, self.names):
            yield ""
            yield from table.lines(MAX_ROWS_SHOWN)
        if self.intervals is not None:
            yield ""
            yield from self._interval_lines(self.intervals)

    def _interval_lines(self, found: IntervalResult) -> Iterator[str]:
        joint = "" if found.region == "each" else f" ({found.region} of all outputs: {found.coverage[0]:.1%} covered)"
        yield f"{found.target:.0%} intervals by {found.name}{joint}"
        if found.n_unbounded:
            yield f"{self._unbounded(found)} had no bounds: too few errors were known"
        if joint:
            yield from ScoreTable("intervals", self.outputs, ("mean width",), found.width[:, None]).lines(
                MAX_ROWS_SHOWN
            )
            return
        both, last = np.column_stack([found.coverage, found.width]), np.array([np.nan, np.nan])
        if np.isfinite(found.coverage).any():
            last[0] = np.nanmean(found.coverage)
        mean = ("mean of outputs", last) if len(self.outputs) > 1 else None
        table = ScoreTable("intervals", self.outputs, ("coverage", "mean width"), both, relative=mean)
        yield from table.lines(MAX_ROWS_SHOWN)

    def _unbounded(self, found: IntervalResult) -> str:
        """How many outcomes of which outputs had infinite intervals."""
        tested = found.tested[-1]
        missing = tested - found.bounded[-1]
        alike = len(set(missing)) == len(set(tested)) == 1
        if alike or found.region != "each":
            each = " of each output" if found.region == "each" and len(self.outputs) > 1 else ""
            return f"{found.n_unbounded:,} of {int(tested[0]):,} outcomes{each}"
        counts = {self.outputs[q]: f"{missing[q]:,.0f} of {tested[q]:,.0f}" for q in np.flatnonzero(missing)}
        shown = [f"{count} outcomes of {name}" for name, count in list(counts.items())[:MAX_NAMES]]
        more = len(counts) - MAX_NAMES
        return ", ".join(shown) + (f" and some of {more} more outputs" if more > 0 else "")
