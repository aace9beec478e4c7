"""Automatic regression and classification of streams."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import check_is_fitted

from ovk.base import Array, Labels, Mask, Parameters, Transactional, check_inputs, reads_snapshot
from ovk.online.experts.mixture import ExpertMixture
from ovk.online.experts.tempering import Tempering
from ovk.online.shared.code_classifier import checked_labels
from ovk.online.shared.learner import StreamRegressor
from ovk.online.shared.rows import Rows, checked_weights

#: Advice in messages to users who ask for uncertainties.
INTERVALS_HINT = "for intervals use WithIntervals(AutoStream(), 0.9).partial_fit(X, y).predict_regions(X)"


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
    """(d,) weights of each expert in the next prediction, by name."""
    check_is_fitted(model)
    return model.mixture_.weights()


@reads_snapshot
def _effective_window(model: AutoStream | AutoStreamClassifier) -> Array:
    """(d,) weighted mean of the experts' windows: the number of past rows that the next prediction uses."""
    check_is_fitted(model)
    return model.mixture_.effective_window()


class AutoStream(StreamRegressor):
    """Regression on a stream without settings.

    Experts (means, the last value, linear and kernel ridge regressions that forget at several rates) predict each row
    before they learn from it; their mixture weights for each output follow from recent regrets. Length scales, ridge
    weights, a metric of the inputs and a dictionary are selected after 20, 60, 200, 600, ..., 60,000 rows; from 600
    rows on, the work is split over the following rows. Values that are nan or infinite are missing, in X and in y. The
    influence of outlying labels is capped.

    When errors grow, as after an abrupt change, a second learner starts from the rows since the change. Its weight
    follows from its errors, and it replaces the first learner once it is clearly better.

    A row without a label is predicted and has no other effect. Outputs that are observed in different rows have
    separate experts, in at most eight groups; further outputs join the group observed in the most similar rows, where a
    missing label is treated as if it had been predicted exactly. Another expert corrects each output by the
    predictions of the others, so that an output with few labels benefits from the labels of related outputs.

    The weight of a row multiplies its loss everywhere. In experts that never forget, an integer weight w is equivalent
    to w repetitions; experts that forget decay by one row. Units, dictionary and limits on residuals ignore weights.
    A row of weight 0 is predicted and has no other effect.

    Parameters
    ----------
    lag : bool
        Whether the last label may be used as an input. Set it to False for predictions from the inputs alone, or where
        the order of the rows is arbitrary.

    Attributes
    ----------
    mixture_ : the experts
    expert_weights_, effective_window_ : weights of the experts, and the number of past rows they use; both change after
        a drift
    n_outputs_ : number of outputs
    single_output_ : whether y was one-dimensional in the first call

    See Also
    --------
    AutoStreamClassifier, PKAWV, WithIntervals

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import AutoStream
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2.0, 2.0, (1000, 2))
    >>> y = 100.0 + np.sin(3.0 * X[:, 0]) + 0.1 * rng.standard_normal(1000)
    >>> z = AutoStream().predict_then_learn(X, y)
    >>> print(f"{np.mean((z - y)[500:] ** 2):.2f}")
    0.01
    """

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
        """Not available; the error message explains how to get intervals."""
        raise AttributeError(f"{type(self).__name__} has no predict_interval; {INTERVALS_HINT}")

    @reads_snapshot
    def predict(self, X: Any, return_std: bool = False) -> Array:
        """Predict without learning, as if each row came next.

        Parameters
        ----------
        X : (n, p) inputs; nan and infinite values are missing
        return_std : not supported; use `WithIntervals`

        Returns
        -------
        (n, d) predictions, or (n,) if y was one-dimensional
        """
        check_is_fitted(self)
        if return_std:
            raise ValueError(
                f"return_std must be False: {type(self).__name__} has no standard deviations; {INTERVALS_HINT}"
            )
        accepted = self._fast_path is not None and self._fast_path.accepts(self, X)
        Z = self.mixture_.predict(X if accepted else _new_inputs(self, X))
        return Z[:, 0] if self.single_output_ else self._named(Z, X)

    def _start(self, rows: Rows) -> None:
        self.mixture_ = ExpertMixture(rows.X.shape[1], rows.Y.shape[1], lag=self.lag)

    def _learn(self, rows: Rows) -> Array:
        return self.mixture_.predict_and_update(rows.X, rows.Y, rows.weights, rows.last)

    @property
    @reads_snapshot
    def last_label_(self) -> Array:
        """(d,) last labels, which the next prediction uses; nan for outputs without any."""
        check_is_fitted(self)
        return np.where(self.mixture_.seen > 0.0, self.mixture_.last, np.nan)

    def partial_fit_late(self, X: Any, y: Any, last_label: Any, sample_weight: Any = None) -> Self:
        """Learn rows whose labels arrive after later rows were predicted.

        Parameters
        ----------
        X, y, sample_weight : as in `predict_then_learn`
        last_label : (n, d) or (n,), `last_label_` when each row was predicted; nan where there was none
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
    """Classification on a stream without settings.

    Works like `AutoStream` on the indicators of the classes, with logistic regressions among the experts and stacking
    by a logistic regression on the experts' logits. Classes may appear at any time. Values of X that are nan or
    infinite are missing. Weights of rows count as in `AutoStream`; a class appears with its first row of positive
    weight.

    Parameters
    ----------
    lag : bool
        Whether the last label may be used as an input. Each refit tests whether it helps; set it to False where the
        order of the rows is arbitrary.

    Attributes
    ----------
    classes_ : labels in order of appearance, unless they were given at the start
    mixture_ : the experts
    tempering_ : how much more or less certain the probabilities become
    expert_weights_, effective_window_ : weights of the experts, and how far back they look; both change after a drift

    See Also
    --------
    AutoStream, OLOKClassifier, PKAWVClassifier

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import AutoStreamClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((1000, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> guesses = AutoStreamClassifier().predict_then_learn(X, y)
    >>> print(f"error rate {np.mean(guesses[500:] != y[500:]):.2f}")
    error rate 0.03
    """

    classes_: Labels
    mixture_: ExpertMixture
    tempering_: Tempering
    n_features_in_: int
    _state_classes = {"mixture_": ExpertMixture, "tempering_": Tempering}
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
        """Discard what was learned and learn from the rows once, in order; the classes are those of y."""
        with self._transaction() as work:
            work.__dict__.pop("mixture_", None)
            work._check_then_learn(X, y, whole=True)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows; parameters as in `predict_then_learn`."""
        self.predict_proba_then_learn(X, y, classes, sample_weight)
        return self

    def partial_fit_late(
        self,
        X: Any,
        y: Any,
        last_label: Any,
        classes: Any = None,
        sample_weight: Any = None,
        predicted: Any = None,
    ) -> Self:
        """Learn rows whose labels arrive after later rows were predicted.

        Parameters
        ----------
        X, y, classes, sample_weight : as in `predict_then_learn`
        last_label : (n,) labels, `last_label_` when each row was predicted; None where there was none
        predicted : (n, k), optional
            ``predict_proba(X, tempered=False)`` when each row was predicted; nan where there was none
        """
        last = checked_labels(last_label, len(X))
        if predicted is not None:
            predicted = np.asarray(predicted, dtype=np.float64)
            if predicted.ndim != 2 or len(predicted) != len(X):
                raise ValueError(f"predicted must have shape ({len(X)}, k) for k classes, got {predicted.shape}")
        with self._transaction() as work:
            work._check_then_learn(X, y, classes, sample_weight, last=last, predicted=predicted)
        return self

    @property
    @reads_snapshot
    def last_label_(self) -> Any:
        """The last label, which the next prediction uses."""
        check_is_fitted(self)
        last = self.mixture_.last
        return self.classes_[int(last[0] > 0.5) if len(last) == 1 else int(last.argmax())]

    def predict_then_learn(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Labels:
        """Predict the label of each row before learning from it.

        Parameters
        ----------
        X : (n, p) inputs; nan and infinite values are missing
        y : (n,) labels; None or nan is missing and not learned
        classes : classes that are known in the first call, optional
        sample_weight : (n,) >= 0, optional
            Factors of the losses; a row of weight 0 is predicted and not learned

        Returns
        -------
        (n,) labels
        """
        with self._transaction() as work:
            P = work._check_then_learn(X, y, classes, sample_weight)
            return np.asarray(work.classes_[P.argmax(axis=1)])

    def predict_proba_then_learn(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Array:
        """(n, k) probabilities of `classes_` after these rows, each made before its row is learned."""
        with self._transaction() as work:
            return work._check_then_learn(X, y, classes, sample_weight)

    @reads_snapshot
    def predict_proba(self, X: Any, *, tempered: bool = True) -> Array:
        """(n, k) probabilities of `classes_`, as if each row came next; nothing is learned.

        With ``tempered=False`` they are those to pass to `temper`, and later to `partial_fit_late`.
        """
        X = _new_inputs(self, X)
        P = self._probabilities(self.mixture_.predict(X))
        return self.tempering_.predict(P) if tempered else P

    @reads_snapshot
    def temper(self, P: Array) -> Array:
        """``predict_proba(X)`` from ``P = predict_proba(X, tempered=False)``."""
        check_is_fitted(self)
        return self.tempering_.predict(P)

    @reads_snapshot
    def predict(self, X: Any) -> Labels:
        """(n,) most probable labels, as if each row came next; nothing is learned."""
        P = self.predict_proba(X)
        return np.asarray(self.classes_[P.argmax(axis=1)])

    def _check_then_learn(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        whole: bool = False,
        last: tuple[Labels, Mask] | None = None,
        predicted: Any = None,
    ) -> Array:
        """Probabilities of the rows, each made before its row is learned; `whole`: y names the classes."""
        _check_lag(self.lag)
        first = "mixture_" not in vars(self)
        X = check_inputs(self, X, reset=first, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=int(first))
        labels, known = checked_labels(y, len(X))
        weights = None if sample_weight is None else checked_weights(sample_weight, X)
        counts = known if weights is None else known & (weights > 0.0)
        if first:
            if classes is None and not counts.any():
                raise ValueError("y contains no label in the first call: pass classes, or start with a labelled row")
            given = labels[counts] if classes is None else classes
            self.classes_ = unique_labels(given) if whole or classes is not None else given[:1]
            outputs = 1 if len(self.classes_) <= 2 else len(self.classes_)
            self.mixture_ = ExpertMixture(X.shape[1], outputs, classes=True, lag=self.lag)
            self.tempering_ = Tempering()
        if counts.any() and _is_text(labels[counts]) != _is_text(self.classes_):
            raise ValueError(
                f"y contains the label {labels[counts].tolist()[0]!r}, and the classes so far are "
                f"{self.classes_.tolist()}: numbers and text cannot be mixed, so pass all labels as text"
            )

        def update(rows: slice) -> Array:
            before = None if last is None else self._codes(last[0][rows], last[1][rows])
            some = None if weights is None else weights[rows]
            codes = self._codes(labels[rows], known[rows])
            P = self._probabilities(self.mixture_.predict_and_update(X[rows], codes, some, before))
            if last is not None and predicted is None:
                # How certain it may be is unknown.
                self.tempering_ = Tempering()
                return P
            Q = P if predicted is None else predicted[rows]
            numbers = codes.argmax(axis=1) if codes.shape[1] > 1 else np.nan_to_num(codes[:, 0]).astype(np.int64)
            numbers = np.where(counts[rows] & (numbers < Q.shape[1]) & np.isfinite(Q).all(axis=1), numbers, -1)
            return self.tempering_.learn(Q, numbers, np.ones(len(Q)) if some is None else some)

        parts, start = [], 0
        while start < len(X):
            new = counts[start:] & ~np.isin(labels[start:], self.classes_)
            stop = start + int(new.argmax()) if new.any() else len(labels)
            parts.append(update(slice(start, stop)))
            if stop < len(labels):
                # The first row of a new class is predicted without it.
                P = self._probabilities(self.mixture_.predict(X[stop : stop + 1]))
                parts.append(self.tempering_.predict(P))
                self._add_class(labels[stop])
                update(slice(stop, stop + 1))
            start = stop + 1
        k = len(self.classes_)
        return np.vstack([np.empty((0, k)), *(np.pad(P, ((0, 0), (0, k - P.shape[1]))) for P in parts)])

    def _codes(self, labels: Labels, known: Mask) -> Array:
        """(n, 1) indicators of the second of two classes, or (n, k) of all classes; nan for missing labels."""
        codes = labels[:, None] != self.classes_[:1] if len(self.classes_) <= 2 else labels[:, None] == self.classes_
        return np.where(known[:, None], codes, np.nan)

    def _probabilities(self, Z: Array) -> Array:
        if len(self.classes_) == 1:
            return np.ones_like(Z)
        if len(self.classes_) == 2:
            # Rounding may raise a mixture of ones above 1.
            Z = np.clip(Z, 0.0, 1.0)
            return np.hstack([1.0 - Z, Z])
        P = np.maximum(Z, 1e-9)
        return np.asarray(P / P.sum(axis=1, keepdims=True))

    def _add_class(self, label: Any) -> None:
        self.classes_ = np.append(self.classes_, label)
        k = len(self.classes_)
        if k == 3:
            # From the indicator y of the second class to the indicators 1 - y, y and 0.
            self.mixture_ = self.mixture_.recode(np.array([[-1.0, 1.0, 0.0]]), np.array([1.0, 0.0, 0.0]))
        elif k > 3:
            self.mixture_ = self.mixture_.recode(np.eye(k - 1, k), np.zeros(k))


def _is_text(labels: Labels) -> bool:
    return labels.dtype.kind in "US" or (labels.dtype.kind == "O" and isinstance(labels[0], str))
