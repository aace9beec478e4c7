"""A model and its baselines on their way through a stream, one chunk after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ovk._params import Registered
from ovk._validation import Array
from ovk.evaluation.baselines import Baseline
from ovk.evaluation.conformal import Conformal
from ovk.evaluation.conformal.result import IntervalRecord
from ovk.evaluation.curves import Entrant, Tally, checkpoints
from ovk.evaluation.learners import RowByRow, as_learner
from ovk.evaluation.result import ProgressiveResult
from ovk.evaluation.scaling import Scaling
from ovk.streams import Chunk


@runtime_checkable
class _WithSupport(Protocol):
    support_: Any


@dataclass
class Race(Registered):
    """What `progressive` keeps of a stream so far. It can be saved and goes on where it was, unless rows are kept.

    Attributes
    ----------
    entrant : the model with its errors
    beside : the baselines with theirs
    scaling : how rows are scaled before the model sees them
    features, outputs : names
    single : whether outputs come as (n,)
    keep : what to keep of each row, as in `progressive`
    intervals : regions around the predictions, None without
    n_rows, warm_up, n_skipped, counts, rows, support : as in `ProgressiveResult`

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK
    >>> from ovk.evaluation import LastValue, Race
    >>> from ovk.evaluation.scaling import Standardised
    >>> from ovk.streams import chunks
    >>> X = np.linspace(0, 9, 300)[:, None]
    >>> race = None
    >>> for chunk in chunks(X, np.sin(5 * X), chunk_size=100):
    ...     if race is None:
    ...         race = Race.of(OLOK(), [LastValue()], Standardised(running=True), chunk)
    ...     _ = race.take(chunk, tested=race.n_rows > 0)
    >>> race.result().n_rows, race.warm_up
    (300, 100)
    """

    entrant: Entrant
    beside: list[Entrant]
    scaling: Scaling
    features: tuple[str, ...]
    outputs: tuple[str, ...]
    counts: Tally
    single: bool = False
    keep: str = "none"
    n_rows: int = 0
    warm_up: int = 0
    n_skipped: int = 0
    rows: list[int] = field(default_factory=list)
    support: list[tuple[int, int]] = field(default_factory=list)
    intervals: IntervalRecord | None = None
    _kept: list[tuple[Array, ...]] = field(default_factory=list, init=False)

    @classmethod
    def of(
        cls,
        model: Any,
        baselines: Sequence[Baseline],
        scaling: Scaling,
        first: Chunk,
        keep: str = "none",
        intervals: Conformal | None = None,
    ) -> Race:
        """At the start of a stream whose first chunk is `first`."""
        d = len(first.targets)
        entrant = Entrant.of(type(model).__name__, as_learner(model), d)
        beside = [Entrant.of(baseline.name, baseline, d) for baseline in baselines]
        single = first.Y.ndim == 1
        race = cls(entrant, beside, scaling, first.features, first.targets, Tally.empty(d), single, keep)
        if intervals is not None:
            race.intervals = IntervalRecord.of(intervals, d, keep=keep != "none")
        return race

    @property
    def model(self) -> Any:
        """The model that learns."""
        learner = self.entrant.learner
        return learner.model if isinstance(learner, RowByRow) else learner

    def take(self, chunk: Chunk, *, tested: bool) -> Array:
        """Let everyone predict and learn the rows, and note the errors; the model's predictions (n, d)."""
        n, start = len(chunk.X), self.n_rows
        if n == 0:
            return np.empty((0, len(self.outputs)))
        Y = chunk.Y.reshape(n, -1)
        try:
            F = self._predict_then_learn(chunk, Y, tested)
        except Exception as error:
            error.add_note(f"This happened in rows {start} to {start + n - 1} of the stream, counted from 0.")
            raise
        # A prediction that is nan although its row was fine is an error of the model, and must show in its mean.
        invalid = np.asarray(~np.isfinite(chunk.X).all(axis=1) | np.isinf(Y).any(axis=1))
        skipped = invalid & np.isnan(F).any(axis=1)
        counted = np.isfinite(Y) & ~skipped[:, None] & tested
        marks = checkpoints(start, start + n) if tested else checkpoints(0, 0)
        self.entrant.record(F, Y, counted, marks - start)
        for entrant in self.beside:
            entrant.record(entrant.predict_then_learn(chunk.X, Y), Y, counted, marks - start)
        self.counts.add(counted.astype(np.float64), marks - start)
        if self.intervals is not None:
            # An invalid row's prediction is nan, and so is its region.
            if tested:
                self.intervals.take(F, np.where(counted, Y, np.nan), marks - start)
            else:
                self.intervals.skip(F)
        self.rows += marks.tolist()
        self.n_rows += n
        self.n_skipped += int(skipped.sum())
        self.warm_up += 0 if tested else n
        if len(marks) or not tested:
            self.support += self._support_now()
        if self.keep != "none":
            shown = np.where(tested, F, np.nan).reshape(chunk.Y.shape)
            self._kept.append((shown, chunk.X, chunk.Y) if self.keep == "all" else (shown,))
        return F

    def _predict_then_learn(self, chunk: Chunk, Y: Array, tested: bool) -> Array:
        """(n, d) predictions of the model, in the original units."""
        scaled = self.scaling.scale(chunk.X, Y) if tested else self.scaling.begin(chunk.X, Y)
        return scaled.restore(self.entrant.predict_then_learn(scaled.X, scaled.Y.reshape(chunk.Y.shape)))

    def _support_now(self) -> list[tuple[int, int]]:
        model = self.model
        return [(self.n_rows, len(model.support_))] if isinstance(model, _WithSupport) else []

    def result(self) -> ProgressiveResult:
        """What was found so far."""
        if 0 < self.n_rows == self.warm_up:
            raise ValueError(
                f"the stream ended after {self.n_rows} rows, within the warm-up, so nothing was tested: lower warm_up"
            )
        # The last row always is a checkpoint.
        last = self.n_rows > 0 and self.n_rows not in self.rows
        counts = self.counts.curve(last)
        rows, support = list(self.rows), list(self.support)
        if last:
            rows.append(self.n_rows)
            support += self._support_now()
        learner = self.entrant.learner
        unlearned = learner.n_skipped if isinstance(learner, RowByRow) else 0
        kept: list[Array | None] = [np.concatenate(parts) for parts in zip(*self._kept, strict=True)]
        if self.keep != "none" and not kept:
            p, shape = len(self.features), (0,) if self.single else (0, len(self.outputs))
            kept = [np.empty(shape), np.empty((0, p)), np.empty(shape)]
        predictions, inputs, targets = [*kept, None, None, None][:3]
        marks = np.array(rows, dtype=np.int64)
        sizes = np.array(support, dtype=np.int64).reshape(-1, 2)
        return ProgressiveResult(
            model=self.entrant.errors(counts, last),
            baselines=tuple(entrant.errors(counts, last) for entrant in self.beside),
            rows=marks,
            counts=counts,
            predictions=predictions,
            inputs=inputs,
            targets=targets,
            features=self.features,
            outputs=self.outputs,
            n_rows=self.n_rows,
            warm_up=self.warm_up,
            n_skipped=self.n_skipped + unlearned,
            support_rows=sizes[:, 0] if support else None,
            support_sizes=sizes[:, 1] if support else None,
            intervals=None if self.intervals is None else self.intervals.result(marks, last),
        )
