"""Baselines of a stream: predictions that need no model, and a batch model that is refitted from time to time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from ovk.base import Array, CopyOnWrite, Mask, Parameters, check_int
from ovk.batch import OVKRidge
from ovk.evaluation.scaling_and_drift import RunningMoments


class Baseline(CopyOnWrite, Parameters, ABC):
    """A simple learner: outputs (n, d) are numbers, or 1 for the class of a row and 0 for the others; nan if missing.

    Before its first row it predicts 0, or the first class, so that the errors of all learners cover the same rows.
    """

    #: Name in tables and plots.
    name: str

    @abstractmethod
    def predict_then_learn(self, X: Array, Y: Array) -> Array:
        """(n, d) predictions, each from the rows before it."""

    def guess(self, X: Array, d: int) -> Array:
        """(n, d) predictions, without learning."""
        return self._snapshot().predict_then_learn(X, np.full((len(X), d), np.nan))


class LastValue(Baseline):
    """The last observed value of each output."""

    _stored = {"last_": "d"}

    name = "last value"

    def predict_then_learn(self, X: Array, Y: Array) -> Array:
        if not hasattr(self, "last_"):
            self.last_ = np.zeros(Y.shape[1])
        values = np.vstack([self.last_, Y])
        # For every entry the row in which its output was last observed; row 0 holds the values before this chunk.
        rows = np.where(np.isfinite(values), np.arange(len(values))[:, None], 0)
        filled = np.take_along_axis(values, np.maximum.accumulate(rows, axis=0), axis=0)
        self.last_ = filled[-1]
        return filled[:-1]

    def merge(self, other: LastValue) -> None:
        if hasattr(other, "last_"):
            self.last_ = other.last_


class RunningMean(Baseline):
    """The mean of each output so far."""

    name = "running mean"

    _state_classes = {"moments_": RunningMoments}

    def predict_then_learn(self, X: Array, Y: Array) -> Array:
        if not hasattr(self, "moments_"):
            self.moments_ = RunningMoments(Y.shape[1])
        mean, _ = self.moments_.before_then_add(Y)
        return mean

    def merge(self, other: RunningMean) -> None:
        if hasattr(other, "moments_"):
            if not hasattr(self, "moments_"):
                self.moments_ = RunningMoments(other.moments_.width)
            self.moments_.merge(other.moments_)


@dataclass(eq=False, repr=False)
class RefittedRidge(Baseline):
    """Batch ridge regression on the most recent rows of a stream, refitted after 8, 16, 32, ... rows.

    Each fit standardises its inputs and outputs.

    Parameters
    ----------
    ridge : OVKRidge or another batch regressor that takes missing outputs
        The estimator to fit; default ``OVKRidge(alpha=0.1)``.
    max_rows : int
        Maximum number of rows in a fit, the most recent ones. It bounds the cost of a fit and of a prediction.

    Attributes
    ----------
    ridge_ : OVKRidge or the given estimator
        The last fit; None before the first.
    n_fits_ : int
        Number of fits so far.

    See Also
    --------
    progressive : takes it as ``baselines=[RefittedRidge()]`` or ``baselines="ridge"``.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import RefittedRidge
    >>> X = np.linspace(0, 1, 40)[:, None]
    >>> baseline = RefittedRidge()
    >>> F = baseline.predict_then_learn(X, X**2)
    >>> float(F[:8].max()), baseline.n_fits_
    (0.0, 3)
    """

    name = "refitted ridge"

    ROWS_BEFORE_FIRST_FIT = 8

    _saved_state = ("_seen", "_kept", "_next", "_recent", "_moments")
    _state_classes = {"_moments": RunningMoments}
    _stored = {"_seen": int, "_kept": int, "_next": int, "_recent": "* inf", "_moments": tuple}

    ridge: Any = None
    max_rows: int = 2000

    def predict_then_learn(self, X: Array, Y: Array) -> Array:
        if not hasattr(self, "ridge_"):
            self.ridge_: Any = None
            self.n_fits_ = 0
            self._seen, self._kept, self._next = 0, 0, self.ROWS_BEFORE_FIRST_FIT
            self._recent: list[tuple[Array, Array]] = []
            self._moments: tuple[RunningMoments, RunningMoments] | None = None
        F = np.zeros(Y.shape)
        start = 0
        while start < len(X):
            # Refits happen at fixed rows of the stream, independent of the chunks.
            stop = min(len(X), start + self._next - self._seen)
            F[start:stop] = self._predict(X[start:stop], Y.shape[1])
            self._remember(X[start:stop], Y[start:stop])
            self._seen += stop - start
            if self._seen == self._next:
                self._next *= 2
                self._refit()
            start = stop
        return F

    def _predict(self, X: Array, d: int) -> Array:
        F = np.zeros((len(X), d))
        if self._moments is not None:
            valid = np.isfinite(X).all(axis=1)
            inputs, outputs = self._moments
            if valid.any():
                F[valid] = self.ridge_.predict((X[valid] - inputs.mean) / inputs.sd).reshape(-1, d)
            F = outputs.mean + outputs.sd * F
        return F

    def _remember(self, X: Array, Y: Array) -> None:
        useful = np.isfinite(X).all(axis=1) & np.isfinite(Y).any(axis=1)
        if useful.any():
            self._recent.append((X[useful], np.where(np.isfinite(Y), Y, np.nan)[useful]))
            self._kept += int(useful.sum())
        most = check_int(self.max_rows, "max_rows")
        while self._recent and self._kept - len(self._recent[0][0]) >= most:
            self._kept -= len(self._recent.pop(0)[0])

    def _refit(self) -> None:
        if not self._recent:
            return
        X, Y = (np.concatenate(parts)[-self.max_rows :] for parts in zip(*self._recent, strict=True))
        if not np.isfinite(Y).any(axis=0).all():
            # Some output has no value yet: wait for the next refit.
            return
        inputs, outputs = RunningMoments(X.shape[1]), RunningMoments(Y.shape[1])
        inputs.before_then_add(X)
        outputs.before_then_add(Y)
        ridge = OVKRidge(alpha=0.1) if self.ridge is None else clone(self.ridge)
        self.ridge_ = ridge.fit((X - inputs.mean) / inputs.sd, (Y - outputs.mean) / outputs.sd)
        self._moments = inputs, outputs
        self.n_fits_ += 1


#: `NoChange` divides this by the number of labels so far plus one for the probability of each other label.
OTHER_LABELS_PROBABILITY = 1e-3


class _LabelCounts(Baseline, saved=False):
    counts_: Array

    def predict_then_learn(self, X: Array, Y: Array) -> Array:
        k, known = Y.shape[1], np.asarray(np.isfinite(Y).all(axis=1))
        start = vars(self).get("counts_", np.zeros(0))
        start = np.pad(start, (0, k - len(start)))
        before = np.vstack([start, np.where(known[:, None], Y, 0.0)]).cumsum(axis=0)
        self.counts_ = before[-1]
        return self._shares(before[:-1], Y, known)

    @abstractmethod
    def _shares(self, before: Array, Y: Array, known: Mask) -> Array:
        """(n, k) probabilities, from the counts `before` (n, k) of each label before each row."""


class NoChange(_LabelCounts):
    """The last label, with a small probability of every other one."""

    name = "no change"

    last_: int

    def _shares(self, before: Array, Y: Array, known: Mask) -> Array:
        codes = np.concatenate([[vars(self).get("last_", 0)], np.where(known, Y.argmax(axis=1), 0)])
        rows = np.where(np.concatenate([[True], known]), np.arange(len(codes)), 0)
        last = codes[np.maximum.accumulate(rows)]
        self.last_ = int(last[-1])
        kinds = (before > 0).sum(axis=1, keepdims=True)
        is_last = np.arange(Y.shape[1]) == last[:-1, None]
        return np.where(is_last, 1.0 - OTHER_LABELS_PROBABILITY, OTHER_LABELS_PROBABILITY / (kinds + 1.0))


class Majority(_LabelCounts):
    """The frequency of each label so far, with one pseudo-count for each label and one for labels yet unseen."""

    name = "majority"

    def _shares(self, before: Array, Y: Array, known: Mask) -> Array:
        kinds = (before > 0).sum(axis=1, keepdims=True)
        return np.asarray((before + 1.0) / (before.sum(axis=1, keepdims=True) + kinds + 1.0))
