"""Standardising a stream without looking ahead.

A row is scaled by the mean and the standard deviation of rows before it, never of its own or of later ones. Within a
chunk the moments before every row come from cumulative sums about the mean m at the chunk's start: with N rows so far,
s = sum (a - m) and q = sum (a - m)^2 over the chunk's rows so far,

    mean = m + s / N,     N variance = M + q - s^2 / N        (M: N variance at the chunk's start)

which equals updating row by row (Welford), without cancellation: the old rows have no first moment about m.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from ovk._params import Parameters, Registered
from ovk._validation import Array

#: A standard deviation below this part of the mean is rounding: the column is taken as constant, and only centred.
CONSTANT = 1e-12

#: How many deviations from the mean a robustly scaled value may be. Far enough for a column that did not vary in the
#: warm-up; near enough that the square of an absurd value does not overflow.
FARTHEST = 1e6


@dataclass
class RunningMoments(Registered):
    """Mean and standard deviation of each column, over all finite values so far.

    >>> import numpy as np
    >>> moments = RunningMoments(1)
    >>> mean, sd = moments.before(np.array([[1.0], [3.0], [8.0]]))
    >>> mean.ravel(), sd.ravel()
    (array([0., 1., 2.]), array([1., 1., 1.]))
    >>> moments.mean
    array([4.])
    """

    _saved_state: ClassVar = ("count", "mean", "squares")

    width: int

    def __post_init__(self) -> None:
        self.count = np.zeros(self.width)
        self.mean = np.zeros(self.width)
        self.squares = np.zeros(self.width)

    @property
    def sd(self) -> Array:
        """(width,) standard deviations; 1 for columns that never varied."""
        return _deviation(self.count, self.mean, self.squares)

    def before(self, A: Array) -> tuple[Array, Array]:
        """Mean and deviation of all rows before each row of A, both of its shape; then take the rows in.

        Before anything was seen they are 0 and 1.
        """
        seen = np.isfinite(A)
        centre = self._centre(A, seen)
        # Values of 1e300 square to infinity: their columns are only centred.
        with np.errstate(over="ignore", invalid="ignore"):
            D = np.where(seen, A - centre, 0.0)
            count = self.count + _before(seen.astype(np.float64))
            s, q = _before(D), _before(D * D)
            N = np.maximum(count, 1.0)
            mean = np.where(count > 0, centre + s / N, 0.0)
            squares = np.maximum(self.squares + q - s * s / N, 0.0)
        self.count, self.mean, self.squares = count[-1], mean[-1], squares[-1]
        return mean[:-1], _deviation(count[:-1], mean[:-1], squares[:-1])

    def take(self, A: Array) -> None:
        """Take the rows in, where nobody asks what was known before each of them."""
        seen = np.isfinite(A)
        centre = self._centre(A, seen)
        with np.errstate(over="ignore", invalid="ignore"):
            D = np.where(seen, A - centre, 0.0)
            self.count = self.count + seen.sum(axis=0)
            s, q = D.sum(axis=0), np.einsum("ij,ij->j", D, D)
            N = np.maximum(self.count, 1.0)
            self.mean = np.where(self.count > 0, centre + s / N, 0.0)
            self.squares = np.maximum(self.squares + q - s * s / N, 0.0)

    def _centre(self, A: Array, seen: npt.NDArray[np.bool_]) -> Array:
        """(width,) what to measure from: the mean so far, or else the first value, which no row before it will use."""
        if not len(A) or (self.count > 0).all():
            return self.mean
        first = np.take_along_axis(A, seen.argmax(axis=0)[None, :], axis=0)[0]
        return np.where(self.count > 0, self.mean, np.where(np.isfinite(first), first, 0.0))


def _before(A: Array) -> Array:
    """(n + 1, k) sums of the rows before each, and of all of them."""
    sums = np.zeros((len(A) + 1, A.shape[1]))
    np.cumsum(A, axis=0, out=sums[1:])
    return sums


def _deviation(count: Array, mean: Array, squares: Array) -> Array:
    sd = np.sqrt(squares / np.maximum(count, 1.0))
    return np.where(np.isfinite(sd) & (sd > CONSTANT * np.abs(mean)), sd, 1.0)


class Scaled(NamedTuple):
    """Scaled rows X (n, p) and Y (n, d), with the offset and spread of their outputs."""

    X: Array
    Y: Array
    offset: Array | float
    spread: Array | float

    def restore(self, F: Array) -> Array:
        """Predictions in the original units."""
        return self.offset + self.spread * F


class Scaling(Parameters, ABC):
    """How rows are scaled before a learner sees them."""

    @abstractmethod
    def begin(self, X: Array, Y: Array) -> Scaled:
        """Scale the rows of the warm-up, by all of them."""

    @abstractmethod
    def scale(self, X: Array, Y: Array) -> Scaled:
        """Scale the next rows, each by earlier rows only."""


class Unscaled(Scaling):
    """Rows as they are."""

    def begin(self, X: Array, Y: Array) -> Scaled:
        return Scaled(X, Y, 0.0, 1.0)

    scale = begin


class Standardised(Scaling):
    """Inputs and outputs less their mean, over their deviation: that of the warm-up, or that of all rows so far.

    Parameters
    ----------
    running : by all rows before each one, instead of by the warm-up alone
    robust : a missing input becomes the mean, and what is farther than `FARTHEST` deviations is drawn in to there
    """

    _saved_state = ("moments",)

    def __init__(self, *, running: bool, robust: bool = False) -> None:
        self.running = running
        self.robust = robust
        self.moments: RunningMoments | None = None

    def begin(self, X: Array, Y: Array) -> Scaled:
        A = np.hstack([X, Y])
        self.moments = RunningMoments(A.shape[1])
        self.moments.before(A)
        return self._scaled(A, self.moments.mean, self.moments.sd, X.shape[1])

    def scale(self, X: Array, Y: Array) -> Scaled:
        A = np.hstack([X, Y])
        if self.moments is None:
            self.moments = RunningMoments(A.shape[1])
        mean, sd = self.moments.before(A) if self.running else (self.moments.mean, self.moments.sd)
        return self._scaled(A, mean, sd, X.shape[1])

    def as_of_now(self, X: Array) -> Scaled:
        """Scale rows whose outputs are not known, by all rows so far; nothing is learned from them."""
        if self.moments is None:
            raise ValueError("nothing was scaled yet: there are no moments to scale by")
        A = np.hstack([X, np.full((len(X), self.moments.width - X.shape[1]), np.nan)])
        return self._scaled(A, self.moments.mean, self.moments.sd, X.shape[1])

    def _scaled(self, A: Array, mean: Array, sd: Array, p: int) -> Scaled:
        Z = (A - mean) / sd
        if self.robust:
            Z = np.clip(Z, -FARTHEST, FARTHEST)
            Z[:, :p] = np.where(np.isnan(Z[:, :p]), 0.0, Z[:, :p])
        return Scaled(Z[:, :p], Z[:, p:], mean[..., p:], sd[..., p:])


def as_scaling(scale: Any) -> Scaling:
    """The scaling of that name."""
    if scale is None:
        return Unscaled()
    if scale in ("warm-up", "running"):
        return Standardised(running=scale == "running")
    raise ValueError(f"scale must be None, 'warm-up' or 'running', got {scale!r}")
