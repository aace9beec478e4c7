"""Results of a progressive evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt

from ovk.base import Array, Labels, Times, check_int, unnamed
from ovk.evaluation.scaling_and_drift import DriftResult, ratio
from ovk.evaluation.task import MAX_NAMES_IN_SENTENCE, ScoreTable, Task, checkpoints, encoded
from ovk.intervals import Regions


def row_slice(rows: Any, n: int, times: Any) -> slice:
    """A slice of n rows with both ends.

    `rows`: the number of last rows, or a slice of row numbers or, with `times` (n,), of dates; both dates are included.
    """
    if not isinstance(rows, slice):
        return slice(max(0, n - check_int(rows, "rows")), n)
    if rows.step not in (None, 1):
        raise ValueError(f"rows must be a slice without a step, got {rows!r}")
    ends = (_row(rows.start, times, "left"), _row(rows.stop, times, "right"))
    first, last, _ = slice(*ends).indices(n)
    if first >= last:
        raise ValueError(f"rows must contain some of the {n:,} rows, got {rows!r}")
    return slice(first, last)


def _row(end: Any, times: Any, side: Any) -> int | None:
    if end is None:
        return None
    if not isinstance(end, (str, date, np.datetime64)):
        return check_int(end, "the ends of rows", least=-(2**62))
    if times is None or times.dtype.kind != "M":
        unknown = "the dates of the rows are unknown: run progressive with time="
        raise ValueError(f"rows has the date {end!r}, but {unknown}")
    return int(np.searchsorted(times, np.datetime64(end), side=side))


@dataclass(frozen=True)
class IntervalResult:
    """Coverage and width of the intervals of a progressive evaluation.

    Parameters
    ----------
    name : str
        The method.
    target : float
        The required coverage.
    region : "each", "box" or "ellipsoid"
        Whether there is an interval for each output, or a joint region.
    rows : (checkpoints,) array
        Number of rows read.
    tested, covered : (checkpoints, k) arrays
        Number of regions with observed outputs so far, and of those that contain them; k = d, or 1 for a joint region.
    bounded, widths : (checkpoints, d) arrays
        Number of finite intervals so far, and the sum of their widths.
    regions : Regions or None
        The regions of all rows, nan in a warm-up; None if not kept.

    See Also
    --------
    progressive, ProgressiveResult, ovk.plotting.IntervalDisplay

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK, progressive
    >>> X = np.random.default_rng(0).uniform(size=(1000, 2))
    >>> found = progressive(OLOK(), X, X @ [1.0, 2.0], intervals=0.8).intervals
    >>> found.name, found.coverage.round(1)
    ('ACI', array([0.8]))
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
        """(k,) share of regions that contain the observed outputs."""
        return _last_ratio(self.covered, self.tested)

    @property
    def width(self) -> Array:
        """(d,) mean width of the finite intervals."""
        return _last_ratio(self.widths, self.bounded)

    @property
    def n_unbounded(self) -> int:
        """Number of infinite regions of observed outputs, such as the first ones; the maximum over the outputs."""
        return int((self.tested[-1] - self.bounded[-1]).max()) if len(self.tested) else 0

    def part(self, rows: slice, Y: Array, marks: Times) -> IntervalResult:
        """The result on some of the rows, whose outputs are Y (n, d), with checkpoints at `marks`."""
        if self.regions is None:
            raise ValueError("the result has no stored intervals: run progressive with keep='all'")
        regions = self.regions.chosen(rows)
        sums = [np.cumsum(count, axis=0, dtype=np.float64)[marks - 1] for count in interval_counts(regions, Y)]
        tested, covered, bounded, widths = sums
        return IntervalResult(self.name, self.target, self.region, marks, tested, covered, bounded, widths, regions)


def _last_ratio(sums: Array, counts: Array) -> Array:
    return ratio(sums[-1], counts[-1]) if len(sums) else np.full(sums.shape[1], np.nan)


def interval_counts(regions: Regions, Y: Array) -> tuple[Array, Array, Array, Array]:
    """Which regions of outputs Y (n, d) are tested and covered (n, k), and bounded (n, d); widths (n, d)."""
    width = unnamed(regions.width)
    seen, finite = ~np.isnan(regions.covered), np.isfinite(width)
    # Only rows with observed outputs count.
    finite &= np.isfinite(Y).any(axis=1, keepdims=True) if regions.covered.shape[1] == 1 else np.isfinite(Y)
    return seen, np.where(seen, regions.covered, 0.0), finite, np.where(finite, width, 0.0)


#: Maximum number of outputs or classes in a table.
MAX_ROWS_SHOWN = 12


@dataclass(frozen=True)
class ProgressiveResult:
    """Scores of a model and its baselines on a stream, each row predicted before it was learned.

    Parameters
    ----------
    task : Task
        Regression or classification.
    model : RegressionScores or ClassScores
        Scores of the model. Regression: `mse` and `mae` (d,), `mse_curve` and `mae_curve` (checkpoints, d), in the
        units of the outputs. Classification: `accuracy`, `log_loss`, `kappa`, `auc`, `confusion`, and `curve` of the
        accuracy. Both have `name` and `seconds`.
    baselines : tuple of RegressionScores or ClassScores
        Scores of each baseline on the same rows.
    rows : (checkpoints,) array
        Number of rows read at each point of the curves; the last is the number of all rows.
    predictions : (n, d) or (n,) array or None
        Predictions, nan in untested and skipped rows; labels (n,) of a classifier, None in skipped rows; None if not
        kept.
    inputs : (n, p) array or None
        Inputs of all rows; None if not kept.
    targets : array or None
        Outputs of all rows, in the shape of the predictions; None if not kept.
    features, outputs : tuple of str
        Names of the inputs and outputs.
    classes : (K,) array
        Labels in the order of the confusion matrices; empty for regression.
    n_rows : int
        Number of rows read.
    untested : int
        Number of first rows that were learned but not tested.
    n_skipped : int
        Number of rows not learned: invalid rows, and rows with a missing output for estimators that do not accept them.
    n_missing : int
        Number of rows without any output.
    support_rows, support_sizes : arrays or None
        Number of rows and of support points at each point; None for models without `support_`.
    intervals : IntervalResult or None
        Coverage and widths; None without intervals.
    drift : DriftResult or None
        Recent losses, alarms, and weights of experts; None for the result of `part`.
    delay : str
        Delay of the labels, such as "50 rows"; "" without delay.
    times : (n,) array or None
        The argument `time` of `progressive`.
    probabilities : (n, K) array or None
        Predicted probabilities of a classifier, nan in skipped rows; None for regression and if not kept.
    baseline_predictions : tuple of arrays or None
        For each baseline, in the shape of the predictions or probabilities; None if not kept.
    start : int
        Number of rows of the stream before these, in the result of `part`.

    See Also
    --------
    progressive, regret, ovk.plotting.ProgressiveErrorDisplay, ovk.plotting.IntervalDisplay

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK, AutoStreamClassifier
    >>> from ovk.evaluation import progressive
    >>> X = np.linspace(0, 9, 300)[:, None]
    >>> result = progressive(OLOK(alpha=0.0), X, np.sin(5 * X), baselines=["mean"])
    >>> result.predictions.shape, result.mse.round(3), result.baselines[0].mse.round(3)
    ((300, 1), array([0.351]), array([0.502]))
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
        """Scores of the model and of the baselines."""
        return (self.model, *self.baselines)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the outputs, or of the classes."""
        return self.outputs if self.task.numeric else tuple(map(str, self.classes.tolist()))

    @property
    def counts(self) -> Array:
        """(checkpoints, d) number of tested predictions of each output, for regression."""
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
        """Time of the model for prediction and learning, without reading, scaling and baselines."""
        return float(self.model.seconds)

    @property
    def rows_per_second(self) -> float:
        """Number of rows that the model predicts and learns per second."""
        return self.n_rows / self.seconds if self.seconds > 0 else float("nan")

    def part(self, rows: int | slice) -> ProgressiveResult:
        """The result on some of the rows: errors of the model and of the baselines, coverage and widths.

        Nothing is learned again. It requires ``keep="all"``.

        Parameters
        ----------
        rows : int or slice
            The number of last rows; or a slice of rows, whose ends may be dates if `progressive` was called with
            `time`: ``slice("2007-01-01", None)``.

        Returns
        -------
        ProgressiveResult
            The scores on these rows.

        Examples
        --------
        >>> import numpy as np
        >>> from ovk import OLOK, progressive
        >>> X = np.random.default_rng(0).uniform(size=(1000, 2))
        >>> result = progressive(OLOK(), X, X @ [1.0, 2.0], intervals=0.8, keep="all")
        >>> part = result.part(slice(500, 800))
        >>> part.n_rows, part.intervals.coverage.round(1)
        (300, array([0.8]))
        """
        if self.predictions is None or self.targets is None or self.inputs is None:
            raise ValueError("the result has no stored rows: run progressive with keep='all'")
        where = row_slice(rows, self.n_rows, self.times)
        n = where.stop - where.start
        codes = self.targets if self.task.numeric else encoded(self.targets, self.classes)[0]
        Y = self.task.outputs(codes[where], self.classes)
        F = (self.predictions if self.probabilities is None else self.probabilities)[where].reshape(Y.shape)
        untested = min(n, max(0, self.untested - where.start))
        skipped = self.task.skipped(self.inputs[where], Y, F)
        counted = np.isfinite(Y) & ~skipped[:, None] & (np.arange(n) >= untested)[:, None]
        # Curves start at the first tested row, as in a whole stream.
        marks = np.union1d(checkpoints(untested, n), [n])
        others: dict[str, Any] = dict.fromkeys(("support_rows", "support_sizes", "drift"))
        for name in ("predictions", "inputs", "targets", "probabilities", "times"):
            column = getattr(self, name)
            others[name] = None if column is None else column[where]
        own, found = self.baseline_predictions or (), self.intervals
        scores = []
        for one, P in zip(self.learners, (F, *(P[where].reshape(Y.shape) for P in own)), strict=True):
            scores.append(one.fresh())
            scores[-1].add(P, Y, counted, marks)
            # The time for some of the rows is unknown.
            scores[-1].seconds = float("nan")
        return replace(
            self,
            model=scores[0],
            baselines=tuple(scores[1:]),
            baseline_predictions=tuple(P[where] for P in own),
            rows=marks,
            n_rows=n,
            untested=untested,
            n_skipped=int(skipped.sum()),
            n_missing=int((~np.isfinite(Y).any(axis=1)).sum()),
            intervals=found and found.part(where, np.where(counted, Y, np.nan), marks),
            start=self.start + where.start,
            **others,
        )

    def against_best_baseline(self) -> tuple[str, float] | None:
        """Name of the best baseline, and the error of the model divided by its error; None if no row was tested.

        The error is the mean squared error, with the geometric mean of the ratios over several outputs; for
        classification it is the share of wrong labels.
        """
        return self.task.against_best_baseline(self.learners)

    def conclusion(self) -> str:
        """One sentence that compares the model with its best baseline, and names outputs for which that is better."""
        return self.task.conclusion(self.learners, self.names)

    def summary(self) -> str:
        """The scores of the model and the baselines as tables of text.

        For several outputs the last line is the error relative to the best baseline, the geometric mean over outputs.
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
            yield f"{self._unbounded(found)} had infinite intervals: too few errors were known"
        if joint:
            table = ScoreTable("intervals", self.outputs, ("mean width",), found.width[:, None])
            yield from table.lines(MAX_ROWS_SHOWN)
            return
        both, last = np.column_stack([found.coverage, found.width]), np.array([np.nan, np.nan])
        if np.isfinite(found.coverage).any():
            last[0] = np.nanmean(found.coverage)
        mean = ("mean of outputs", last) if len(self.outputs) > 1 else None
        table = ScoreTable("intervals", self.outputs, ("coverage", "mean width"), both, relative=mean)
        yield from table.lines(MAX_ROWS_SHOWN)

    def _unbounded(self, found: IntervalResult) -> str:
        """Number of outcomes with infinite intervals, by output."""
        tested = found.tested[-1]
        missing = tested - found.bounded[-1]
        equal = len(set(missing)) == len(set(tested)) == 1
        if equal or found.region != "each":
            each = " of each output" if found.region == "each" and len(self.outputs) > 1 else ""
            return f"{found.n_unbounded:,} of {int(tested[0]):,} outcomes{each}"
        counts = {self.outputs[q]: f"{missing[q]:,.0f} of {tested[q]:,.0f}" for q in np.flatnonzero(missing)}
        shown = [f"{count} outcomes of {name}" for name, count in list(counts.items())[:MAX_NAMES_IN_SENTENCE]]
        more = len(counts) - MAX_NAMES_IN_SENTENCE
        return ", ".join(shown) + (f" and some of {more} more outputs" if more > 0 else "")
