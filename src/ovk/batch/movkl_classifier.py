"""Labels that change over time: a label at each point of a grid."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, validate_data

from ovk._validation import Array
from ovk.batch.movkl import MovKL
from ovk.batch.movkl_parameters import MovKLParameters


class MovKLClassifier(ClassifierMixin, MovKLParameters):
    """`MovKL` for curves of two labels: is the finger moving at time t?

    The labels are coded as -1 and 1, curves of scores are learned, and a score above 0 means the second label.

    Parameters
    ----------
    kernels, alpha, r, grid, solver, fit_intercept, tol, max_iter : as in `MovKL`

    Attributes
    ----------
    classes_ : (2,) the labels
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
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from inputs (n, p) and labels (n, d) or (n,); nan where a label was not observed."""
        with self._all_or_nothing():
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
            if y is None:
                raise ValueError("requires y to be passed, but the target y is None: give a label for each time")
            labels = np.asarray(y)
            if labels.dtype.kind == "f" and labels.ndim == 1 and not np.isfinite(labels).all():
                raise ValueError("Input y contains NaN or infinity: give a label for each row")
            if labels.ndim == 2 and labels.shape[1] == 1:
                labels = column_or_1d(y, warn=True)
            seen = ~np.isnan(labels) if labels.dtype.kind == "f" else np.ones(labels.shape, dtype=bool)
            if labels.ndim == 1:
                check_classification_targets(labels)
            classes = unique_labels(labels[seen])
            if len(classes) != 2:
                kinds = "Only binary classification is supported. " if len(classes) > 2 else ""
                raise ValueError(f"{kinds}y must hold two classes, got {len(classes)}: one class is no choice")
            coded = np.where(seen, np.where(labels == classes[1], 1.0, -1.0), np.nan)
            params = {name: getattr(self, name) for name in MovKL._get_param_names()}
            params["fit_intercept"] = self.fit_intercept is None or self.fit_intercept
            self.model_ = MovKL(**params).fit(X, coded, sample_weight)
            self.classes_, self.n_iter_ = classes, self.model_.n_iter_
        return self

    def decision_function(self, X: Any, *, grid: Any = None) -> Array:
        """Scores, (n, d) or (n,), on the fitted grid or on another; positive for the second label."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        scores: Array = self.model_.predict(X, grid=grid)
        return scores

    def predict(self, X: Any, *, grid: Any = None) -> Any:
        """Labels, (n, d) or (n,)."""
        scores = self.decision_function(X, grid=grid)
        return self.classes_[(scores > 0).astype(int)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of labels that are right, over all times that were observed."""
        labels = np.asarray(y)
        right = (self.predict(X).reshape(labels.shape) == labels).astype(np.float64)
        if labels.dtype.kind == "f":
            right[np.isnan(labels)] = np.nan
        by_row = np.nanmean(right.reshape(len(right), -1), axis=1)
        return float(np.average(by_row, weights=sample_weight))
