"""Learner of classes from streams, without settings."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import check_is_fitted

from ovk._transactions import reads
from ovk._types import Array, Labels, Mask
from ovk.online.experts.auto import StageLearner
from ovk.online.experts.engine import StageMixture
from ovk.online.shared.code_classifier import checked_labels
from ovk.online.shared.rows import checked_weights
from ovk.targets import check_inputs


class AutoStreamClassifier(ClassifierMixin, StageLearner):
    """Classification from a stream, without settings.

    Works like `AutoStream` on the indicators of the classes, with logistic regressions among the experts and a logistic
    regression on the experts' logits on top. Classes may appear at any time. Values of X that are nan or infinite are
    missing. Weights of rows count as in `AutoStream`; a class appears with its first row of weight above 0.

    Parameters
    ----------
    lag : whether the last label may be used as an input. Every stage finds out whether it is of use; set it to False
        where rows are in no order.

    Attributes
    ----------
    classes_ : labels, in the order in which they appeared, unless they were known at the start
    mixture_ : the experts
    expert_weights_, effective_window_ : weights of the experts, and how far back they look: what a drift changes

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import AutoStreamClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((1000, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> guesses = AutoStreamClassifier().predict_then_learn(X, y)
    >>> bool(np.mean(guesses[500:] != y[500:]) < 0.08)
    True
    """

    classes_: Labels

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything and learn the rows in their order, once; the classes are those of y."""
        with self._transaction() as work:
            work.__dict__.pop("mixture_", None)
            work._check_then_learn(X, y, whole=True)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Go on learning from further rows; parameters as in `predict_then_learn`."""
        self.predict_proba_then_learn(X, y, classes, sample_weight)
        return self

    def partial_fit_late(self, X: Any, y: Any, last_label: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn rows whose labels came after later rows had been predicted.

        Parameters
        ----------
        X, y, classes, sample_weight : as in `predict_then_learn`
        last_label : (n,) labels, `last_label_` as it was when each row was predicted; None where there was none
        """
        last = checked_labels(last_label, len(X))
        with self._transaction() as work:
            work._check_then_learn(X, y, classes, sample_weight, last=last)
        return self

    @property
    @reads
    def last_label_(self) -> Any:
        """The last label learned, which the next prediction looks at."""
        check_is_fitted(self)
        last = self.mixture_.last
        return self.classes_[int(last[0] > 0.5) if len(last) == 1 else int(last.argmax())]

    def predict_then_learn(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Labels:
        """Predict the label of each row before learning from it; the very first row has no other label to guess.

        Parameters
        ----------
        X : (n, p); a value that is nan or infinite is missing
        y : (n,) labels; one that is None or nan is missing, and its row is not learned
        classes : the classes that are known in the first call, optional
        sample_weight : (n,) >= 0, optional
            What the loss of each row is multiplied by; a row of weight 0 is predicted and leaves no trace

        Returns
        -------
        (n,) labels
        """
        with self._transaction() as work:
            P = work.predict_proba_then_learn(X, y, classes, sample_weight)
            guesses: Labels = work.classes_[P.argmax(axis=1)]
            return guesses

    def predict_proba_then_learn(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Array:
        """(n, k) probabilities of the classes known after these rows, each made before its row is learned."""
        with self._transaction() as work:
            return work._check_then_learn(X, y, classes, sample_weight)

    @reads
    def predict_proba(self, X: Any) -> Array:
        """(n, k) probabilities of `classes_`, as if each row came next; nothing is learned."""
        X = self._new_inputs(X)
        return self._probabilities(self.mixture_.predict(X))

    @reads
    def predict(self, X: Any) -> Labels:
        """(n,) most probable labels, as if each row came next; nothing is learned."""
        winners = self.predict_proba(X).argmax(axis=1)
        labels: Labels = self.classes_[winners]
        return labels

    def _check_then_learn(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        whole: bool = False,
        last: tuple[Labels, Mask] | None = None,
    ) -> Array:
        """Probabilities of all rows, each made before its row is learned; `whole`: y names the classes."""
        self._check_parameters()
        first = "mixture_" not in vars(self)
        X = check_inputs(self, X, reset=first, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=int(first))
        labels, known = checked_labels(y, len(X))
        weights = None if sample_weight is None else checked_weights(sample_weight, X)
        counts = known if weights is None else known & (weights > 0.0)
        if first:
            if classes is None and not counts.any():
                raise ValueError(
                    "y holds no label in the first call: name the classes, or begin with a row that has one"
                )
            given = labels[counts] if classes is None else classes
            self.classes_ = unique_labels(given) if whole or classes is not None else given[:1]
            self.mixture_ = StageMixture(X.shape[1], _code_length(len(self.classes_)), classes=True, lag=self.lag)
        if counts.any() and _is_text(labels[counts]) != _is_text(self.classes_):
            raise ValueError(
                f"y holds the label {labels[counts].tolist()[0]!r}, and the classes so far are "
                f"{self.classes_.tolist()}: numbers and text do not go into one array, so give all labels as text"
            )
        return self._learn(X, labels, known, counts, weights, last)

    def _learn(
        self,
        X: Array,
        y: Labels,
        known: Mask,
        counts: Mask,
        weights: Array | None,
        last: tuple[Labels, Mask] | None,
    ) -> Array:
        parts, start = [], 0
        while start < len(X):
            new = counts[start:] & ~np.isin(y[start:], self.classes_)
            stop = start + int(new.argmax()) if new.any() else len(y)
            parts.append(self._probabilities(self._update(X, y, known, weights, last, slice(start, stop))))
            if stop < len(y):
                # The row that brings a new class is predicted without it.
                parts.append(self._probabilities(self.mixture_.predict(X[stop : stop + 1])))
                self._add_class(y[stop])
                self._update(X, y, known, weights, last, slice(stop, stop + 1))
            start = stop + 1
        k = len(self.classes_)
        return np.vstack([np.empty((0, k)), *(np.pad(P, ((0, 0), (0, k - P.shape[1]))) for P in parts)])

    def _update(
        self,
        X: Array,
        y: Labels,
        known: Mask,
        weights: Array | None,
        last: tuple[Labels, Mask] | None,
        rows: slice,
    ) -> Array:
        before = None if last is None else self._codes(last[0][rows], last[1][rows])
        Y = self._codes(y[rows], known[rows])
        return self.mixture_.predict_and_update(X[rows], Y, None if weights is None else weights[rows], before)

    def _codes(self, labels: Labels, known: Mask) -> Array:
        """(n, d) the indicator of the second of up to two classes, else all k indicators; nan where not known."""
        codes = labels[:, None] != self.classes_[:1] if len(self.classes_) <= 2 else labels[:, None] == self.classes_
        return np.where(known[:, None], codes, np.nan)

    def _probabilities(self, Z: Array) -> Array:
        if len(self.classes_) == 1:
            return np.ones_like(Z)
        if len(self.classes_) == 2:
            # A mixture of 1 and 1 may be above it by rounding.
            Z = np.clip(Z, 0.0, 1.0)
            return np.hstack([1.0 - Z, Z])
        P = np.maximum(Z, 1e-9)
        shares: Array = P / P.sum(axis=1, keepdims=True)
        return shares

    def _add_class(self, label: Any) -> None:
        self.classes_ = np.append(self.classes_, label)
        k = len(self.classes_)
        if k == 3:
            # From y, the indicator of the second class, to the indicators 1 - y, y and 0.
            self.mixture_ = self.mixture_.recode(np.array([[-1.0, 1.0, 0.0]]), np.array([1.0, 0.0, 0.0]))
        elif k > 3:
            self.mixture_ = self.mixture_.recode(np.eye(k - 1, k), np.zeros(k))


def _is_text(labels: Labels) -> bool:
    return labels.dtype.kind in "US" or (labels.dtype.kind == "O" and isinstance(labels[0], str))


def _code_length(classes: int) -> int:
    return 1 if classes <= 2 else classes
