"""Labels that come later than the rows they belong to, in an evaluation, where the whole stream is known.

All that learns from labels, the model, baselines and intervals, has a queue of its own, in which rows wait for theirs.
"""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from sklearn.exceptions import NotFittedError

from ovk.base import Array, Times, check_int, positive
from ovk.evaluation.baselines import Baseline
from ovk.evaluation.learners import Incremental, TakesLastLabel, has_learned, last_label, last_labels

T = TypeVar("T")


def waiting_rows(delay: Any, time: Any) -> int | Times:
    """How many rows wait for their labels when a row is predicted: `delay` of them, or (n,) numbers by the clock.

    By the clock, row t is predicted from the labels of the rows s before it with time_s + delay <= time_t. As times do
    not go back, labels come in the order of the rows.

    Parameters
    ----------
    delay : number of rows; a number or timedelta with `time`
    time : (n,) numbers or dates that do not decrease, None to count rows

    >>> import numpy as np
    >>> waiting_rows(60, np.array([0, 10, 65, 70, 200]))
    array([0, 1, 1, 1, 0])
    """
    if time is None:
        if isinstance(delay, (timedelta, np.timedelta64)):
            raise ValueError(
                f"delay must be a whole number of rows where the times of the rows are not given, got {delay!r}: pass "
                "time=, the dates of the rows"
            )
        return check_int(delay, "delay", least=0)
    clock = np.asarray(time)
    if clock.ndim != 1 or clock.dtype.kind not in "iufM":
        raise ValueError(
            f"time must be one column of numbers or of dates without a time zone, got shape {clock.shape} of "
            f"{clock.dtype}"
        )
    dates = clock.dtype.kind == "M"
    # The default of 0: labels come at once, and the dates are there to be shown.
    at_once = dates and isinstance(delay, int) and delay == 0
    late = _duration(timedelta(0) if at_once else delay, dates=dates)
    clock = clock.astype("datetime64[ns]") if dates else clock.astype(np.float64)
    unknown = np.isnat(clock) if dates else ~np.isfinite(clock)
    back = np.flatnonzero(clock[1:] < clock[:-1])
    if unknown.any() or len(back):
        row = int(unknown.argmax()) if unknown.any() else int(back[0]) + 1
        raise ValueError(
            f"time must not be missing or decrease, but row {row} holds {_time_of(clock, row)}: sort the rows by time"
        )
    if at_once:
        return 0
    rows = np.arange(len(clock))
    waiting: Times = rows - np.minimum(np.searchsorted(clock + late, clock, side="right"), rows)
    return waiting


def _time_of(clock: Any, row: int) -> str:
    """The time of a row, and of the one before it."""
    return f"{clock[row]}" + (f" after {clock[row - 1]}" if row else "")


def _duration(delay: Any, *, dates: bool) -> Any:
    """A delay in the unit of the clock."""
    span = isinstance(delay, (timedelta, np.timedelta64))
    if dates and span:
        late: Any = np.timedelta64(delay).astype("timedelta64[ns]")
        if late >= np.timedelta64(0, "ns"):
            return late
    elif not dates and not span:
        return positive(delay, "delay", zero=True)
    kind = "a timedelta >= 0, such as datetime.timedelta(hours=1)" if dates else "a number >= 0, as time holds numbers"
    raise ValueError(f"delay must be {kind}, got {delay!r}")


class LabelQueue(Generic[T]):
    """Rows of a stream, in their order, until their labels come.

    Parameters
    ----------
    waiting : how many rows wait for their labels when a row is predicted, or (n,) for each row of the stream

    >>> queue = LabelQueue(2)
    >>> for row in range(4):
    ...     print(row, "is predicted from", queue.come())
    ...     queue.add(row)
    0 is predicted from []
    1 is predicted from []
    2 is predicted from []
    3 is predicted from [0]
    """

    def __init__(self, waiting: int | Times) -> None:
        self._most, self._added = waiting, 0
        self._rows: deque[T] = deque()

    def __len__(self) -> int:
        return len(self._rows)

    def come(self) -> list[T]:
        """The rows whose labels have come since the last call, when the next row is predicted; the oldest first."""
        if isinstance(self._most, int):
            most = self._most
        elif self._added < len(self._most):
            most = int(self._most[self._added])
        else:
            raise ValueError(f"time must have an entry for each row, but has {len(self._most)} and more rows come")
        return [self._rows.popleft() for _ in range(len(self._rows) - most)]

    def add(self, row: T) -> None:
        """Let the next row of the stream wait."""
        self._rows.append(row)
        self._added += 1


class WaitingRow(NamedTuple):
    """A row that was predicted: (1, p) inputs, (1,) or (1, d) labels, (1,) weight and the last label known then."""

    X: Array
    y: Array
    weight: Array | None
    last: Array | None


class DelayedLearner:
    """A learner that learns every row some rows after it was predicted, when its label comes.

    Parameters
    ----------
    waiting : as in `LabelQueue`
    gaps : whether it learns rows with a missing output; estimators of other libraries refuse them
    guess : what it predicts before it has learned any label

    Attributes
    ----------
    n_blind : how many rows came before it had learned any label
    n_skipped : rows not learned for a missing output
    """

    def __init__(self, model: Incremental, waiting: int | Times, *, gaps: bool = True, guess: float = np.nan) -> None:
        self.model, self.gaps, self.n_blind, self.n_skipped = model, gaps, 0, 0
        # A learner that was given nothing but missing labels would predict, too.
        self._guess, self._knows = guess, has_learned(model)
        self._queue: LabelQueue[WaitingRow] = LabelQueue(waiting)

    def predict_then_learn(self, X: Array, y: Array, /, sample_weight: Any = None) -> Array:
        F = np.full_like(y, self._guess)
        weights = None if sample_weight is None else np.asarray(sample_weight)
        for i in range(len(X)):
            row = slice(i, i + 1)
            come = [one for one in self._queue.come() if one.weight is None or one.weight != 0]
            if not self.gaps:
                whole = [one for one in come if not np.isnan(one.y).any()]
                self.n_skipped, come = self.n_skipped + len(come) - len(whole), whole
            if come:
                self._learn(come)
            last = last_label(self.model)
            try:
                if not self._knows:
                    raise NotFittedError("no label has come yet")
                F[row] = np.asarray(self.model.predict(X[row])).reshape(F[row].shape)
            except NotFittedError:
                self.n_blind += 1
            self._queue.add(WaitingRow(X[row], y[row], None if weights is None else weights[row], last))
        return F

    def _learn(self, come: list[WaitingRow]) -> None:
        """Learn rows together: an online learner of ovk takes them in a block, with the same result."""
        X, y = (np.concatenate(parts) for parts in zip(*((one.X, one.y) for one in come), strict=True))
        weights = [one.weight for one in come if one.weight is not None]
        options = {"sample_weight": np.concatenate(weights)} if weights else {}
        if isinstance(self.model, TakesLastLabel):
            self.model.partial_fit_late(X, y, last_labels([one.last for one in come], y[0].size), **options)
        else:
            self.model.partial_fit(X, y, **options)
        self._knows = self._knows or bool(np.isfinite(y).any())


class LateBaseline:
    """A baseline that learns and predicts by itself, as `DelayedLearner` wants it."""

    def __init__(self, baseline: Baseline) -> None:
        self.baseline = baseline
        self._outputs: int | None = None

    def partial_fit(self, X: Array, Y: Array, /) -> None:
        """Go on learning."""
        self._outputs = Y.shape[1]
        self.baseline.predict_then_learn(X, Y)

    def predict(self, X: Array, /) -> Array:
        """(n, d) predictions: those of rows without labels, learned by a copy."""
        if self._outputs is None:
            raise NotFittedError("the baseline has not learned anything yet")
        return self.baseline._snapshot().predict_then_learn(X, np.full((len(X), self._outputs), np.nan))
