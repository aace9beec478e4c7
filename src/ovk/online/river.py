"""Online learners in river's interface: dictionaries in and out, one example at a time or in mini-batches.

The order of the features is that in which they were first seen. A feature that is absent from an example is 0 in it,
and one that appears later was 0 in all examples before. Before anything was learned, features have no meaning:
predicting with an unknown one ignores it.

Learners without settings, `AutoStream` and `AutoStreamClassifier`, choose widths and units as they go. A feature that
appears later makes their experts begin anew with the last 10,000 examples, which takes about a second: let the first
example name all features where there are many.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from sklearn.base import clone, is_classifier, is_outlier_detector

from ovk._transactions import Transactional, reads
from ovk._types import Array
from ovk.kernels import Gaussian
from ovk.online.add_features import add_features
from ovk.online.experts.auto import AutoStream, AutoStreamClassifier
from ovk.online.first_order.classifier import OLOKClassifier
from ovk.online.first_order.novelty import NoveltyDetector
from ovk.online.first_order.olok import OLOK
from ovk.online.shared.named_features import NamedFeatures

try:
    from river import base
    from river.conf import Interval
except ImportError as error:  # pragma: no cover
    raise ImportError("ovk.online.river needs river: pip install 'ovk[river]'") from error

__all__ = ["RiverAnomalyDetector", "RiverClassifier", "RiverMultiTargetRegressor", "RiverRegressor", "add_features"]


@runtime_checkable
class _Online(Protocol):
    def partial_fit(self, X: Any, y: Any = None, /) -> Any: ...


@runtime_checkable
class _HasRegions(Protocol):
    def predict_regions(self, X: Any, /) -> Any: ...


def _adapter_of(model: Any) -> str:
    """The adapter that a learner belongs into."""
    if is_outlier_detector(model):
        return "RiverAnomalyDetector"
    return "RiverClassifier" if is_classifier(model) else "RiverRegressor"


class _Adapter(Transactional, ABC):
    """What the adapters share. `model` is never changed: a copy of it learns, so that river can clone the adapter."""

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
        self._features = NamedFeatures()

    @classmethod
    def _example(cls) -> Any:
        """A learner to begin with."""
        return AutoStream()

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.model})"

    @abstractmethod
    def _started_learners(self) -> list[Any]:
        """The learners that have seen examples."""

    def _changes(self, name: str) -> bool:
        return name not in ("model", "targets", "classes")

    def _grow(self, names: Any) -> None:
        new = self._features.new(names)
        columns = self._features.width(len(new)) - self._features.width()
        if columns > 0:
            for learner in self._started_learners():
                add_features(learner, columns)
        self._features.add(new)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": OLOK(Gaussian(1.0), truncation=100)}


class _OneLearner(_Adapter):
    """An adapter of one learner."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.learner: Any = clone(model)
        self._started = False

    def _started_learners(self) -> list[Any]:
        return [self.learner] if self._started else []

    def _intervals(self, x: dict[Any, Any], outputs: int) -> list[Interval]:
        """The interval of each output, without bounds before anything was learned."""
        if not isinstance(self.learner, _HasRegions):
            raise ValueError(
                "with_interval needs a learner with intervals: wrap it, "
                f"{type(self).__name__}(WithIntervals({type(self.model).__name__}(), 0.9))"
            )
        if not self._started:
            return [Interval(-np.inf, np.inf)] * outputs
        regions = self.learner.predict_regions(self._features.row(x))
        return [Interval(*ends) for ends in zip(regions.lower[0].tolist(), regions.upper[0].tolist(), strict=True)]

    def _learn(self, X: Array, *y: Array, w: float = 1.0) -> None:
        self.learner.partial_fit(X, *y, **_weights(w))
        self._started = True


def _target(y: Any) -> Array:
    """The label of an example, (1,)."""
    try:
        return np.array([y], dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"y must be a number, got {y!r}: for labels of classes use RiverClassifier(AutoStreamClassifier())"
        ) from None


def _weights(w: float) -> dict[str, Any]:
    """The weight of an example as an argument of `partial_fit`, where it is not 1."""
    return {} if w == 1.0 else {"sample_weight": [w]}


class RiverRegressor(_OneLearner, base.MiniBatchRegressor):
    """A learner of `ovk.online` as a regressor of river.

    Parameters
    ----------
    model : online learner with `partial_fit` and `predict`; a new copy of it learns
        Start with `AutoStream`, which needs no settings and takes inputs and targets in any units. A learner with a
        kernel of your own wants both standardised.

    Attributes
    ----------
    learner : the copy of `model` that learns

    Examples
    --------
    >>> from river import datasets, evaluate, linear_model, metrics, preprocessing
    >>> from ovk import AutoStream
    >>> from ovk.online.river import RiverRegressor
    >>> linear = preprocessing.StandardScaler() | linear_model.LinearRegression(intercept_lr=0.1)
    >>> ours, theirs = (
    ...     evaluate.progressive_val_score(datasets.TrumpApproval().take(300), model, metrics.MAE()).get()
    ...     for model in (RiverRegressor(AutoStream()), linear)
    ... )
    >>> ours < 0.3 * theirs
    True

    The last label is one of the inputs of `AutoStream`, and on this stream repeating it is as good. For predictions
    from the features alone use ``AutoStream(lag=False)``.

    Intervals as river's own wrappers give them:

    >>> from ovk import WithIntervals
    >>> model = RiverRegressor(WithIntervals(AutoStream(), 0.9))
    >>> for x, y in datasets.TrumpApproval().take(100):
    ...     interval = model.predict_one(x, with_interval=True)
    ...     model.learn_one(x, y)
    >>> y in interval
    True
    """

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn from an example, whose loss is multiplied by w; nothing when y is nan."""
        if isinstance(y, dict):
            raise TypeError("y must be a number, got a dictionary: use RiverMultiTargetRegressor")
        with self._transaction() as work:
            work._grow(x)
            work._learn(work._features.row(x), _target(y), w=w)

    @reads
    def predict_one(self, x: dict[Any, Any], with_interval: bool = False) -> Any:
        """The prediction, 0 before anything was learned; or an interval around it, of a learner `WithIntervals`."""
        if with_interval:
            return self._intervals(x, 1)[0]
        return float(self.learner.predict(self._features.row(x))[0]) if self._started else 0.0

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn from the rows of a data frame, with the same result as one after another."""
        with self._transaction() as work:
            work._grow(X.columns)
            work._learn(work._features.table(X), np.asarray(y, dtype=np.float64))

    @reads
    def predict_many(self, X: Any) -> Any:
        """A series of predictions."""
        import pandas as pd

        values = self.learner.predict(self._features.table(X)) if self._started and len(X) else np.zeros(len(X))
        return pd.Series(values, index=X.index)


class RiverAnomalyDetector(_OneLearner, base.AnomalyDetector):
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

    @reads
    def score_one(self, x: dict[Any, Any]) -> float:
        """How far f(x) lies below the threshold, positive for what is new; 0 before anything was learned."""
        return -float(self.learner.decision_function(self._features.row(x))[0]) if self._started else 0.0

    def is_new_one(self, x: dict[Any, Any]) -> bool:
        """Whether the example is new; nothing is, before anything was learned."""
        return self.score_one(x) > 0


class RiverMultiTargetRegressor(_OneLearner, base.MultiTargetRegressor):
    """A learner of `ovk.online` as a regressor of river with several targets.

    Parameters
    ----------
    model : online learner with `partial_fit` and `predict`
    targets : names of the targets, optional
        By default those of the first example, which then has to name them all. A target that is absent from an example
        is missing, and only the others are learned from.

    Attributes
    ----------
    learner : the copy of `model` that learns

    Examples
    --------
    >>> from ovk import OLOK
    >>> from ovk.kernels import Gaussian
    >>> from ovk.operators import MixedEffect
    >>> from ovk.online.river import RiverMultiTargetRegressor
    >>> model = RiverMultiTargetRegressor(OLOK(Gaussian(1.0) * MixedEffect(0.5), schedule=0.5), targets=("a", "b"))
    >>> model.learn_one({"x": 1.0}, {"a": 2.0})
    >>> model.predict_one({"x": 1.0})
    {'a': 1.0, 'b': 0.5}
    """

    def __init__(self, model: Any, targets: Sequence[Any] | None = None) -> None:
        super().__init__(model)
        self.targets = targets
        self._names: list[Any] = [] if targets is None else list(targets)

    def learn_one(self, x: dict[Any, Any], y: dict[Any, Any], w: float = 1.0, **kwargs: Any) -> None:
        """Learn from an example, whose loss is multiplied by w; absent targets and nan were not observed."""
        names = self._names or list(y)
        if unknown := [name for name in y if name not in names]:
            raise ValueError(f"y holds the target {unknown[0]!r}, which is not one of {names}: name all with targets=")
        row = np.array([[y.get(name, np.nan) for name in names]], dtype=np.float64)
        with self._transaction() as work:
            work._grow(x)
            work._learn(work._features.row(x), row, w=w)
            work._names = names

    @reads
    def predict_one(self, x: dict[Any, Any], with_interval: bool = False) -> dict[Any, Any]:
        """The prediction of each target, or an interval around it; 0 before anything was learned.

        Before the first example targets are known from `targets` alone: without, there are no predictions, and
        `river.evaluate` leaves the example out.
        """
        if with_interval:
            return dict(zip(self._names, self._intervals(x, len(self._names)), strict=True))
        if not self._started:
            return dict.fromkeys(self._names, 0.0)
        values = self.learner.predict(self._features.row(x))[0]
        return dict(zip(self._names, values.tolist(), strict=True))


class RiverClassifier(_Adapter, base.MiniBatchClassifier):
    """A classifier of `ovk.online` as one of river.

    Start with `AutoStreamClassifier`, which needs no settings and takes new labels at any time. The other classifiers
    have to know their classes from the start: give `classes`, unless the labels are True and False. Without, there is
    one copy of `model` for each label, made when that label is first seen, which tells it from all others.

    Parameters
    ----------
    model : `AutoStreamClassifier`, or online classifier with `partial_fit(X, y, classes)` and `decision_function`; new
        copies of it learn
    classes : all labels there will be, optional

    Attributes
    ----------
    learners : the copies of `model` that learn, by label; by None when there is one for all

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from ovk import AutoStreamClassifier
    >>> from ovk.online.river import RiverClassifier
    >>> model = RiverClassifier(AutoStreamClassifier())
    >>> accuracy = evaluate.progressive_val_score(datasets.Phishing().take(600), model, metrics.Accuracy())
    >>> bool(accuracy.get() > 0.85)
    True
    """

    def __init__(self, model: Any, classes: Sequence[Any] | None = None) -> None:
        super().__init__(model)
        self.classes = classes
        self.learners: dict[Any, Any] = {}
        self._labels: list[Any] = [] if classes is None else np.unique(np.asarray(classes)).tolist()

    _takes = "RiverClassifier"

    @classmethod
    def _example(cls) -> Any:
        return AutoStreamClassifier()

    @property
    def _multiclass(self) -> bool:
        return True

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": OLOKClassifier(Gaussian(1.0), truncation=100)}

    def _started_learners(self) -> list[Any]:
        return list(self.learners.values())

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn from an example, whose loss is multiplied by w."""
        if w == 0.0 and not self.learners:
            # Such an example leaves no trace, and nothing can begin with it.
            return
        with self._transaction() as work:
            work._grow(x)
            work._learn(work._features.row(x), [y], w)

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn from the rows of a data frame, with the same result as one after another."""
        with self._transaction() as work:
            work._grow(X.columns)
            work._learn(work._features.table(X), list(y))

    def _learn(self, X: Array, y: list[Any], w: float = 1.0) -> None:
        labels = [label.item() if isinstance(label, np.generic) else label for label in y]
        if not self.learners and labels and isinstance(labels[0], bool) and self.classes is None:
            self._labels = [False, True]
        takes_all = isinstance(self.model, AutoStreamClassifier) and self.classes is None
        if takes_all or None in self.learners or (not self.learners and self._labels):
            unknown = [] if takes_all else [label for label in labels if label not in self._labels]
            if unknown:
                raise ValueError(f"y holds the label {unknown[0]!r}, which is not one of the classes {self._labels}")
            self._learn_class(None, X, np.array(labels), self._labels or None, w)
            if takes_all:
                self._labels = self.learners[None].classes_.tolist()
            return
        for label in dict.fromkeys([*self.learners, *labels]):
            start = 0 if label in self.learners else labels.index(label)
            own = np.array([other == label for other in labels[start:]], dtype=bool)
            self._learn_class(label, X[start:], own, [False, True], w)
            if label not in self._labels:
                self._labels.append(label)

    def _learn_class(self, label: Any, X: Array, y: Any, classes: list[Any] | None, w: float) -> None:
        if label in self.learners:
            self.learners[label].partial_fit(X, y, **_weights(w))
            return
        learner = clone(self.model)
        learner.partial_fit(X, y, classes=classes, **_weights(w))
        self.learners[label] = learner

    def _probabilities(self, X: Array) -> Array:
        """(n, K), of the labels in their order; as likely as each other before anything was learned."""
        together = self.learners.get(None)
        if isinstance(together, AutoStreamClassifier):
            return together.predict_proba(X)
        if not self.learners:
            scores = np.zeros((len(X), len(self._labels)))
        else:
            parts = [learner.decision_function(X) for learner in self.learners.values()]
            scores = np.stack(parts, axis=1) if together is None else parts[0]
        if scores.ndim == 1:
            # Two classes: the score is the logarithm of the odds.
            scores = np.stack([-scores / 2, scores / 2], axis=1)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
        shares: Array = weights / weights.sum(axis=1, keepdims=True)
        return shares

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """The probability of each label; no label before the first one is known."""
        now = self._fork()
        return dict(zip(now._labels, now._probabilities(now._features.row(x))[0].tolist(), strict=True))

    @reads
    def predict_proba_many(self, X: Any) -> Any:
        """A data frame of probabilities, one column for each label."""
        import pandas as pd

        return pd.DataFrame(self._probabilities(self._features.table(X)), columns=self._labels, index=X.index)
