"""Sums over features of a stream's rows: of all of them, with weights that decay, or of those in a window.

Rows come in blocks. Sums that decay want the rows of a block scaled (`DecayingSums`); the others take them as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ovk._state import State
from ovk._types import Array, Times
from ovk.features.sums import FeatureSums

#: Blocks that are added up before they join the large sum: small numbers are not lost beside it.
RECENT = 64
#: Parts of a window that are forgotten one after the other.
SEGMENTS = 8
#: Points of a block of sums that decay at most, and the least that is left of a weight at its end.
LONGEST, LEAST = 128, 0.5


@dataclass
class SumsOfEachOutput(FeatureSums, kind="each output"):
    """S (d, m, m) and B (m, d) over the rows in which each output was observed."""

    @classmethod
    def zeros(cls, m: int, k: int) -> Self:
        return cls(np.zeros((k, m, m)), np.zeros((m, k)))

    def add(self, Phi: Array, Y: Array, weights: Array | None = None) -> None:
        """Add the rows of features Phi, (n, m), and outputs Y, (n, d), nan where one was not observed."""
        for q, y in enumerate(Y.T):
            seen = ~np.isnan(y)
            phi = Phi[seen]
            right = phi.T if weights is None else phi.T * weights[seen]
            self.S[q] += right @ phi
            self.B[:, q] += right @ y[seen]

    def with_new_features(self, new: slice, Phi: Array, Y: Array, weights: Array) -> Self:
        sums = self * 1.0
        for q, y in enumerate(Y.T):
            seen = ~np.isnan(y)
            right = (Phi[seen, new] * weights[seen, None]).T
            sums.S[q, new] += right @ Phi[seen]
            sums.S[q, :, new] = sums.S[q, new].T
            sums.B[new, q] += right @ y[seen]
        return sums


class StreamSums(State, ABC):
    """The sums S and B of the rows that a learner has not forgotten."""

    @abstractmethod
    def total(self) -> FeatureSums:
        """The sums over all rows that count; not to be changed."""

    @abstractmethod
    def add(self, Phi: Array, Y: Array, points: int) -> None:
        """Add the rows of so many points, no more than `points_left`."""

    @abstractmethod
    def transform(self, change: Callable[[FeatureSums], FeatureSums]) -> None:
        """Apply a linear map to the sums."""

    def points_left(self) -> int | None:
        """How many points may be added at once; None for any number."""
        return None

    def labels(self) -> Array:
        """B of `total`."""
        return self.total().B

    def ridge_factor(self) -> float:
        """What the ridge is multiplied by in the block that starts."""
        return 1.0

    def row_factors(self, before: Times) -> Array | None:
        """(n,) what rows of the block are multiplied by before they are added, from how many of its points came before
        each; None for 1."""
        return None

    def add_for_new_features(self, new: slice, Phi: Array, Y: Array, ages: Array) -> None:
        """Add what rows of the past say about new features: features and labels, and how many points ago they came."""
        raise TypeError(f"{type(self).__name__} does not know which rows it holds")

    def merge(self, other: StreamSums) -> None:
        """Add the sums of another stream."""
        raise TypeError(f"{type(self).__name__} cannot be merged")


@dataclass
class AllRowsSums(StreamSums, kind="all rows"):
    """Sums over all rows, in two levels: those of recent blocks, and those of all blocks before."""

    _state_classes = {"old": FeatureSums, "recent": FeatureSums}

    old: FeatureSums
    recent: FeatureSums
    count: int = 0

    @classmethod
    def from_sums(cls, sums: FeatureSums) -> AllRowsSums:
        """Start from sums that are there already."""
        return cls(sums, sums.zeros(*sums.B.shape))

    def total(self) -> FeatureSums:
        return self.old + self.recent

    def labels(self) -> Array:
        return self.old.B + self.recent.B

    def add(self, Phi: Array, Y: Array, points: int) -> None:
        self.recent = self.recent.with_rows(Phi, Y)
        self.count += 1
        if self.count % RECENT == 0:
            self.old, self.recent = self.total(), self.recent.zeros(*self.recent.B.shape)

    def transform(self, change: Callable[[FeatureSums], FeatureSums]) -> None:
        self.old, self.recent = change(self.old), change(self.recent)

    def add_for_new_features(self, new: slice, Phi: Array, Y: Array, ages: Array) -> None:
        self.old = self.old.with_new_features(new, Phi, Y, np.ones(len(Phi)))

    def merge(self, other: StreamSums) -> None:
        self.old = self.old + other.total()


@dataclass
class DecayingSums(StreamSums, kind="decaying"):
    """Sums in which a point of k points ago has the weight g^k.

    Points are cut into blocks of b, aligned to the stream. Inside a block the ridge decays with the sums, and the next
    one starts with the full ridge again: if n points of the block came before a row, the row is predicted from

        A = g^(n+1) (S + c I) + sum_{l<n} g^(n-l) phi_l phi_l',      c = ridge g^(-(b+1)/2),

    so the ridge is as given in the middle of the block, and off by at most a factor of 2^(1/2) elsewhere. Rows times
    g^(-(l+1)/2) then obey the identities of a block without forgetting, for A g^-(n+1) is S + c I and their sum; and
    after n points S <- g^n (S + the sum over the scaled rows).

    Attributes
    ----------
    discount : g
    sums : S and B
    points : how many points of the present block of b are in them already
    """

    _state_classes = {"sums": FeatureSums}

    discount: float
    sums: FeatureSums
    points: int = 0

    @property
    def block(self) -> int:
        """b: short enough that no weight falls below half in a block."""
        return max(1, min(LONGEST, int(np.log(LEAST) / np.log(self.discount))))

    def total(self) -> FeatureSums:
        return self.sums

    def points_left(self) -> int:
        return self.block - self.points

    def ridge_factor(self) -> float:
        return float(self.discount ** (self.points - (self.block + 1) / 2))

    def row_factors(self, before: Times) -> Array:
        return np.asarray(self.discount ** (-0.5 * (before + 1.0)), dtype=np.float64)

    def add(self, Phi: Array, Y: Array, points: int) -> None:
        self.sums = self.sums.with_rows(Phi, Y) * self.discount**points
        self.points = (self.points + points) % self.block

    def transform(self, change: Callable[[FeatureSums], FeatureSums]) -> None:
        self.sums = change(self.sums)

    def add_for_new_features(self, new: slice, Phi: Array, Y: Array, ages: Array) -> None:
        self.sums = self.sums.with_new_features(new, Phi, Y, np.asarray(self.discount**ages))


@dataclass
class WindowSums(StreamSums, kind="window"):
    """Sums over a window that moves in steps: rows that leave it are never subtracted, so nothing drifts.

    The window's segments form a queue of two stacks: `front` holds sums from each segment to the last of the front, so
    its top is the sum of all of them; when it is empty, the segments of `back` are turned over into it.

    Attributes
    ----------
    step : number of points of a segment
    segments : complete segments kept at most, less one
    """

    _state_classes = {"now": FeatureSums, "front": FeatureSums, "back": FeatureSums}

    step: int
    segments: int
    now: FeatureSums
    filled: int = 0
    front: list[FeatureSums] = field(default_factory=list)
    back: list[FeatureSums] = field(default_factory=list)

    @classmethod
    def empty(cls, window: int, sums: FeatureSums) -> WindowSums:
        """Sums over at most the last `window` points, and at least seven eighths of them once there are as many."""
        segments = min(SEGMENTS, window)
        return cls(window // segments, segments, sums)

    def total(self) -> FeatureSums:
        total = self.now
        for part in [*self.back, *self.front[-1:]]:
            total = total + part
        return total * 1.0 if total is self.now else total

    def points_left(self) -> int | None:
        return self.step - self.filled

    def add(self, Phi: Array, Y: Array, points: int) -> None:
        self.now = self.now.with_rows(Phi, Y)
        self.filled += points
        if self.filled == self.step:
            self.back.append(self.now)
            self.now, self.filled = self.now.zeros(*self.now.B.shape), 0
            if len(self.front) + len(self.back) == self.segments:
                self._forget()

    def _forget(self) -> None:
        """Drop the oldest segment."""
        if not self.front:
            total: FeatureSums | None = None
            for part in reversed(self.back):
                total = part if total is None else part + total
                self.front.append(total)
            self.back = []
        self.front.pop()

    def transform(self, change: Callable[[FeatureSums], FeatureSums]) -> None:
        self.now = change(self.now)
        self.front, self.back = [change(part) for part in self.front], [change(part) for part in self.back]
