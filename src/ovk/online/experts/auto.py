"""Learners of streams without settings."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import check_is_fitted

from ovk._params import Parameters
from ovk._transactions import Transactional, reads
from ovk._types import Array, Labels, Mask
from ovk.online.experts.engine import StageMixture
from ovk.online.shared.code_classifier import checked_labels
from ovk.online.shared.learner import StreamRegressor
from ovk.online.shared.rows import Rows, checked_rows
from ovk.targets import check_inputs

#: Where intervals are to be had.
CURE = "for intervals use WithIntervals(AutoStream(), 0.9).partial_fit(X, y).predict_regions(X)"


class StageLearner(Transactional, Parameters, saved=False):
    """What the learner of numbers and that of classes share: the experts, what they say of a drift, and the inputs."""

    mixture_: StageMixture
    n_features_in_: int
    _state_classes = {"mixture_": StageMixture}

    def __init__(self, *, lag: bool = True) -> None:
        self.lag = lag

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @property
    @reads
    def expert_weights_(self) -> dict[str, Array]:
        """Weight of each expert in the next prediction, for each output: (d,) arrays by name."""
        check_is_fitted(self)
        return self.mixture_.weights()

    @property
    @reads
    def effective_window_(self) -> Array:
        """(d,) rows that the next prediction looks back on: mean of the experts' windows with their weights."""
        check_is_fitted(self)
        return self.mixture_.effective_window()

    def _new_inputs(self, X: Any) -> Array:
        check_is_fitted(self)
        inputs: Array = check_inputs(self, X, reset=False, dtype=np.float64, ensure_all_finite=False)
        return inputs

    def _check_parameters(self) -> None:
        if not isinstance(self.lag, (bool, np.bool_)):
            raise ValueError(f"lag must be True or False, got {self.lag!r}")


class AutoStream(StageLearner, StreamRegressor):
    """Regression on a stream, without any settings.

    Widths, ridge parameters, a metric of the inputs and the points of a dictionary are chosen from the rows seen, after
    20, 60, 200, 600, ..., 60,000 of them. Experts (means, the last value, linear and kernel ridge regressions that
    forget at several rates) predict every row before they learn from it, and are mixed for each output by their recent
    regrets. Values of X that are nan or infinite are missing, and so are such labels. A wild label teaches no more than
    an ordinary one.

    Parameters
    ----------
    lag : whether the last label may be used as an input

    Attributes
    ----------
    mixture_ : the experts
    expert_weights_, effective_window_ : weights of the experts, and how far back they look: what a drift changes
    n_outputs_ : number of outputs
    single_output_ : whether y was one-dimensional in the first call

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import AutoStream
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2.0, 2.0, (1000, 2))
    >>> y = 100.0 + np.sin(3.0 * X[:, 0]) + 0.1 * rng.standard_normal(1000)
    >>> z = AutoStream().predict_then_learn(X, y)
    >>> bool(np.mean((z - y)[500:] ** 2) < 0.03)
    True
    """

    n_outputs_: int

    @property
    def predict_interval(self) -> Any:
        """There is none, and an error says where intervals are to be had."""
        raise AttributeError(f"{type(self).__name__} has no predict_interval; {CURE}")

    @reads
    def predict(self, X: Any, return_std: bool = False) -> Array:
        """Predict without learning, as if each row came next.

        Parameters
        ----------
        X : (n, p); a value that is nan or infinite is missing
        return_std : refused: the experts have no standard deviation; `WithIntervals` gives intervals

        Returns
        -------
        (n, d), or (n,) if y was one-dimensional
        """
        check_is_fitted(self)
        if return_std:
            raise ValueError(f"return_std must be False: {type(self).__name__} has no standard deviations; {CURE}")
        admitted = self._gate is not None and self._gate.admits(self, X)
        Z = self.mixture_.predict(X if admitted else self._new_inputs(X))
        return Z[:, 0] if self.single_output_ else self._named(Z, X)

    def _checked(self, X: Any, y: Any, *, first: bool, whole: bool = False) -> Rows:
        return checked_rows(self, X, y, outputs=None if first else self.n_outputs_, on_invalid="missing", whole=whole)

    def _start(self, rows: Rows) -> None:
        self.n_outputs_, self.single_output_ = rows.Y.shape[1], rows.single
        self.mixture_ = StageMixture(rows.X.shape[1], self.n_outputs_, lag=self.lag)

    def _learn(self, rows: Rows) -> Array:
        return self.mixture_.predict_and_update(rows.X, rows.Y)

    def _row_plan(self) -> tuple[int, Any] | None:
        return self.n_outputs_, None

    def _after_row(self, X: Array, y: Array) -> tuple[Self, Array]:
        mixture = self.mixture_._fork()
        z = mixture.predict_and_update(X, y[None])[0]
        return self._with(mixture_=mixture), z


class AutoStreamClassifier(ClassifierMixin, StageLearner):
    """Classification from a stream, without settings.

    Works like `AutoStream` on the indicators of the classes, with logistic regressions among the experts and a logistic
    regression on the experts' logits on top. Classes may appear at any time. Values of X that are nan or infinite are
    missing.

    Parameters
    ----------
    lag : whether the last label may be used as an input

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
            X, labels, known = work._checked(X, y, first=True)
            work._learn(X, labels, known, unique_labels(labels[known]))
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Go on learning from further rows; `classes` may name the classes in the first call.

        A label that is None or nan is missing: its row is not learned.
        """
        self.predict_proba_then_learn(X, y, classes)
        return self

    def predict_then_learn(self, X: Any, y: Any, classes: Any = None) -> Labels:
        """(n,) labels, each predicted before its row is learned; the very first row has no other label to guess."""
        with self._transaction() as work:
            P = work.predict_proba_then_learn(X, y, classes)
            guesses: Labels = work.classes_[P.argmax(axis=1)]
            return guesses

    def predict_proba_then_learn(self, X: Any, y: Any, classes: Any = None) -> Array:
        """(n, k) probabilities of the classes known after these rows, each made before its row is learned."""
        first = "mixture_" not in vars(self)
        with self._transaction() as work:
            X, labels, known = work._checked(X, y, first=first, classes=classes)
            if not first:
                return work._learn(X, labels, known, None)
            return work._learn(X, labels, known, labels[known][:1] if classes is None else unique_labels(classes))

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

    def _checked(self, X: Any, y: Any, *, first: bool, classes: Any = None) -> tuple[Array, Labels, Mask]:
        self._check_parameters()
        X = check_inputs(self, X, reset=first, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=int(first))
        labels, known = checked_labels(y, len(X))
        if first and classes is None and not known.any():
            raise ValueError("y holds no label in the first call: name the classes, or begin with a row that has one")
        return X, labels, known

    def _learn(self, X: Array, y: Labels, known: Mask, classes: Labels | None) -> Array:
        if classes is not None:
            self.classes_ = classes
            self.mixture_ = StageMixture(X.shape[1], _code_length(len(classes)), classes=True, lag=self.lag)
        parts, start = [], 0
        while start < len(X):
            new = known[start:] & ~np.isin(y[start:], self.classes_)
            stop = start + int(new.argmax()) if new.any() else len(y)
            Z = self.mixture_.predict_and_update(X[start:stop], self._codes(y[start:stop], known[start:stop]))
            parts.append(self._probabilities(Z))
            if stop < len(y):
                # The row that brings a new class is predicted without it.
                parts.append(self._probabilities(self.mixture_.predict(X[stop : stop + 1])))
                self._add_class(y[stop])
                own = slice(stop, stop + 1)
                self.mixture_.predict_and_update(X[own], self._codes(y[own], known[own]))
            start = stop + 1
        k = len(self.classes_)
        return np.vstack([np.empty((0, k)), *(np.pad(P, ((0, 0), (0, k - P.shape[1]))) for P in parts)])

    def _codes(self, y: Labels, known: Mask) -> Array:
        """(n, 1) indicator of the second of up to two classes, else (n, k) indicators; nan where not known."""
        two = len(self.classes_) <= 2
        codes = (y != self.classes_[0])[:, None] if two else y[:, None] == self.classes_
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


def _code_length(classes: int) -> int:
    return 1 if classes <= 2 else classes
