"""What regions did over a stream."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ovk._named_outputs import unnamed
from ovk._state import State
from ovk._types import Array, Times
from ovk.evaluation.conformal.base import Conformal
from ovk.evaluation.late import LabelQueue
from ovk.evaluation.running import RunningSum
from ovk.intervals.regions import Regions, concatenate


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

    def result(self, rows: npt.NDArray[np.int64], last: bool = False) -> IntervalResult:
        """What was found at the checkpoints `rows`; `last`: the present row is one more."""
        tested, covered, bounded, widths = (total.curve(last) for total in self.sums)
        name, target = type(self.method).__name__, float(self.method.coverage)
        regions = concatenate(self._kept) if self._kept else None
        return IntervalResult(name, target, self.method.region, rows, tested, covered, bounded, widths, regions)
