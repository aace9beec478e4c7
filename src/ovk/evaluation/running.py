"""Statistics that run along a stream: sums noted at checkpoints, moments before every row, and scaling by them.

A row is scaled by the mean and the standard deviation of rows before it, never of its own or of later ones. Within a
chunk the moments before every row come from cumulative sums about the mean m at the chunk's start: with N rows so far,
s = sum (a - m) and q = sum (a - m)^2 over the chunk's rows so far,

    mean = m + s / N,     N variance = M + q - s^2 / N        (M: N variance at the chunk's start)

which equals updating row by row (Welford), without cancellation: the old rows have no first moment about m.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ovk.base import Array, Mask, State, Times

#: Checkpoints in each doubling of the number of rows: a curve has 160 points after a million rows.
PER_DOUBLING = 8

#: A standard deviation below this part of the mean is rounding: the column is taken as constant, and only centred.
CONSTANT = 1e-12

#: How many deviations from the mean a robustly scaled value may be. Far enough for a column that did not vary in the
#: warm-up; near enough that the square of an absurd value does not overflow.
FARTHEST = 1e6


def checkpoints(start: int, stop: int) -> Times:
    """Checkpoints t with start < t <= stop: the whole numbers next above 2^(k/8), so more and more apart.

    >>> checkpoints(10, 40)
    array([11, 12, 13, 14, 15, 16, 18, 20, 21, 23, 25, 27, 30, 32, 35, 39])
    """
    k = np.arange(PER_DOUBLING * int(max(stop, 1)).bit_length() + 1)
    t = np.unique(np.ceil(2.0 ** (k / PER_DOUBLING)).astype(np.int64))
    return t[(t > start) & (t <= stop)]


@dataclass
class RunningSum(State):
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
    def empty(cls, d: int) -> RunningSum:
        """A sum of no rows yet, of d columns."""
        return cls(np.zeros(d), np.empty((0, d)))

    def add(self, values: Array, marks: Times) -> None:
        """Add the rows of `values`, and note the sum after the first m of them for each m in `marks`."""
        sums = np.cumsum(np.vstack([self.total, values]), axis=0)
        self.total = sums[-1].copy()
        if len(marks):
            self.points = np.concatenate([self.points, sums[marks]])

    def note(self) -> None:
        """Note the present sum."""
        self.points = np.vstack([self.points, self.total])

    def merge(self, other: RunningSum) -> None:
        """Add the sum of another stream. The checkpoints of the two were at other rows: what was noted is dropped."""
        self.total, self.points = self.total + other.total, self.points[:0]


@dataclass
class RunningMoments(State):
    """Mean and standard deviation of each column, over all finite values so far.

    >>> import numpy as np
    >>> moments = RunningMoments(1)
    >>> mean, sd = moments.before_then_add(np.array([[1.0], [3.0], [8.0]]))
    >>> mean.ravel(), sd.ravel()
    (array([0., 1., 2.]), array([1., 1., 1.]))
    >>> moments.mean
    array([4.])
    """

    _saved_state = ("count", "mean", "squares")

    width: int

    def __post_init__(self) -> None:
        self.count = np.zeros(self.width)
        self.mean = np.zeros(self.width)
        self.squares = np.zeros(self.width)

    @property
    def sd(self) -> Array:
        """(width,) standard deviations; 1 for columns that never varied."""
        return _deviation(self.count, self.mean, self.squares)

    @property
    def constant(self) -> Mask:
        """(width,) columns that were seen and never varied."""
        seen = self.count > 0
        return seen & (np.sqrt(self.squares / np.maximum(self.count, 1.0)) <= CONSTANT * np.abs(self.mean))

    def before_then_add(self, A: Array) -> tuple[Array, Array]:
        """Mean and deviation of all rows before each row of A, both of its shape; then add the rows.

        Before anything was seen they are 0 and 1.
        """
        seen = np.isfinite(A)
        centre = self._centre(A, seen)
        # Values of 1e300 square to infinity: their columns are only centred.
        with np.errstate(over="ignore", invalid="ignore"):
            D = np.where(seen, A - centre, 0.0)
            count = self.count + _before(seen.astype(np.float64))
            mean, squares = self._about(centre, count, _before(D), _before(D * D))
        self.count, self.mean, self.squares = count[-1], mean[-1], squares[-1]
        return mean[:-1], _deviation(count[:-1], mean[:-1], squares[:-1])

    def add(self, A: Array) -> None:
        """Add the rows, where nobody asks for the moments before each of them."""
        seen = np.isfinite(A)
        centre = self._centre(A, seen)
        with np.errstate(over="ignore", invalid="ignore"):
            D = np.where(seen, A - centre, 0.0)
            self.count = self.count + seen.sum(axis=0)
            squares = np.einsum("ij,ij->j", D, D)
            self.mean, self.squares = self._about(centre, self.count, D.sum(axis=0), squares)

    def merge(self, other: RunningMoments) -> None:
        """Add the moments of other rows: with N = n + n' and means D apart, N variance = M + M' + D^2 n n' / N.

        >>> one, two = RunningMoments(1), RunningMoments(1)
        >>> one.add(np.array([[1.0], [3.0]]))
        >>> two.add(np.array([[8.0]]))
        >>> one.merge(two)
        >>> one.mean, one.squares
        (array([4.]), array([26.]))
        """
        if self.width != other.width:
            raise ValueError(f"moments to be merged must be of as many columns, got {self.width} and {other.width}")
        count = self.count + other.count
        part = other.count / np.maximum(count, 1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            apart = other.mean - self.mean
            squares = self.squares + other.squares + apart * apart * (self.count * part)
            # A side that has seen nothing has a mean of 0, which says nothing.
            self.mean = np.where(self.count == 0, other.mean, self.mean + apart * part)
            self.squares = np.where(self.count == 0, other.squares, squares)
        self.count = count

    def _about(self, centre: Array, count: Array, s: Array, q: Array) -> tuple[Array, Array]:
        """Mean and N variance of `count` values, from the sums s and q of the new ones about the centre."""
        N = np.maximum(count, 1.0)
        return np.where(count > 0, centre + s / N, 0.0), np.maximum(self.squares + q - s * s / N, 0.0)

    def _centre(self, A: Array, seen: Mask) -> Array:
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


class ScaledRows(NamedTuple):
    """Scaled rows X (n, p) and Y (n, d), with the offset and spread of their outputs."""

    X: Array
    Y: Array
    offset: Array | float
    spread: Array | float

    def restore(self, F: Array) -> Array:
        """Predictions in the original units."""
        return self.offset + self.spread * F


class Scaling(State, ABC):
    """How rows are scaled before a learner sees them."""

    @abstractmethod
    def scale_warm_up(self, X: Array, Y: Array) -> ScaledRows:
        """Scale the rows of the warm-up, by all of them."""

    @abstractmethod
    def scale(self, X: Array, Y: Array) -> ScaledRows:
        """Scale the next rows, each by earlier rows only."""

    @abstractmethod
    def merge(self, other: Scaling) -> None:
        """Go on as if the rows of the other had been scaled here."""


class Unscaled(Scaling, kind="unscaled"):
    """Rows as they are."""

    def scale_warm_up(self, X: Array, Y: Array) -> ScaledRows:
        return ScaledRows(X, Y, 0.0, 1.0)

    scale = scale_warm_up

    def merge(self, other: Scaling) -> None:
        if not isinstance(other, Unscaled):
            raise ValueError("scalings to be merged must be of one kind: one of them leaves rows as they are")


@dataclass
class Standardised(Scaling, kind="standardised"):
    """Inputs and outputs less their mean, over their deviation: that of the warm-up, or that of all rows so far.

    Attributes
    ----------
    running : by all rows before each one, instead of by the warm-up alone
    robust : a missing input becomes the mean, and what is farther than `FARTHEST` deviations is drawn in to there
    moments : those of the rows so far, None before the first
    """

    running: bool
    robust: bool = False
    moments: RunningMoments | None = field(default=None, kw_only=True)

    _state_classes = {"moments": RunningMoments}

    def scale_warm_up(self, X: Array, Y: Array) -> ScaledRows:
        A = np.hstack([X, Y])
        self.moments = RunningMoments(A.shape[1])
        self.moments.before_then_add(A)
        return self._scaled(A, self.moments.mean, self.moments.sd, X.shape[1])

    def scale(self, X: Array, Y: Array) -> ScaledRows:
        A = np.hstack([X, Y])
        if self.moments is None:
            self.moments = RunningMoments(A.shape[1])
        mean, sd = self.moments.before_then_add(A) if self.running else (self.moments.mean, self.moments.sd)
        return self._scaled(A, mean, sd, X.shape[1])

    def scale_inputs(self, X: Array) -> ScaledRows:
        """Scale rows whose outputs are not known, by all rows so far; nothing is learned from them."""
        if self.moments is None:
            raise ValueError("nothing was scaled yet: there are no moments to scale by")
        A = np.hstack([X, np.full((len(X), self.moments.width - X.shape[1]), np.nan)])
        return self._scaled(A, self.moments.mean, self.moments.sd, X.shape[1])

    def merge(self, other: Scaling) -> None:
        if not isinstance(other, Standardised) or (self.running, self.robust) != (other.running, other.robust):
            raise ValueError("scalings to be merged must be of one kind: choose the same scale= for all")
        if self.moments is None or other.moments is None:
            self.moments = copy.deepcopy(other.moments if self.moments is None else self.moments)
        elif self.running:
            self.moments.merge(other.moments)
        elif not all(np.array_equal(*pair) for pair in zip(*map(_saved, (self.moments, other.moments)), strict=True)):
            raise ValueError(
                "streams that were scaled by warm-ups of their own cannot be merged: give them the same first rows, or "
                "use scale='running' or None"
            )

    def _scaled(self, A: Array, mean: Array, sd: Array, p: int) -> ScaledRows:
        Z = (A - mean) / sd
        if self.robust:
            Z = np.clip(Z, -FARTHEST, FARTHEST)
            Z[:, :p] = np.where(np.isnan(Z[:, :p]), 0.0, Z[:, :p])
        return ScaledRows(Z[:, :p], Z[:, p:], mean[..., p:], sd[..., p:])


def _saved(moments: RunningMoments) -> tuple[Array, Array, Array]:
    return moments.count, moments.mean, moments.squares


def as_scaling(scale: Any) -> Scaling:
    """The scaling of that name."""
    if scale is None:
        return Unscaled()
    if scale in ("warm-up", "running"):
        return Standardised(running=scale == "running")
    raise ValueError(f"scale must be None, 'warm-up' or 'running', got {scale!r}")
