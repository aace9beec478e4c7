"""A model and its baselines on their way through a stream, one chunk after the other."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ovk.base import Array, Mask, Registered, State, Times, snapshot_of
from ovk.evaluation.baselines import Baseline
from ovk.evaluation.conformal import Conformal
from ovk.evaluation.conformal.learner import IntervalRecord
from ovk.evaluation.drift import DriftRecord
from ovk.evaluation.late import LateBaseline, RowByRow
from ovk.evaluation.learners import Mergeable
from ovk.evaluation.result import ProgressiveResult
from ovk.evaluation.running import Scaling, checkpoints
from ovk.evaluation.sources import Chunk
from ovk.evaluation.task import Scores, Task, task_of, tells_probabilities


@runtime_checkable
class _WithSupport(Protocol):
    support_: Any


@dataclass
class Evaluator(State, Registered):
    """What `progressive` keeps of a stream so far. It can be saved and goes on where it was, unless rows are kept.

    Attributes
    ----------
    task : `REGRESSION` or `CLASSIFICATION`
    model : the model that learns
    baselines : what it is compared with
    scores : those of the model, and of each baseline
    scaling : how rows are scaled before the model sees them
    features, outputs : names
    classes : labels known so far, in the order of their codes; empty for regression
    single : whether outputs come as (n,)
    keep : what to keep of each row, as in `progressive`
    intervals : regions around the predictions, None without
    n_rows, n_skipped, n_missing, rows, support : as in `ProgressiveResult`
    warm_up : rows that were learned but not tested
    drift : losses of late, alarms and experts

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK
    >>> from ovk.evaluation import LastValue, Evaluator
    >>> from ovk.evaluation.running import Standardised
    >>> from ovk.app.tables import chunks
    >>> X = np.linspace(0, 9, 300)[:, None]
    >>> evaluator = None
    >>> for chunk in chunks(X, np.sin(5 * X), chunk_size=100):
    ...     if evaluator is None:
    ...         evaluator = Evaluator.start(OLOK(), [LastValue()], Standardised(running=True), chunk)
    ...     _ = evaluator.predict_then_learn(chunk, tested=evaluator.n_rows > 0)
    >>> evaluator.result().n_rows, evaluator.warm_up
    (300, 100)
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
    #: What predicts one row at a time: the model, and the baselines where labels come late.
    _row_by_row: RowByRow | None = field(default=None, init=False)
    _late: list[LateBaseline] = field(default_factory=list, init=False)
    _kept: list[tuple[Array, ...]] = field(default_factory=list, init=False)

    _state_classes = {
        "task": Task,
        "scores": Scores,
        "scaling": Scaling,
        "intervals": IntervalRecord,
        "drift": DriftRecord,
    }

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
        """An evaluator for a stream whose first chunk is `first`, before any of its rows.

        Baselines are those of the task where they are None. The labels of the `waiting` last rows, as in `LabelQueue`,
        have not come when a row is predicted.
        """
        task = task_of(model) if task is None else task
        d = len(first.targets) if task.numeric else 0
        chosen = task.default_baselines if baselines is None else baselines
        beside = [one if isinstance(one, Baseline) else task.baseline(one) for one in chosen]
        scores = [task.scores(type(model).__name__, d, probabilities=tells_probabilities(model))]
        evaluator = cls(
            task=task,
            model=model,
            baselines=beside,
            scores=scores + [task.scores(one.name, d) for one in beside],
            scaling=scaling,
            features=first.features,
            outputs=first.targets,
            single=first.Y.ndim == 1,
            keep=keep,
        )
        late = not isinstance(waiting, int) or waiting > 0
        if late or not task.learns_blocks(model):
            evaluator._row_by_row = RowByRow(task, model, waiting)
        if late:
            evaluator._late = [LateBaseline(task, one, waiting) for one in beside]
        if intervals is not None:
            evaluator.intervals = IntervalRecord.start(intervals, d, keep=keep != "none", waiting=waiting)
        return evaluator

    def predict_then_learn(
        self, chunk: Chunk, *, tested: bool, weights: Array | None = None, classes: Sequence[Any] = ()
    ) -> Array:
        """Let the model and the baselines predict and learn the rows, and count those that are `tested`.

        Parameters
        ----------
        chunk : the rows; of classes its Y holds codes of labels, nan where missing
        weights : (n,) what the losses of the rows are multiplied by where the model learns; scores count rows alike
        classes : the labels known so far, in the order of their codes; later calls may have more of them

        Returns
        -------
        (n, d) predictions of the model: outputs in the original units, or probabilities of the classes
        """
        n, start, self.classes = len(chunk.X), self.n_rows, list(classes)
        Y = self.task.outputs(chunk.Y, classes)
        if n == 0:
            return Y
        before = self._rows_without_labels
        try:
            F = self._predict_scaled(chunk, Y, tested, weights)
        except Exception as error:
            error.add_note(f"This happened in rows {start} to {start + n - 1} of the stream, counted from 0.")
            raise
        skipped = self.task.skipped(chunk.X, Y, F)
        # The first rows of a stream are not tested where no label had come that the model could learn.
        blind = self._rows_without_labels - before
        shown = (np.arange(n) >= (blind if tested else n))[:, None]
        counted = np.isfinite(Y) & ~skipped[:, None] & shown
        self._tell_not_finite(F, counted)
        marks = checkpoints(start, start + n) if tested else checkpoints(0, 0)
        errors = self.task.errors(F, Y)
        self.drift.add_errors(start, errors, counted[:, : errors.shape[1]], Y if self.task.numeric else None)
        beside = [self._predict_beside(k, chunk.X, Y) for k in range(len(self.baselines))]
        for scores, P in zip(self.scores, [F, *beside], strict=True):
            scores.add(P, Y, counted, marks - start)
        if self.intervals is not None:
            # An invalid row's prediction is nan, and so is its region.
            self.intervals.update(np.where(shown, F, np.nan), np.where(counted, Y, np.nan), marks - start)
        self.rows += marks.tolist()
        self.n_rows += n
        self.n_skipped += int(skipped.sum()) - (0 if self.task.numeric else blind)
        self.n_missing += int((~np.isfinite(Y).any(axis=1)).sum())
        self.warm_up += blind if tested else n
        if len(marks) or not tested:
            self.support += self._support_now()
        if self.keep != "none":
            kept = np.where(shown, F, np.nan) if self.task.numeric else F
            whole = (kept, chunk.X, chunk.Y, *beside)
            self._kept.append(whole if self.keep == "all" else (self.task.compact(kept),))
        return F

    @property
    def _rows_without_labels(self) -> int:
        """Rows at the start of the stream that were predicted before any label had come."""
        return 0 if self._row_by_row is None else self._row_by_row.n_blind

    def _tell_not_finite(self, F: Array, counted: Mask) -> None:
        wrong = (counted & ~np.isfinite(F)).any(axis=1)
        if wrong.any():
            warnings.warn(
                f"{self.scores[0].name} predicted nan or infinity for {int(wrong.sum())} rows, first for row "
                f"{self.n_rows + int(wrong.argmax())} of the stream: its mean errors are not finite from there on. "
                "Smaller steps, scale='running' or another learner may help",
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
            self.drift.look(self.model, self.n_rows + rows.stop)
        found = np.concatenate(F)
        return scaled.restore(found) if self.task.numeric else found

    def _predict(self, X: Array, y: Any, d: int, weights: Array | None) -> Array:
        if self._row_by_row is not None:
            return self._row_by_row.predict_then_learn(X, y, d, self.classes, weights)
        options = {} if weights is None else {"sample_weight": weights}
        return self.task.predict_then_learn(self.model, X, y, self.classes, **options)

    def _predict_beside(self, k: int, X: Array, Y: Array) -> Array:
        """(n, d) predictions of a baseline."""
        if self._late:
            return self._timed(1 + k, self._late[k].predict_then_learn, X, Y, Y.shape[1])
        return self._timed(1 + k, self.baselines[k].predict_then_learn, X, Y)

    def _timed(self, k: int, call: Callable[..., Array], *args: Any) -> Array:
        start = time.perf_counter()
        found = call(*args)
        self.scores[k].seconds += time.perf_counter() - start
        return found

    def _support_now(self) -> list[tuple[int, int]]:
        return [(self.n_rows, len(self.model.support_))] if isinstance(self.model, _WithSupport) else []

    def merge(self, other: Evaluator) -> None:
        """Go on as if the rows of the other had been predicted and learned here.

        The scores of both add up; the curves begin anew, since their checkpoints were at other rows. The learners must
        have a `merge` of their own, and rows must have been scaled alike.
        """
        if (self.features, self.outputs, self.classes) != (other.features, other.outputs, other.classes):
            raise ValueError("streams to be merged must have the same inputs and outputs, by the same names")
        if self.keep != "none" or other.keep != "none" or self.intervals or other.intervals:
            raise ValueError("streams whose rows or intervals are kept cannot be merged: use keep='none'")
        merged = copy.deepcopy(self)
        merged.scaling.merge(other.scaling)
        learners = zip([merged.model, *merged.baselines], [other.model, *other.baselines], strict=True)
        for one, two in learners:
            if type(one) is not type(two) or not isinstance(one, Mergeable):
                names = type(two).__name__, type(one).__name__
                raise ValueError(f"{names[0]} cannot be merged into {names[1]}: only sums over all rows add up exactly")
            one.merge(two)
        for one, two in zip(merged.scores, other.scores, strict=True):
            one.merge(two)
        merged.rows, merged.support, merged.drift = [], [], DriftRecord()
        merged.n_rows += other.n_rows
        merged.warm_up += other.warm_up
        merged.n_skipped += other.n_skipped
        merged.n_missing += other.n_missing
        vars(self).update(vars(merged))

    def result(self) -> ProgressiveResult:
        """The scores of all rows so far, at every checkpoint."""
        if 0 < self.n_rows == self.warm_up:
            raise ValueError(
                f"the stream ended after {self.n_rows} rows, before any was tested: lower untested, or the delay"
            )
        rows, support, scores = list(self.rows), list(self.support), snapshot_of(self.scores)
        # The last row always is a checkpoint.
        if self.n_rows > 0 and self.n_rows not in rows:
            rows.append(self.n_rows)
            support += self._support_now()
            for one in scores:
                one.note()
        marks, sizes = np.array(rows, dtype=np.int64), np.array(support, dtype=np.int64).reshape(-1, 2)
        kept: list[Any] = [np.concatenate(parts) for parts in zip(*self._kept, strict=True)]
        if self.keep != "none" and not kept:
            nothing = np.empty((0, len(self.outputs)))
            kept = [nothing, np.empty((0, len(self.features))), nothing, *(nothing for _ in self.baselines)]
        predictions, inputs, targets, *beside = [*kept, None, None, None] if len(kept) < 3 else kept
        numeric, whole = self.task.numeric, self.keep == "all"
        if numeric and self.single:
            predictions, targets, *beside = (
                one if one is None else one.reshape(-1) for one in (predictions, targets, *beside)
            )
        return ProgressiveResult(
            task=self.task,
            model=scores[0],
            baselines=tuple(scores[1:]),
            rows=marks,
            predictions=None if predictions is None else self.task.decided(predictions, self.classes),
            inputs=inputs,
            targets=None if targets is None else self.task.targets(targets, self.classes),
            probabilities=predictions if whole and not numeric else None,
            baseline_predictions=tuple(beside) if whole else None,
            features=self.features,
            outputs=self.outputs,
            classes=np.asarray(self.classes),
            n_rows=self.n_rows,
            untested=self.warm_up,
            n_skipped=self.n_skipped + (0 if self._row_by_row is None or not numeric else self._row_by_row.n_skipped),
            n_missing=self.n_missing,
            support_rows=sizes[:, 0] if support else None,
            support_sizes=sizes[:, 1] if support else None,
            intervals=None if self.intervals is None else self.intervals.result(marks),
            drift=self.drift.result(),
        )
