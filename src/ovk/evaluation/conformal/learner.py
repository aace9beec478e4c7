"""An online learner whose predictions come with regions."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from ovk.base import Array, NamedOutputs, Parameters, State, Times, Transactional, reads_snapshot, unnamed
from ovk.evaluation.conformal.base import Conformal
from ovk.evaluation.conformal.methods import ACI
from ovk.evaluation.late import LabelQueue, RowByRow
from ovk.evaluation.learners import learn_rows
from ovk.evaluation.running import RunningSum
from ovk.evaluation.task import REGRESSION
from ovk.intervals import Regions, concatenate
from ovk.online import add_features


class WithIntervals(Transactional, Parameters):
    """An online learner and a method for intervals, going through the stream together.

    For a model in service; to evaluate one, ``progressive(model, X, Y, intervals=...)`` does the same and counts. Where
    labels come late, ``DelayedLabels(WithIntervals(model))`` scores the regions that were given.

    Parameters
    ----------
    learner : online learner of ovk, or estimator with `partial_fit` and `predict`
        A copy of it learns, and goes on from what it knows.
    intervals : ACI, ConformalPID, StronglyAdaptive, or the coverage, which means ``ACI(coverage)``; for outputs that
        are bounded, ``ACI(0.9, bounds=(0, None))``

    Attributes
    ----------
    learner_, intervals_ : what they have become

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import AutoStream, WithIntervals
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(500, 1))
    >>> model = WithIntervals(AutoStream(), 0.9).partial_fit(X, X[:, 0] + 0.1 * rng.standard_normal(500))
    >>> regions = model.predict_regions(np.array([[0.5]]))
    >>> bool(regions.lower[0, 0] < 0.5 < regions.upper[0, 0])
    True
    """

    learner_: Any
    intervals_: Conformal

    def __init__(self, learner: Any, intervals: Any = 0.9) -> None:
        self.learner = learner
        self.intervals = intervals

    def predict_then_learn(self, X: Any, y: Any, sample_weight: Any = None) -> Array:
        """Predictions of the rows, in the shape of y, each made from the rows before it."""
        predictions = self.regions_then_learn(X, y, sample_weight).predictions
        return predictions.reshape(np.shape(y)) if isinstance(predictions, np.ndarray) else predictions

    def regions_then_learn(self, X: Any, y: Any, sample_weight: Any = None) -> Regions:
        """The region of each row, made before its output is looked at; then learn the rows.

        `sample_weight` (n,) multiplies the losses, for a learner that takes weights; regions count rows alike.
        """
        with self._transaction() as work:
            F, Y = work._learn_rows(X, y, sample_weight)
            return _named(work.intervals_.regions_then_learn(F, Y), work.learner_, X)

    def learn_late(
        self,
        X: Any,
        y: Any,
        regions: Regions | None,
        scored: Any,
        later: Any = 0,
        sample_weight: Any = None,
        last_label: Any = None,
    ) -> None:
        """Learn rows whose outputs came after other rows had been predicted.

        Parameters
        ----------
        X, y, sample_weight : the rows, learned in this order
        regions : those of the `scored` rows, as they were given when these were predicted
        scored : which of the rows had a region, in the order of the regions
        later : how many rows were predicted after each of these, before its output came
        last_label : as in `AutoStream.partial_fit_late`, for learners that use the last label as an input
        """
        with self._transaction() as work:
            if last_label is None:
                _, Y = work._learn_rows(X, y, sample_weight)
            else:
                Y = np.asarray(unnamed(y), dtype=np.float64)
                options = {} if sample_weight is None else {"sample_weight": sample_weight}
                learn_rows(work.learner_, X, y, last_label, **options)
            if regions is not None and len(regions):
                work.intervals_.learn(regions, Y[scored], later)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Go on learning."""
        self.regions_then_learn(X, y, sample_weight)
        return self

    @reads_snapshot
    def predict(self, X: Any) -> Any:
        """Predictions, without learning; drawn in to the bounds of the intervals, if these have some."""
        self._begin()
        try:
            F = self.learner_.predict(X)
        except NotFittedError:
            raise NotFittedError(
                "WithIntervals has not learned anything yet: call predict_then_learn or partial_fit first"
            ) from None
        if self.intervals_.bounds is None:
            return F
        plain = np.asarray(unnamed(F), dtype=np.float64)
        drawn = self.intervals_.within_bounds(plain.reshape(len(plain), -1)).reshape(plain.shape)
        return self.learner_._named(drawn, X) if isinstance(self.learner_, NamedOutputs) else drawn

    @reads_snapshot
    def predict_regions(self, X: Any) -> Regions:
        """A region around each prediction as things are now, without learning."""
        F = np.asarray(self.predict(X), dtype=np.float64)
        self._begin()
        return _named(self.intervals_.regions(F), self.learner_, X)

    def _begin(self) -> None:
        if not hasattr(self, "learner_"):
            self.learner_, self.intervals_ = copy.deepcopy(self.learner), clone(as_intervals(self.intervals))

    def _learn_rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[Array, Array]:
        """Predictions and outputs of the rows, which the learner learns."""
        self._begin()
        Y = np.asarray(unnamed(y), dtype=np.float64)
        # Learners of ovk take frames and learn their names; others are given arrays.
        y = y if isinstance(self.learner_, NamedOutputs) else Y
        options = {} if sample_weight is None else {"sample_weight": sample_weight}
        if REGRESSION.learns_blocks(self.learner_):
            return np.asarray(self.learner_.predict_then_learn(X, y, **options), dtype=np.float64), Y
        F = RowByRow(REGRESSION, self.learner_).predict_then_learn(X, Y, Y[:1].size, weights=sample_weight)
        return F.reshape(Y.shape), Y


@add_features.register
def _(model: WithIntervals, count: int) -> None:
    with model._transaction() as work:
        add_features(work.learner_, count)


def _named(regions: Regions, learner: Any, X: Any) -> Regions:
    """The regions with the names of the outputs that the learner knows."""
    return regions.named(lambda ends: learner._named(ends, X)) if isinstance(learner, NamedOutputs) else regions


def as_intervals(intervals: Any) -> Conformal:
    """The method itself, or ACI with that coverage."""
    if isinstance(intervals, Conformal):
        return intervals
    if isinstance(intervals, float) and 0 < intervals < 1:
        return ACI(intervals)
    raise ValueError(
        f"intervals must be a method of ovk.evaluation (ACI, ConformalPID, StronglyAdaptive) or a coverage between 0 "
        f"and 1, got {intervals!r}"
    )


# What regions did over a stream.


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
        return _ratio(self.covered, self.tested)

    @property
    def width(self) -> Array:
        """(d,) mean width of the intervals that were finite."""
        return _ratio(self.widths, self.bounded)

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
        return replace(
            self, rows=marks, tested=sums[0], covered=sums[1], bounded=sums[2], widths=sums[3], regions=regions
        )


def _ratio(sums: Array, counts: Array) -> Array:
    if len(sums) == 0:
        return np.full(sums.shape[1], np.nan)
    result: Array = np.divide(sums[-1], counts[-1], out=np.full(sums.shape[1], np.nan), where=counts[-1] > 0)
    return result


def interval_counts(regions: Regions, Y: Array) -> tuple[Array, Array, Array, Array]:
    """What is counted of regions of outputs Y (n, d): tested and covered (n, k), bounded and their widths (n, d)."""
    width = unnamed(regions.width)
    seen, finite = ~np.isnan(regions.covered), np.isfinite(width)
    # Only rows whose outputs were observed count, here as there.
    finite &= np.isfinite(Y).any(axis=1, keepdims=True) if regions.covered.shape[1] == 1 else np.isfinite(Y)
    return seen, np.where(seen, regions.covered, 0.0), finite, np.where(finite, width, 0.0)


@dataclass
class IntervalRecord(State):
    """Regions on their way through a stream, with sums noted at checkpoints.

    Attributes
    ----------
    method : what makes the regions
    sums : counts of regions of observed outputs, of those that held them, of finite intervals, and their widths
    keep : whether to keep every region; they are not saved
    queue : regions and outputs of the rows whose labels have not come yet, None where they come at once
    """

    method: Conformal
    sums: list[RunningSum]
    keep: bool = False
    queue: LabelQueue[tuple[Regions, Array]] | None = field(default=None, init=False)
    _kept: list[Regions] = field(default_factory=list, init=False)

    _state_classes = {"sums": RunningSum}

    @classmethod
    def start(cls, method: Conformal, d: int, *, keep: bool, waiting: int | Times = 0) -> IntervalRecord:
        """A record of no rows yet, for d outputs, whose labels come late as in `LabelQueue`."""
        k = d if method.region == "each" else 1
        record = cls(method, [RunningSum.empty(width) for width in (k, k, d, d)], keep)
        record.queue = None if isinstance(waiting, int) and waiting == 0 else LabelQueue(waiting)
        return record

    def update(self, F: Array, Y: Array, marks: Times) -> None:
        """Make regions for the rows, count how often they hold the outputs, and learn from them.

        Rows without a prediction have none.
        """
        regions = self.method.regions_then_learn(F, Y) if self.queue is None else self._regions_late(self.queue, F, Y)
        for total, count in zip(self.sums, interval_counts(regions, Y), strict=True):
            total.add(count.astype(np.float64), marks)
        if self.keep:
            self._kept.append(regions)

    def _regions_late(self, queue: LabelQueue[tuple[Regions, Array]], F: Array, Y: Array) -> Regions:
        """The region of each row, from the outputs that have come by then."""
        made = []
        for t in range(len(F)):
            row = slice(t, t + 1)
            come = queue.come()
            for i, (regions, y) in enumerate(come, 1):
                self.method.learn(regions, y, len(come) - i + len(queue))
            made.append(self.method.regions(F[row]))
            queue.add((made[-1], Y[row]))
        return self.method.with_outcomes(concatenate(made), Y)

    def result(self, rows: npt.NDArray[np.int64]) -> IntervalResult:
        """What was found at the checkpoints `rows`, the last of which is the present row."""
        sums = [np.vstack([total.points, total.total])[: len(rows)] for total in self.sums]
        tested, covered, bounded, widths = sums
        name, target = type(self.method).__name__, float(self.method.coverage)
        regions = concatenate(self._kept) if self._kept else None
        return IntervalResult(name, target, self.method.region, rows, tested, covered, bounded, widths, regions)
