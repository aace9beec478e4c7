"""Statistics that run along a stream: moments before every row, scaling by them, and signs of drift.

A row is scaled by the mean and the standard deviation of rows before it, never of its own or of later ones. Within a
chunk the moments before every row come from cumulative sums about the mean m at the chunk's start: with N rows so far,
s = sum (a - m) and q = sum (a - m)^2 over the chunk's rows so far,

    mean = m + s / N,     N variance = M + q - s^2 / N        (M: N variance at the chunk's start)

which equals updating row by row (Welford), without cancellation: the old rows have no first moment about m.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from ovk.base import Array, Mask, Parameters, State, Times, equal, positive
from ovk.online import AutoStream, AutoStreamClassifier

#: A standard deviation below this part of the mean is rounding: the column is taken as constant, and only centred.
CONSTANT = 1e-12

#: How many deviations from the mean a robustly scaled value may be. Far enough for a column that did not vary in the
#: warm-up; near enough that the square of an absurd value does not overflow.
FARTHEST = 1e6


@dataclass
class RunningMoments(State):
    """Mean and standard deviation of each column, over all finite values so far."""

    _saved_state = ("count", "mean", "squares")

    width: int

    def __post_init__(self) -> None:
        self.count = np.zeros(self.width)
        self.mean = np.zeros(self.width)
        self.squares = np.zeros(self.width)

    @property
    def sd(self) -> Array:
        """(width,) standard deviations; 1 for columns that never varied."""
        return _deviation(self.count, self.mean, self.squares)

    @property
    def constant(self) -> Mask:
        """(width,) columns that were seen and never varied."""
        seen = self.count > 0
        return seen & (np.sqrt(self.squares / np.maximum(self.count, 1.0)) <= CONSTANT * np.abs(self.mean))

    def before_then_add(self, A: Array) -> tuple[Array, Array]:
        """Mean and deviation of all rows before each row of A, both of its shape; then add the rows.

        Before anything was seen they are 0 and 1.
        """
        seen = np.isfinite(A)
        centre = self._centre(A, seen)
        # Values of 1e300 square to infinity: their columns are only centred.
        with np.errstate(over="ignore", invalid="ignore"):
            D = np.where(seen, A - centre, 0.0)
            count = self.count + _before(seen.astype(np.float64))
            mean, squares = self._about(centre, count, _before(D), _before(D * D))
        self.count, self.mean, self.squares = count[-1], mean[-1], squares[-1]
        return mean[:-1], _deviation(count[:-1], mean[:-1], squares[:-1])

    def add(self, A: Array) -> None:
        """Add the rows, where nobody asks for the moments before each of them."""
        seen = np.isfinite(A)
        centre = self._centre(A, seen)
        with np.errstate(over="ignore", invalid="ignore"):
            D = np.where(seen, A - centre, 0.0)
            self.count = self.count + seen.sum(axis=0)
            squares = np.einsum("ij,ij->j", D, D)
            self.mean, self.squares = self._about(centre, self.count, D.sum(axis=0), squares)

    def merge(self, other: RunningMoments) -> None:
        """Add the moments of other rows: with N = n + n' and means D apart, N variance = M + M' + D^2 n n' / N."""
        if self.width != other.width:
            raise ValueError(f"moments to be merged must be of as many columns, got {self.width} and {other.width}")
        count = self.count + other.count
        part = other.count / np.maximum(count, 1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            apart = other.mean - self.mean
            squares = self.squares + other.squares + apart * apart * (self.count * part)
            # A side that has seen nothing has a mean of 0, which says nothing.
            self.mean = np.where(self.count == 0, other.mean, self.mean + apart * part)
            self.squares = np.where(self.count == 0, other.squares, squares)
        self.count = count

    def _about(self, centre: Array, count: Array, s: Array, q: Array) -> tuple[Array, Array]:
        """Mean and N variance of `count` values, from the sums s and q of the new ones about the centre."""
        N = np.maximum(count, 1.0)
        return np.where(count > 0, centre + s / N, 0.0), np.maximum(self.squares + q - s * s / N, 0.0)

    def _centre(self, A: Array, seen: Mask) -> Array:
        """(width,) what to measure from: the mean so far, or else the first value, which no row before it will use."""
        if not len(A) or (self.count > 0).all():
            return self.mean
        first = np.take_along_axis(A, seen.argmax(axis=0)[None, :], axis=0)[0]
        return np.where(self.count > 0, self.mean, np.where(np.isfinite(first), first, 0.0))


def _before(A: Array) -> Array:
    """(n + 1, k) sums of the rows before each, and of all of them."""
    sums = np.zeros((len(A) + 1, A.shape[1]))
    np.cumsum(A, axis=0, out=sums[1:])
    return sums


def _deviation(count: Array, mean: Array, squares: Array) -> Array:
    sd = np.sqrt(squares / np.maximum(count, 1.0))
    return np.where(np.isfinite(sd) & (sd > CONSTANT * np.abs(mean)), sd, 1.0)


class ScaledRows(NamedTuple):
    """Scaled rows X (n, p) and Y (n, d), with the offset and spread of their outputs."""

    X: Array
    Y: Array
    offset: Array | float
    spread: Array | float

    def restore(self, F: Array) -> Array:
        """Predictions in the original units."""
        return self.offset + self.spread * F


class Scaling(State, kind="unscaled"):
    """How rows are scaled before a learner sees them; this one leaves them as they are."""

    def scale_warm_up(self, X: Array, Y: Array) -> ScaledRows:
        """Scale the rows of the warm-up, by all of them."""
        return ScaledRows(X, Y, 0.0, 1.0)

    def scale(self, X: Array, Y: Array) -> ScaledRows:
        """Scale the next rows, each by earlier rows only."""
        return ScaledRows(X, Y, 0.0, 1.0)

    def merge(self, other: Scaling) -> None:
        """Go on as if the rows of the other had been scaled here."""
        if type(other) is not Scaling:
            raise ValueError("scalings to be merged must be of one kind: one of them leaves rows as they are")


@dataclass
class Standardised(Scaling, kind="standardised"):
    """Inputs and outputs less their mean, over their deviation: that of the warm-up, or `running`, of all rows so far.

    `robust`: a missing input becomes the mean, and what is farther than `FARTHEST` deviations is clipped to there.
    """

    running: bool
    robust: bool = False
    moments: RunningMoments | None = field(default=None, kw_only=True)

    _state_classes = {"moments": RunningMoments}

    def scale_warm_up(self, X: Array, Y: Array) -> ScaledRows:
        A = np.hstack([X, Y])
        self.moments = RunningMoments(A.shape[1])
        self.moments.before_then_add(A)
        return self._scaled(A, self.moments.mean, self.moments.sd, X.shape[1])

    def scale(self, X: Array, Y: Array) -> ScaledRows:
        A = np.hstack([X, Y])
        if self.moments is None:
            self.moments = RunningMoments(A.shape[1])
        mean, sd = self.moments.before_then_add(A) if self.running else (self.moments.mean, self.moments.sd)
        return self._scaled(A, mean, sd, X.shape[1])

    def scale_inputs(self, X: Array) -> ScaledRows:
        """Scale rows whose outputs are not known, by all rows so far; nothing is learned from them."""
        if self.moments is None:
            raise ValueError("nothing was scaled yet: there are no moments to scale by")
        A = np.hstack([X, np.full((len(X), self.moments.width - X.shape[1]), np.nan)])
        return self._scaled(A, self.moments.mean, self.moments.sd, X.shape[1])

    def merge(self, other: Scaling) -> None:
        if not isinstance(other, Standardised) or (self.running, self.robust) != (other.running, other.robust):
            raise ValueError("scalings to be merged must be of one kind: choose the same scale= for all")
        if self.moments is None or other.moments is None:
            self.moments = copy.deepcopy(other.moments if self.moments is None else self.moments)
        elif self.running:
            self.moments.merge(other.moments)
        elif not equal(*(list(moments.state().values()) for moments in (self.moments, other.moments))):
            raise ValueError(
                "streams that were scaled by warm-ups of their own cannot be merged: give them the same first rows, or "
                "use scale='running' or None"
            )

    def _scaled(self, A: Array, mean: Array, sd: Array, p: int) -> ScaledRows:
        Z = (A - mean) / sd
        if self.robust:
            Z = np.clip(Z, -FARTHEST, FARTHEST)
            Z[:, :p] = np.where(np.isnan(Z[:, :p]), 0.0, Z[:, :p])
        return ScaledRows(Z[:, :p], Z[:, p:], mean[..., p:], sd[..., p:])


def as_scaling(scale: Any) -> Scaling:
    """The scaling of that name."""
    if scale is None:
        return Scaling()
    if scale in ("warm-up", "running"):
        return Standardised(running=scale == "running")
    raise ValueError(f"scale must be None, 'warm-up' or 'running', got {scale!r}")


# What a drift changes: losses of late, alarms, and for learners of experts what these do.

WITH_EXPERTS = (AutoStream, AutoStreamClassifier)

#: Most points of a trace: when there are as many, every other one goes, and the next ones are twice as far apart.
POINTS = 240

#: Rows between two points at first.
STEP = 64

#: An effective window that falls to less than such a part of the largest before is the sign of a change; and points of
#: the trace in which it goes on falling.
SHRUNK, SETTLED = 5.0, 5

#: Rows before errors are set against the variance of the outputs.
MIN_ROWS = 10


@dataclass(eq=False, repr=False)
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

    threshold: float = 50.0
    tolerance: float = 0.25
    burn_in: int = 100
    largest: float = 5.0

    _saved_state = ("_count", "_mean", "_squares", "_sum", "_least")

    def update(self, losses: Any) -> PageHinkley:
        """Go on with further losses, (n,); those that are nan are left out."""
        threshold, tolerance = positive(self.threshold, "threshold"), positive(self.tolerance, "tolerance", zero=True)
        if "n_rows_" not in vars(self):
            self.alarms_: list[int] = []
            self.n_rows_ = 0
            self._count, self._mean, self._squares, self._sum, self._least = 0, 0.0, 0.0, 0.0, 0.0
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


@dataclass
class ThinnedTrace(State):
    """Values noted at multiples of `step` rows; point i is that after (i + 1) step rows."""

    step: int = STEP
    values: Array = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def rows(self) -> Times:
        """(points,) numbers of rows."""
        return self.step * np.arange(1, len(self.values) + 1, dtype=np.int64)

    def note(self, rows: int, value: Array) -> None:
        """Note a value after so many rows, if there is a point."""
        if rows % self.step:
            return
        if self.values.shape[1:] != value.shape:
            # Another learner, or further outputs: what was noted before had another meaning.
            self.values = np.full((rows // self.step - 1, len(value)), np.nan)
        self.values = np.vstack([self.values, value])
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
    """What is noted of a stream so far: sum and number of losses, windows and weights of experts (`names`)."""

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
        step = self.experts.step if isinstance(model, WITH_EXPERTS) else stop + 1
        for low, high in pairwise([start, *range(start - start % step + step, stop, step), stop]):
            yield slice(low - start, high - start)

    def look(self, model: Any, rows: int) -> None:
        """Note what the experts of a model do after so many rows."""
        if isinstance(model, WITH_EXPERTS) and rows % self.experts.step == 0 and "mixture_" in vars(model):
            weights = model.expert_weights_
            self.names = list(weights)
            shares = np.array([weight.mean() for weight in weights.values()])
            self.experts.note(rows, np.concatenate([shares, model.effective_window_]))

    def add(self, start: int, losses: Array) -> None:
        """Add the losses (n,) of the rows after `start`, nan where a row was not tested."""
        # Forks of an evaluator share the test of before.
        self.test = copy.copy(self.test).update(losses)
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
