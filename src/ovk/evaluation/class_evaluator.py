"""A classifier and its baselines on their way through a stream, one chunk after the other."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
from sklearn.exceptions import NotFittedError

from ovk.base import Array, Indices, Labels, Mask, Registered, State, Times, check_int, snapshot_of
from ovk.evaluation.drift import DriftRecord, DriftResult
from ovk.evaluation.late import waiting_rows
from ovk.evaluation.learners import TakesLastLabel, has_learned, last_label
from ovk.evaluation.running import Scaling, Unscaled, checkpoints
from ovk.online import CodedClassifier

# Hits and misses of classifiers along a stream.

#: Probabilities are counted in so many bins for the area under the curve.
BINS = 4096
#: A probability counts as at least this in the log loss.
LEAST = 1e-15


@dataclass
class ClassScores(State):
    """Hits and misses of one classifier so far.

    Attributes
    ----------
    name : what it is called in tables
    seconds : time it took, which is not saved
    confusion : (K, K) how often each class (row) was predicted as each (column)
    histogram : (K, 2, bins) how often each class came with each probability: without it (first), and with it
    log_losses : sum of -log of the probability of the class that came, nan for a classifier without probabilities

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import ClassScores
    >>> scores = ClassScores.start("coin", 2)
    >>> scores.add(np.array([0, 1, 1]), np.array([0, 1, 0]), np.full((3, 2), 0.5))
    >>> round(scores.accuracy, 3), round(scores.log_loss, 3), scores.auc
    (0.667, 0.693, 0.5)
    """

    name: str
    confusion: Array
    histogram: Array
    log_losses: float = 0.0
    curve: list[float] = field(default_factory=list)
    seconds: float = field(default=0.0, init=False)

    @classmethod
    def start(cls, name: str, k: int) -> ClassScores:
        """Before the first row, with k classes."""
        return cls(name, np.zeros((k, k)), np.zeros((k, 2, BINS)))

    def grow(self, k: int) -> None:
        """Take further classes, which had the probability 0 in all rows so far."""
        known = len(self.confusion)
        if k > known:
            self.confusion = np.pad(self.confusion, (0, k - known))
            self.histogram = np.pad(self.histogram, ((0, k - known), (0, 0), (0, 0)))
            self.histogram[known:, 0, 0] = 0.0 if np.isnan(self.log_losses) else self.confusion.sum()

    def add(self, truth: Any, guess: Any, P: Array | None) -> None:
        """Count rows: numbers of their classes and of the guesses, and (n, K) probabilities if there are any."""
        # New arrays, since forks share the old ones.
        self.confusion = self.confusion.copy()
        np.add.at(self.confusion, (truth, guess), 1.0)
        if P is None:
            self.log_losses = np.nan
        if P is None or np.isnan(self.log_losses):
            return
        self.histogram = self.histogram.copy()
        self.log_losses -= float(np.log(np.maximum(P[np.arange(len(P)), truth], LEAST)).sum())
        bins = np.minimum((P * BINS).astype(int), BINS - 1)
        for c in range(P.shape[1]):
            np.add.at(self.histogram[c], ((truth == c).astype(int), bins[:, c]), 1.0)

    @property
    def accuracy(self) -> float:
        """Share of rows whose class was predicted."""
        return float(np.trace(self.confusion) / max(self.confusion.sum(), 1.0))

    @property
    def recall(self) -> Array:
        """(K,) of the rows of each class the share that was predicted as such; nan for one that never came."""
        came = self.confusion.sum(axis=1)
        found: Array = np.diagonal(self.confusion) / np.where(came > 0, came, np.nan)
        return found

    @property
    def balanced_accuracy(self) -> float:
        """Mean of the recalls: every class counts alike, however rare."""
        recall = self.recall
        return float(np.nanmean(recall)) if np.isfinite(recall).any() else float("nan")

    @property
    def log_loss(self) -> float:
        """Mean of -log of the probability of the class that came."""
        return float(self.log_losses / max(self.confusion.sum(), 1.0))

    @property
    def kappa(self) -> float:
        """Cohen's kappa: accuracy above that of guesses with the same frequencies, 1 for no error."""
        n = max(self.confusion.sum(), 1.0)
        chance = float(self.confusion.sum(axis=0) @ self.confusion.sum(axis=1)) / n**2
        return (self.accuracy - chance) / (1.0 - chance) if chance < 1.0 else 0.0

    @property
    def auc(self) -> float:
        """Area under the ROC curve, one class against the rest, mean over the classes that came, to 1 / 4096."""
        if np.isnan(self.log_losses):
            return float("nan")
        areas = []
        for rest, own in self.histogram:
            if rest.sum() and own.sum():
                below = np.cumsum(rest) - 0.5 * rest
                areas.append(float(own @ below / (own.sum() * rest.sum())))
        return float(np.mean(areas)) if areas else float("nan")


@dataclass(frozen=True)
class ClassificationResult:
    """What classifiers predicted of a stream, each row before its own label was seen.

    Attributes
    ----------
    model, baselines : `ClassScores`: `accuracy`, `log_loss`, `kappa`, `auc`, `confusion`, `seconds` and the `curve` of
        the accuracy over all rows up to each checkpoint
    classes : (K,) labels, in the order of the confusion matrices
    rows : checkpoints
    n_rows, n_missing : rows read, and those of them without a label
    predictions : (n,) labels, each predicted before its own was seen, in rows without one too;
        None in rows that the model skipped
    drift : `DriftResult`: losses of late, alarms, and what the experts of a learner that has some did
    untested : rows that came first and were learned but not counted

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import AutoStreamClassifier, progressive_classes
    >>> result = progressive_classes(AutoStreamClassifier(), np.arange(4.0)[:, None], ["a", "b", "b", "b"])
    >>> result.classes.tolist(), [round(one.accuracy, 2) for one in result.baselines]
    (['a', 'b'], [0.67, 0.33])
    """

    model: ClassScores
    baselines: tuple[ClassScores, ...]
    classes: Labels
    rows: Array
    n_rows: int
    n_missing: int
    predictions: Labels
    drift: DriftResult
    untested: int = 0

    def summary(self) -> str:
        """The scores of model and baselines as a table to print."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        rate = self.n_rows / self.model.seconds if self.model.seconds > 0 else float("nan")
        yield f"{self.n_rows:,} rows predicted, then learned, in {self.model.seconds:.2f} s ({rate:,.0f} a second)"
        if self.n_missing:
            yield f"{self.n_missing:,} rows without a label"
        yield ""
        learners = (self.model, *self.baselines)
        widths = [max(len(one.name), 9) for one in learners]
        cells = zip(learners, widths, strict=True)
        yield "  ".join([" " * 17, *(one.name.rjust(width) for one, width in cells)])
        for title in ("accuracy", "balanced accuracy", "kappa", "log loss", "AUC"):
            values = [getattr(one, title.lower().replace(" ", "_")) for one in learners]
            shown = ["-" if np.isnan(value) else f"{value:.4f}" for value in values]
            yield "  ".join([title.ljust(17), *(cell.rjust(width) for cell, width in zip(shown, widths, strict=True))])


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
                beside.append(self.counts._snapshot().guesses(np.zeros(1, dtype=np.intp), len(labels)))
        P: Array = np.where(guesses[:, None] < 0, np.nan, np.eye(len(labels))[guesses])
        return P, beside

    def result(self, classes: Any, predictions: Labels | None = None) -> ClassificationResult:
        """The scores of all rows so far, at every checkpoint."""
        if 0 < self.n_rows == self.warm_up:
            raise ValueError(f"the stream ended after {self.n_rows} rows, before any was tested: lower untested")
        rows, scores = list(self.rows), snapshot_of(self.scores)
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


# Progressive evaluation of classifiers: test, then train.


def progressive_classes(
    model: Any,
    X: Any,
    y: Any,
    *,
    classes: Any = None,
    chunk_size: int = 1024,
    untested: int | None = None,
    delay: Any = 0,
    time: Any = None,
    sample_weight: Any = None,
) -> ClassificationResult:
    """Predict the class of every row of a stream before learning from it, and measure how well.

    Beside the model stand two baselines: no change (the last label), and the majority of the labels so far.

    Parameters
    ----------
    model : online classifier of ovk, which is learned in place in exact blocks, or another one with `partial_fit` and
        `predict`, which is given one row at a time
    X : (n, p) inputs
    y : (n,) labels; rows whose label is None or nan are predicted and not learned
    classes : the labels there will be, for classifiers that want to know them at the start; default those of y
    chunk_size : rows at a time
    untested : the first rows, which are learned but not counted; default 1, which nothing can predict, or 0 for a model
        that has learned before
    delay, time : how much later labels come, in rows or by the clock, as in `progressive`. With a delay rows are
        predicted and learned one at a time, baselines wait as well, and rows before the first label are not tested
    sample_weight : (n,) >= 0, for `AutoStreamClassifier`, `OLOKClassifier` and `PKAWVClassifier` without a delay
        What the loss of each row is multiplied by where the model learns it. Scores count rows alike.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import AutoStreamClassifier, progressive_classes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((1000, 2))
    >>> y = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")
    >>> result = progressive_classes(AutoStreamClassifier(), X, y)
    >>> bool(result.model.accuracy > 0.9), bool(result.baselines[0].accuracy < 0.6)
    (True, True)
    """
    X, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
    if labels.ndim != 1 or len(labels) != len(X) or not len(X):
        raise ValueError(f"y must hold a label for each of the {len(X)} rows, at least one, got shape {labels.shape}")
    missing = _missing(labels)
    if missing.all():
        raise ValueError("y holds no label: there is nothing to learn from")
    seen = labels[~missing]
    known = np.unique(seen if classes is None else np.concatenate([np.asarray(classes, dtype=seen.dtype), seen]))
    codes = np.full(len(X), -1, dtype=np.intp)
    codes[~missing] = np.searchsorted(known, seen)
    late = waiting_rows(delay, time)
    waiting = None if isinstance(late, int) else late
    weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    for name, column in (("time", waiting), ("sample_weight", weights)):
        if column is not None and column.shape != (len(X),):
            raise ValueError(f"{name} must have an entry for each of the {len(X)} rows, got shape {column.shape}")
    evaluator = ClassEvaluator.start(model, delay=late if isinstance(late, int) else 0)
    if untested is None:
        untested = int(not has_learned(model))
    first, size = check_int(untested, "untested", least=0), check_int(chunk_size, "chunk_size")
    edges = sorted({0, min(first, len(X)), *range(first, len(X), size), len(X)})
    found = [
        evaluator.predict_then_learn(
            X[low:high],
            codes[low:high],
            known,
            tested=low >= first,
            waiting=None if waiting is None else waiting[low:high],
            weights=None if weights is None else weights[low:high],
        )[0]
        for low, high in pairwise(edges)
    ]
    numbers = np.concatenate(found)
    predictions = known[numbers]
    if (numbers < 0).any():
        predictions = predictions.astype(object)
        predictions[numbers < 0] = None
    return evaluator.result(known, predictions)


def _missing(labels: Labels) -> Mask:
    """Which labels are None or nan."""
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    if labels.dtype.kind != "O":
        return np.full(len(labels), False)
    return np.array([label is None or label != label for label in labels], dtype=bool)


# One sentence about a classifier beside its baselines, for the command line and the report.

#: A class this much rarer than its equal share makes the accuracy say little.
RARE = 0.2


def class_conclusion(learners: Sequence[ClassScores], labels: Sequence[str]) -> str:
    """How the first of the learners, the model, compares with its best baseline, and what to look at."""
    model = learners[0]
    counts = model.confusion.sum(axis=1)
    if not counts.sum():
        return "No row with a known label was tested, so nothing can be said about the model yet."
    best = max(learners[1:], key=lambda one: one.accuracy)
    said = f"The model is right in {model.accuracy:.1%} of the rows"
    rare = int(np.where(counts > 0, counts, np.inf).argmin())
    note = ""
    if counts[rare] < RARE * counts.sum() / max((counts > 0).sum(), 1):
        note = f" {labels[rare]!r} is rare: look at kappa, AUC and its recall ({model.recall[rare]:.0%})."
    if model.accuracy > best.accuracy:
        return f"{said}, {best.name!r}, the best baseline, in {best.accuracy:.1%}.{note}"
    cure = "the inputs say little about the classes, or they drift"
    if model.log_loss < best.log_loss:
        cure = "but its probabilities are better (log loss): weigh them by what each kind of error costs you"
    return f"{said}, {best.name!r} in {best.accuracy:.1%}; {cure}.{note}"
