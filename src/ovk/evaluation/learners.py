"""The contract of progressive evaluation, and how other estimators meet it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError

from ovk.base import Array, is_fitted_name


@runtime_checkable
class OnlineLearner(Protocol):
    """Learns from a stream: every row is predicted before it is learned from."""

    def predict_then_learn(self, X: Any, y: Any, /) -> Any:
        """Predictions of the rows, in the shape of y, each made from the rows before it."""


@runtime_checkable
class OnlineClassifier(Protocol):
    """A classifier that learns from a stream, and predicts the probabilities of every row before it learns it."""

    def predict_proba_then_learn(self, X: Any, y: Any, classes: Any = None, /) -> Any:
        """(n, K) probabilities of `classes_`, each made from the rows before it."""


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

    def partial_fit_late(self, X: Any, y: Any, last_label: Any, /, **options: Any) -> Any:
        """Go on learning; `last_label` is `last_label_` as it was when each row was predicted."""


def last_label(model: Any) -> Any:
    """The last label of a model that uses it as an input; None for others, and before the first one."""
    if not isinstance(model, TakesLastLabel):
        return None
    try:
        return model.last_label_  # type: ignore[attr-defined]
    except NotFittedError:
        return None


def learn_rows(model: Any, X: Array, y: Any, last: Sequence[Any] = (), **options: Any) -> None:
    """Learn rows whose labels have come; `last` has `last_label` of the model as it was when each was predicted."""
    if not isinstance(model, TakesLastLabel):
        model.partial_fit(X, y, **options)
        return
    none = None if isinstance(model, ClassifierMixin) else np.full(np.size(y[0]), np.nan)
    known = np.array([none if one is None else one for one in last], dtype=object if none is None else np.float64)
    model.partial_fit_late(X, y, known, **options)


def has_learned(model: Any) -> bool:
    """Whether a model knows something already, so that it can predict the very first row of a stream."""
    known = getattr(model, "__dict__", {})
    return any(is_fitted_name(name) for name in known) or ("learner" in known and has_learned(known["learner"]))
