"""Progressive evaluation: test, then train."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ovk._progress import ProgressBar
from ovk._validation import Array, whole
from ovk.evaluation.baselines import Baseline, as_baseline
from ovk.evaluation.conformal import Conformal, IntervalRecord, as_intervals
from ovk.evaluation.curves import Entrant, Tally, checkpoints
from ovk.evaluation.learners import OnlineLearner, RowByRow, as_learner
from ovk.evaluation.result import ProgressiveResult
from ovk.evaluation.scaling import Scaling, as_scaling
from ovk.streams import Chunk, chunks

#: Rows of the warm-up when there is scaling and nobody said how many.
WARM_UP = 100


def progressive(
    model: Any,
    X: Any,
    Y: Any = None,
    *,
    targets: Any = None,
    features: Any = None,
    scale: str | None = None,
    warm_up: int | None = None,
    baselines: Sequence[Any] = ("last", "mean"),
    intervals: Any = None,
    chunk_size: int = 1024,
    keep: str = "predictions",
    progress: bool = True,
) -> ProgressiveResult:
    """Predict every row of a stream before learning from it, and measure how well.

    The model is learned in place, going on from what it knew before. An online learner of ovk does this in exact
    blocks: the size of the chunks makes no difference but to speed. Any other estimator with `partial_fit` and
    `predict` is given one row at a time.

    Parameters
    ----------
    model : online learner of ovk, or estimator with `partial_fit` and `predict`
    X, Y, targets, features, chunk_size : the rows, in any form that `ovk.streams.chunks` takes: arrays, data frames,
        an iterable of chunks, or the path of a CSV, Parquet or JSON lines file larger than memory
    scale : None, "warm-up" or "running"
        Standardise inputs and outputs before the model sees them, by the mean and the standard deviation of the
        warm-up, or of all rows before each one. Nothing looks ahead; predictions and errors are in the original units.
    warm_up : int; default 100 with `scale`, else 0
        The first rows, which the model learns in one go and on which it is not tested; they are scaled by their own
        moments. A model that learns something from its first rows (``length_scale="median"``) needs them to.
    baselines : names or baselines of `ovk.evaluation`
        "last" (value), (running) "mean", "ridge" (batch ridge on the last 2000 rows, refitted after 8, 16, 32, ...
        rows), or for instance ``RefittedRidge(OVKRidge(kernel), max_rows=500)``. They see the rows unscaled.
    intervals : method of `ovk.evaluation` such as ``ACI(0.9)``, or a coverage such as 0.9 for that one
        Put a region around every prediction, from the errors of the rows before it, and count how often it holds the
        output; the method learns in place, in the units of the outputs. Rows of a warm-up have none.
    keep : "predictions", "all" or "none"
        What to keep of each row: its predictions, its inputs and outputs as well (for `regret`), or nothing, so that
        memory does not grow with the stream.
    progress : bool
        Show a progress bar when it takes more than a second and somebody is looking.

    Returns
    -------
    `ProgressiveResult`; print its ``summary()``, or plot it with `ovk.plotting.ProgressiveErrorDisplay` and
    `ovk.plotting.IntervalDisplay`

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
    100 rows before them learned as a warm-up
    1,000 support points
    <BLANKLINE>
    mean squared error        OLOK  last value  running mean
    -------------------  ---------  ----------  ------------
    y0                       5.252       208.1         105.2
    y1                      0.3911       3.739         1.903
    all outputs              2.822       105.9         53.57
    <BLANKLINE>
    mean absolute error       OLOK  last value  running mean
    -------------------  ---------  ----------  ------------
    y0                        1.35       11.47         8.239
    y1                      0.4388       1.396         1.087
    all outputs             0.8944       6.432         4.663
    """
    if keep not in ("predictions", "all", "none"):
        raise ValueError(f"keep must be 'predictions', 'all' or 'none', got {keep!r}")
    scaling = as_scaling(scale)
    if warm_up is None:
        warm_up = 0 if scale is None else WARM_UP
    warm_up = whole(warm_up, "warm_up", least=2 if scale == "warm-up" else 0)
    if isinstance(baselines, str):
        baselines = [baselines]
    beside = [as_baseline(baseline) for baseline in baselines]
    learner = as_learner(model)
    method = None if intervals is None else as_intervals(intervals)
    stream = chunks(X, Y, targets=targets, features=features, chunk_size=chunk_size)
    race = None
    with ProgressBar("learning", stream.n_rows) if progress else nullcontext() as bar:
        for chunk, tested in _after_warm_up(iter(stream), warm_up):
            if race is None:
                race = _Race(model, learner, beside, scaling, method, chunk, keep)
            race.take(chunk, tested=tested)
            if bar is not None:
                bar.update(len(chunk.X))
    if race is None:
        raise ValueError("the iterable of chunks is empty: there is nothing to learn from, and no telling its columns")
    return race.result()


def _after_warm_up(stream: Iterator[Chunk], warm_up: int) -> Iterator[tuple[Chunk, bool]]:
    """The first rows in one chunk that is not tested, then the others as they come."""
    head: list[Chunk] = []
    while sum(len(chunk.X) for chunk in head) < warm_up and (chunk := next(stream, None)) is not None:
        head.append(chunk)
    if head:
        X, Y = np.concatenate([chunk.X for chunk in head]), np.concatenate([chunk.Y for chunk in head])
        yield head[0]._replace(X=X[:warm_up], Y=Y[:warm_up]), False
        yield head[0]._replace(X=X[warm_up:], Y=Y[warm_up:]), True
    for chunk in stream:
        yield chunk, True


@runtime_checkable
class _WithSupport(Protocol):
    support_: Any


class _Race:
    """The model and its baselines on their way through the stream."""

    def __init__(
        self,
        model: Any,
        learner: OnlineLearner,
        baselines: list[Baseline],
        scaling: Scaling,
        intervals: Conformal | None,
        first: Chunk,
        keep: str,
    ) -> None:
        d = len(first.targets)
        self.model = model
        self.entrant = Entrant(type(model).__name__, learner, d)
        self.beside = [Entrant(baseline.name, baseline, d) for baseline in baselines]
        self.scaling = scaling
        self.first = first
        self.keep = keep
        self.n_rows = self.warm_up = self.n_skipped = 0
        self.counts = Tally(d)
        self.rows: list[int] = []
        self.support: list[tuple[int, int]] = []
        self.kept: list[tuple[Array, ...]] = []
        self.intervals = None if intervals is None else IntervalRecord(intervals, d, keep=keep != "none")

    def take(self, chunk: Chunk, *, tested: bool) -> None:
        """Let everyone predict and learn the rows, and note the errors."""
        n, start = len(chunk.X), self.n_rows
        if n == 0:
            return
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
            self._note_support()
        if self.keep != "none":
            shown = np.where(tested, F, np.nan).reshape(chunk.Y.shape)
            self.kept.append((shown, chunk.X, chunk.Y) if self.keep == "all" else (shown,))

    def _predict_then_learn(self, chunk: Chunk, Y: Array, tested: bool) -> Array:
        """(n, d) predictions of the model, in the original units."""
        scaled = self.scaling.scale(chunk.X, Y) if tested else self.scaling.begin(chunk.X, Y)
        return scaled.restore(self.entrant.predict_then_learn(scaled.X, scaled.Y.reshape(chunk.Y.shape)))

    def _note_support(self) -> None:
        if isinstance(self.model, _WithSupport):
            self.support.append((self.n_rows, len(self.model.support_)))

    def result(self) -> ProgressiveResult:
        """What was found."""
        if 0 < self.n_rows == self.warm_up:
            raise ValueError(
                f"the stream ended after {self.n_rows} rows, within the warm-up, so nothing was tested: lower warm_up"
            )
        if self.n_rows > 0 and self.n_rows not in self.rows:
            # The last row always is a checkpoint.
            nothing, mark = np.empty((0, len(self.first.targets))), np.zeros(1, dtype=np.int64)
            for entrant in (self.entrant, *self.beside):
                entrant.record(nothing, nothing, nothing.astype(bool), mark)
            self.counts.add(nothing, mark)
            if self.intervals is not None:
                self.intervals.end()
            self.rows.append(self.n_rows)
            self._note_support()
        counts, rows = self.counts.curve(), np.array(self.rows, dtype=np.int64)
        learner = self.entrant.learner
        unlearned = learner.n_skipped if isinstance(learner, RowByRow) else 0
        kept: list[Array | None] = [np.concatenate(parts) for parts in zip(*self.kept, strict=True)]
        if self.keep != "none" and not kept:
            kept = [self.first.Y, self.first.X, self.first.Y]
        predictions, inputs, targets = [*kept, None, None, None][:3]
        support = np.array(self.support, dtype=np.int64).reshape(-1, 2)
        return ProgressiveResult(
            model=self.entrant.errors(counts),
            baselines=tuple(entrant.errors(counts) for entrant in self.beside),
            rows=rows,
            counts=counts,
            predictions=predictions,
            inputs=inputs,
            targets=targets,
            features=self.first.features,
            outputs=self.first.targets,
            n_rows=self.n_rows,
            warm_up=self.warm_up,
            n_skipped=self.n_skipped + unlearned,
            support_rows=support[:, 0] if self.support else None,
            support_sizes=support[:, 1] if self.support else None,
            intervals=None if self.intervals is None else self.intervals.result(rows),
        )
