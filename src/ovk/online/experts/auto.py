"""Learners of numbers and of classes from streams, without settings."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import check_is_fitted

from ovk.base import Array, Labels, Mask, Parameters, Transactional, check_inputs, reads_snapshot
from ovk.online.experts.mixture import ExpertMixture
from ovk.online.shared.code_classifier import checked_labels
from ovk.online.shared.learner import StreamRegressor
from ovk.online.shared.rows import Rows, checked_weights

#: Where intervals are to be had.
CURE = "for intervals use WithIntervals(AutoStream(), 0.9).partial_fit(X, y).predict_regions(X)"


def _check_lag(lag: Any) -> None:
    if not isinstance(lag, (bool, np.bool_)):
        raise ValueError(f"lag must be True or False, got {lag!r}")


def _new_inputs(model: Any, X: Any) -> Array:
    check_is_fitted(model)
    inputs: Array = check_inputs(model, X, reset=False, dtype=np.float64, ensure_all_finite=False)
    return inputs


def _add_inputs(model: AutoStream | AutoStreamClassifier, count: int) -> None:
    model.mixture_ = model.mixture_.with_inputs(count)
    model.n_features_in_ += count


@reads_snapshot
def _expert_weights(model: AutoStream | AutoStreamClassifier) -> dict[str, Array]:
    """Weight of each expert in the next prediction, for each output: (d,) arrays by name."""
    check_is_fitted(model)
    return model.mixture_.weights()


@reads_snapshot
def _effective_window(model: AutoStream | AutoStreamClassifier) -> Array:
    """(d,) rows that the next prediction looks back on: mean of the experts' windows with their weights."""
    check_is_fitted(model)
    return model.mixture_.effective_window()


class AutoStream(StreamRegressor):
    """Regression on a stream, without any settings.

    Widths, ridge parameters, a metric of the inputs and the points of a dictionary are chosen from the rows seen, after
    20, 60, 200, 600, ..., 60,000 of them. Experts (means, the last value, linear and kernel ridge regressions that
    forget at several rates) predict every row before they learn from it, and are mixed for each output by their recent
    regrets. Values of X that are nan or infinite are missing, and so are such labels. An outlier teaches no more than
    an inlier.

    When errors grow, as after an abrupt change, a learner of the rows since then starts beside this one. It has the
    weight that its errors earn it, and takes the place of this one when it has won.

    A row without any label is predicted and is then gone, as if it had never come. Outputs that are not observed in the
    same rows have experts of their own, which count, age by and choose from the rows that have their labels (at most
    eight groups of outputs; further ones join the group that is observed most like them, where a missing label counts
    as predicted exactly). A further expert corrects each output by the predictions of the others, so that outputs that
    have something in common learn from the labels of each other.

    The weight of a row multiplies its loss in every expert, in the comparison of candidates and in the regrets. In
    experts that never forget a whole number w counts like w repetitions; those that forget age by one row, whatever
    its weight. Units, points of the dictionary and limits on residuals count rows alike. A row of weight 0 is predicted
    and is then gone: it is not counted for a refit or a window, and does not become the last label.

    Parameters
    ----------
    lag : whether the last label may be used as an input. Predictions then stay near it where labels change slowly: set
        it to False for predictions from the inputs alone, and where rows are in no order.

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
    mixture_: ExpertMixture
    _state_classes = {"mixture_": ExpertMixture}
    expert_weights_ = property(_expert_weights)
    effective_window_ = property(_effective_window)
    _add_inputs = _add_inputs

    def __init__(self, *, lag: bool = True) -> None:
        self.lag = lag

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _check_parameters(self) -> None:
        _check_lag(self.lag)

    @property
    def predict_interval(self) -> Any:
        """Not available: the error message says how to get intervals."""
        raise AttributeError(f"{type(self).__name__} has no predict_interval; {CURE}")

    @reads_snapshot
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
        accepted = self._fast_path is not None and self._fast_path.accepts(self, X)
        Z = self.mixture_.predict(X if accepted else _new_inputs(self, X))
        return Z[:, 0] if self.single_output_ else self._named(Z, X)

    def _start(self, rows: Rows) -> None:
        self.n_outputs_ = rows.Y.shape[1]
        self.mixture_ = ExpertMixture(rows.X.shape[1], self.n_outputs_, lag=self.lag)

    def _learn(self, rows: Rows) -> Array:
        return self.mixture_.predict_and_update(rows.X, rows.Y, rows.weights, rows.last)

    @property
    @reads_snapshot
    def last_label_(self) -> Array:
        """(d,) the last labels learned, which the next prediction looks at; nan for outputs without any."""
        check_is_fitted(self)
        return np.where(self.mixture_.seen > 0.0, self.mixture_.last, np.nan)

    def partial_fit_late(self, X: Any, y: Any, last_label: Any, sample_weight: Any = None) -> Self:
        """Learn rows whose labels came after later rows had been predicted.

        Parameters
        ----------
        X, y, sample_weight : as in `predict_then_learn`
        last_label : (n, d) or (n,), `last_label_` as it was when each row was predicted; nan where there was none.
            With `partial_fit` the learner would take them for the labels of the rows before, which nobody knew then.
        """
        self._check_then_learn(X, y, sample_weight, np.asarray(last_label, dtype=np.float64))
        return self

    def _row_plan(self) -> bool:
        return True

    def _learn_one(self, X: Array, y: Array) -> tuple[Self, Array]:
        mixture = self.mixture_._snapshot()
        z = mixture.predict_and_update(X, y[None])[0]
        return self._replace(mixture_=mixture), z


class AutoStreamClassifier(ClassifierMixin, Transactional, Parameters):
    """Classification from a stream, without settings.

    Works like `AutoStream` on the indicators of the classes, with logistic regressions among the experts and a logistic
    regression on the experts' logits on top. Classes may appear at any time. Values of X that are nan or infinite are
    missing. Weights of rows count as in `AutoStream`; a class appears with its first row of weight above 0.

    Parameters
    ----------
    lag : whether the last label may be used as an input. Every refit finds out whether it is of use; set it to False
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
    mixture_: ExpertMixture
    n_features_in_: int
    _state_classes = {"mixture_": ExpertMixture}
    expert_weights_ = property(_expert_weights)
    effective_window_ = property(_effective_window)
    _add_inputs = _add_inputs

    def __init__(self, *, lag: bool = True) -> None:
        self.lag = lag

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

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
    @reads_snapshot
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
            P = work._check_then_learn(X, y, classes, sample_weight)
            guesses: Labels = work.classes_[P.argmax(axis=1)]
            return guesses

    def predict_proba_then_learn(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Array:
        """(n, k) probabilities of the classes known after these rows, each made before its row is learned."""
        with self._transaction() as work:
            return work._check_then_learn(X, y, classes, sample_weight)

    @reads_snapshot
    def predict_proba(self, X: Any) -> Array:
        """(n, k) probabilities of `classes_`, as if each row came next; nothing is learned."""
        X = _new_inputs(self, X)
        return self._probabilities(self.mixture_.predict(X))

    @reads_snapshot
    def predict(self, X: Any) -> Labels:
        """(n,) most probable labels, as if each row came next; nothing is learned."""
        P = self.predict_proba(X)
        labels: Labels = self.classes_[P.argmax(axis=1)]
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
        _check_lag(self.lag)
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
            outputs = 1 if len(self.classes_) <= 2 else len(self.classes_)
            self.mixture_ = ExpertMixture(X.shape[1], outputs, classes=True, lag=self.lag)
        if counts.any() and _is_text(labels[counts]) != _is_text(self.classes_):
            raise ValueError(
                f"y holds the label {labels[counts].tolist()[0]!r}, and the classes so far are "
                f"{self.classes_.tolist()}: numbers and text do not go into one array, so give all labels as text"
            )

        def update(rows: slice) -> Array:
            before = None if last is None else self._codes(last[0][rows], last[1][rows])
            some = None if weights is None else weights[rows]
            return self.mixture_.predict_and_update(X[rows], self._codes(labels[rows], known[rows]), some, before)

        parts, start = [], 0
        while start < len(X):
            new = counts[start:] & ~np.isin(labels[start:], self.classes_)
            stop = start + int(new.argmax()) if new.any() else len(labels)
            parts.append(self._probabilities(update(slice(start, stop))))
            if stop < len(labels):
                # The row that brings a new class is predicted without it.
                parts.append(self._probabilities(self.mixture_.predict(X[stop : stop + 1])))
                self._add_class(labels[stop])
                update(slice(stop, stop + 1))
            start = stop + 1
        k = len(self.classes_)
        return np.vstack([np.empty((0, k)), *(np.pad(P, ((0, 0), (0, k - P.shape[1]))) for P in parts)])

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
