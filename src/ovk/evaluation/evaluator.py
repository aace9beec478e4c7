"""Progressive evaluation of a model and its baselines on a stream, one chunk after another."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np

from ovk.base import Array, Mask, ProgressBar, Registered, State, Times, check_choice, check_int, snapshot_of
from ovk.evaluation.baselines import Baseline
from ovk.evaluation.conformal import Conformal
from ovk.evaluation.delayed import LabelQueue, RowByRow, has_learned, waiting_rows
from ovk.evaluation.deployment import as_intervals
from ovk.evaluation.result import IntervalResult, ProgressiveResult, interval_counts
from ovk.evaluation.scaling_and_drift import DriftRecord, Scaling, as_scaling
from ovk.evaluation.sources import Chunk, chunks
from ovk.evaluation.task import CLASSIFICATION, RunningSum, Scores, Task, checkpoints, encoded, task_of
from ovk.intervals import Regions, concatenate


@dataclass
class IntervalRecord(State):
    """The regions of a stream so far; `sums` are those of `interval_counts`. Stored regions are not saved."""

    method: Conformal
    sums: RunningSum
    keep: bool = False
    queue: LabelQueue[tuple[Regions, Array]] = field(default_factory=lambda: LabelQueue(0), init=False)
    _kept: list[Regions] = field(default_factory=list, init=False)

    _state_classes = {"sums": RunningSum}

    @classmethod
    def start(cls, method: Conformal, d: int, *, keep: bool, waiting: int | Times = 0) -> IntervalRecord:
        k = d if method.region == "each" else 1
        record = cls(method, RunningSum.empty(2 * k + 2 * d), keep)
        record.queue = LabelQueue(waiting)
        return record

    def update(self, F: Array, Y: Array, marks: Times) -> None:
        """Compute the regions of the predictions F (n, d), count which contain the outputs Y (n, d), and learn."""
        regions = self.method.regions_then_learn(F, Y) if self.queue.at_once else self._regions_late(F, Y)
        self.sums.add(np.hstack(interval_counts(regions, Y)), marks)
        if self.keep:
            self._kept.append(regions)

    def _regions_late(self, F: Array, Y: Array) -> Regions:
        """The region of each row, from the outputs that have arrived before it."""
        made: list[Regions] = []

        def predict(row: slice) -> tuple[Regions, Array]:
            made.append(self.method.regions(F[row]))
            return made[-1], Y[row]

        def learn(rows: list[tuple[Regions, Array]]) -> None:
            for i, (regions, y) in enumerate(rows, 1):
                self.method.learn(regions, y, len(rows) - i + len(self.queue))

        self.queue.replay(len(F), predict, learn)
        return self.method.with_outcomes(concatenate(made), Y)

    def result(self, rows: Times) -> IntervalResult:
        """The result at the checkpoints `rows`, the last of which is the current row."""
        sums = np.vstack([self.sums.points, self.sums.total])[: len(rows)]
        k = sums.shape[1] // 4 if self.method.region == "each" else 1
        tested, covered, bounded, widths = np.split(sums, [k, 2 * k, k + sums.shape[1] // 2], axis=1)
        name, target = type(self.method).__name__, float(self.method.coverage)
        regions = concatenate(self._kept) if self._kept else None
        return IntervalResult(name, target, self.method.region, rows, tested, covered, bounded, widths, regions)


@dataclass
class Evaluator(State, Registered):
    """The state of `progressive`. It can be saved and continued, unless labels are delayed.

    `scores` are those of the model and of each baseline; `classes` the labels so far, in the order of their codes;
    `single`: whether outputs have shape (n,); `warm_up`: rows that were learned but not tested. The other names are
    those of `progressive` and `ProgressiveResult`.
    """

    task: Task[Any]
    model: Any
    baselines: list[Baseline]
    scores: list[Scores]
    scaling: Scaling
    features: tuple[str, ...]
    outputs: tuple[str, ...]
    classes: list[Any] = field(default_factory=list)
    single: bool = False
    keep: str = "none"
    n_rows: int = 0
    warm_up: int = 0
    n_skipped: int = 0
    n_missing: int = 0
    rows: list[int] = field(default_factory=list)
    support: list[tuple[int, int]] = field(default_factory=list)
    intervals: IntervalRecord | None = None
    drift: DriftRecord = field(default_factory=DriftRecord)
    #: For models of other libraries, and for delayed labels.
    _row_by_row: RowByRow | None = field(default=None, init=False)
    _baseline_queues: list[LabelQueue[tuple[Array, Array]]] = field(default_factory=list, init=False)
    _kept: list[tuple[Array, ...]] = field(default_factory=list, init=False)

    _state_classes = {
        "task": Task,
        "scores": Scores,
        "scaling": Scaling,
        "intervals": IntervalRecord,
        "drift": DriftRecord,
    }

    def __post_init__(self) -> None:
        if not self.task.learns_blocks(self.model):
            self._row_by_row = RowByRow(self.task, self.model)

    def state(self) -> dict[str, Any]:
        if self._baseline_queues or self.keep != "none":
            raise ValueError("cannot save an evaluator that keeps rows or has delayed labels: use its result")
        return super().state()

    @classmethod
    def start(
        cls,
        model: Any,
        baselines: Sequence[Any] | None,
        scaling: Scaling,
        first: Chunk,
        keep: str = "none",
        intervals: Conformal | None = None,
        waiting: int | Times = 0,
        task: Task[Any] | None = None,
    ) -> Evaluator:
        """An evaluator before the first row of a stream whose first chunk is `first`; `waiting` as in `LabelQueue`."""
        task = task_of(model) if task is None else task
        d = len(first.targets) if task.numeric else 0
        others = [task.baseline(one) for one in (task.default_baselines if baselines is None else baselines)]
        scores = [task.scores(type(model).__name__, d, probabilities=hasattr(model, "predict_proba"))]
        scores += [task.scores(one.name, d) for one in others]
        names, single = (first.features, first.targets), first.Y.ndim == 1
        evaluator = cls(task, model, others, scores, scaling, *names, single=single, keep=keep)
        if not isinstance(waiting, int) or waiting > 0:
            evaluator._row_by_row = RowByRow(task, model, waiting)
            evaluator._baseline_queues = [LabelQueue(waiting) for _ in others]
        if intervals is not None:
            evaluator.intervals = IntervalRecord.start(intervals, d, keep=keep != "none", waiting=waiting)
        return evaluator

    def predict_then_learn(
        self, chunk: Chunk, *, tested: bool, weights: Array | None = None, classes: Sequence[Any] = ()
    ) -> Array:
        """Predict and learn the rows with the model and the baselines; `tested` rows count in the scores.

        For classification, Y of the chunk holds codes of labels, nan where missing, and `classes` the labels so far in
        the order of their codes. `weights` (n,) multiply the losses of the model; scores count all rows equally.
        Returns the predictions (n, d) of the model: outputs in the original units, or probabilities of the classes.
        """
        n, start, self.classes = len(chunk.X), self.n_rows, list(classes)
        Y = self.task.outputs(chunk.Y, classes)
        if n == 0:
            return Y
        before = self._row_counts
        try:
            F = self._predict_scaled(chunk, Y, tested, weights)
        except Exception as error:
            error.add_note(f"The error occurred in rows {start} to {start + n - 1} of the stream, counted from 0.")
            raise
        skipped = self.task.skipped(chunk.X, Y, F)
        # Rows before the first label are not tested.
        unlabelled, incomplete = (now - then for now, then in zip(self._row_counts, before, strict=True))
        shown = (np.arange(n) >= (unlabelled if tested else n))[:, None]
        counted = np.isfinite(Y) & ~skipped[:, None] & shown
        self._warn_not_finite(F, counted)
        marks = checkpoints(start, start + n) if tested else checkpoints(0, 0)
        errors = self.task.errors(F, Y)
        self.drift.add_errors(start, errors, counted[:, : errors.shape[1]], Y if self.task.numeric else None)
        others = [self._timed(1 + k, self._predict_baseline, k, chunk.X, Y) for k in range(len(self.baselines))]
        for scores, P in zip(self.scores, [F, *others], strict=True):
            scores.add(P, Y, counted, marks - start)
        if self.intervals is not None:
            self.intervals.update(np.where(shown, F, np.nan), np.where(counted, Y, np.nan), marks - start)
        self.rows += marks.tolist()
        self.n_rows += n
        self.n_skipped += int(skipped.sum()) + (incomplete if self.task.numeric else -unlabelled)
        self.n_missing += int((~np.isfinite(Y).any(axis=1)).sum())
        self.warm_up += unlabelled if tested else n
        if len(marks) or not tested:
            self.support += self._support_now()
        if self.keep != "none":
            kept = np.where(shown, F, np.nan) if self.task.numeric else F
            whole = (kept, chunk.X, chunk.Y, *others)
            self._kept.append(whole if self.keep == "all" else (self.task.compact(kept),))
        return F

    @property
    def _row_counts(self) -> tuple[int, int]:
        """Number of rows predicted before the first label, and of rows with a missing output that were not learned."""
        rows = self._row_by_row
        return (0, 0) if rows is None else (rows.n_before_first_label, rows.n_skipped)

    def _warn_not_finite(self, F: Array, counted: Mask) -> None:
        wrong = (counted & ~np.isfinite(F)).any(axis=1)
        if wrong.any():
            warnings.warn(
                f"{self.scores[0].name} predicted nan or infinity for {int(wrong.sum())} rows, first for row "
                f"{self.n_rows + int(wrong.argmax())} of the stream, so its mean errors are not finite. Try smaller "
                "steps, scale='running' or another learner",
                RuntimeWarning,
                stacklevel=3,
            )

    def _predict_scaled(self, chunk: Chunk, Y: Array, tested: bool, weights: Array | None) -> Array:
        """(n, d) predictions of the model, in the original units."""
        numbers = Y if self.task.numeric else Y[:, :0]
        scaled = self.scaling.scale(chunk.X, numbers) if tested else self.scaling.scale_warm_up(chunk.X, numbers)
        y = scaled.Y.reshape(chunk.Y.shape) if self.task.numeric else self.task.targets(chunk.Y, self.classes)
        F = []
        for rows in self.drift.pieces(self.model, self.n_rows, self.n_rows + len(y)):
            some = None if weights is None else weights[rows]
            F.append(self._timed(0, self._predict, scaled.X[rows], y[rows], Y.shape[1], some))
            self.drift.observe(self.model, self.n_rows + rows.stop)
        return scaled.restore(np.concatenate(F)) if self.task.numeric else np.concatenate(F)

    def _predict(self, X: Array, y: Any, d: int, weights: Array | None) -> Array:
        if self._row_by_row is not None:
            return self._row_by_row.predict_then_learn(X, y, d, self.classes, weights)
        options = {} if weights is None else {"sample_weight": weights}
        return self.task.predict_then_learn(self.model, X, y, self.classes, **options)

    def _predict_baseline(self, k: int, X: Array, Y: Array) -> Array:
        baseline = self.baselines[k]
        if not self._baseline_queues:
            return baseline.predict_then_learn(X, Y)
        F = np.empty(Y.shape)

        def predict(row: slice) -> tuple[Array, Array]:
            F[row] = baseline.guess(X[row], Y.shape[1])
            return X[row], Y[row]

        def learn(rows: list[tuple[Array, Array]]) -> None:
            baseline.predict_then_learn(*(np.concatenate(parts) for parts in zip(*rows, strict=True)))

        self._baseline_queues[k].replay(len(X), predict, learn)
        return F

    def _timed(self, k: int, call: Callable[..., Array], *args: Any) -> Array:
        start = perf_counter()
        found = call(*args)
        self.scores[k].seconds += perf_counter() - start
        return found

    def _support_now(self) -> list[tuple[int, int]]:
        support = getattr(self.model, "support_", None)
        return [] if support is None else [(self.n_rows, len(support))]

    def merge(self, other: Evaluator) -> None:
        """Add the rows of another stream: the scores add up, and the curves restart.

        The learners must have a method `merge`, and the rows the same scaling.
        """
        if (self.features, self.outputs, self.classes) != (other.features, other.outputs, other.classes):
            raise ValueError("cannot merge streams with different names of inputs and outputs")
        if self.keep != "none" or other.keep != "none" or self.intervals or other.intervals:
            raise ValueError("cannot merge streams that keep rows or intervals: use keep='none'")
        merged = copy.deepcopy(self)
        merged.scaling.merge(other.scaling)
        learners = zip([merged.model, *merged.baselines], [other.model, *other.baselines], strict=True)
        for one, two in learners:
            if type(one) is not type(two) or not hasattr(one, "merge"):
                both = f"{type(two).__name__} into {type(one).__name__}"
                raise ValueError(f"cannot merge {both}: only models that are sums over rows can merge")
            one.merge(two)
        for one, two in zip(merged.scores, other.scores, strict=True):
            one.merge(two)
        merged.rows, merged.support, merged.drift = [], [], DriftRecord()
        for count in ("n_rows", "warm_up", "n_skipped", "n_missing"):
            setattr(merged, count, getattr(merged, count) + getattr(other, count))
        vars(self).update(vars(merged))

    def result(self) -> ProgressiveResult:
        if 0 < self.n_rows == self.warm_up:
            raise ValueError(f"the stream ended after {self.n_rows} rows without a test: lower untested or the delay")
        rows, support, scores = list(self.rows), list(self.support), snapshot_of(self.scores)
        # The last row is always a checkpoint.
        if self.n_rows > 0 and self.n_rows not in rows:
            rows.append(self.n_rows)
            support += self._support_now()
            for one in scores:
                one.sums.record()
        marks, sizes = np.array(rows, dtype=np.int64), np.array(support, dtype=np.int64).reshape(-1, 2)
        kept: list[Any] = [np.concatenate(parts) for parts in zip(*self._kept, strict=True)]
        if self.keep != "none" and not kept:
            empty = np.empty((0, len(self.outputs)))
            kept = [empty, np.empty((0, len(self.features))), empty, *(empty for _ in self.baselines)]
        predictions, inputs, targets, *others = [*kept, None, None, None] if len(kept) < 3 else kept
        numeric, whole = self.task.numeric, self.keep == "all"
        if numeric and self.single:
            every = (predictions, targets, *others)
            predictions, targets, *others = (one if one is None else one.reshape(-1) for one in every)
        return ProgressiveResult(
            task=self.task,
            model=scores[0],
            baselines=tuple(scores[1:]),
            rows=marks,
            predictions=None if predictions is None else self.task.decided(predictions, self.classes),
            inputs=inputs,
            targets=None if targets is None else self.task.targets(targets, self.classes),
            probabilities=predictions if whole and not numeric else None,
            baseline_predictions=tuple(others) if whole else None,
            features=self.features,
            outputs=self.outputs,
            classes=np.asarray(self.classes),
            n_rows=self.n_rows,
            untested=self.warm_up,
            n_skipped=self.n_skipped,
            n_missing=self.n_missing,
            support_rows=sizes[:, 0] if support else None,
            support_sizes=sizes[:, 1] if support else None,
            intervals=None if self.intervals is None else self.intervals.result(marks),
            drift=self.drift.result(),
        )


#: Default number of untested rows with scaling.
DEFAULT_UNTESTED = 100


def progressive(
    model: Any,
    X: Any,
    Y: Any = None,
    *,
    targets: Any = None,
    features: Any = None,
    scale: str | None = None,
    untested: int | None = None,
    baselines: Sequence[Any] | None = None,
    intervals: Any = None,
    delay: Any = 0,
    time: Any = None,
    sample_weight: Any = None,
    classes: Any = None,
    chunk_size: int = 1024,
    keep: str = "predictions",
    progress: bool = True,
) -> ProgressiveResult:
    """Evaluate a model on a stream: predict each row, compare with the outcome, then learn from the row.

    The model is modified in place and continues from its current state. Online learners of ovk process exact blocks, so
    the chunk size affects only the speed. Other estimators with `partial_fit` and `predict` process one row at a time.

    Parameters
    ----------
    model : online learner of ovk, or estimator with `partial_fit` and `predict`
        Classifiers are scored by accuracy, kappa, log loss and area under the ROC curve.
    X, Y, targets, features
        The rows in any form that `chunks` takes: arrays, data frames, or an iterable of chunks. `ovk.progressive` also
        takes the path of a CSV, Parquet or JSON lines file, which may exceed the memory. Labels of a classifier are
        passed as Y (n,), None or nan where missing; rows without a label are predicted but not learned.
    scale : None, "warm-up" or "running"
        Standardise inputs and outputs for the model, by the moments of the untested rows or of all rows before each
        one. Predictions and errors are in the original units.
    untested : int, optional
        Number of first rows that are learned in one block and not tested, neither with the model nor with a baseline.
        Default 100 with `scale`, otherwise 1, or 0 for a model that has learned before. ovk's online learners
        standardise internally during a warm-up and need no more.
    baselines : sequence of names or baselines, optional
        "last" (value), (running) "mean", "ridge" (`RefittedRidge`), or an object such as
        ``RefittedRidge(OVKRidge(kernel), max_rows=500)``; for classifiers "last" (label) and "majority". Baselines
        learn from unscaled rows. Default: the first two.
    intervals : ACI, COP, ConformalPID, StronglyAdaptive, RollingConformal or float, optional
        Compute a region around every prediction from the errors of earlier rows, and count how often it contains the
        output. The method is modified in place. A number such as 0.9 means ``ACI(0.9)``. For nonnegative outputs use
        ``ACI(0.9, bounds=(0, None))``.
    delay : int >= 0; with `time` a number or a `datetime.timedelta`
        Delay of the labels. With ``delay=k`` the labels of the k rows before a row are unknown when it is predicted.
        With `time`, the label of a row is known from its time plus `delay` on. Baselines and intervals have the same
        delay, `scale` does not. The model then predicts one row at a time, and rows before the first label are not
        tested.
    time : (n,) nondecreasing numbers or dates, optional
        Times of the rows; `delay` then has its units, and results and plots show the times.
    sample_weight : (n,) array >= 0, optional
        Weights of the losses that the model learns from. Errors count all rows equally.
    classes : sequence of labels, optional
        All labels, for classifiers that need them at the start; default those of Y. A model is treated as a classifier
        if they are given.
    chunk_size : int
        Maximum number of rows in a chunk.
    keep : "predictions", "all" or "none"
        What to store of each row: the predictions; also inputs, outputs and predictions of the baselines (for `regret`
        and `ProgressiveResult.part`); or nothing, for constant memory.
    progress : bool
        Show a progress bar on a terminal after one second.

    Returns
    -------
    ProgressiveResult
        The scores; print its ``summary()``, or plot it with `ovk.plotting.ProgressiveErrorDisplay` and
        `ovk.plotting.IntervalDisplay`.

    See Also
    --------
    chunks, regret, DelayedLabels, WithIntervals

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK
    >>> from ovk.evaluation import progressive
    >>> from ovk.kernels import Gaussian
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(50.0, 10.0, (1000, 2))
    >>> Y = 100 + np.column_stack([X[:, 0], 3 * np.sin(X[:, 1] / 10)])
    >>> result = progressive(OLOK(Gaussian(2.0), alpha=1e-4), X, Y, scale="running")
    >>> print(result.summary())
    900 rows predicted, then learned, in ... s (... a second)
    100 rows before them learned, not tested
    1,000 support points
    <BLANKLINE>
    mean squared error
                                 OLOK   last value   running mean
    -------------------------------------------------------------
    y0                          5.252        208.1          105.2
    y1                         0.3911        3.739          1.903
    relative to running mean   0.1013        1.971              1
    <BLANKLINE>
    mean absolute error
                                 OLOK   last value   running mean
    -------------------------------------------------------------
    y0                           1.35        11.47          8.239
    y1                         0.4388        1.396          1.087
    relative to running mean   0.2572        1.337              1

    Classification:

    >>> from ovk import AutoStreamClassifier
    >>> labels = np.where(X[:, 0] + X[:, 1] > 100, "up", "down")
    >>> result = progressive(AutoStreamClassifier(), X, labels)
    >>> {one.name: round(one.accuracy, 1) for one in result.learners}
    {'AutoStreamClassifier': 1.0, 'no change': 0.5, 'majority': 0.5}
    """
    check_choice(keep, "keep", ("predictions", "all", "none"))
    scaling = as_scaling(scale)
    if untested is None:
        untested = int(not has_learned(model)) if scale is None else DEFAULT_UNTESTED
    untested = check_int(untested, "untested", least=2 if scale == "warm-up" else 0)
    task = task_of(model) if classes is None else CLASSIFICATION
    others = [baselines] if isinstance(baselines, str) else baselines
    waiting = waiting_rows(delay, time)
    task.learns_blocks(model)
    weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    method = None if intervals is None else as_intervals(intervals)
    labels: Any = ()
    if not task.numeric:
        if method is not None:
            raise ValueError(f"intervals must be None for a classifier, got {intervals!r}")
        if Y is None:
            raise ValueError(f"{type(model).__name__} is a classifier: pass its labels as Y")
        Y, labels = encoded(Y, classes)
    stream = chunks(X, Y, targets=targets, features=features, chunk_size=chunk_size)
    _check_lengths(stream.n_rows, time=time, sample_weight=weights)
    evaluator, done = None, 0
    with ProgressBar("learning", stream.n_rows) if progress else nullcontext() as bar:
        for chunk, tested in _after_untested(iter(stream), untested):
            if evaluator is None:
                evaluator = Evaluator.start(model, others, scaling, chunk, keep, method, waiting, task)
            rows = slice(done, done + len(chunk.X))
            some = None if weights is None else weights[rows]
            evaluator.predict_then_learn(chunk, tested=tested, weights=some, classes=labels)
            done = rows.stop
            if bar is not None:
                bar.update(len(chunk.X))
    if evaluator is None:
        raise ValueError("the iterable of chunks must contain at least one chunk, got none")
    late = "" if isinstance(waiting, int) and waiting == 0 else f"{delay:,} rows" if time is None else f"{delay}"
    times = None if time is None else np.asarray(time)
    _check_lengths(evaluator.n_rows, time=times)
    return replace(evaluator.result(), delay=late, times=times)


def _check_lengths(rows: int | None, **columns: Any) -> None:
    for name, column in columns.items():
        if rows is not None and column is not None and len(column) != rows:
            raise ValueError(f"{name} must have an entry for each of the {rows} rows, got {len(column)}")


def _after_untested(stream: Iterator[Chunk], untested: int) -> Iterator[tuple[Chunk, bool]]:
    """Chunks, and whether they are tested: the untested rows come first, as one chunk."""
    head: list[Chunk] = []
    while sum(len(chunk.X) for chunk in head) < untested and (chunk := next(stream, None)) is not None:
        head.append(chunk)
    if head:
        X, Y = np.concatenate([chunk.X for chunk in head]), np.concatenate([chunk.Y for chunk in head])
        yield head[0]._replace(X=X[:untested], Y=Y[:untested]), False
        yield head[0]._replace(X=X[untested:], Y=Y[untested:]), True
    for chunk in stream:
        yield chunk, True
