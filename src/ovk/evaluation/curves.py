"""Errors of a learner along a stream."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ovk._params import Registered
from ovk._validation import Array
from ovk.evaluation.learners import OnlineLearner

Marks = npt.NDArray[np.int64]

#: Checkpoints in each doubling of the number of rows: a curve has 160 points after a million rows.
PER_DOUBLING = 8


def checkpoints(start: int, stop: int) -> Marks:
    """Checkpoints t with start < t <= stop: the whole numbers next above 2^(k/8), so more and more apart.

    >>> checkpoints(10, 40)
    array([11, 12, 13, 14, 15, 16, 18, 20, 21, 23, 25, 27, 30, 32, 35, 39])
    """
    k = np.arange(PER_DOUBLING * int(max(stop, 1)).bit_length() + 1)
    t = np.unique(np.ceil(2.0 ** (k / PER_DOUBLING)).astype(np.int64))
    return t[(t > start) & (t <= stop)]


@dataclass(frozen=True)
class LearnerErrors:
    """Errors of one learner over the rows so far, in the units of the outputs.

    Attributes
    ----------
    name : what it is called in tables and plots
    mse_curve, mae_curve : (checkpoints, d) mean squared and mean absolute error of all predictions so far
    seconds : time it took
    """

    name: str
    mse_curve: Array
    mae_curve: Array
    seconds: float

    @property
    def mse(self) -> Array:
        """(d,) mean squared error of each output over the whole stream."""
        return _last(self.mse_curve)

    @property
    def mae(self) -> Array:
        """(d,) mean absolute error of each output over the whole stream."""
        return _last(self.mae_curve)


def _last(curve: Array) -> Array:
    return curve[-1] if len(curve) else np.full(curve.shape[1], np.nan)


@dataclass
class Tally(Registered):
    """Sums of rows (d,) along the stream, noted at checkpoints.

    Rows are added one after the other, so chunks of any sizes give the same bits.

    Attributes
    ----------
    total : (d,) sum so far
    points : (checkpoints, d) sums noted
    """

    total: Array
    points: Array

    @classmethod
    def empty(cls, d: int) -> Tally:
        """Nothing added yet."""
        return cls(np.zeros(d), np.empty((0, d)))

    def add(self, values: Array, marks: Marks) -> None:
        """Add the rows of `values`, and note the sum after the first m of them for each m in `marks`."""
        sums = np.cumsum(np.vstack([self.total, values]), axis=0)
        self.total = sums[-1].copy()
        if len(marks):
            self.points = np.concatenate([self.points, sums[marks]])

    def curve(self, last: bool = False) -> Array:
        """(checkpoints, d) sums noted, and the present one if `last`."""
        return np.vstack([self.points, self.total]) if last else self.points


@dataclass
class Entrant(Registered):
    """A learner in the race, with its clock and its sums of errors. The clock is not saved: it is of one run."""

    name: str
    learner: OnlineLearner
    squares: Tally
    absolute: Tally
    seconds: float = field(default=0.0, init=False)

    @classmethod
    def of(cls, name: str, learner: OnlineLearner, d: int) -> Entrant:
        """A learner at the start, for d outputs."""
        return cls(name, learner, Tally.empty(d), Tally.empty(d))

    def predict_then_learn(self, X: Array, y: Array) -> Array:
        """(n, d) predictions."""
        start = time.perf_counter()
        F = np.asarray(self.learner.predict_then_learn(X, y), dtype=np.float64)
        self.seconds += time.perf_counter() - start
        if F.shape != y.shape:
            raise ValueError(
                f"predict_then_learn of {self.name} must return predictions in the shape {y.shape} of y, got {F.shape}"
            )
        return F.reshape(len(F), -1)

    def record(self, F: Array, Y: Array, counted: npt.NDArray[np.bool_], marks: Marks) -> None:
        """Take in the errors of predictions F (n, d), where they count."""
        # An error of 1e200 squares to infinity, and so does its mean: that is the right answer.
        with np.errstate(over="ignore", invalid="ignore"):
            errors = np.where(counted, F - Y, 0.0)
            self.squares.add(errors**2, marks)
            self.absolute.add(np.abs(errors), marks)

    def errors(self, counts: Array, last: bool = False) -> LearnerErrors:
        """Mean errors at all checkpoints, with `counts` (checkpoints, d) errors each; `last`: and at present."""
        n = np.where(counts > 0, counts, np.nan)
        return LearnerErrors(self.name, self.squares.curve(last) / n, self.absolute.curve(last) / n, self.seconds)
