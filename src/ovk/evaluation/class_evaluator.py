"""A classifier and its baselines on their way through a stream, one chunk after the other."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
from sklearn.exceptions import NotFittedError

from ovk._params import Registered
from ovk._state import State, forked
from ovk._types import Array, Indices, Labels, Mask, Times
from ovk.evaluation.class_scores import ClassificationResult, ClassScores
from ovk.evaluation.drift import DriftRecord
from ovk.evaluation.learners import TakesLastLabel, last_label
from ovk.evaluation.running import Scaling, Unscaled, checkpoints
from ovk.online.shared.code_classifier import CodedClassifier

#: What is left to labels other than the last one, by the baseline that names it.
SURPRISE = 1e-3


@runtime_checkable
class _WithProbabilities(Protocol):
    def predict_proba_then_learn(self, X: Any, y: Any, classes: Any = None, /) -> Array: ...


@runtime_checkable
class _OneByOne(Protocol):
    def partial_fit(self, X: Any, y: Any, classes: Any = None, /) -> Any: ...

    def predict(self, X: Any, /) -> Labels: ...


@dataclass
class LabelCounts(State):
    """The baselines: no change, the last label; and the majority, the most frequent label so far.

    Attributes
    ----------
    last : number of the last label
    frequencies : (K,) how often each label came
    """

    last: int = 0
    frequencies: Array = field(default_factory=lambda: np.zeros(0))

    def guesses(self, truth: Indices, k: int) -> list[tuple[Indices, Array]]:
        """Last label and majority before each of the rows with these labels of k: their numbers and probabilities.

        One label that never came has a share like one that came once: there may be another, and nobody knows which.
        """
        start = np.pad(self.frequencies, (0, k - len(self.frequencies)))
        before = np.vstack([start, np.eye(k)[truth]]).cumsum(axis=0)
        last = np.concatenate([[self.last], truth]).astype(np.intp)
        self.last, self.frequencies = int(last[-1]), before[-1]
        before, last = before[:-1], last[:-1]
        kinds = (before > 0).sum(axis=1, keepdims=True)
        P = (before + 1.0) / (before.sum(axis=1, keepdims=True) + kinds + 1.0)
        Q = np.where(np.arange(k) == last[:, None], 1.0 - SURPRISE, SURPRISE / (kinds + 1.0))
        return [(last, Q), (np.asarray(before.argmax(axis=1), dtype=np.intp), P)]


@dataclass
class ClassEvaluator(State, Registered):
    """What `progressive_classes` keeps of a stream so far. It can be saved and goes on where it was.

    Attributes
    ----------
    model : the classifier, which learns
    scores : `ClassScores` of the model, of no change and of the majority
    scaling : how inputs are scaled before the model sees them
    counts : what the baselines know
    n_rows, n_missing, warm_up : rows so far, those without a label, and those that were learned but not tested
    rows : checkpoints
    drift : losses of late, alarms and experts
    delay : how many rows later labels come
    waiting : inputs and labels of the rows whose labels have not come yet, and the last label known at their prediction

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import AutoStreamClassifier
    >>> from ovk.evaluation import ClassEvaluator
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> evaluator = ClassEvaluator.start(AutoStreamClassifier())
    >>> guesses, P = evaluator.predict_then_learn(X, (X[:, 0] > 0).astype(int), ["no", "yes"], tested=True)
    >>> P.shape, evaluator.model.classes_.tolist(), evaluator.scores[0].accuracy > 0.9
    ((200, 2), ['no', 'yes'], True)
    """

    model: Any
    scores: list[ClassScores]
    scaling: Scaling
    counts: LabelCounts = field(default_factory=LabelCounts)
    n_rows: int = 0
    n_missing: int = 0
    warm_up: int = 0
    rows: list[int] = field(default_factory=list)
    drift: DriftRecord = field(default_factory=DriftRecord)
    delay: int = 0
    waiting: list[tuple[Array, Any] | tuple[Array, Any, Any]] = field(default_factory=list)

    _state_classes = {"scores": ClassScores, "scaling": Scaling, "counts": LabelCounts, "drift": DriftRecord}

    @classmethod
    def start(cls, model: Any, scaling: Scaling | None = None, delay: int = 0) -> ClassEvaluator:
        """Before the first row."""
        if not isinstance(model, (_WithProbabilities, _OneByOne)):
            raise TypeError(
                "model must be a classifier with predict_proba_then_learn (of ovk), or with partial_fit and predict, "
                f"got {type(model).__name__}"
            )
        scores = [ClassScores.start(name, 0) for name in (type(model).__name__, "no change", "majority")]
        return cls(model, scores, Unscaled() if scaling is None else scaling, delay=delay)

    def predict_then_learn(
        self,
        X: Array,
        codes: Indices,
        classes: Any,
        *,
        tested: bool,
        waiting: Times | None = None,
        weights: Array | None = None,
    ) -> tuple[Indices, Array]:
        """Let the model and the baselines predict and learn rows, and count those that are `tested`.

        Parameters
        ----------
        X : (n, p) inputs
        codes : (n,) numbers of the labels, -1 where one is missing
        classes : the labels known so far, by number; later calls may have more of them
        waiting : (n,) how many rows wait for their labels when each is predicted, where that is not always `delay`
        weights : (n,) what the losses of the rows are multiplied by in learning

        Returns
        -------
        (n,) numbers of the predicted labels, -1 in rows that the model skipped, which are not counted; and (n, K)
        probabilities, which are 0 or 1 for a model that tells none, and nan in those rows
        """
        labels = np.asarray(classes)
        n, k, start = len(X), len(labels), self.n_rows
        if n == 0:
            return np.empty(0, dtype=np.intp), np.empty((0, k))
        nothing = np.empty((n, 0))
        X = (self.scaling.scale(X, nothing) if tested else self.scaling.scale_warm_up(X, nothing)).X
        try:
            P, tells, late = self._predictions(X, codes, labels, waiting, weights)
        except Exception as error:
            error.add_note(f"This happened in rows {start} to {start + n - 1} of the stream, counted from 0.")
            raise
        skipped = np.isnan(P).any(axis=1)
        guesses = np.where(skipped, -1, P.argmax(axis=1))
        known = (codes >= 0) & ~skipped
        if late is None:
            beside = self.counts.guesses(codes[known], k)
        else:
            beside = [(numbers[known], shares[known]) for numbers, shares in late]
        found = [(guesses[known], P[known] if tells else None), *beside]
        marks = checkpoints(start, start + n) if tested else checkpoints(0, 0)
        edges = [0, *np.searchsorted(start + np.flatnonzero(known), marks - 1, side="right").tolist(), int(known.sum())]
        truth = codes[known]
        for score, (numbers, shares) in zip(self.scores, found, strict=True):
            score.grow(k)
            for i, (low, high) in enumerate(pairwise(edges if tested else [])):
                score.add(truth[low:high], numbers[low:high], None if shares is None else shares[low:high])
                if i < len(marks):
                    score.curve.append(score.accuracy)
        self.drift.add(start, np.where(known & tested, guesses != codes, np.nan))
        self.rows += marks.tolist()
        self.n_rows += n
        self.n_missing += int((codes < 0).sum())
        self.warm_up += 0 if tested else n
        return guesses, P

    def _predictions(
        self, X: Array, codes: Indices, labels: Labels, waiting: Times | None, weights: Array | None
    ) -> tuple[Array, bool, list[tuple[Indices, Array]] | None]:
        """(n, K) probabilities, whether they are more than guesses, and those of the baselines if labels come late."""
        begun, known = time.perf_counter(), codes >= 0
        most = np.full(len(X), self.delay) if waiting is None else waiting
        late = self.delay > 0 or waiting is not None
        one_by_one = late or not isinstance(self.model, _WithProbabilities)
        if weights is not None and one_by_one:
            raise ValueError(
                f"{type(self.model).__name__} cannot take sample_weight here: AutoStreamClassifier, OLOKClassifier and "
                "PKAWVClassifier can, without a delay"
            )
        P, beside = np.empty((len(X), len(labels))), []
        for rows in self.drift.pieces(self.model, self.n_rows, self.n_rows + len(X)):
            piece = X[rows], codes[rows], known[rows], labels
            if one_by_one:
                P[rows], guesses = self._rows(*piece, most[rows], late=late)
                beside += guesses
            else:
                P[rows] = self._block(*piece, None if weights is None else weights[rows])
            self.drift.look(self.model, self.n_rows + rows.stop)
        self.scores[0].seconds += time.perf_counter() - begun
        if not late:
            return P, not one_by_one, None
        both = [zip(*baseline, strict=True) for baseline in zip(*beside, strict=True)]
        return P, False, [(np.concatenate(numbers), np.concatenate(shares)) for numbers, shares in both]

    def _block(self, X: Array, codes: Indices, known: Mask, labels: Labels, weights: Array | None) -> Array:
        """(n, K) probabilities of a classifier of ovk."""
        first = "classes_" not in vars(self.model)
        counts = known if weights is None else known & (weights > 0.0)
        if first and not counts.any():
            return np.full((len(X), len(labels)), 1.0 / len(labels))
        y = np.full(len(X), None, dtype=object)
        y[known] = labels[codes[known]]
        # One that must know its classes at the start is told; the others find them one after the other.
        told = labels if first and isinstance(self.model, CodedClassifier) else None
        options = {} if weights is None else {"sample_weight": weights}
        raw = self.model.predict_proba_then_learn(X, labels[codes] if known.all() else y, told, **options)
        P = np.zeros((len(X), len(labels)))
        place = {label: k for k, label in enumerate(labels.tolist())}
        P[:, [place[label] for label in self.model.classes_.tolist()]] = raw
        return P

    def _rows(
        self, X: Array, codes: Indices, known: Mask, labels: Labels, most: Times, *, late: bool
    ) -> tuple[Array, list[list[tuple[Indices, Array]]]]:
        """(n, K) ones at the predictions of a classifier that is given one row at a time, when its label comes.

        `most` (n,) rows wait for their labels when each is predicted. Where labels come `late`, rows before the first
        one are nan, and the baselines' guesses for each row come along.
        """
        guesses, beside = np.full(len(X), -1 if late else 0, dtype=np.intp), []
        names = labels.tolist()
        place = {label: k for k, label in enumerate(names)}
        for i in range(len(X)):
            row = slice(i, i + 1)
            while len(self.waiting) > most[i]:
                x, label, *before = self.waiting.pop(0)
                if label is not None:
                    y = np.array([label], dtype=labels.dtype)
                    if late and isinstance(self.model, TakesLastLabel):
                        self.model.partial_fit_late(x, y, np.array(before or [None], dtype=object), labels)
                    else:
                        self.model.partial_fit(x, y, labels)
                    if late:
                        self.counts.guesses(np.array([place[label]], dtype=np.intp), len(labels))
            before_it = last_label(self.model)
            before_it = None if before_it is None else np.asarray(before_it).tolist()
            with suppress(NotFittedError):
                guesses[i] = place[np.asarray(self.model.predict(X[row])).tolist()[0]]
            self.waiting.append((X[row], names[codes[i]] if known[i] else None, before_it))
            if late:
                beside.append(self.counts._fork().guesses(np.zeros(1, dtype=np.intp), len(labels)))
        P: Array = np.where(guesses[:, None] < 0, np.nan, np.eye(len(labels))[guesses])
        return P, beside

    def result(self, classes: Any, predictions: Labels | None = None) -> ClassificationResult:
        """The scores of all rows so far, at every checkpoint."""
        if 0 < self.n_rows == self.warm_up:
            raise ValueError(f"the stream ended after {self.n_rows} rows, before any was tested: lower untested")
        rows, scores = list(self.rows), forked(self.scores)
        if self.n_rows not in rows:
            rows.append(self.n_rows)
            for score in scores:
                score.curve.append(score.accuracy)
        return ClassificationResult(
            model=scores[0],
            baselines=tuple(scores[1:]),
            classes=np.asarray(classes),
            rows=np.array(rows, dtype=np.int64),
            n_rows=self.n_rows,
            n_missing=self.n_missing,
            predictions=np.empty(0, dtype=object) if predictions is None else predictions,
            drift=self.drift.result(),
            untested=self.warm_up,
        )
