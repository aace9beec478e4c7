"""Adapters of online learners to river's interface: dictionaries, one example at a time or in mini-batches.

A feature that is absent from an example is 0, and a new feature was 0 in all examples before. Predictions ignore
features that were never learned. Every value must be a number.

A new feature makes the experts of `AutoStream` and `AutoStreamClassifier` restart with the last 10,000 examples, which
takes about a second: let the first example name all features if there are many.

Adapters can be pickled like any river model. `ovk.save` saves their `learner`, the copy of `model` that learns, for use
on arrays.
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

from ovk.base import Array, CopyOnWrite, Labels, Transactional, is_fitted_name, is_missing, reads_snapshot
from ovk.kernels import Gaussian
from ovk.online import OLOK, AutoStream, AutoStreamClassifier, NoveltyDetector, OLOKClassifier, add_features

__all__ = ["RiverAnomalyDetector", "RiverClassifier", "RiverMultiTargetRegressor", "RiverRegressor", "add_features"]

#: Length of a value in a message.
MAX_LETTERS_SHOWN = 60
#: Advice in messages about targets that are not numbers.
CLASSES_HINT = "for class labels use RiverClassifier(AutoStreamClassifier())"
ONE_HINT = "use {'name': value}, or RiverRegressor for one target"
SEVERAL_HINT = "for several targets use RiverMultiTargetRegressor"
#: Kinds of the arrays that store labels of a type unchanged.
KINDS = {bool: "b", int: "i", float: "f", str: "U"}


class NamedFeatures(CopyOnWrite):
    """Columns of the features so far, in the order of their first example, sorted by name within an example."""

    def __init__(self) -> None:
        self._index: dict[Any, int] = {}

    def width(self) -> int:
        """Number of columns; without any feature there is one of zeros."""
        return max(len(self._index), 1)

    def add(self, names: Iterable[Any]) -> int:
        """Add new features and return the number of new columns."""
        new, before = sorted((name for name in names if name not in self._index), key=str), self.width()
        # A new dictionary, as copies share the old one.
        self._index = self._index | {name: len(self._index) + i for i, name in enumerate(new)}
        return self.width() - before

    def row(self, x: dict[Any, Any]) -> Array:
        """(1, p) row of an example. New features are ignored, but must be numbers too."""
        row = np.zeros((1, self.width()))
        for name, value in x.items():
            number = _number(value, f"feature {name!r}", _feature_hint)
            if name in self._index:
                row[0, self._index[name]] = number
        return row

    def table(self, X: Any) -> Array:
        """(n, p) rows of a data frame."""
        table = np.zeros((len(X), self.width()))
        for j, name in enumerate(X.columns):
            numbers = _numbers(X.iloc[:, j], f"feature {name!r}", _feature_hint)
            if name in self._index:
                table[:, self._index[name]] = numbers
        return table


def _number(value: Any, name: str, hint: Callable[[Any], str]) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        shown = repr(value)
        shown = shown if len(shown) <= MAX_LETTERS_SHOWN else f"{shown[: MAX_LETTERS_SHOWN - 3]}..."
        raise ValueError(f"{name} must be a number, got {shown}: {hint(value)}") from None


def _numbers(values: Any, name: str, hint: Callable[[Any], str]) -> Array:
    """(n,) numbers of a column."""
    # NumPy would convert dates and durations to integers.
    if np.asarray(values).dtype.kind not in "mM":
        try:
            return np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            pass
    return np.array([_number(value, f"{name} in row {i}", hint) for i, value in enumerate(values)])


def _holds_several(value: Any) -> bool:
    return isinstance(value, (Mapping, Sequence, Set, np.ndarray)) and not isinstance(value, (str, bytes))


def _feature_hint(value: Any) -> str:
    if _holds_several(value):
        return "use a separate feature for each of its values"
    if is_missing(value):
        return "use nan for missing values with AutoStream, or impute them first (river.preprocessing.StatImputer)"
    if isinstance(value, (date, time, timedelta, np.datetime64, np.timedelta64)):
        return "convert it to numbers, such as the hour, the weekday or the seconds since a start"
    return "encode it first (river.preprocessing.OneHotEncoder)"


def _target(value: Any, name: str, several_hint: str = SEVERAL_HINT) -> float:
    """A target as a number, nan if it is missing."""
    if _holds_several(value):
        return _number(value, name, lambda _: several_hint)
    return np.nan if is_missing(value) else _number(value, name, lambda _: CLASSES_HINT)


def _weight(w: float) -> dict[str, Any]:
    return {} if w == 1.0 else {"sample_weight": [w]}


def _adapter_of(model: Any) -> str:
    if is_outlier_detector(model):
        return "RiverAnomalyDetector"
    return "RiverClassifier" if is_classifier(model) else "RiverRegressor"


class Adapter(Transactional):
    """Base class of the adapters. A copy of `model` learns, so that river can clone the adapter."""

    #: The result of `_adapter_of` for suitable learners, and an example of one.
    _takes = "RiverRegressor"
    _example: Any = AutoStream()

    def __init__(self, model: Any) -> None:
        if not hasattr(model, "partial_fit"):
            raise TypeError(
                f"{type(model).__name__} has no partial_fit: use an online learner, such as "
                f"{type(self).__name__}({self._example!r})"
            )
        if hasattr(model, "__sklearn_tags__") and _adapter_of(model) != self._takes:
            raise TypeError(
                f"{type(self).__name__} does not support {type(model).__name__}: use {_adapter_of(model)}, or another "
                f"learner such as {self._example!r}"
            )
        if any(map(is_fitted_name, vars(model))):
            warnings.warn(
                f"this {type(model).__name__} is fitted, but {type(self).__name__} starts with a new copy, as the "
                "names of its features are unknown: to continue learning later, pickle the adapter",
                stacklevel=3,
            )
        self.model = model
        self.learner: Any = clone(model)
        #: Whether the learner has seen an example, and whether it has seen a target.
        self._started = self._labelled = False
        self._features = NamedFeatures()

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.model})"

    def _changes(self, name: str) -> bool:
        return name not in ("model", "targets", "classes")

    def _started_learners(self) -> list[Any]:
        return [self.learner] if self._started else []

    def _grow(self, x: Any) -> Array:
        """The rows of an example or of a data frame; its new features are added to the learners."""
        columns = self._features.add(x)
        for learner in self._started_learners() if columns else ():
            add_features(learner, columns)
        return self._features.table(x) if hasattr(x, "columns") else self._features.row(x)

    def _learn(self, X: Array, *y: Array, w: float = 1.0) -> None:
        self.learner.partial_fit(X, *y, **_weight(w))
        self._started = True
        self._labelled = self._labelled or (w > 0.0 and any(np.isfinite(targets).any() for targets in y))

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": OLOK(Gaussian(1.0), truncation=100)}

    def _intervals(self, x: dict[Any, Any], outputs: int) -> list[Interval]:
        if not hasattr(self.learner, "predict_regions"):
            raise ValueError(
                "with_interval requires a learner with intervals: use "
                f"{type(self).__name__}(WithIntervals({type(self.model).__name__}(), 0.9))"
            )
        row = self._features.row(x)
        if not self._started:
            return [Interval(-np.inf, np.inf)] * outputs
        regions = self.learner.predict_regions(row)
        return [Interval(*ends) for ends in zip(regions.lower[0].tolist(), regions.upper[0].tolist(), strict=True)]


class RiverRegressor(Adapter, base.MiniBatchRegressor):
    """Adapter of an online regressor of ovk to river.

    Parameters
    ----------
    model : online learner with `partial_fit` and `predict`
        A new copy of it learns. Start with `AutoStream`, which needs no settings and accepts any units. For a learner
        with a kernel of your own, standardise inputs and targets.

    See Also
    --------
    RiverMultiTargetRegressor, RiverClassifier, RiverAnomalyDetector

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

    `AutoStream` uses the last label as an input, and on this stream repeating it is as accurate. For predictions from
    the features alone use ``AutoStream(lag=False)``.

    Prediction intervals:

    >>> from ovk import WithIntervals
    >>> model = RiverRegressor(WithIntervals(AutoStream(), 0.9))
    >>> for x, y in datasets.TrumpApproval().take(100):
    ...     interval = model.predict_one(x, with_interval=True)
    ...     model.learn_one(x, y)
    >>> y in interval
    True
    """

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn from an example of weight w, unless y is nan or None."""
        target = np.array([_target(y, "y")])
        with self._transaction() as work:
            work._learn(work._grow(x), target, w=w)

    @reads_snapshot
    def predict_one(self, x: dict[Any, Any], with_interval: bool = False) -> Any:
        """The prediction, or an interval around it if the learner is a `WithIntervals`.

        Before the first target it is None, which `river.evaluate` skips.
        """
        if with_interval:
            return self._intervals(x, 1)[0]
        row = self._features.row(x)
        return float(self.learner.predict(row)[0]) if self._labelled else None

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn from the rows of a data frame, with the same result as one after another, to rounding."""
        targets = _numbers(y, "y", lambda value: CLASSES_HINT)
        if targets.ndim != 1:
            raise ValueError(f"y must be one-dimensional, got shape {targets.shape}: {SEVERAL_HINT}")
        with self._transaction() as work:
            work._learn(work._grow(X), targets)

    @reads_snapshot
    def predict_many(self, X: Any) -> Any:
        """A series of predictions, nan before the first target."""
        import pandas as pd

        table = self._features.table(X)
        values = self.learner.predict(table) if self._labelled and len(X) else np.full(len(X), np.nan)
        return pd.Series(values, index=X.index)


class RiverMultiTargetRegressor(Adapter, base.MultiTargetRegressor):
    """Adapter of an online regressor of ovk to river, for several targets.

    Parameters
    ----------
    model : online learner with `partial_fit` and `predict`
        A new copy of it learns.
    targets : sequence of names, optional
        Names of the targets, by default those of the first example. A target that is absent from an example is missing,
        and only the others are learned.

    See Also
    --------
    RiverRegressor, RiverClassifier

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
        """Learn from an example of weight w; targets that are absent, nan or None are missing."""
        if not isinstance(y, Mapping):
            raise TypeError(f"y must be a dictionary of targets, got {y!r}: {ONE_HINT}")
        names = self._names or list(y)
        if unknown := [name for name in y if name not in names]:
            raise ValueError(f"y contains the target {unknown[0]!r}, which is not one of {names}: pass all in targets")
        hint = "use a separate target for each of its values"
        row = np.array([[_target(y.get(name), f"target {name!r}", hint) for name in names]])
        with self._transaction() as work:
            work._learn(work._grow(x), row, w=w)
            work._names = names

    @reads_snapshot
    def predict_one(self, x: dict[Any, Any], with_interval: bool = False) -> dict[Any, Any]:
        """The prediction of each target, or an interval around it.

        Before the first target there are none, which `river.evaluate` skips; then a target without any is predicted as
        by the learner, usually by 0.
        """
        if with_interval:
            return dict(zip(self._names, self._intervals(x, len(self._names)), strict=True))
        row = self._features.row(x)
        if not self._labelled:
            return {}
        values = self.learner.predict(row)[0]
        return dict(zip(self._names, values.tolist(), strict=True))


class RiverAnomalyDetector(Adapter, base.AnomalyDetector):
    """Adapter of a `NoveltyDetector` to river.

    Parameters
    ----------
    model : `NoveltyDetector`
        A new copy of it learns. Set the length scale of its kernel: "median" would be that of a single example.

    See Also
    --------
    NoveltyDetector, RiverRegressor

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
            work._learn(work._grow(x))

    @reads_snapshot
    def score_one(self, x: dict[Any, Any]) -> float:
        """The threshold minus f(x), positive for new examples; 0 for a new model."""
        row = self._features.row(x)
        return -float(self.learner.decision_function(row)[0]) if self._started else 0.0

    def is_new_one(self, x: dict[Any, Any]) -> bool:
        """Whether the example is new; False for a new model."""
        return self.score_one(x) > 0


class RiverClassifier(Adapter, base.MiniBatchClassifier):
    """Adapter of an online classifier of ovk to river.

    Start with `AutoStreamClassifier`, which needs no settings and accepts new labels at any time. For other classifiers
    pass `classes`, unless the labels are True and False. Without `classes` there is one copy of `model` for each label,
    one-vs-rest, created when the label first appears.

    Labels may have several types, such as 0 and "other"; an example whose label is None or nan is not learned.

    Parameters
    ----------
    model : `AutoStreamClassifier`, or online classifier with `partial_fit(X, y, classes)` and `decision_function`
        New copies of it learn.
    classes : sequence of labels, optional
        All labels.

    Attributes
    ----------
    learner : the copy of `model` that learns, or a dictionary of copies by label. A single learner uses numbers for
        labels of several types, in the order of `predict_proba_one`.

    See Also
    --------
    AutoStreamClassifier, RiverRegressor

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from ovk import AutoStreamClassifier
    >>> from ovk.online.river import RiverClassifier
    >>> model = RiverClassifier(AutoStreamClassifier())
    >>> evaluate.progressive_val_score(datasets.Phishing().take(600), model, metrics.Accuracy())
    Accuracy: 8...%
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
        """Learn from an example of weight w."""
        if w == 0.0:
            return
        with self._transaction() as work:
            work._learn_labels(work._grow(x), _plain([y]), w)

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn from the rows of a data frame, with the same result as one after another, to rounding."""
        with self._transaction() as work:
            work._learn_labels(work._grow(X), _plain(y))

    def _learn_labels(self, X: Array, labels: list[Any], w: float = 1.0) -> None:
        known = [not is_missing(label) for label in labels]
        if not self._started:
            # The first row must have a label.
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
                    f"y contains the label {new[0]!r}, which is not one of the classes {self._labels}: "
                    "pass all in classes"
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
        """The labels, or their numbers if no array can store the labels unchanged."""
        if not self._numbered:
            return np.array(labels)
        numbers = {label: number for number, label in enumerate(self._labels)}
        return np.array([np.nan if is_missing(label) else numbers[label] for label in labels])

    def _probabilities(self, X: Array) -> Array:
        """(n, K) probabilities of the labels, equal for a new model."""
        if not self._started:
            scores = np.zeros((len(X), len(self._labels)))
        elif isinstance(self.learner, dict):
            scores = np.stack([learner.decision_function(X) for learner in self.learner.values()], axis=1)
        elif isinstance(self.learner, AutoStreamClassifier):
            return self.learner.predict_proba(X)
        else:
            scores = self.learner.decision_function(X)
        if scores.ndim == 1:
            # For two classes the score is the log-odds.
            scores = np.stack([-scores / 2, scores / 2], axis=1)
        shares = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """The probability of each label so far."""
        now = self._snapshot()
        return dict(zip(now._labels, now._probabilities(now._features.row(x))[0].tolist(), strict=True))

    @reads_snapshot
    def predict_proba_many(self, X: Any) -> Any:
        """A data frame of probabilities, one column for each label."""
        import pandas as pd

        return pd.DataFrame(self._probabilities(self._features.table(X)), columns=self._labels, index=X.index)


def _plain(labels: Iterable[Any]) -> list[Any]:
    """Labels as Python values instead of NumPy's."""
    return [label.item() if isinstance(label, np.generic) else label for label in labels]


def _fit_an_array(labels: list[Any]) -> bool:
    """Whether an array stores the labels unchanged; labels of several types would all become text, for example."""
    types = {type(label) for label in labels}
    return not types or (len(types) == 1 and np.array(labels).dtype.kind == KINDS.get(types.pop()))


def _in_order(labels: list[Any]) -> list[Any]:
    """Distinct labels, sorted if an array can store them."""
    return np.unique(np.array(labels)).tolist() if _fit_an_array(labels) else list(dict.fromkeys(labels))
