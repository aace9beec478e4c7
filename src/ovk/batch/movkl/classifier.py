"""Labels by many kernels: one of several, a set of them, or one at each point of a grid."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted

from ovk.base import (
    Array,
    Labels,
    Parameters,
    check_inputs,
    masked_as_nan,
    refuse_missing_labels,
    share_of_right_labels,
)
from ovk.batch.movkl.movkl import MovKL
from ovk.objectives import Calibration, two_sided


@dataclass(eq=False, repr=False)
class MovKLClassifier(ClassifierMixin, Parameters):
    """`MovKL` for labels: of two or several classes, sets of labels, or curves of two labels (is the finger moving at
    time t?).

    Labels are coded as -1 and 1, scores are learned, and a score above 0 means the second label. With several classes,
    or sets of labels, each label has a score of its own; of several classes the one with the largest score is
    predicted. An operator in the kernels relates the labels.

    Parameters
    ----------
    kernels, alpha, r, grid, solver, fit_intercept, tol, max_iter : as in `MovKL`

    Attributes
    ----------
    classes_ : the labels
    label_sets_ : whether sets of labels were learned
    model_ : the fitted `MovKL`
    n_iter_ : its iterations

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import MovKLClassifier
    >>> rng = np.random.default_rng(0)
    >>> t = np.linspace(0, 1, 30)
    >>> X = rng.uniform(0, 1, (50, 1))
    >>> labels = np.where(t > X, "moving", "still")
    >>> model = MovKLClassifier(alpha=0.01, grid=t).fit(X, labels)
    >>> model.predict([[0.3]], grid=[0.1, 0.9])
    array([['still', 'moving']], dtype='<U6')
    >>> model.score(X, labels) > 0.95
    True

    Sets of labels:

    >>> sets = [{"warm"} if x < 0.5 else {"cold", "wet"} for x in X[:, 0]]
    >>> sorted(MovKLClassifier(alpha=0.01).fit(X, sets).predict([[0.9]])[0])
    ['cold', 'wet']
    """

    kernels: Any = None
    alpha: float = 1.0
    r: float = 2.0
    _: KW_ONLY
    grid: Any = None
    solver: Any = "auto"
    fit_intercept: Any = None
    tol: float = 1e-4
    max_iter: int = 200

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from inputs (n, p) and labels (n, d) or (n,), nan where a label was not observed, or n sets of them."""
        with self._fitting(X, y):
            X = check_inputs(self, X, accept_sparse="csr", dtype=np.float64)
            if y is None:
                raise ValueError("requires y to be passed, but the target y is None: give a label for each time")
            listed = isinstance(y, (list, tuple)) and len(y) > 0
            self.label_sets_ = listed and all(isinstance(one, (set, frozenset)) for one in y)
            self.classes_, coded = _coded_sets(y) if self.label_sets_ else _coded(y)
            params = {name: getattr(self, name) for name in MovKL._get_param_names()}
            params["fit_intercept"] = self.fit_intercept is None or self.fit_intercept
            self.model_ = MovKL(**params).fit(X, coded, sample_weight)
            self.n_iter_ = self.model_.n_iter_
        return self

    def decision_function(self, X: Any, *, grid: Any = None) -> Array:
        """Scores: (n, d) or (n,), on the fitted grid or on another, positive for the second label; (n, K), a score for
        each label, with several classes or sets of labels."""
        check_is_fitted(self)
        X = check_inputs(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        return np.asarray(self.model_.predict(X, grid=grid))

    def predict_proba(self, X: Any, *, grid: Any = None) -> Array:
        """Probabilities of the two labels, (n, d, 2) or (n, 2), on the fitted grid or on another.

        Of several classes (n, K), and of sets (n, K) that the label is in the set. Scores at all times of curves that
        were left out, in closed form, say how often a score is right: see `ovk.objectives.calibration`.
        """
        scores = self.decision_function(X, grid=grid)
        calibration = self.model_._remembered("calibration", self._calibration)
        if len(self.classes_) > 2 and not self.label_sets_:
            return calibration.probabilities(scores)
        found = calibration.probabilities(two_sided(scores.reshape(-1))).reshape(*scores.shape, 2)
        return found[..., 1] if self.label_sets_ else found

    def _calibration(self) -> Calibration:
        residuals = self.model_.left_out_residuals()
        coded = np.sign(self.model_._training_outputs())
        seen = np.isfinite(residuals)
        weight = np.ones(len(coded)) if self.model_.sample_weight_ is None else self.model_.sample_weight_
        weights = np.broadcast_to(weight[:, None], coded.shape)[seen]
        several = len(self.classes_) > 2 and not self.label_sets_
        return Calibration.from_signs((coded - residuals)[seen], coded[seen], weights, per_class=several)

    def predict(self, X: Any, *, grid: Any = None) -> Any:
        """Labels, (n, d) or (n,), or n sets of them."""
        scores = self.decision_function(X, grid=grid)
        if self.label_sets_:
            return [set(self.classes_[row > 0].tolist()) for row in scores]
        return self.classes_[scores.argmax(axis=1) if len(self.classes_) > 2 else (scores > 0).astype(int)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of labels that are right, over all times that were observed; of sets, over all labels."""
        if self.label_sets_:
            # A label that was not learned is in no predicted set, and so never right.
            found = self.predict(X)
            known = np.array([len(self.classes_) + len(set(truth) - set(self.classes_.tolist())) for truth in y])
            right = np.array([len(one ^ set(truth)) for one, truth in zip(found, y, strict=True)])
            return float(np.average(1.0 - right / known, weights=sample_weight))
        return share_of_right_labels(self.predict(X), y, sample_weight)


def _coded_sets(y: Any) -> tuple[Labels, Array]:
    """The labels in all sets, and for each of them whether it is in a set: 1 or -1, (n, K)."""
    classes: Labels = np.array(sorted(set().union(*y)))
    if len(classes) == 0:
        raise ValueError("y must hold at least one label, got empty sets alone")
    return classes, np.array([[1.0 if label in one else -1.0 for label in classes.tolist()] for one in y])


def _coded(y: Any) -> tuple[Labels, Array]:
    """The labels, and -1 and 1 in the shape of y for two of them, (n, K) for several; nan where none was observed."""
    labels = np.asarray(masked_as_nan(y, "y"))
    if labels.dtype.kind == "f" and np.isinf(labels).any():
        raise ValueError("Input y contains infinity: give a label for each row")
    if labels.ndim == 1 or labels.dtype.kind != "f":
        refuse_missing_labels(labels)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = column_or_1d(y, warn=True)
    seen = ~np.isnan(labels) if labels.dtype.kind == "f" else np.ones(labels.shape, dtype=bool)
    if labels.ndim == 1:
        check_classification_targets(labels)
    classes = unique_labels(labels[seen])
    if len(classes) < 2:
        raise ValueError(f"y must hold at least two classes, got {len(classes)}: one class is no choice")
    if len(classes) == 2:
        return classes, np.where(seen, np.where(labels == classes[1], 1.0, -1.0), np.nan)
    if labels.ndim > 1:
        raise ValueError(
            f"a curve of labels must hold two classes, got {len(classes)}: learn each against the others by itself"
        )
    return classes, np.where(labels[:, None] == classes, 1.0, -1.0)
