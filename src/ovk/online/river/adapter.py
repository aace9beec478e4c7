"""What the adapters share: the learner inside, and names of features as its columns."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

from river import base
from sklearn.base import clone, is_classifier, is_outlier_detector

from ovk.base import Array, Transactional, reads_snapshot
from ovk.kernels import Gaussian
from ovk.online import OLOK, AutoStream, NamedFeatures, NoveltyDetector, add_features


@runtime_checkable
class _Online(Protocol):
    def partial_fit(self, X: Any, y: Any = None, /) -> Any: ...


def _adapter_of(model: Any) -> str:
    """The adapter that a learner belongs into."""
    if is_outlier_detector(model):
        return "RiverAnomalyDetector"
    return "RiverClassifier" if is_classifier(model) else "RiverRegressor"


class Adapter(Transactional):
    """Base of the adapters. `model` is never changed: a copy of it learns, so that river can clone the adapter.

    Attributes
    ----------
    learner : the copy of `model` that learns
    """

    #: The name among those of `_adapter_of` of the learners it takes.
    _takes = "RiverRegressor"

    def __init__(self, model: Any) -> None:
        if not isinstance(model, _Online):
            raise TypeError(
                f"{type(model).__name__} has no partial_fit, so it cannot learn one example at a time: use a stream "
                f"learner, such as {type(self).__name__}({self._example()!r})"
            )
        if hasattr(model, "__sklearn_tags__") and _adapter_of(model) != self._takes:
            raise TypeError(
                f"{type(self).__name__} cannot take {type(model).__name__}: use {_adapter_of(model)}, or another "
                f"learner such as {self._example()!r}"
            )
        if any(name.endswith("_") and not name.startswith("_") for name in vars(model)):
            warnings.warn(
                f"this {type(model).__name__} has learned already, and {type(self).__name__} begins anew with its "
                "parameters, as it does not know which feature each column was: to go on later, pickle the adapter",
                stacklevel=3,
            )
        self.model = model
        self.learner: Any = clone(model)
        self._started = False
        self._features = NamedFeatures()

    @classmethod
    def _example(cls) -> Any:
        """A learner to begin with."""
        return AutoStream()

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.model})"

    def _changes(self, name: str) -> bool:
        return name not in ("model", "targets", "classes")

    def _started_learners(self) -> list[Any]:
        """The learners that have seen examples."""
        return [self.learner] if self._started else []

    def _grow(self, names: Any) -> None:
        new = self._features.new(names)
        columns = self._features.width(len(new)) - self._features.width()
        if columns > 0:
            for learner in self._started_learners():
                add_features(learner, columns)
        self._features.add(new)

    def _learn(self, X: Array, *y: Array, w: float = 1.0) -> None:
        self.learner.partial_fit(X, *y, **weights(w))
        self._started = True

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": OLOK(Gaussian(1.0), truncation=100)}


def weights(w: float) -> dict[str, Any]:
    """The weight of an example as an argument of `partial_fit`, where it is not 1."""
    return {} if w == 1.0 else {"sample_weight": [w]}


# Detectors of what is new, as anomaly detectors of river.


class RiverAnomalyDetector(Adapter, base.AnomalyDetector):
    """A `NoveltyDetector` as an anomaly detector of river.

    Parameters
    ----------
    model : `NoveltyDetector`
        Give its kernel a length scale: "median" would be that of a single example.

    Attributes
    ----------
    learner : the copy of `model` that learns

    Examples
    --------
    >>> from ovk import NoveltyDetector
    >>> from ovk.kernels import Gaussian
    >>> from ovk.online.river import RiverAnomalyDetector
    >>> model = RiverAnomalyDetector(NoveltyDetector(Gaussian(1.0), nu=0.1))
    >>> for k in range(200):
    ...     model.learn_one({"x": k % 10 / 10})
    >>> model.score_one({"x": 0.5}) < 0 < model.score_one({"x": 7.0}), model.is_new_one({"x": 7.0})
    (True, True)
    """

    _takes = "RiverAnomalyDetector"

    @classmethod
    def _example(cls) -> Any:
        return NoveltyDetector(Gaussian(1.0))

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": NoveltyDetector(Gaussian(1.0), truncation=100)}

    def learn_one(self, x: dict[Any, Any]) -> None:
        """Learn from an example."""
        with self._transaction() as work:
            work._grow(x)
            work._learn(work._features.row(x))

    @reads_snapshot
    def score_one(self, x: dict[Any, Any]) -> float:
        """How far f(x) lies below the threshold, positive for what is new; 0 before anything was learned."""
        row = self._features.row(x)
        return -float(self.learner.decision_function(row)[0]) if self._started else 0.0

    def is_new_one(self, x: dict[Any, Any]) -> bool:
        """Whether the example is new; nothing is, before anything was learned."""
        return self.score_one(x) > 0
