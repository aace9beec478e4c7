"""The contract of progressive evaluation, and how other estimators meet it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from sklearn.exceptions import NotFittedError

from ovk.base import Array, is_fitted_name


@runtime_checkable
class OnlineLearner(Protocol):
    """Learns from a stream: every row is predicted before it is learned from."""

    def predict_then_learn(self, X: Any, y: Any, /) -> Any:
        """Predictions of the rows, in the shape of y, each made from the rows before it."""


@runtime_checkable
class Mergeable(Protocol):
    """Can learn what another of its kind has learned, as from its rows."""

    def merge(self, other: Any, /) -> Any:
        """Take in what the other has learned."""


@runtime_checkable
class Incremental(Protocol):
    """What scikit-learn's estimators for streams offer."""

    def partial_fit(self, X: Any, y: Any, /) -> Any:
        """Go on learning."""

    def predict(self, X: Any, /) -> Any:
        """Predict without learning."""


@runtime_checkable
class TakesLastLabel(Protocol):
    """Uses the last label as an input: a row whose label comes late is learned with the one known at its prediction."""

    def partial_fit_late(self, X: Any, y: Any, last_label: Any, /, *args: Any, **options: Any) -> Any:
        """Go on learning; `last_label` is `last_label_` as it was when each row was predicted."""


def last_label(model: Any) -> Any:
    """The last label of a model that uses it as an input; None for others, and before the first one."""
    if not isinstance(model, TakesLastLabel):
        return None
    try:
        return model.last_label_  # type: ignore[attr-defined]
    except NotFittedError:
        return None


def last_labels(found: Sequence[Array | None], d: int) -> Array:
    """(n, d) last labels of rows with d outputs; nan where there was none."""
    none = np.full(d, np.nan)
    return np.array([none if one is None else one for one in found])


class RowByRow:
    """An estimator with `partial_fit` and `predict`, made to predict one row, then learn it.

    It predicts 0 before it has learned anything. Rows with a missing output, or of weight 0, are predicted but not
    learned, since such estimators refuse them.
    """

    def __init__(self, model: Incremental) -> None:
        self.model = model
        self.n_skipped = 0

    def predict_then_learn(self, X: Array, y: Array, /, sample_weight: Any = None) -> Array:
        F = np.zeros_like(y)
        for i in range(len(X)):
            row = slice(i, i + 1)
            weight = {} if sample_weight is None else {"sample_weight": sample_weight[row]}
            try:
                F[row] = np.asarray(self.model.predict(X[row])).reshape(F[row].shape)
            except NotFittedError:
                F[row] = 0.0
            if np.isnan(y[row]).any():
                self.n_skipped += 1
            elif sample_weight is None or sample_weight[i] != 0:
                self.model.partial_fit(X[row], y[row], **weight)
        return F


def as_learner(model: Any) -> OnlineLearner:
    """`model` itself if it predicts before it learns, or wrapped so that it does."""
    if isinstance(model, OnlineLearner):
        return model
    if isinstance(model, Incremental):
        return RowByRow(model)
    raise TypeError(
        "model must have predict_then_learn (an online learner of ovk), or partial_fit and predict (scikit-learn), got "
        f"{type(model).__name__}: a batch estimator can stand beside a stream as RefittedRidge does, and for late "
        "labels there is DelayedLabels(WithIntervals(model))"
    )


def has_learned(model: Any) -> bool:
    """Whether a model knows something already, so that it can predict the very first row of a stream."""
    known = getattr(model, "__dict__", {})
    return any(is_fitted_name(name) for name in known) or ("learner" in known and has_learned(known["learner"]))
