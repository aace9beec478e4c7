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
from ovk.evaluation.learners import has_learned, last_label, learn_rows
from ovk.evaluation.task import Task

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


class PendingRow(NamedTuple):
    """A row that was predicted: (1, p) inputs, its target, its weight and the last label known then."""

    X: Array
    y: Any
    weight: Any
    last: Any


class RowByRow:
    """A model that predicts one row at a time, and learns each one when its label has come.

    Before it has learned anything, it predicts the first guess of its task; where labels come late, nan. Estimators of
    other libraries learn one row at a time, and none with a missing output or of weight 0, which they refuse.

    Parameters
    ----------
    waiting : as in `LabelQueue`

    Attributes
    ----------
    n_blind : rows before the first label, where labels come late
    n_skipped : rows not learned for a missing output
    """

    def __init__(self, task: Task[Any], model: Any, waiting: int | Times = 0) -> None:
        self.task, self.model, self.n_blind, self.n_skipped = task, model, 0, 0
        self._at_once = isinstance(waiting, int) and waiting == 0
        self._queue: LabelQueue[PendingRow] = LabelQueue(waiting)
        # A learner that was given nothing but missing labels would predict, too.
        self._knows = has_learned(model)

    def predict_then_learn(self, X: Array, y: Any, d: int, classes: Any = (), weights: Array | None = None) -> Array:
        """(n, d) predictions of rows with targets `y` (n, ...), d outputs or classes."""
        F = np.full((len(X), d), np.nan)
        for i in range(len(X)):
            row = slice(i, i + 1)
            if not self._at_once:
                self._learn(self._queue.come(), classes)
            last = last_label(self.model)
            try:
                if not (self._knows or self._at_once):
                    raise NotFittedError("no label has come yet")
                F[row] = self._predict(X[row], d, classes)
            except NotFittedError:
                if self._at_once:
                    F[row] = self.task.first_guess(d)
                else:
                    self.n_blind += 1
            pending = PendingRow(X[row], y[row], None if weights is None else weights[row], last)
            if self._at_once:
                self._learn([pending], classes)
            else:
                self._queue.add(pending)
        return F

    def _predict(self, X: Array, d: int, classes: Any) -> Array:
        return self.task.predict(self.model, X, classes)

    def _learn(self, rows: list[PendingRow], classes: Any) -> None:
        rows = [row for row in rows if row.weight is None or row.weight != 0]
        blocks = self.task.learns_blocks(self.model)
        if not blocks:
            whole = [row for row in rows if not any(one is None or one != one for one in np.ravel(row.y).tolist())]
            self.n_skipped, rows = self.n_skipped + len(rows) - len(whole), whole
        if not rows:
            return
        options = {} if self.task.numeric else {"classes": np.asarray(classes)}
        for some in [rows] if blocks else [[row] for row in rows]:
            X, y = (np.concatenate(parts) for parts in zip(*((row.X, row.y) for row in some), strict=True))
            if some[0].weight is not None:
                options["sample_weight"] = np.concatenate([row.weight for row in some])
            learn_rows(self.model, X, y, [row.last for row in some], **options)
            self._knows = self._knows or not all(one is None or one != one for one in np.ravel(y).tolist())


class LateBaseline(RowByRow):
    """A baseline whose labels come late."""

    def __init__(self, task: Task[Any], baseline: Baseline, waiting: int | Times) -> None:
        super().__init__(task, baseline, waiting)
        self._knows = True

    def _predict(self, X: Array, d: int, classes: Any) -> Array:
        baseline: Baseline = self.model
        return baseline.guess(X, d)

    def _learn(self, rows: list[PendingRow], classes: Any) -> None:
        if rows:
            X, Y = (np.concatenate(parts) for parts in zip(*((row.X, row.y) for row in rows), strict=True))
            self.model.predict_then_learn(X, Y)
