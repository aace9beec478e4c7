"""Online classification by regression on codes of the labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ovk.base import (
    Array,
    Indices,
    Labels,
    Mask,
    Parameters,
    Transactional,
    check_inputs,
    check_not_masked,
    missing_labels,
    reads_snapshot,
    thread_for_row,
)
from ovk.kernels import Gaussian
from ovk.objectives import Calibration, ScoreCounts, simplex_code, two_sided
from ovk.online.shared.learner import FastPath, StreamRegressor, add_features


class CodedClassifier(ClassifierMixin, Transactional, Parameters, ABC, saved=False):
    """A classifier that learns codes of the labels with an online learner and decodes its predictions.

    `counts_` counts how often scores, each made before its row was learned, were those of the right class.
    `calibration_` is the slope and offset that turn scores into probabilities (see `ovk.objectives.calibration`),
    estimated from the labels up to the last power of two.
    """

    _default_factories = {"kernel": Gaussian}
    _state_classes = {"counts_": ScoreCounts}
    _stored = {"learner_": StreamRegressor}

    classes_: Labels
    n_features_in_: int
    learner_: Any
    counts_: ScoreCounts
    calibration_: tuple[float, float]

    def _code(self, classes: int) -> Array:
        """A row of targets for each class."""
        simplex = self._simplex()
        if classes == 2:
            return np.array([[-1.0], [1.0]])
        return simplex_code(classes) if simplex else 2.0 * np.eye(classes) - 1.0

    @abstractmethod
    def _simplex(self) -> bool:
        """Whether more than two classes are corners of a simplex, instead of 1 for the class and -1 for the rest."""

    @abstractmethod
    def _learner(self) -> Any:
        """A new learner of the codes."""

    def fit(self, X: Any, y: Any) -> Self:
        """Discard what was learned and learn from the rows once, in order; a missing label is None or nan."""
        with self._transaction() as work:
            X = check_inputs(work, X, reset=True, dtype=np.float64, ensure_all_finite=False)
            labels, known = checked_labels(y, len(X))
            classes = unique_labels(labels)
            if len(classes) < 2:
                raise ValueError(f"y must contain at least 2 classes, got one class: {classes.tolist()[0]!r}")
            work._start(classes)
            work._learn(X, labels, known)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows; parameters as in `predict_then_learn`."""
        self.predict_then_learn(X, y, classes, sample_weight)
        return self

    def predict_then_learn(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Labels:
        """Predict the label of each row before learning from it.

        Parameters
        ----------
        X : (n, p) inputs
        y : (n,) labels; None or nan is missing and not learned
        classes : all labels, required in the first call
        sample_weight : (n,) >= 0, optional
            Factors of the losses; a row of weight 0 is predicted and not learned. The calibration of probabilities
            ignores weights.

        Returns
        -------
        (n,) labels; with ``on_invalid="skip"`` None in skipped rows, in an array of objects if there are any
        """
        if self._fast_path is None and type(X) is np.ndarray and X.shape[:1] == (1,):
            self._open_fast_path()
        number = self._class_number(X, y) if classes is None and sample_weight is None else None
        learned = None if number is None else self._learn_one(X, number)
        if learned is not None:
            winner = learned[1]
            found: Labels = self.classes_[winner : winner + 1].copy()
            self.__dict__ = learned[0].__dict__
            return found
        with self._transaction() as work:
            return work._decode(work._predict_then_learn(X, y, classes, sample_weight)[0])

    def predict_proba_then_learn(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Array:
        """(n, K) probabilities of `classes_`, each made before its row is learned; nan in skipped rows."""
        with self._transaction() as work:
            return work._predict_then_learn(X, y, classes, sample_weight)[1]

    def _predict_then_learn(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> tuple[Array, Array]:
        first = not hasattr(self, "learner_")
        X = check_inputs(self, X, reset=first, dtype=np.float64, ensure_all_finite=False)
        labels, known = checked_labels(y, len(X))
        found = self._checked_classes(classes, first=first)
        if first:
            self._start(found)
        return self._learn(X, labels, known, sample_weight)

    #: Its plan consists of the numbers of the labels and the codes.
    _fast_path: FastPath | None = None

    def _open_fast_path(self) -> None:
        if not hasattr(self, "learner_") or "feature_names_in_" in vars(self):
            return
        if self.learner_._fast_path is None:
            self.learner_._open_fast_path()
        if self.learner_._fast_path is not None:
            numbers = {label: number for number, label in enumerate(self.classes_.tolist())}
            self._fast_path = FastPath(self, (1, self.n_features_in_), (), (numbers, self._code(len(numbers))))

    def _class_number(self, X: Any, y: Any) -> int | None:
        """The number of the label if the fast path accepts the row, else None."""
        if self._fast_path is None or type(y) is not np.ndarray or y.shape != (1,):
            return None
        if not self._fast_path.accepts(self, X):
            return None
        label = y.item()
        return self._fast_path.plan[0].get(label) if type(label) in (bool, int, str) else None

    def _learn_one(self, X: Array, number: int) -> tuple[Self, int] | None:
        """The classifier after one more row, and the predicted class; None if the calibration changes.

        Only this class changes the parameters of `learner_`, so its fast path need not check them.
        """
        assert self._fast_path is not None
        learner, counts, code = self.learner_, self.counts_, self._fast_path.plan[1][number]
        seen = int(np.add.reduce(counts.right))
        if (seen + 1) & seen == 0 or learner._fast_path is None:
            return None
        with thread_for_row():
            learned, z = learner._learn_one(X, code)
        scores = [-z.item(), z.item()] if len(self.classes_) == 2 else self._scores(z[None])[0].tolist()
        # The first of equal scores wins.
        return self._replace(learner_=learned, counts_=counts.after_row(scores, number)), scores.index(max(scores))

    def _start(self, classes: Labels) -> None:
        self.classes_, self.learner_ = classes, self._learner()
        self.counts_, self.calibration_ = ScoreCounts.empty(), (1.0, 0.0)

    def _learn(self, X: Array, labels: Labels, known: Mask, sample_weight: Any = None) -> tuple[Array, Array]:
        """Scores and probabilities of the rows, each made before its row is learned."""
        numbers = np.zeros(len(labels), dtype=np.intp)
        numbers[known] = _numbers(labels[known], self.classes_)
        codes = self._code(len(self.classes_))[numbers]
        codes[~known] = np.nan
        scores = self._scores(self.learner_.predict_then_learn(X, codes, sample_weight))
        if sample_weight is not None:
            known = known & (np.asarray(sample_weight, dtype=np.float64) > 0.0)
        return scores, self._calibrate(two_sided(scores) if scores.ndim == 1 else scores, numbers, known)

    def _calibrate(self, scores: Array, numbers: Indices, known: Mask) -> Array:
        """(n, K) probabilities by the calibration before each row, which is updated when the number of labels is a
        power of two, so that chunk sizes make no difference.
        """
        counts = replace(self.counts_)
        P, start, seen = np.empty(scores.shape), 0, int(counts.right.sum())
        counted = known & np.isfinite(scores).all(axis=1)
        while start < len(scores):
            left = (1 << max(seen, 1).bit_length()) - seen
            reached = start + int(np.searchsorted(np.cumsum(counted[start:]), left)) + 1
            rows = slice(start, min(reached, len(scores)))
            P[rows] = Calibration(*self.calibration_).probabilities(scores[rows])
            some = np.arange(len(scores))[rows][counted[rows]]
            counts.add(scores[some], numbers[some])
            seen, start = seen + len(some), rows.stop
            if seen >= 2 and seen & (seen - 1) == 0 and len(some):
                found = counts.calibration()
                self.calibration_ = (found.slope, found.offset)
        self.counts_ = counts
        return P

    def _add_inputs(self, count: int) -> None:
        add_features(self.learner_, count)
        self.n_features_in_ += count

    def merge(self, other: Self) -> Self:
        """Add what another classifier of the same classes has learned, exactly as from its rows; see `PKAWV.merge`."""
        check_is_fitted(self)
        check_is_fitted(other)
        if not np.array_equal(self.classes_, other.classes_):
            raise ValueError(
                f"classifiers to merge must have the same classes, got {self.classes_.tolist()} and "
                f"{other.classes_.tolist()}: name all of them in the first partial_fit(X, y, classes=...)"
            )
        with self._transaction() as work:
            work.learner_.merge(other.learner_)
            work.counts_ = work.counts_ + other.counts_
        return self

    def _checked_classes(self, classes: Any, *, first: bool) -> Labels:
        if first:
            if classes is None:
                raise ValueError("classes must name all labels in the first call of partial_fit")
            known: Labels = unique_labels(classes)
            if len(known) < 2:
                raise ValueError(f"classes must name at least 2 labels, got {known.tolist()}")
            return known
        # Callers may pass the classes with every row: comparing is cheaper than checking.
        same = classes is None or np.array_equal(self.classes_, classes)
        if not same and not np.array_equal(self.classes_, unique_labels(classes)):
            raise ValueError(f"classes must be those of the first call, {self.classes_.tolist()}, got {list(classes)}")
        return self.classes_

    @reads_snapshot
    def decision_function(self, X: Any) -> Array:
        """Scores: (n,) for two classes, positive for the second one; else (n, K), and the largest is predicted."""
        if self._fast_path is None or not self._fast_path.accepts(self, X):
            check_is_fitted(self)
            X = check_inputs(self, X, reset=False, dtype=np.float64)
        return self._scores(self.learner_.predict(X))

    @reads_snapshot
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, (n, K), calibrated on the scores of the rows so far."""
        scores = self.decision_function(X)
        return self.counts_.calibration().probabilities(two_sided(scores) if scores.ndim == 1 else scores)

    @reads_snapshot
    def predict(self, X: Any) -> Labels:
        """The label of each row."""
        return self._decode(self.decision_function(X))

    def _scores(self, Z: Array) -> Array:
        classes = len(self.classes_)
        if classes == 2:
            return np.asarray(Z).reshape(-1)
        code = self._code(classes)
        # One-vs-rest outputs are scores; otherwise outputs are compared with the corners of the simplex.
        return Z if code.shape[1] == classes else Z @ code.T

    def _decode(self, scores: Array) -> Labels:
        winner = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        labels: Labels = self.classes_[winner]
        skipped = np.isnan(scores.reshape(len(scores), -1)).any(axis=1)
        if skipped.any():
            labels = labels.astype(object)
            labels[skipped] = None
        return labels


def checked_labels(y: Any, n: int) -> tuple[Labels, Mask]:
    """(n,) class labels and a mask of the known ones; missing labels, None or nan, are replaced by another label."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None: pass a label for each row")
    check_not_masked(y, "y", "a label that is missing is None or nan")
    labels: Labels = column_or_1d(y, warn=True)
    if len(labels) != n:
        raise ValueError(f"y must have a label for each of the {n} rows, got {len(labels)}")
    if labels.dtype.kind == "f" and np.isinf(labels).any():
        raise ValueError("Input y contains infinity or a value too large: pass a label for each row, or nan")
    known = ~missing_labels(labels)
    if not known.all():
        present = labels[known]
        filler = present[0] if len(present) else 0
        labels = np.where(known, labels, filler)
    if labels.dtype.kind == "O" and len({type(label) for label in labels.tolist()}) == 1:
        # Without None, an array of numbers and None is numeric.
        labels = np.array(labels.tolist())
    if labels.dtype.kind != "b" and known.any():  # booleans are always classes; skipping the check saves time
        check_classification_targets(labels[known])
    return labels, known


def _numbers(labels: Labels, classes: Labels) -> Indices:
    numbers = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
    wrong = classes[numbers] != labels
    if wrong.any():
        unknown = labels[wrong][:1].tolist()[0]
        raise ValueError(f"y contains the label {unknown!r}, which is not one of the classes {classes.tolist()}")
    return np.asarray(numbers, dtype=np.intp)
