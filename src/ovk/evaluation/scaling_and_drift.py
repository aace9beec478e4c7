"""Running statistics of a stream: moments before every row, scaling, and drift.

A row is scaled by the mean and the standard deviation of earlier rows only. Within a chunk these are computed from
cumulative sums about the mean m at the start of the chunk: with N rows so far, and s = sum (a - m) and
q = sum (a - m)^2 over the rows of the chunk so far,

    mean = m + s / N,     N variance = M + q - s^2 / N        (M: N variance at the start of the chunk)

which equals Welford's update row by row, without cancellation, because the earlier rows have no first moment about m.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ovk.base import COUNT, SIZE, Array, Mask, Parameters, State, Times, equal, positive
from ovk.online import AutoStream, AutoStreamClassifier

#: A column whose standard deviation is below this fraction of its mean is constant up to rounding, and only centred.
MIN_RELATIVE_DEVIATION = 1e-12

#: Robust scaling clips values to this many standard deviations: large enough for a column that was constant in the
#: warm-up, small enough that its square does not overflow.
MAX_DEVIATIONS = 1e6


def ratio(sums: Array, counts: Array) -> Array:
    """sums / counts, nan where the count is 0."""
    return sums / np.where(counts > 0, counts, np.nan)


@dataclass
class RunningMoments(State):
    """Mean and standard deviation of each column, over all finite values so far."""

    _saved_state = ("count", "mean", "squares")
    _stored = {"count": "width", "mean": "width", "squares": "width inf"}

    width: int

    def __post_init__(self) -> None:
        self.count = np.zeros(self.width)
        self.mean = np.zeros(self.width)
        self.squares = np.zeros(self.width)

    @property
    def sd(self) -> Array:
        """(width,) standard deviations, 1 for constant columns."""
        return _deviation(self.count, self.mean, self.squares)

    @property
    def constant(self) -> Mask:
        """(width,) columns with values that are all equal."""
        sd = np.sqrt(self.squares / np.maximum(self.count, 1.0))
        return (self.count > 0) & (sd <= MIN_RELATIVE_DEVIATION * np.abs(self.mean))

    def before_then_add(self, A: Array) -> tuple[Array, Array]:
        """Mean and deviation of all rows before each row of A, in its shape, 0 and 1 at first; then add the rows."""
        seen = np.isfinite(A)
        centre = self._centre(A, seen)
        # Columns with values of 1e300, whose squares overflow, are only centred.
        with np.errstate(over="ignore", invalid="ignore"):
            D = np.where(seen, A - centre, 0.0)
            count, s = self.count + _before(seen.astype(np.float64)), _before(D)
            N = np.maximum(count, 1.0)
            mean = np.where(count > 0, centre + s / N, 0.0)
            squares = np.maximum(self.squares + _before(D * D) - s * s / N, 0.0)
        self.count, self.mean, self.squares = count[-1], mean[-1], squares[-1]
        return mean[:-1], _deviation(count[:-1], mean[:-1], squares[:-1])

    def merge(self, other: RunningMoments) -> None:
        """Add the moments of other rows: with N = n + n' and D = mean' - mean, N variance = M + M' + D^2 n n' / N."""
        if self.width != other.width:
            raise ValueError(f"moments to merge must have the same columns, got {self.width} and {other.width}")
        count = self.count + other.count
        part = other.count / np.maximum(count, 1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            D = other.mean - self.mean
            squares = self.squares + other.squares + D * D * (self.count * part)
            # The mean of no rows is 0, which must not count.
            self.mean = np.where(self.count == 0, other.mean, self.mean + D * part)
            self.squares = np.where(self.count == 0, other.squares, squares)
        self.count = count

    def _centre(self, A: Array, seen: Mask) -> Array:
        """(width,) the mean so far, or the first value of A in columns without values."""
        if not len(A) or (self.count > 0).all():
            return self.mean
        first = np.take_along_axis(A, seen.argmax(axis=0)[None, :], axis=0)[0]
        return np.where(self.count > 0, self.mean, np.where(np.isfinite(first), first, 0.0))


def _before(A: Array) -> Array:
    """(n + 1, k) sums of the rows before each row, and of all rows."""
    sums = np.zeros((len(A) + 1, A.shape[1]))
    np.cumsum(A, axis=0, out=sums[1:])
    return sums


def _deviation(count: Array, mean: Array, squares: Array) -> Array:
    sd = np.sqrt(squares / np.maximum(count, 1.0))
    return np.where(np.isfinite(sd) & (sd > MIN_RELATIVE_DEVIATION * np.abs(mean)), sd, 1.0)


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
    """The scaling of rows before a learner predicts them; this class leaves them unchanged."""

    def scale_warm_up(self, X: Array, Y: Array) -> ScaledRows:
        """Scale the rows of the warm-up by the moments of all of them."""
        return ScaledRows(X, Y, 0.0, 1.0)

    def scale(self, X: Array, Y: Array) -> ScaledRows:
        """Scale the next rows, each by earlier rows only."""
        return ScaledRows(X, Y, 0.0, 1.0)

    def merge(self, other: Scaling) -> None:
        if type(other) is not Scaling:
            raise ValueError("cannot merge scaled and unscaled rows: use the same scale= for all streams")


@dataclass
class Standardised(Scaling, kind="standardised"):
    """Inputs and outputs standardised by the moments of the warm-up or, if `running`, of all rows so far.

    `robust`: missing inputs become the mean, and values are clipped to `MAX_DEVIATIONS`.
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
        """Scale rows without outputs by the moments of all rows so far, which do not change."""
        if self.moments is None:
            raise ValueError("no rows have been scaled yet, so there are no moments")
        A = np.hstack([X, np.full((len(X), self.moments.width - X.shape[1]), np.nan)])
        return self._scaled(A, self.moments.mean, self.moments.sd, X.shape[1])

    def merge(self, other: Scaling) -> None:
        if not isinstance(other, Standardised) or (self.running, self.robust) != (other.running, other.robust):
            raise ValueError("cannot merge rows that were scaled differently: use the same scale= for all streams")
        if self.moments is None or other.moments is None:
            self.moments = copy.deepcopy(other.moments if self.moments is None else self.moments)
        elif self.running:
            self.moments.merge(other.moments)
        elif not equal(*(list(moments.state().values()) for moments in (self.moments, other.moments))):
            raise ValueError(
                "cannot merge streams that were scaled by different warm-ups: start them with the same rows, or use "
                "scale='running' or None"
            )

    def _scaled(self, A: Array, mean: Array, sd: Array, p: int) -> ScaledRows:
        Z = (A - mean) / sd
        if self.robust:
            Z = np.clip(Z, -MAX_DEVIATIONS, MAX_DEVIATIONS)
            Z[:, :p] = np.where(np.isnan(Z[:, :p]), 0.0, Z[:, :p])
        return ScaledRows(Z[:, :p], Z[:, p:], mean[..., p:], sd[..., p:])


def as_scaling(scale: Any) -> Scaling:
    if scale is None:
        return Scaling()
    if scale in ("warm-up", "running"):
        return Standardised(running=scale == "running")
    raise ValueError(f"scale must be None, 'warm-up' or 'running', got {scale!r}")


# Drift: recent losses and alarms; windows and weights of the experts of a learner that has some.

WITH_EXPERTS = (AutoStream, AutoStreamClassifier)

#: A trace with this many points drops every other one and doubles its step.
MAX_POINTS = 240

#: Number of rows between two points at first.
FIRST_STEP = 64

#: Default factor by which an effective window must fall to indicate a change, and number of points in which its
#: minimum is searched.
MIN_SHRINKING, POINTS_OF_MINIMUM = 5.0, 5

#: Number of rows before errors are divided by the variance of the outputs.
MIN_ROWS_FOR_VARIANCE = 10


@dataclass(eq=False, repr=False)
class PageHinkley(Parameters):
    """The Page-Hinkley test for an increase in the mean of a sequence of losses.

    With x_t the loss minus the mean of all losses so far, in units of their standard deviation,

        m_t = m_(t-1) + x_t - tolerance,    alarm where  m_t - min_{s <= t} m_s > threshold,

    and the test restarts after an alarm. x_t is at most `largest`, so that a single row cannot raise an alarm.

    Parameters
    ----------
    threshold : float > 0
        Larger values give later and fewer false alarms: with 50 about one in 100,000 rows for normal losses without a
        change.
    tolerance : float >= 0
        Increase of the mean to ignore, in standard deviations.
    burn_in : int
        Number of rows before the first alarm.
    largest : float > 0
        Upper limit of x_t.

    Attributes
    ----------
    alarms_ : list of int
        Rows with an alarm, counted from 0.
    n_rows_ : int
        Number of losses so far.

    See Also
    --------
    DriftResult, ovk.plotting.DriftDisplay

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import PageHinkley
    >>> rng = np.random.default_rng(0)
    >>> losses = np.concatenate([rng.chisquare(1, 2000), 4 * rng.chisquare(1, 2000)])
    >>> PageHinkley().update(losses).alarms_
    [2039]
    """

    threshold: float = 50.0
    tolerance: float = 0.25
    burn_in: int = 100
    largest: float = 5.0

    _saved_state = ("_count", "_mean", "_squares", "_sum", "_least")
    _stored = {"_count": COUNT, "_mean": "* inf", "_squares": "* inf", "_sum": "* inf", "_least": "* inf"}

    def update(self, losses: Any) -> PageHinkley:
        """Continue with the losses (n,), of which nan are ignored."""
        threshold, tolerance = positive(self.threshold, "threshold"), positive(self.tolerance, "tolerance", zero=True)
        if "n_rows_" not in vars(self):
            self.alarms_: list[int] = []
            self.n_rows_ = 0
            self._count, self._mean, self._squares, self._sum, self._least = 0, 0.0, 0.0, 0.0, 0.0
        largest, burn_in, n_rows = float(self.largest), self.burn_in, self.n_rows_
        count, mean, squares, total, least = self._count, self._mean, self._squares, self._sum, self._least
        values = np.atleast_1d(np.asarray(losses, dtype=np.float64))
        known = np.flatnonzero(np.isfinite(values))
        # Python floats are faster than NumPy scalars here.
        for row, loss in zip((n_rows + known).tolist(), values[known].tolist(), strict=True):
            deviation = (squares / count) ** 0.5 if count else 0.0
            x = (loss - mean) / deviation if deviation > 0.0 else 0.0
            # Comparisons take half the time of `min`.
            if x > largest:
                x = largest
            if count >= burn_in:
                total += x - tolerance
                if total < least:
                    least = total
                loss = mean + x * deviation
            count += 1
            step = loss - mean
            mean += step / count
            squares += step * (loss - mean)
            if total - least > threshold:
                self.alarms_ = [*self.alarms_, row]
                count, mean, squares, total, least = 0, 0.0, 0.0, 0.0, 0.0
        self._count, self._mean, self._squares, self._sum, self._least = count, mean, squares, total, least
        self.n_rows_ = n_rows + len(values)
        return self


@dataclass
class ThinnedTrace(State):
    """Values recorded at multiples of `step` rows: point i is recorded after (i + 1) step rows."""

    _stored = {"step": SIZE, "values": "k c inf"}

    step: int = FIRST_STEP
    values: Array = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def rows(self) -> Times:
        return self.step * np.arange(1, len(self.values) + 1, dtype=np.int64)

    def record(self, rows: int, value: Array) -> None:
        if rows % self.step:
            return
        if self.values.shape[1:] != value.shape:
            # Another learner or more outputs: earlier values have another meaning.
            self.values = np.full((rows // self.step - 1, len(value)), np.nan)
        self.values = np.vstack([self.values, value])
        if len(self.values) >= MAX_POINTS:
            self.values, self.step = self.values[1::2], 2 * self.step


class Shrinking(NamedTuple):
    """The effective window of an output fell from `before` to `after` rows, first detected at `row`."""

    output: int
    row: int
    before: float
    after: float


@dataclass(frozen=True)
class DriftResult:
    """Losses and alarms along a stream; for learners of experts also their weights and the effective windows.

    Parameters
    ----------
    rows : (k,) array
        Number of rows at each point.
    losses : (k,) array
        Mean loss since the previous point: for classification the share of wrong labels, for regression the squared
        error divided by the variance of the output so far, averaged over the outputs.
    alarms : tuple of int
        Rows at which `PageHinkley` detected an increase of the losses.
    expert_rows : (m,) array
        Number of rows at each point of `windows` and `weights`.
    windows : (m, d) array
        Effective window of each output; empty for learners without experts.
    weights : (m, e) array
        Weight of each expert, averaged over the outputs; empty for learners without experts.
    experts : tuple of str
        Names of the experts.

    See Also
    --------
    PageHinkley, progressive, ovk.plotting.DriftDisplay

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import AutoStream, progressive
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((900, 1))
    >>> y = np.where(np.arange(900) < 600, 1.0, -1.0) * X[:, 0] + 0.3 * rng.standard_normal(900)
    >>> drift = progressive(AutoStream(), X, y).drift
    >>> drift.expert_rows[[8, -1]], drift.windows[[8, -1], 0].round(-1)
    (array([576, 896]), array([460., 280.]))
    """

    rows: Times
    losses: Array
    alarms: tuple[int, ...]
    expert_rows: Times
    windows: Array
    weights: Array
    experts: tuple[str, ...]

    def shrunk(self, factor: float = MIN_SHRINKING) -> list[Shrinking]:
        """Outputs whose effective window fell below its maximum so far divided by `factor`, largest decrease first.

        A shrinking window indicates a change: experts that forget predict better. Without a change, windows rarely
        shrink to less than half.
        """
        found = []
        for q, window in enumerate(self.windows.T):
            top = np.fmax.accumulate(window)
            fallen = np.flatnonzero(window * factor < top)
            if len(fallen):
                t = int(fallen[0])
                low = float(np.nanmin(window[t : t + POINTS_OF_MINIMUM]))
                found.append(Shrinking(q, int(self.expert_rows[t]), float(top[t]), low))
        return sorted(found, key=lambda one: one.after / one.before)


@dataclass
class DriftRecord(State):
    """The state of a `DriftResult`: `total` and `count` are sum and number of the losses, `names` the experts."""

    test: PageHinkley = field(default_factory=PageHinkley)
    total: float = 0.0
    count: int = 0
    losses: ThinnedTrace = field(default_factory=ThinnedTrace)
    experts: ThinnedTrace = field(default_factory=ThinnedTrace)
    names: list[str] = field(default_factory=list)
    outputs: RunningMoments | None = None

    _state_classes = {"losses": ThinnedTrace, "experts": ThinnedTrace, "outputs": RunningMoments}
    _stored = {"total": "* inf"}

    def pieces(self, model: Any, start: int, stop: int) -> Iterator[slice]:
        """The blocks of rows that a model learns: a learner of experts is observed between blocks."""
        step = self.experts.step if isinstance(model, WITH_EXPERTS) else stop + 1
        for low, high in pairwise([start, *range(start - start % step + step, stop, step), stop]):
            yield slice(low - start, high - start)

    def observe(self, model: Any, rows: int) -> None:
        """Record windows and weights of the experts after `rows` rows."""
        if isinstance(model, WITH_EXPERTS) and rows % self.experts.step == 0 and "mixture_" in vars(model):
            weights = model.expert_weights_
            self.names = list(weights)
            shares = np.array([weight.mean() for weight in weights.values()])
            self.experts.record(rows, np.concatenate([shares, model.effective_window_]))

    def add_errors(self, start: int, errors: Array, counted: Mask, Y: Array | None) -> None:
        """Add errors (n, k) where `counted`, divided by the variance of the outputs Y (n, k) in the rows before."""
        if Y is not None:
            if self.outputs is None:
                self.outputs = RunningMoments(Y.shape[1])
            _, sd = self.outputs.before_then_add(Y)
            with np.errstate(over="ignore", invalid="ignore"):
                errors = errors / sd**2
            counted = counted & (start + np.arange(len(Y)) >= MIN_ROWS_FOR_VARIANCE)[:, None]
        seen = counted & np.isfinite(errors)
        losses = ratio(np.where(seen, errors, 0.0).sum(axis=1), seen.sum(axis=1))
        known = np.isfinite(losses)
        # Snapshots of an evaluator share the earlier object.
        self.test = copy.copy(self.test).update(losses)
        totals = self.total + np.cumsum(np.where(known, losses, 0.0))
        counts = self.count + np.cumsum(known)
        step = self.losses.step
        for row in range(start - start % step + step, start + len(losses) + 1, step):
            i = row - start - 1
            self.losses.record(row, np.array([totals[i], counts[i]]))
        self.total, self.count = float(totals[-1]), int(counts[-1])

    def result(self) -> DriftResult:
        sums = np.vstack([np.zeros(2), self.losses.values.reshape(-1, 2)])
        total, count = np.diff(sums, axis=0).T
        e = len(self.names)
        values = self.experts.values if e else np.empty((0, 0))
        recent = self.losses.rows, ratio(total, count), tuple(vars(self.test).get("alarms_", ()))
        return DriftResult(*recent, self.experts.rows, values[:, e:], values[:, :e], tuple(self.names))
