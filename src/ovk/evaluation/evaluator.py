"""A model and its baselines on their way through a stream, one chunk after the other."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ovk.base import Array, Mask, Registered, State, Times
from ovk.evaluation.baselines import Baseline
from ovk.evaluation.conformal import Conformal
from ovk.evaluation.conformal.learner import IntervalRecord
from ovk.evaluation.drift import DriftRecord
from ovk.evaluation.late import DelayedLearner, LateBaseline
from ovk.evaluation.learners import Mergeable, OnlineLearner, RowByRow, as_learner
from ovk.evaluation.result import LearnerErrors, ProgressiveResult
from ovk.evaluation.running import RunningSum, Scaling, checkpoints
from ovk.evaluation.sources import Chunk


@runtime_checkable
class _WithSupport(Protocol):
    support_: Any


@dataclass
class ScoredLearner(State):
    """A learner that is evaluated, with its clock and its sums of errors. The clock is not saved: it is of one run."""

    name: str
    learner: OnlineLearner
    squares: RunningSum
    absolute: RunningSum
    seconds: float = field(default=0.0, init=False)

    _state_classes = {"squares": RunningSum, "absolute": RunningSum}

    @classmethod
    def start(cls, name: str, learner: OnlineLearner, d: int) -> ScoredLearner:
        """A learner before the first row of a stream with d outputs."""
        return cls(name, learner, RunningSum.empty(d), RunningSum.empty(d))

    def predict_then_learn(self, X: Array, y: Array, weights: Array | None = None) -> Array:
        """(n, d) predictions."""
        start, options = time.perf_counter(), {} if weights is None else {"sample_weight": weights}
        F = np.asarray(self.learner.predict_then_learn(X, y, **options), dtype=np.float64)
        self.seconds += time.perf_counter() - start
        if F.shape != y.shape:
            raise ValueError(
                f"predict_then_learn of {self.name} must return predictions in the shape {y.shape} of y, got {F.shape}"
            )
        return F.reshape(len(F), -1)

    def record(self, F: Array, Y: Array, counted: Mask, marks: Times) -> None:
        """Add the errors of predictions F (n, d), where they count."""
        # An error of 1e200 squares to infinity, and so does its mean: that is the right answer.
        with np.errstate(over="ignore", invalid="ignore"):
            errors = np.where(counted, F - Y, 0.0)
            self.squares.add(errors**2, marks)
            self.absolute.add(np.abs(errors), marks)

    def merge(self, other: ScoredLearner) -> None:
        """Take in what another learner of the same kind has learned, and its errors."""
        if type(self.learner) is not type(other.learner) or not isinstance(self.learner, Mergeable):
            raise ValueError(f"{other.name} cannot be merged into {self.name}: only sums over all rows add up exactly")
        self.learner.merge(other.learner)
        self.squares.merge(other.squares)
        self.absolute.merge(other.absolute)
        self.seconds += other.seconds

    def errors(self, counts: Array, last: bool = False) -> LearnerErrors:
        """Mean errors at all checkpoints, with `counts` (checkpoints, d) errors each; `last`: and at present."""
        n = np.where(counts > 0, counts, np.nan)
        return LearnerErrors(self.name, self.squares.curve(last) / n, self.absolute.curve(last) / n, self.seconds)


@dataclass
class Evaluator(State, Registered):
    """What `progressive` keeps of a stream so far. It can be saved and goes on where it was, unless rows are kept.

    Attributes
    ----------
    contestant : the model with its errors
    baselines : the baselines with theirs
    scaling : how rows are scaled before the model sees them
    features, outputs : names
    single : whether outputs come as (n,)
    keep : what to keep of each row, as in `progressive`
    intervals : regions around the predictions, None without
    n_rows, n_skipped, counts, rows, support : as in `ProgressiveResult`
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

    contestant: ScoredLearner
    baselines: list[ScoredLearner]
    scaling: Scaling
    features: tuple[str, ...]
    outputs: tuple[str, ...]
    counts: RunningSum
    single: bool = False
    keep: str = "none"
    n_rows: int = 0
    warm_up: int = 0
    n_skipped: int = 0
    rows: list[int] = field(default_factory=list)
    support: list[tuple[int, int]] = field(default_factory=list)
    intervals: IntervalRecord | None = None
    drift: DriftRecord = field(default_factory=DriftRecord)
    _kept: list[tuple[Array, ...]] = field(default_factory=list, init=False)

    _state_classes = {
        "contestant": ScoredLearner,
        "baselines": ScoredLearner,
        "scaling": Scaling,
        "counts": RunningSum,
        "intervals": IntervalRecord,
        "drift": DriftRecord,
    }

    @classmethod
    def start(
        cls,
        model: Any,
        baselines: Sequence[Baseline],
        scaling: Scaling,
        first: Chunk,
        keep: str = "none",
        intervals: Conformal | None = None,
        waiting: int | Times = 0,
    ) -> Evaluator:
        """An evaluator for a stream whose first chunk is `first`, before any of its rows.

        The labels of the `waiting` last rows, as in `LabelQueue`, have not come when a row is predicted.
        """
        d = len(first.targets)
        learners: list[OnlineLearner] = [as_learner(model), *baselines]
        if not isinstance(waiting, int) or waiting:
            late = DelayedLearner(model, waiting, gaps=isinstance(model, OnlineLearner))
            learners = [late, *(DelayedLearner(LateBaseline(baseline), waiting, guess=0.0) for baseline in baselines)]
        names = [type(model).__name__, *(baseline.name for baseline in baselines)]
        contestants = [ScoredLearner.start(name, one, d) for name, one in zip(names, learners, strict=True)]
        return cls(
            contestant=contestants[0],
            baselines=contestants[1:],
            scaling=scaling,
            features=first.features,
            outputs=first.targets,
            counts=RunningSum.empty(d),
            single=first.Y.ndim == 1,
            keep=keep,
            intervals=None
            if intervals is None
            else IntervalRecord.start(intervals, d, keep=keep != "none", waiting=waiting),
        )

    @property
    def model(self) -> Any:
        """The model that learns."""
        learner = self.contestant.learner
        return learner.model if isinstance(learner, (RowByRow, DelayedLearner)) else learner

    @property
    def _rows_without_labels(self) -> int:
        """Rows at the start of the stream that were predicted before any label had come."""
        learner = self.contestant.learner
        return learner.n_blind if isinstance(learner, DelayedLearner) else 0

    def predict_then_learn(self, chunk: Chunk, *, tested: bool, weights: Array | None = None) -> Array:
        """Let the model and the baselines predict and learn the rows, and count the errors of rows that are `tested`.

        The model learns the rows with the `weights` (n,); errors count alike.

        Returns the predictions (n, d) of the model, in the original units.
        """
        n, start = len(chunk.X), self.n_rows
        if n == 0:
            return np.empty((0, len(self.outputs)))
        Y = chunk.Y.reshape(n, -1)
        before = self._rows_without_labels
        try:
            F = self._predict_scaled(chunk, Y, tested, weights)
        except Exception as error:
            error.add_note(f"This happened in rows {start} to {start + n - 1} of the stream, counted from 0.")
            raise
        # A prediction that is nan although its row was fine is an error of the model, and must show in its mean.
        invalid = np.asarray(~np.isfinite(chunk.X).all(axis=1) | np.isinf(Y).any(axis=1))
        skipped = invalid & np.isnan(F).any(axis=1)
        # The first rows of a stream are not tested where no label had come that the model could learn.
        blind = self._rows_without_labels - before
        shown = (np.arange(n) >= (blind if tested else n))[:, None]
        counted = np.isfinite(Y) & ~skipped[:, None] & shown
        self._tell_not_finite(F, counted)
        marks = checkpoints(start, start + n) if tested else checkpoints(0, 0)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.where(counted, F - Y, 0.0) ** 2
        self.drift.add_errors(start, squares, counted, Y)
        self.contestant.record(F, Y, counted, marks - start)
        beside = [baseline.predict_then_learn(chunk.X, Y) for baseline in self.baselines]
        for baseline, P in zip(self.baselines, beside, strict=True):
            baseline.record(P, Y, counted, marks - start)
        self.counts.add(counted.astype(np.float64), marks - start)
        if self.intervals is not None:
            # An invalid row's prediction is nan, and so is its region.
            self.intervals.update(np.where(shown, F, np.nan), np.where(counted, Y, np.nan), marks - start)
        self.rows += marks.tolist()
        self.n_rows += n
        self.n_skipped += int(skipped.sum())
        self.warm_up += blind if tested else n
        if len(marks) or not tested:
            self.support += self._support_now()
        if self.keep != "none":
            kept = np.where(shown, F, np.nan).reshape(chunk.Y.shape)
            others = [P.reshape(chunk.Y.shape) for P in beside]
            self._kept.append((kept, chunk.X, chunk.Y, *others) if self.keep == "all" else (kept,))
        return F

    def _tell_not_finite(self, F: Array, counted: Mask) -> None:
        wrong = (counted & ~np.isfinite(F)).any(axis=1)
        if wrong.any():
            warnings.warn(
                f"{self.contestant.name} predicted nan or infinity for {int(wrong.sum())} rows, first for row "
                f"{self.n_rows + int(wrong.argmax())} of the stream: its mean errors are not finite from there on. "
                "Smaller steps, scale='running' or another learner may help",
                RuntimeWarning,
                stacklevel=3,
            )

    def _predict_scaled(self, chunk: Chunk, Y: Array, tested: bool, weights: Array | None) -> Array:
        """(n, d) predictions of the model, in the original units."""
        scaled = self.scaling.scale(chunk.X, Y) if tested else self.scaling.scale_warm_up(chunk.X, Y)
        y, F = scaled.Y.reshape(chunk.Y.shape), []
        for rows in self.drift.pieces(self.model, self.n_rows, self.n_rows + len(y)):
            some = None if weights is None else weights[rows]
            F.append(self.contestant.predict_then_learn(scaled.X[rows], y[rows], some))
            self.drift.look(self.model, self.n_rows + rows.stop)
        return scaled.restore(np.concatenate(F))

    def _support_now(self) -> list[tuple[int, int]]:
        model = self.model
        return [(self.n_rows, len(model.support_))] if isinstance(model, _WithSupport) else []

    def merge(self, other: Evaluator) -> None:
        """Go on as if the rows of the other had been predicted and learned here.

        The errors of both add up; the curves begin anew, since their checkpoints were at other rows. The learners must
        have a `merge` of their own, and rows must have been scaled alike.
        """
        if (self.features, self.outputs) != (other.features, other.outputs):
            raise ValueError("streams to be merged must have the same inputs and outputs, by the same names")
        if self.keep != "none" or other.keep != "none" or self.intervals or other.intervals:
            raise ValueError("streams whose rows or intervals are kept cannot be merged: use keep='none'")
        merged = copy.deepcopy(self)
        merged.scaling.merge(other.scaling)
        for one, two in zip([merged.contestant, *merged.baselines], [other.contestant, *other.baselines], strict=True):
            one.merge(two)
        merged.counts.merge(other.counts)
        merged.rows, merged.support, merged.drift = [], [], DriftRecord()
        merged.n_rows += other.n_rows
        merged.warm_up += other.warm_up
        merged.n_skipped += other.n_skipped
        vars(self).update(vars(merged))

    def result(self) -> ProgressiveResult:
        """The errors of all rows so far, at every checkpoint."""
        if 0 < self.n_rows == self.warm_up:
            raise ValueError(
                f"the stream ended after {self.n_rows} rows, before any was tested: lower untested, or the delay"
            )
        # The last row always is a checkpoint.
        last = self.n_rows > 0 and self.n_rows not in self.rows
        counts = self.counts.curve(last)
        rows, support = list(self.rows), list(self.support)
        if last:
            rows.append(self.n_rows)
            support += self._support_now()
        learner = self.contestant.learner
        unlearned = learner.n_skipped if isinstance(learner, (RowByRow, DelayedLearner)) else 0
        kept: list[Array | None] = [np.concatenate(parts) for parts in zip(*self._kept, strict=True)]
        if self.keep != "none" and not kept:
            p, shape = len(self.features), (0,) if self.single else (0, len(self.outputs))
            kept = [np.empty(shape), np.empty((0, p)), np.empty(shape), *(np.empty(shape) for _ in self.baselines)]
        predictions, inputs, targets = [*kept, None, None, None][:3]
        beside = tuple(one for one in kept[3:] if one is not None) if self.keep == "all" else None
        marks = np.array(rows, dtype=np.int64)
        sizes = np.array(support, dtype=np.int64).reshape(-1, 2)
        return ProgressiveResult(
            model=self.contestant.errors(counts, last),
            baselines=tuple(baseline.errors(counts, last) for baseline in self.baselines),
            rows=marks,
            counts=counts,
            predictions=predictions,
            inputs=inputs,
            targets=targets,
            baseline_predictions=beside,
            features=self.features,
            outputs=self.outputs,
            n_rows=self.n_rows,
            untested=self.warm_up,
            n_skipped=self.n_skipped + unlearned,
            support_rows=sizes[:, 0] if support else None,
            support_sizes=sizes[:, 1] if support else None,
            intervals=None if self.intervals is None else self.intervals.result(marks, last),
            drift=self.drift.result(),
        )
