"""Interfaces of online learners, and delayed labels in an evaluation.

A row is predicted when it arrives and learned when its label arrives. `LabelQueue` gives the rows whose labels have
arrived, for the model, its baselines and its intervals. For a deployed model see `DelayedLabels`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError

from ovk.base import Array, Times, check_int, is_fitted_name, missing_labels, positive

T = TypeVar("T")


@runtime_checkable
class OnlineLearner(Protocol):
    """A learner that predicts every row of a stream before it learns from it."""

    def predict_then_learn(self, X: Any, y: Any, /) -> Any:
        """Predictions of the rows, in the shape of y, each from the rows before it."""


@runtime_checkable
class OnlineClassifier(Protocol):
    """A classifier that predicts every row of a stream before it learns from it."""

    def predict_proba_then_learn(self, X: Any, y: Any, classes: Any = None, /) -> Any:
        """(n, K) probabilities of `classes_`, each from the rows before it."""


@runtime_checkable
class Incremental(Protocol):
    """An estimator with scikit-learn's interface for streams."""

    def partial_fit(self, X: Any, y: Any, /) -> Any: ...

    def predict(self, X: Any, /) -> Any: ...


# A learner with the last label as an input has `partial_fit_late`, which takes the values of `last_label_`.
# A classifier with `temper` also takes the probabilities that it predicted, from which it learns how certain to be.


def last_label(model: Any) -> Any:
    """The last label of a model that uses it as an input; None for other models and before the first label."""
    if not hasattr(model, "partial_fit_late"):
        return None
    try:
        return model.last_label_
    except NotFittedError:
        return None


def untempered(model: Any, X: Array) -> Array | None:
    """(n, k) probabilities that `temper` would change; None for models without it and before the first label."""
    if not hasattr(model, "temper"):
        return None
    try:
        found: Array = model.predict_proba(X, tempered=False)
        return found
    except NotFittedError:
        return None


def learn_rows(
    model: Any, X: Any, y: Any, last: Sequence[Any] = (), predicted: Sequence[Array | None] = (), **options: Any
) -> None:
    """Learn rows whose labels have arrived.

    `last` holds `last_label(model)`, and `predicted`, if it is not empty, `untempered(model, x)`, at the prediction of
    each row.
    """
    if not hasattr(model, "partial_fit_late"):
        model.partial_fit(X, y, **options)
        return
    if predicted and hasattr(model, "temper"):
        classes = max((one.shape[1] for one in predicted if one is not None), default=1)
        # Rows without probabilities of all classes teach nothing about certainty.
        empty = np.full((1, classes), np.nan)
        whole = [one if one is not None and one.shape[1] == classes else empty for one in predicted]
        options["predicted"] = np.concatenate(whole)
    none = None if isinstance(model, ClassifierMixin) else np.full(np.size(y[0]), np.nan)
    known = np.array([none if one is None else one for one in last], dtype=object if none is None else np.float64)
    model.partial_fit_late(X, y, known, **options)


def has_learned(model: Any) -> bool:
    """Whether a model is fitted, and can predict the first row of a stream."""
    known = getattr(model, "__dict__", {})
    return any(is_fitted_name(name) for name in known) or ("learner" in known and has_learned(known["learner"]))


def waiting_rows(delay: Any, time: Any) -> int | Times:
    """Number of rows that wait for their labels when a row is predicted: `delay`, or (n,) numbers computed from `time`.

    With `time`, row t is predicted from the labels of the rows s < t with time_s + delay <= time_t.
    """
    span = isinstance(delay, (timedelta, np.timedelta64))
    if time is None:
        if span:
            raise ValueError(
                f"delay must be a whole number of rows without the argument time, got {delay!r}: pass the dates of the "
                "rows as time"
            )
        return check_int(delay, "delay", least=0)
    clock = np.asarray(time)
    if clock.ndim != 1 or clock.dtype.kind not in "iufM":
        raise ValueError(
            "time must be one column of numbers or of dates without a time zone, got shape "
            f"{clock.shape} and dtype {clock.dtype}"
        )
    dates = clock.dtype.kind == "M"
    # With the default of 0 the dates are only for plots.
    at_once = dates and isinstance(delay, int) and delay == 0
    late: Any = np.timedelta64(0 if at_once else delay, "ns") if dates and (at_once or span) else delay
    if not at_once and (dates != span or (dates and late < np.timedelta64(0, "ns"))):
        kind = "a timedelta >= 0 for dates, such as datetime.timedelta(hours=1)" if dates else "a number >= 0"
        raise ValueError(f"delay must be {kind}, got {delay!r}")
    clock = clock.astype("datetime64[ns]") if dates else clock.astype(np.float64)
    unknown = np.isnat(clock) if dates else ~np.isfinite(clock)
    back = np.flatnonzero(clock[1:] < clock[:-1])
    if unknown.any() or len(back):
        row = int(unknown.argmax()) if unknown.any() else int(back[0]) + 1
        found = f"{clock[row]}" + (f" after {clock[row - 1]}" if row else "")
        raise ValueError(f"time must not be missing or decrease, got {found} in row {row}: sort the rows by time")
    if at_once:
        return 0
    rows = np.arange(len(clock))
    known = np.searchsorted(clock + (late if dates else positive(late, "delay", zero=True)), clock, side="right")
    return rows - np.minimum(known, rows)


class LabelQueue(Generic[T]):
    """Predicted rows of a stream that wait for their labels, in order; `waiting` as returned by `waiting_rows`."""

    def __init__(self, waiting: int | Times) -> None:
        self._waiting, self._added = waiting, 0
        self._rows: deque[T] = deque()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def at_once(self) -> bool:
        """Whether labels arrive before the next row is predicted."""
        return isinstance(self._waiting, int) and self._waiting == 0

    def replay(self, n: int, predict: Callable[[slice], T], learn: Callable[[list[T]], None]) -> None:
        """For each of the next n rows, `learn` the rows whose labels have arrived, then `predict` the row."""
        for i in range(n):
            if not self.at_once and (due := self._pop_due()):
                learn(due)
            row = predict(slice(i, i + 1))
            if self.at_once:
                learn([row])
            else:
                self._rows.append(row)
                self._added += 1

    def _pop_due(self) -> list[T]:
        """The rows whose labels have arrived since the last call, oldest first."""
        if isinstance(self._waiting, int):
            most = self._waiting
        elif self._added < len(self._waiting):
            most = int(self._waiting[self._added])
        else:
            raise ValueError(f"time must have an entry for each row, got {len(self._waiting)} entries and more rows")
        return [self._rows.popleft() for _ in range(len(self._rows) - most)]


class PendingRow(NamedTuple):
    """A predicted row: inputs (1, p), target, weight; last label and probabilities at its prediction (`learn_rows`)."""

    X: Array
    y: Any
    weight: Any
    last: Any
    predicted: Array | None


class RowByRow:
    """A model that predicts one row at a time, and learns each row when its label arrives.

    Before its first label the model predicts 0, or the first class; nan with delayed labels. Estimators of other
    libraries skip rows with a missing output or of weight 0. `n_before_first_label` counts rows with delayed labels
    only; `n_skipped` counts rows with a missing output.
    """

    def __init__(self, task: Any, model: Any, waiting: int | Times = 0) -> None:
        self.task, self.model, self.n_before_first_label, self.n_skipped = task, model, 0, 0
        self._queue: LabelQueue[PendingRow] = LabelQueue(waiting)
        # A learner that received only missing labels is fitted, but has nothing to predict from.
        self._has_labels = self._queue.at_once or has_learned(model)

    def predict_then_learn(self, X: Array, y: Any, d: int, classes: Any = (), weights: Array | None = None) -> Array:
        """(n, d) predictions of rows with targets `y` (n, ...), d outputs or classes."""
        F = np.full((len(X), d), np.nan)

        def predict(row: slice) -> PendingRow:
            last = last_label(self.model)
            try:
                if not self._has_labels:
                    raise NotFittedError("no label has arrived yet")
                F[row] = self.task.predict(self.model, X[row], classes)
            except NotFittedError:
                if self._queue.at_once:
                    F[row] = np.zeros(d) if self.task.numeric else np.eye(1, d)
                else:
                    self.n_before_first_label += 1
            weight = None if weights is None else weights[row]
            return PendingRow(X[row], y[row], weight, last, untempered(self.model, X[row]))

        self._queue.replay(len(X), predict, lambda rows: self._learn(rows, classes))
        return F

    def _learn(self, rows: list[PendingRow], classes: Any) -> None:
        rows = [row for row in rows if row.weight is None or row.weight != 0]
        blocks = self.task.learns_blocks(self.model)
        if not blocks:
            whole = [row for row in rows if not missing_labels(row.y).any()]
            self.n_skipped, rows = self.n_skipped + len(rows) - len(whole), whole
        options = {} if self.task.numeric else {"classes": np.asarray(classes)}
        for some in [rows] if blocks and rows else [[row] for row in rows]:
            if some[0].weight is not None:
                options["sample_weight"] = np.concatenate([row.weight for row in some])
            X, y = np.concatenate([row.X for row in some]), np.concatenate([row.y for row in some])
            learn_rows(self.model, X, y, [row.last for row in some], [row.predicted for row in some], **options)
            self._has_labels = self._has_labels or not missing_labels(y).all()
