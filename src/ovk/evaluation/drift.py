"""What a drift changes, noted along a stream: losses of late, alarms, and for learners of experts what these do."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from ovk.base import Array, Mask, Parameters, State, Times, positive
from ovk.evaluation.running import RunningMoments
from ovk.online import AutoStream, AutoStreamClassifier

#: Most points of a trace: when there are as many, every other one goes, and the next ones are twice as far apart.
POINTS = 240

#: Rows between two points at first.
STEP = 64

#: An effective window that falls to less than such a part of the largest before is the sign of a change; and points of
#: the trace in which it goes on falling.
SHRUNK, SETTLED = 5.0, 5

#: Rows before errors are set against the variance of the outputs.
MIN_ROWS = 10


class PageHinkley(Parameters):
    """The test of Page and Hinkley for a rise of the mean of losses.

    With x_t the loss less the mean of all so far, in units of their standard deviation,

        m_t = m_(t-1) + x_t - tolerance,    alarm where  m_t - min_{s <= t} m_s > threshold,

    and then everything starts anew. A row counts for no more than `largest` deviations, so that no single one is an
    alarm.

    Parameters
    ----------
    threshold : float > 0
        A larger one is slower and has fewer false alarms: on normal losses without a change about one in 100,000 rows
        with 50.
    tolerance : float >= 0, rise of the mean that does not matter, in standard deviations
    burn_in : rows before the first alarm
    largest : float > 0

    Attributes
    ----------
    alarms_ : rows at which there was an alarm, counted from 0
    n_rows_ : losses seen

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import PageHinkley
    >>> rng = np.random.default_rng(0)
    >>> losses = np.concatenate([rng.chisquare(1, 2000), 4 * rng.chisquare(1, 2000)])
    >>> test = PageHinkley().update(losses)
    >>> len(test.alarms_), bool(2000 < test.alarms_[0] < 2100)
    (1, True)
    """

    alarms_: list[int]
    n_rows_: int
    _count: int
    _mean: float
    _squares: float
    _sum: float
    _least: float
    _saved_state = ("_count", "_mean", "_squares", "_sum", "_least")

    def __init__(
        self, threshold: float = 50.0, tolerance: float = 0.25, burn_in: int = 100, largest: float = 5.0
    ) -> None:
        self.threshold = threshold
        self.tolerance = tolerance
        self.burn_in = burn_in
        self.largest = largest

    def update(self, losses: Any) -> PageHinkley:
        """Go on with further losses, (n,); those that are nan are left out."""
        threshold, tolerance = positive(self.threshold, "threshold"), positive(self.tolerance, "tolerance", zero=True)
        if "n_rows_" not in vars(self):
            self.alarms_, self.n_rows_ = [], 0
            self._restart()
        largest, burn_in = float(self.largest), self.burn_in
        count, mean, squares, total, least = self._count, self._mean, self._squares, self._sum, self._least
        # Python's own numbers: the test is a matter of a few operations a row.
        for loss in np.atleast_1d(np.asarray(losses, dtype=np.float64)).tolist():
            self.n_rows_ += 1
            if not isfinite(loss):
                continue
            deviation = (squares / count) ** 0.5 if count else 0.0
            x = min((loss - mean) / deviation, largest) if deviation > 0.0 else 0.0
            if count >= burn_in:
                total += x - tolerance
                least = min(least, total)
                loss = mean + x * deviation
            count += 1
            step = loss - mean
            mean += step / count
            squares += step * (loss - mean)
            if total - least > threshold:
                self.alarms_ = [*self.alarms_, self.n_rows_ - 1]
                count, mean, squares, total, least = 0, 0.0, 0.0, 0.0, 0.0
        self._count, self._mean, self._squares, self._sum, self._least = count, mean, squares, total, least
        return self

    def _restart(self) -> None:
        self._count, self._mean, self._squares, self._sum, self._least = 0, 0.0, 0.0, 0.0, 0.0


@dataclass
class ThinnedTrace(State):
    """Values noted at multiples of `step` rows; point i is that after (i + 1) step rows.

    >>> trace = ThinnedTrace(step=2)
    >>> for rows in range(1, 7):
    ...     trace.note(rows, np.array([10.0 * rows]))
    >>> trace.rows, trace.values.ravel()
    (array([2, 4, 6]), array([20., 40., 60.]))
    """

    step: int = STEP
    values: Array = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def rows(self) -> Times:
        """(points,) numbers of rows."""
        return self.step * np.arange(1, len(self.values) + 1, dtype=np.int64)

    def pieces(self, start: int, stop: int) -> Iterator[slice]:
        """Rows start to stop, cut where a point may be noted; counted from `start`."""
        edges = [start, *range(start - start % self.step + self.step, stop, self.step), stop]
        yield from (slice(low - start, high - start) for low, high in pairwise(edges))

    def note(self, rows: int, value: Array) -> None:
        """Note a value after so many rows, if there is a point."""
        if rows % self.step:
            return
        # Another learner, or further outputs: what was noted before had another meaning.
        old = (
            self.values
            if self.values.shape[1:] == value.shape
            else np.full((rows // self.step - 1, len(value)), np.nan)
        )
        self.values = np.vstack([old, value])
        if len(self.values) >= POINTS:
            self.values, self.step = self.values[1::2], 2 * self.step


class Shrinking(NamedTuple):
    """The effective window of an output fell, by that row for the first time, from `before` to `after` rows."""

    output: int
    row: int
    before: float
    after: float


@dataclass(frozen=True)
class DriftResult:
    """What a drift has changed, over the rows of a stream.

    Attributes
    ----------
    rows, losses : (k,) rows so far, and the mean loss since the point before. For classes it is the part of wrong
        labels, for numbers the squared error over the variance of the output before, mean of the outputs
    alarms : rows at which `PageHinkley` saw the losses rise
    expert_rows, windows, weights : (m,), (m, d) and (m, e) rows so far, the effective window of each output, and the
        mean over the outputs of the weight of each expert; empty for learners without experts
    experts : their names

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import AutoStream, progressive
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((900, 1))
    >>> y = np.where(np.arange(900) < 600, 1.0, -1.0) * X[:, 0] + 0.3 * rng.standard_normal(900)
    >>> drift = progressive(AutoStream(), X, y).drift
    >>> bool(drift.windows[-1, 0] < drift.windows[8, 0])
    True
    """

    rows: Times
    losses: Array
    alarms: tuple[int, ...]
    expert_rows: Times
    windows: Array
    weights: Array
    experts: tuple[str, ...]

    def shrunk(self, factor: float = SHRUNK) -> list[Shrinking]:
        """Outputs whose effective window fell to less than a `factor`-th of the largest so far, the deepest first.

        It is the sign of a change that a learner of experts sees itself: those that forget had become better. On
        streams without a change windows hardly shrink to less than half.
        """
        found = []
        for q, window in enumerate(self.windows.T):
            top = np.fmax.accumulate(window)
            fallen = np.flatnonzero(window * factor < top)
            if len(fallen):
                t = int(fallen[0])
                low = float(np.nanmin(window[t : t + SETTLED]))
                found.append(Shrinking(q, int(self.expert_rows[t]), float(top[t]), low))
        return sorted(found, key=lambda one: one.after / one.before)


@dataclass
class DriftRecord(State):
    """What is noted of a stream so far.

    Attributes
    ----------
    test : the test on the losses
    total, count : sum of the losses so far, and their number
    losses : these two, noted along the stream
    experts : windows and weights, noted along the stream
    names : names of the experts
    outputs : moments of the outputs so far, None for classes
    """

    test: PageHinkley = field(default_factory=PageHinkley)
    total: float = 0.0
    count: int = 0
    losses: ThinnedTrace = field(default_factory=ThinnedTrace)
    experts: ThinnedTrace = field(default_factory=ThinnedTrace)
    names: list[str] = field(default_factory=list)
    outputs: RunningMoments | None = None

    _state_classes = {"losses": ThinnedTrace, "experts": ThinnedTrace, "outputs": RunningMoments}

    def pieces(self, model: Any, start: int, stop: int) -> Iterator[slice]:
        """Rows in which a model is to learn: those of a learner of experts in pieces, to look at it in between."""
        return (
            self.experts.pieces(start, stop)
            if isinstance(model, (AutoStream, AutoStreamClassifier))
            else iter([slice(0, stop - start)])
        )

    def look(self, model: Any, rows: int) -> None:
        """Note what the experts of a model do after so many rows."""
        if (
            isinstance(model, (AutoStream, AutoStreamClassifier))
            and rows % self.experts.step == 0
            and "mixture_" in vars(model)
        ):
            weights = model.expert_weights_
            self.names = list(weights)
            shares = np.array([weight.mean() for weight in weights.values()])
            self.experts.note(rows, np.concatenate([shares, model.effective_window_]))

    def add(self, start: int, losses: Array) -> None:
        """Add the losses (n,) of the rows after `start`, nan where a row was not tested."""
        # Forks of an evaluator share the test of before.
        self.test = copy(self.test).update(losses)
        known = np.isfinite(losses)
        totals = self.total + np.cumsum(np.where(known, losses, 0.0))
        counts = self.count + np.cumsum(known)
        step = self.losses.step
        for row in range(start - start % step + step, start + len(losses) + 1, step):
            i = row - start - 1
            self.losses.note(row, np.array([totals[i], counts[i]]))
        self.total, self.count = float(totals[-1]), int(counts[-1])

    def add_errors(self, start: int, errors: Array, counted: Mask, Y: Array | None) -> None:
        """Add errors (n, k), where they count; those of outputs Y (n, k) over their variance in the rows before.

        Unlike the errors before, this has no trend while a learner gets better.
        """
        if Y is not None:
            if self.outputs is None:
                self.outputs = RunningMoments(Y.shape[1])
            _, sd = self.outputs.before_then_add(Y)
            with np.errstate(over="ignore", invalid="ignore"):
                errors = errors / sd**2
            counted = counted & (start + np.arange(len(Y)) >= MIN_ROWS)[:, None]
        errors = np.where(counted, errors, np.nan)
        known = np.isfinite(errors)
        number = np.where(known.any(axis=1), known.sum(axis=1), np.nan)
        self.add(start, np.where(known, errors, 0.0).sum(axis=1) / number)

    def result(self) -> DriftResult:
        """What was noted so far."""
        sums = np.vstack([np.zeros(2), self.losses.values.reshape(-1, 2)])
        total, count = np.diff(sums, axis=0).T
        e = len(self.names)
        values = self.experts.values if e else np.empty((0, 0))
        return DriftResult(
            rows=self.losses.rows,
            losses=np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0),
            alarms=tuple(self.test.alarms_) if "alarms_" in vars(self.test) else (),
            expert_rows=self.experts.rows,
            windows=values[:, e:],
            weights=values[:, :e],
            experts=tuple(self.names),
        )
