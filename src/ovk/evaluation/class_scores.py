"""Hits and misses of classifiers along a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ovk._state import State
from ovk._types import Array, Labels
from ovk.evaluation.drift import DriftResult

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
