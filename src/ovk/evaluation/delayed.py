"""Labels that come later than the predictions they belong to."""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from ovk._params import Parameters, check_int, positive
from ovk._types import Array, Times
from ovk.evaluation.learners import Incremental


class DelayedLabels(Parameters):
    """A learner whose labels come whenever they come, in any order.

    Every prediction has a ticket, with which its label is brought later. Inputs are kept until then; of more than
    `most` that wait for a label the oldest expire.

    Parameters
    ----------
    model : learner with `partial_fit` and `predict`; a copy of it learns, and goes on from what it knows
    most : int
        Most rows that wait for a label.
    classes : the labels there will be, for classifiers that want to know them at the start

    Attributes
    ----------
    model_ : the learner
    tickets_ : (n,) tickets that wait for a label, the oldest first
    inputs_ : (n, p) their inputs
    next_ticket_ : the next ticket
    n_expired_ : rows that expired

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import PKAWV
    >>> from ovk.evaluation import DelayedLabels
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> learner = DelayedLabels(PKAWV())
    >>> guesses, tickets = learner.predict(X)
    >>> learner.learn(tickets[::-1], np.sin(X[::-1, 0]))
    >>> guesses, tickets = learner.predict(X[:3])
    >>> bool(np.abs(guesses - np.sin(X[:3, 0])).max() < 0.3), tickets
    (True, array([50, 51, 52]))
    """

    model_: Any
    tickets_: Times
    inputs_: Array
    next_ticket_: int
    n_expired_: int

    def __init__(self, model: Any, most: int = 100_000, classes: Any = None) -> None:
        self.model = model
        self.most = most
        self.classes = classes

    def predict(self, X: Any) -> tuple[Any, Times]:
        """Predictions and tickets of rows (n, p); nan before the first label. The learner does not change."""
        self._start()
        X = np.atleast_2d(np.asarray(X, dtype=np.float64))
        if len(self.inputs_) and X.shape[1] != self.inputs_.shape[1]:
            raise ValueError(f"X must have {self.inputs_.shape[1]} features as before, got {X.shape[1]}")
        try:
            guesses = self.model_.predict(X)
        except NotFittedError:
            guesses = np.full(len(X), np.nan)
        tickets = self.next_ticket_ + np.arange(len(X), dtype=np.int64)
        inputs = X if not len(self.inputs_) else np.concatenate([self.inputs_, X])
        waiting = np.concatenate([self.tickets_, tickets])
        expired = max(0, len(waiting) - check_int(self.most, "most"))
        self.tickets_, self.inputs_ = waiting[expired:], inputs[expired:]
        self.next_ticket_ += len(X)
        self.n_expired_ += expired
        return guesses, tickets

    def learn(self, tickets: Any, y: Any, sample_weight: Any = None) -> None:
        """Bring labels: one ticket and its label, or (n,) tickets and (n,) or (n, d) labels, learned in this order.

        `sample_weight`, one number or (n,), multiplies the losses, for a learner that takes weights.
        """
        self._start()
        several = np.ndim(tickets) > 0
        wanted = np.atleast_1d(np.asarray(tickets, dtype=np.int64))
        labels = np.asarray(y) if several else np.asarray([y])
        if len(labels) != len(wanted) or len(np.unique(wanted)) != len(wanted):
            raise ValueError(f"every ticket needs one label: got {len(wanted)} tickets and {len(labels)} labels")
        places = np.searchsorted(self.tickets_, wanted)
        known = places < len(self.tickets_)
        known[known] = self.tickets_[places[known]] == wanted[known]
        if not known.all():
            ticket = int(wanted[~known][0])
            raise KeyError(
                f"ticket {ticket} waits for no label: it was never given, has its label already, or expired as more "
                f"than most={self.most} rows were waiting"
            )
        if len(wanted):
            options = {} if self.classes is None else {"classes": self.classes}
            if sample_weight is not None:
                options["sample_weight"] = np.atleast_1d(sample_weight)
            self.model_.partial_fit(self.inputs_[places], labels, **options)
        left = np.full(len(self.tickets_), True)
        left[places] = False
        self.tickets_, self.inputs_ = self.tickets_[left], self.inputs_[left]

    def _start(self) -> None:
        if "model_" in vars(self):
            return
        if not isinstance(self.model, Incremental):
            raise TypeError(f"model must have partial_fit and predict, got {type(self.model).__name__}")
        self.model_ = self.model.replace() if isinstance(self.model, Parameters) else clone(self.model)
        self.tickets_, self.inputs_ = np.empty(0, dtype=np.int64), np.empty((0, 0))
        self.next_ticket_ = self.n_expired_ = 0


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
        return check_int(delay, "delay", least=0)
    clock = np.asarray(time)
    if clock.ndim != 1 or clock.dtype.kind not in "iufM":
        raise ValueError(
            f"time must be one column of numbers or of dates without a time zone, got shape {clock.shape} of "
            f"{clock.dtype}"
        )
    dates = clock.dtype.kind == "M"
    late = _duration(delay, dates=dates)
    clock = clock.astype("datetime64[ns]") if dates else clock.astype(np.float64)
    unknown = np.isnat(clock) if dates else ~np.isfinite(clock)
    back = np.flatnonzero(clock[1:] < clock[:-1])
    if unknown.any() or len(back):
        row = int(unknown.argmax()) if unknown.any() else int(back[0]) + 1
        raise ValueError(
            f"time must not be missing or decrease, but row {row} holds {_time_of(clock, row)}: sort the rows by time"
        )
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


class LearnsLate:
    """A learner that learns every row some rows after it was predicted, when its label comes.

    Parameters
    ----------
    waiting : how many rows wait for their labels when a row is predicted, or (n,) for each row of the stream
    """

    def __init__(self, model: Incremental, waiting: int | Times) -> None:
        self.model, self._most, self._seen = model, waiting, 0
        self._waiting: deque[tuple[Array, ...]] = deque()

    def predict_then_learn(self, X: Array, y: Array, /, sample_weight: Any = None) -> Array:
        F = np.zeros_like(y)
        weights = () if sample_weight is None else (np.asarray(sample_weight),)
        if not isinstance(self._most, int) and len(self._most) < self._seen + len(X):
            raise ValueError(f"time must have an entry for each row, but has {len(self._most)} and more rows come")
        for i in range(len(X)):
            row = slice(i, i + 1)
            most = self._most if isinstance(self._most, int) else int(self._most[self._seen + i])
            come = [self._waiting.popleft() for _ in range(len(self._waiting) - most)]
            come = [one for one in come if len(one) == 2 or one[2] != 0]
            if come:
                # Together: an online learner of ovk takes them in a block, with the same result.
                inputs, labels, *weighed = (np.concatenate(parts) for parts in zip(*come, strict=True))
                self.model.partial_fit(inputs, labels, **({"sample_weight": weighed[0]} if weighed else {}))
            try:
                F[row] = np.asarray(self.model.predict(X[row])).reshape(F[row].shape)
            except NotFittedError:
                F[row] = 0.0
            self._waiting.append((X[row], y[row], *(weight[row] for weight in weights)))
        self._seen += len(X)
        return F
