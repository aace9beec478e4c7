"""Online learners in river's interface: dictionaries in and out, one example at a time or in mini-batches.

A feature that is absent from an example is 0 in it, and one that appears later was 0 in all examples before.
Predictions ignore a feature that no example has had so far. Every value must be a number, in prediction and learning.

A feature that appears later makes the experts of `AutoStream` and `AutoStreamClassifier` restart with the last 10,000
examples, which takes about a second: let the first example name all features where there are many.

Adapters can be pickled like any model of river. `ovk.save` writes their `learner`, the copy of `model` that learns,
for use on arrays.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import date, time, timedelta
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_outlier_detector

from ovk._extras import required

with required("ovk.online.river", "river"):
    from river import base
    from river.conf import Interval

from ovk.base import Array, CopyOnWrite, Labels, Transactional, is_missing, reads_snapshot
from ovk.kernels import Gaussian
from ovk.online import OLOK, AutoStream, AutoStreamClassifier, NoveltyDetector, OLOKClassifier, add_features

__all__ = ["RiverAnomalyDetector", "RiverClassifier", "RiverMultiTargetRegressor", "RiverRegressor", "add_features"]

#: Letters of a value that a message shows.
MAX_LETTERS_SHOWN = 60
#: What to do about a target that is no number.
CURE = "for labels of classes use RiverClassifier(AutoStreamClassifier())"
SEVERAL = "for several targets use RiverMultiTargetRegressor"
#: Kinds of the arrays that hold labels of a type as they are.
KINDS = {bool: "b", int: "i", float: "f", str: "U"}


class NamedFeatures(CopyOnWrite):
    """Columns of the features seen so far, in the order of their first example and, within one, of their names."""

    def __init__(self) -> None:
        self._index: dict[Any, int] = {}

    def width(self) -> int:
        """Columns of the rows; without any feature there is one of zeros."""
        return max(len(self._index), 1)

    def add(self, names: Iterable[Any]) -> int:
        """Add those that are new, sorted: their order within an example makes no difference. Returns new columns."""
        new, before = sorted((name for name in names if name not in self._index), key=str), self.width()
        # A new dictionary, as copies share the old one.
        self._index = self._index | {name: len(self._index) + i for i, name in enumerate(new)}
        return self.width() - before

    def row(self, x: dict[Any, Any]) -> Array:
        """(1, p). A feature that was never seen is left out, but must be a number too."""
        row = np.zeros((1, self.width()))
        for name, value in x.items():
            number = _number(value, f"feature {name!r}", _feature_cure)
            if name in self._index:
                row[0, self._index[name]] = number
        return row

    def table(self, X: Any) -> Array:
        """(n, p) from a data frame, likewise."""
        table = np.zeros((len(X), self.width()))
        for j, name in enumerate(X.columns):
            numbers = _numbers(X.iloc[:, j], f"feature {name!r}", _feature_cure)
            if name in self._index:
                table[:, self._index[name]] = numbers
        return table


def _number(value: Any, what: str, cure: Callable[[Any], str]) -> float:
    """A value as a number; an error says what it is and what to do about it."""
    try:
        return float(value)
    except (TypeError, ValueError):
        shown = repr(value)
        shown = shown if len(shown) <= MAX_LETTERS_SHOWN else f"{shown[: MAX_LETTERS_SHOWN - 3]}..."
        raise ValueError(f"{what} must be a number, got {shown}: {cure(value)}") from None


def _numbers(values: Any, what: str, cure: Callable[[Any], str]) -> Array:
    """(n,) numbers of a column."""
    # numpy would turn dates and durations into numbers of their units.
    if np.asarray(values).dtype.kind not in "mM":
        try:
            return np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            pass
    return np.array([_number(value, f"{what} in row {i}", cure) for i, value in enumerate(values)])


def _holds_several(value: Any) -> bool:
    return isinstance(value, (Mapping, Sequence, Set, np.ndarray)) and not isinstance(value, (str, bytes))


def _feature_cure(value: Any) -> str:
    if _holds_several(value):
        return "give every value in it a feature of its own"
    if is_missing(value):
        return "write a missing value as nan for AutoStream, or impute it first (river.preprocessing.StatImputer)"
    if isinstance(value, (date, time, timedelta, np.datetime64, np.timedelta64)):
        return "give numbers made from it, such as the hour, the weekday or the seconds since a start"
    return "encode it first (river.preprocessing.OneHotEncoder)"


def _target(value: Any, what: str, several: str = SEVERAL) -> float:
    """A target as a number, nan where it is missing; `several` is what to do about one that holds more than one."""
    if _holds_several(value):
        return _number(value, what, lambda _: several)
    return np.nan if is_missing(value) else _number(value, what, lambda _: CURE)


def _weight(w: float) -> dict[str, Any]:
    """The weight of an example as an argument of `partial_fit`, where it is not 1."""
    return {} if w == 1.0 else {"sample_weight": [w]}


def _adapter_of(model: Any) -> str:
    if is_outlier_detector(model):
        return "RiverAnomalyDetector"
    return "RiverClassifier" if is_classifier(model) else "RiverRegressor"


class Adapter(Transactional):
    """Base of the adapters. `model` is never changed: a copy of it learns, so that river can clone the adapter."""

    #: What `_adapter_of` gives for the learners it takes, and one of them.
    _takes = "RiverRegressor"
    _example: Any = AutoStream()

    def __init__(self, model: Any) -> None:
        if not hasattr(model, "partial_fit"):
            raise TypeError(
                f"{type(model).__name__} has no partial_fit, so it cannot learn one example at a time: use a stream "
                f"learner, such as {type(self).__name__}({self._example!r})"
            )
        if hasattr(model, "__sklearn_tags__") and _adapter_of(model) != self._takes:
            raise TypeError(
                f"{type(self).__name__} cannot take {type(model).__name__}: use {_adapter_of(model)}, or another "
                f"learner such as {self._example!r}"
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

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.model})"

    def _changes(self, name: str) -> bool:
        return name not in ("model", "targets", "classes")

    def _started_learners(self) -> list[Any]:
        return [self.learner] if self._started else []

    def _grow(self, names: Any) -> None:
        columns = self._features.add(names)
        for learner in self._started_learners() if columns else ():
            add_features(learner, columns)

    def _learn(self, X: Array, *y: Array, w: float = 1.0) -> None:
        self.learner.partial_fit(X, *y, **_weight(w))
        self._started = True

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": OLOK(Gaussian(1.0), truncation=100)}

    def _intervals(self, x: dict[Any, Any], outputs: int) -> list[Interval]:
        if not hasattr(self.learner, "predict_regions"):
            raise ValueError(
                "with_interval needs a learner with intervals: wrap it, "
                f"{type(self).__name__}(WithIntervals({type(self.model).__name__}(), 0.9))"
            )
        row = self._features.row(x)
        if not self._started:
            return [Interval(-np.inf, np.inf)] * outputs
        regions = self.learner.predict_regions(row)
        return [Interval(*ends) for ends in zip(regions.lower[0].tolist(), regions.upper[0].tolist(), strict=True)]


class RiverRegressor(Adapter, base.MiniBatchRegressor):
    """A learner of `ovk.online` as a regressor of river.

    Parameters
    ----------
    model : online learner with `partial_fit` and `predict`; a new copy of it learns
        Start with `AutoStream`, which needs no settings and takes inputs and targets in any units. A learner with a
        kernel of your own wants both standardised.

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
        """Learn from an example, whose loss is multiplied by w; nothing when y is nan or None."""
        target = np.array([_target(y, "y")])
        with self._transaction() as work:
            work._grow(x)
            work._learn(work._features.row(x), target, w=w)

    @reads_snapshot
    def predict_one(self, x: dict[Any, Any], with_interval: bool = False) -> Any:
        """The prediction, 0 before anything was learned; or an interval around it, of a learner `WithIntervals`."""
        if with_interval:
            return self._intervals(x, 1)[0]
        row = self._features.row(x)
        return float(self.learner.predict(row)[0]) if self._started else 0.0

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn from the rows of a data frame, with the same result as one after another, to rounding."""
        targets = _numbers(y, "y", lambda value: CURE)
        if targets.ndim != 1:
            raise ValueError(f"y must hold a number for each row, got shape {targets.shape}: {SEVERAL}")
        with self._transaction() as work:
            work._grow(X.columns)
            work._learn(work._features.table(X), targets)

    @reads_snapshot
    def predict_many(self, X: Any) -> Any:
        """A series of predictions."""
        import pandas as pd

        table = self._features.table(X)
        values = self.learner.predict(table) if self._started and len(X) else np.zeros(len(X))
        return pd.Series(values, index=X.index)


class RiverMultiTargetRegressor(Adapter, base.MultiTargetRegressor):
    """A learner of `ovk.online` as a regressor of river with several targets.

    Parameters
    ----------
    model : online learner with `partial_fit` and `predict`
    targets : names of the targets, optional
        By default those of the first example, which then has to name them all. A target that is absent from an example
        is missing, and only the others are learned from.

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
        """Learn from an example, whose loss is multiplied by w; absent targets, nan and None were not observed."""
        if not isinstance(y, Mapping):
            raise TypeError(
                f"y must be a dictionary of targets, got {y!r}: write {{'name': value}}, or use RiverRegressor, which "
                "has one target"
            )
        names = self._names or list(y)
        if unknown := [name for name in y if name not in names]:
            raise ValueError(f"y holds the target {unknown[0]!r}, which is not one of {names}: name all with targets=")
        row = np.array(
            [[_target(y.get(name), f"target {name!r}", "give every value in it a target of its own") for name in names]]
        )
        with self._transaction() as work:
            work._grow(x)
            work._learn(work._features.row(x), row, w=w)
            work._names = names

    @reads_snapshot
    def predict_one(self, x: dict[Any, Any], with_interval: bool = False) -> dict[Any, Any]:
        """The prediction of each target, or an interval around it; 0 before anything was learned.

        Before the first example targets are known from `targets` alone: without, there are no predictions, and
        `river.evaluate` leaves the example out.
        """
        if with_interval:
            return dict(zip(self._names, self._intervals(x, len(self._names)), strict=True))
        row = self._features.row(x)
        if not self._started:
            return dict.fromkeys(self._names, 0.0)
        values = self.learner.predict(row)[0]
        return dict(zip(self._names, values.tolist(), strict=True))


class RiverAnomalyDetector(Adapter, base.AnomalyDetector):
    """A `NoveltyDetector` as an anomaly detector of river.

    Parameters
    ----------
    model : `NoveltyDetector`
        Give its kernel a length scale: "median" would be that of a single example.

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

    _takes, _example = "RiverAnomalyDetector", NoveltyDetector(Gaussian(1.0))

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


class RiverClassifier(Adapter, base.MiniBatchClassifier):
    """A classifier of `ovk.online` as one of river.

    Start with `AutoStreamClassifier`, which needs no settings and takes new labels at any time. The other classifiers
    have to know their classes from the start: give `classes`, unless the labels are True and False. Without it there is
    one copy of `model` for each label, made when that label is first seen, which tells it from all others.

    Predictions are the very labels that were learned. These may be of several types, such as 0 and "other"; an example
    whose label is None or nan is not learned.

    Parameters
    ----------
    model : `AutoStreamClassifier`, or online classifier with `partial_fit(X, y, classes)` and `decision_function`; new
        copies of it learn
    classes : all labels there will be, optional

    Attributes
    ----------
    learner : the copy of `model` that learns; where there is one for each label, a dictionary of them by label. A
        single learner knows labels of several types by their numbers in the order of `predict_proba_one`.

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

    _takes, _example = "RiverClassifier", AutoStreamClassifier()

    def __init__(self, model: Any, classes: Sequence[Any] | None = None) -> None:
        super().__init__(model)
        self.classes = classes
        self._labels: list[Any] = [] if classes is None else _in_order(_plain(classes))
        self._numbered = not _fit_an_array(self._labels)

    @property
    def _multiclass(self) -> bool:
        return True

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": OLOKClassifier(Gaussian(1.0), truncation=100)}

    def _started_learners(self) -> list[Any]:
        return list(self.learner.values()) if isinstance(self.learner, dict) else super()._started_learners()

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn from an example, whose loss is multiplied by w; of weight 0 it leaves no trace."""
        if w == 0.0:
            return
        with self._transaction() as work:
            work._grow(x)
            work._learn_labels(work._features.row(x), _plain([y]), w)

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn from the rows of a data frame, with the same result as one after another, to rounding."""
        with self._transaction() as work:
            work._grow(X.columns)
            work._learn_labels(work._features.table(X), _plain(y))

    def _learn_labels(self, X: Array, labels: list[Any], w: float = 1.0) -> None:
        known = [not is_missing(label) for label in labels]
        if not self._started:
            # Nothing can begin with a row that has no label.
            begin = known.index(True) if any(known) else len(known)
            X, labels, known = X[begin:], labels[begin:], known[begin:]
            if not labels:
                return
            if self.classes is None and isinstance(labels[0], bool):
                self._labels = [False, True]
        found = [label for label, there in zip(labels, known, strict=True) if there]
        new = [label for label in dict.fromkeys(found) if label not in self._labels]
        if isinstance(self.model, AutoStreamClassifier) and self.classes is None:
            self._learn_together(X, labels, w, new)
        elif self._labels and not isinstance(self.learner, dict):
            if new:
                raise ValueError(
                    f"y holds the label {new[0]!r}, which is not one of the classes {self._labels}: name all with "
                    "classes="
                )
            self._learn_together(X, labels, w)
        elif found:
            self._learn_one_vs_rest(X[known], found, w)
            self._labels = [*self._labels, *new]
        self._started = True

    def _learn_together(self, X: Array, labels: list[Any], w: float, new: Sequence[Any] = ()) -> None:
        before, self._labels = self._labels, [*self._labels, *new]
        if new and not self._numbered and not _fit_an_array(self._labels):
            self._numbered = True
            if self._started:
                self.learner.classes_ = self._coded(before)
        first = {} if self._started else {"classes": self._coded(before) if before else None}
        self.learner.partial_fit(X, self._coded(labels), **first, **_weight(w))

    def _learn_one_vs_rest(self, X: Array, labels: list[Any], w: float) -> None:
        learners = self.learner if isinstance(self.learner, dict) else {}
        for label in dict.fromkeys([*learners, *labels]):
            start, first = 0, {}
            if label not in learners:
                start, first = labels.index(label), {"classes": [False, True]}
                learners[label] = clone(self.model)
            own = np.array([other == label for other in labels[start:]], dtype=bool)
            learners[label].partial_fit(X[start:], own, **first, **_weight(w))
        self.learner = learners

    def _coded(self, labels: list[Any]) -> Labels:
        """Labels as the learner knows them: themselves, or their numbers where no array can hold them as they are."""
        if not self._numbered:
            return np.array(labels)
        numbers = {label: number for number, label in enumerate(self._labels)}
        return np.array([np.nan if is_missing(label) else numbers[label] for label in labels])

    def _probabilities(self, X: Array) -> Array:
        """(n, K), of the labels in their order; as likely as each other before anything was learned."""
        if not self._started:
            scores = np.zeros((len(X), len(self._labels)))
        elif isinstance(self.learner, dict):
            scores = np.stack([learner.decision_function(X) for learner in self.learner.values()], axis=1)
        elif isinstance(self.learner, AutoStreamClassifier):
            return self.learner.predict_proba(X)
        else:
            scores = self.learner.decision_function(X)
        if scores.ndim == 1:
            # Two classes: the score is the logarithm of the odds.
            scores = np.stack([-scores / 2, scores / 2], axis=1)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
        probabilities: Array = shares / shares.sum(axis=1, keepdims=True)
        return probabilities

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """The probability of each label; no label before the first one is known."""
        now = self._snapshot()
        return dict(zip(now._labels, now._probabilities(now._features.row(x))[0].tolist(), strict=True))

    @reads_snapshot
    def predict_proba_many(self, X: Any) -> Any:
        """A data frame of probabilities, one column for each label."""
        import pandas as pd

        return pd.DataFrame(self._probabilities(self._features.table(X)), columns=self._labels, index=X.index)


def _plain(labels: Iterable[Any]) -> list[Any]:
    """Labels as Python's own values, which numpy's are equal to."""
    return [label.item() if isinstance(label, np.generic) else label for label in labels]


def _fit_an_array(labels: list[Any]) -> bool:
    """Whether an array holds the labels as they are: those of several types would become one of them, often text."""
    types = {type(label) for label in labels}
    return not types or (len(types) == 1 and np.array(labels).dtype.kind == KINDS.get(types.pop()))


def _in_order(labels: list[Any]) -> list[Any]:
    """Different labels, in the order in which a classifier keeps them if it can."""
    return np.unique(np.array(labels)).tolist() if _fit_an_array(labels) else list(dict.fromkeys(labels))
