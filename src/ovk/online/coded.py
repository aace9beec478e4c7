"""Class labels as targets of a regression: what the online classifiers share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from ovk._params import Parameters
from ovk._validation import Array

Labels = npt.NDArray[Any]


class CodedClassifier(ClassifierMixin, Parameters, ABC):
    """A classifier that learns the codes of labels with an online learner, and decodes its predictions.

    Attributes
    ----------
    classes_ : the labels
    learner_ : the learner of their codes
    """

    classes_: Labels
    learner_: Any

    @abstractmethod
    def _code(self, classes: int) -> Array:
        """A row of targets for each class."""

    @abstractmethod
    def _learner(self, classes: int) -> Any:
        """A new learner of the codes."""

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything and learn from the rows in their order, once."""
        with self._all_or_nothing():
            X = validate_data(self, X, reset=True, dtype=np.float64, ensure_all_finite=False)
            labels = self._labels(y, len(X))
            classes = unique_labels(labels)
            if len(classes) < 2:
                raise ValueError(f"y must hold at least 2 classes, got one class: {classes.tolist()[0]!r}")
            learner = self._learner(len(classes))
            learner.fit(X, _coded(labels, classes, self._code(len(classes))))
            self.classes_, self.learner_ = classes, learner
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Go on learning; the first call names all `classes` there will be."""
        self.predict_then_learn(X, y, classes)
        return self

    def predict_then_learn(self, X: Any, y: Any, classes: Any = None) -> Labels:
        """Predict the label of each row before learning from it."""
        first = not hasattr(self, "learner_")
        with self._all_or_nothing():
            X = validate_data(self, X, reset=first, dtype=np.float64, ensure_all_finite=False)
            labels = self._labels(y, len(X))
            known = self._known(classes, first=first)
            learner = self._learner(len(known)) if first else self.learner_
            Z = learner.predict_then_learn(X, _coded(labels, known, self._code(len(known))))
            self.classes_, self.learner_ = known, learner
        return self._decoded(self._scores(Z))

    def _known(self, classes: Any, *, first: bool) -> Labels:
        """All labels there will be."""
        if first:
            if classes is None:
                raise ValueError("classes must name all labels in the first call of partial_fit")
            known: Labels = unique_labels(classes)
            if len(known) < 2:
                raise ValueError(f"classes must name at least 2 labels, got {known.tolist()}")
            return known
        if classes is not None and not np.array_equal(self.classes_, unique_labels(classes)):
            raise ValueError(f"classes must be those of the first call, {self.classes_.tolist()}, got {list(classes)}")
        return self.classes_

    def decision_function(self, X: Any) -> Array:
        """Scores: (n,), positive for the second class, with two classes; else (n, K), the largest is predicted."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return self._scores(self.learner_.predict(X))

    def predict(self, X: Any) -> Labels:
        """The label of each row."""
        return self._decoded(self.decision_function(X))

    def _scores(self, Z: Array) -> Array:
        classes = len(self.classes_)
        if classes == 2:
            return np.asarray(Z).reshape(-1)
        code = self._code(classes)
        # One against the rest has its scores already; a simplex compares with its corners.
        scores: Array = Z if code.shape[1] == classes else Z @ code.T
        return scores

    def _decoded(self, scores: Array) -> Labels:
        winner = (scores > 0).astype(int) if scores.ndim == 1 else np.nan_to_num(scores, nan=-np.inf).argmax(axis=1)
        labels: Labels = self.classes_[winner]
        return labels

    def _labels(self, y: Any, n: int) -> Labels:
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None: give a label for each row")
        labels: Labels = column_or_1d(y, warn=True)
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            raise ValueError("Input y contains NaN or infinity: give a label for each row")
        check_classification_targets(labels)
        if len(labels) != n:
            raise ValueError(f"y must have a label for each of the {n} rows, got {len(labels)}")
        return labels


def _coded(labels: Labels, classes: Labels, code: Array) -> Array:
    """The targets of labels, (n, d)."""
    numbers = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    wrong = classes[numbers] != labels
    if wrong.any():
        unknown = labels[wrong][:1].tolist()[0]
        raise ValueError(f"y holds the label {unknown!r}, which is not one of the classes {classes.tolist()}")
    return code[numbers]
