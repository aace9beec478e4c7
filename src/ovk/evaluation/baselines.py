"""What a number must stand against: predictions that need no model, and a batch model refitted now and then."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from ovk.base import Array, CopyOnWrite, Mask, Parameters, check_int
from ovk.batch import OVKRidge
from ovk.evaluation.running import RunningMoments


class Baseline(CopyOnWrite, Parameters, ABC):
    """A simple learner under the contract of progressive evaluation: outputs (n, d), nan where not observed.

    Outputs are numbers, or 1 for the class of a row and 0 for the others. All of them predict 0, or the first class,
    before they have seen anything, like a learner that starts from f = 0, so that errors of all learners are over the
    same rows.
    """

    #: What it is called in tables and plots.
    name: str

    @abstractmethod
    def predict_then_learn(self, X: Array, Y: Array) -> Array:
        """(n, d) predictions, each from the rows before it."""

    def guess(self, X: Array, d: int) -> Array:
        """(n, d) predictions, without learning."""
        return self._snapshot().predict_then_learn(X, np.full((len(X), d), np.nan))


class LastValue(Baseline):
    """Each output's last observed value.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import LastValue
    >>> Y = np.array([[1.0], [np.nan], [5.0], [7.0]])
    >>> LastValue().predict_then_learn(np.zeros((4, 2)), Y).ravel()
    array([0., 1., 1., 5.])
    """

    name = "last value"

    def predict_then_learn(self, X: Array, Y: Array) -> Array:
        if not hasattr(self, "last_"):
            self.last_ = np.zeros(Y.shape[1])
        values = np.vstack([self.last_, Y])
        # For every entry the row where its output was last observed; row 0 is what was known before.
        rows = np.where(np.isfinite(values), np.arange(len(values))[:, None], 0)
        filled = np.take_along_axis(values, np.maximum.accumulate(rows, axis=0), axis=0)
        self.last_ = filled[-1]
        return filled[:-1]

    def merge(self, other: LastValue) -> None:
        """Go on as if the rows of the other came last."""
        if hasattr(other, "last_"):
            self.last_ = other.last_


class RunningMean(Baseline):
    """Each output's mean so far.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import RunningMean
    >>> Y = np.array([[1.0], [np.nan], [5.0], [7.0]])
    >>> RunningMean().predict_then_learn(np.zeros((4, 2)), Y).ravel()
    array([0., 1., 1., 3.])
    """

    name = "running mean"

    _state_classes = {"moments_": RunningMoments}

    def predict_then_learn(self, X: Array, Y: Array) -> Array:
        if not hasattr(self, "moments_"):
            self.moments_ = RunningMoments(Y.shape[1])
        mean, _ = self.moments_.before_then_add(Y)
        return mean

    def merge(self, other: RunningMean) -> None:
        """Add the rows of the other."""
        if hasattr(other, "moments_"):
            if not hasattr(self, "moments_"):
                self.moments_ = RunningMoments(other.moments_.width)
            self.moments_.merge(other.moments_)


@dataclass(eq=False, repr=False)
class RefittedRidge(Baseline):
    """Batch ridge regression, fitted anew after 8, 16, 32, ... rows on the last of them.

    Each fit standardises the inputs and outputs that it is given.

    Parameters
    ----------
    ridge : OVKRidge or another batch regressor that takes missing outputs; default ``OVKRidge(alpha=0.1)``
    max_rows : int
        Most rows to fit on, the last ones: it bounds the cost of a fit, and of a prediction.

    Attributes
    ----------
    ridge_ : the last fit, None before the first
    n_fits_ : number of fits so far

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import RefittedRidge
    >>> X = np.linspace(0, 1, 40)[:, None]
    >>> baseline = RefittedRidge()
    >>> F = baseline.predict_then_learn(X, X**2)
    >>> F[:8].any(), baseline.n_fits_
    (np.False_, 3)
    """

    name = "refitted ridge"

    #: Rows before the first fit.
    FIRST = 8

    _saved_state = ("_seen", "_kept", "_next", "_recent", "_moments")
    _state_classes = {"_moments": RunningMoments}

    ridge: Any = None
    max_rows: int = 2000

    def predict_then_learn(self, X: Array, Y: Array) -> Array:
        if not hasattr(self, "ridge_"):
            self.ridge_: Any = None
            self.n_fits_ = 0
            self._seen, self._kept, self._next = 0, 0, self.FIRST
            self._recent: list[tuple[Array, Array]] = []
            self._moments: tuple[RunningMoments, RunningMoments] | None = None
        F = np.zeros(Y.shape)
        start = 0
        while start < len(X):
            # Fits fall on fixed rows of the stream, wherever chunks end.
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
            # There is nothing to fit some output on: wait for the next time.
            return
        inputs, outputs = RunningMoments(X.shape[1]), RunningMoments(Y.shape[1])
        inputs.add(X)
        outputs.add(Y)
        ridge = OVKRidge(alpha=0.1) if self.ridge is None else clone(self.ridge)
        self.ridge_ = ridge.fit((X - inputs.mean) / inputs.sd, (Y - outputs.mean) / outputs.sd)
        self._moments = inputs, outputs
        self.n_fits_ += 1


#: What is left to labels other than the last one, by the baseline that names it.
SURPRISE = 1e-3


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
        """(n, k) probabilities, with `before` (n, k) how often each label came before each row."""


class NoChange(_LabelCounts):
    """The last label; a small probability is left to the others.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import NoChange
    >>> NoChange().predict_then_learn(np.zeros((3, 1)), np.eye(2)[[1, 1, 0]]).argmax(axis=1)
    array([0, 1, 1])
    """

    name = "no change"

    last_: int

    def _shares(self, before: Array, Y: Array, known: Mask) -> Array:
        codes = np.concatenate([[vars(self).get("last_", 0)], np.where(known, Y.argmax(axis=1), 0)])
        rows = np.where(np.concatenate([[True], known]), np.arange(len(codes)), 0)
        last = codes[np.maximum.accumulate(rows)]
        self.last_ = int(last[-1])
        kinds = (before > 0).sum(axis=1, keepdims=True)
        return np.where(np.arange(Y.shape[1]) == last[:-1, None], 1.0 - SURPRISE, SURPRISE / (kinds + 1.0))


class Majority(_LabelCounts):
    """How often each label came; one that never came has a share like one that came once, since there may be another.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import Majority
    >>> Majority().predict_then_learn(np.zeros((3, 1)), np.eye(2)[[1, 1, 0]])
    array([[1.        , 1.        ],
           [0.33333333, 0.66666667],
           [0.25      , 0.75      ]])
    """

    name = "majority"

    def _shares(self, before: Array, Y: Array, known: Mask) -> Array:
        kinds = (before > 0).sum(axis=1, keepdims=True)
        shares: Array = (before + 1.0) / (before.sum(axis=1, keepdims=True) + kinds + 1.0)
        return shares
