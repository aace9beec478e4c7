"""Classifiers of streams as those of river."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from river import base
from sklearn.base import clone

from ovk.base import Array, Labels, reads_snapshot
from ovk.kernels import Gaussian
from ovk.online import AutoStreamClassifier, OLOKClassifier, is_missing
from ovk.online.river.adapter import Adapter, weights

#: Kinds of the arrays that hold labels of a type as they are.
KINDS = {bool: "b", int: "i", float: "f", str: "U"}


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

    def __init__(self, model: Any, classes: Sequence[Any] | None = None) -> None:
        super().__init__(model)
        self.classes = classes
        self._labels: list[Any] = [] if classes is None else _in_order(_plain(classes))
        self._numbered = not _fit_an_array(self._labels)

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
        found = list(dict.fromkeys(label for label, there in zip(labels, known, strict=True) if there))
        new = [label for label in found if label not in self._labels]
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
            self._learn_apart(X[known], [label for label, there in zip(labels, known, strict=True) if there], w)
            self._labels = [*self._labels, *new]
        self._started = True

    def _learn_together(self, X: Array, labels: list[Any], w: float, new: Sequence[Any] = ()) -> None:
        """Teach the one learner of all labels."""
        before, self._labels = self._labels, [*self._labels, *new]
        if new and not self._numbered and not _fit_an_array(self._labels):
            self._numbered = True
            if self._started:
                self.learner.classes_ = self._coded(before)
        first = {} if self._started else {"classes": self._coded(before) if before else None}
        self.learner.partial_fit(X, self._coded(labels), **first, **weights(w))

    def _learn_apart(self, X: Array, labels: list[Any], w: float) -> None:
        """Teach the learners of each label."""
        learners = self.learner if isinstance(self.learner, dict) else {}
        for label in dict.fromkeys([*learners, *labels]):
            start, first = 0, {}
            if label not in learners:
                start, first = labels.index(label), {"classes": [False, True]}
                learners[label] = clone(self.model)
            own = np.array([other == label for other in labels[start:]], dtype=bool)
            learners[label].partial_fit(X[start:], own, **first, **weights(w))
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
