"""Sums over a stream: S = sum phi phi' and B = sum phi y', of all rows or of those in a window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg.blas import dsyrk

from ovk._params import Registered
from ovk._validation import Array

#: Blocks that are added up before they join the large sum: small numbers are not lost beside it.
RECENT = 64
#: Parts of a window that are forgotten one after the other.
SEGMENTS = 8


@dataclass
class Part(Registered):
    """One sum S, (m, m), and B, (m, k); above the diagonal S holds nothing of use."""

    S: Array
    B: Array

    @classmethod
    def empty(cls, m: int, k: int) -> Part:
        """Of no rows."""
        return cls(np.zeros((m, m)), np.zeros((m, k)))

    def add_rows(self, Phi: Array, Y: Array, weights: Array | None = None) -> None:
        """Add sum_i w_i phi_i phi_i' and sum_i w_i phi_i y_i'."""
        if len(Phi) == 0 or Phi.shape[1] == 0:
            return
        left = Phi if weights is None else Phi * np.sqrt(weights)[:, None]
        # Half of the work of a product: in BLAS's order our lower triangle is the upper one.
        self.S = dsyrk(1.0, left.T, beta=1.0, c=self.S.T, lower=0, overwrite_c=1).T
        self.B += Phi.T @ (Y if weights is None else Y * weights[:, None])

    def plus(self, other: Part) -> Part:
        """The sum of two."""
        return Part(self.S + other.S, self.B + other.B)

    def padded(self, m: int) -> Part:
        """With zeros for features that were not there yet."""
        new = m - len(self.S)
        return self if new == 0 else Part(np.pad(self.S, ((0, new), (0, new))), np.pad(self.B, ((0, new), (0, 0))))

    def symmetric(self) -> Array:
        """S, both triangles of it."""
        lower: Array = np.tril(self.S)
        return lower + np.tril(self.S, -1).T


class Sums(Registered, ABC):
    """What a stream leaves behind."""

    @abstractmethod
    def total(self) -> Part:
        """The sums; not to be changed."""

    @abstractmethod
    def add(self, Phi: Array, Y: Array, points: int) -> None:
        """Take in the rows of so many points, no more than `room`."""

    @abstractmethod
    def change(self, change: Callable[[Part], Part]) -> None:
        """Apply a linear map to every part."""

    def room(self) -> int | None:
        """Points that may be added at once; None for any number."""
        return None

    def add_late(self, new: slice, S: Array, B: Array) -> None:
        """What rows of the past say about new features: rows of S and B."""
        raise TypeError(f"{type(self).__name__} does not know which rows it holds")

    def merge(self, other: Sums) -> None:
        """Add other sums."""
        raise TypeError(f"{type(self).__name__} cannot be merged")


@dataclass
class AllRows(Sums):
    """Sums over all rows, in two levels."""

    old: Part
    recent: Part
    count: int = 0

    @classmethod
    def begin(cls, part: Part) -> AllRows:
        """From what is there already."""
        return cls(part, Part.empty(*part.B.shape))

    def total(self) -> Part:
        return self.old.plus(self.recent)

    def add(self, Phi: Array, Y: Array, points: int) -> None:
        self.recent.add_rows(Phi, Y)
        self.count += 1
        if self.count % RECENT == 0:
            self.old, self.recent = self.total(), Part.empty(*self.recent.B.shape)

    def change(self, change: Callable[[Part], Part]) -> None:
        self.old, self.recent = change(self.old), change(self.recent)

    def add_late(self, new: slice, S: Array, B: Array) -> None:
        self.old.S[new] += S
        self.old.B[new] += B

    def merge(self, other: Sums) -> None:
        self.old, self.recent = self.old.plus(other.total()), self.recent


@dataclass
class LastRows(Sums):
    """Sums over a window that moves in steps: rows that leave it are never subtracted, so nothing drifts.

    The window's segments form a queue of two stacks: `front` holds sums from each segment to the last of the front, so
    its top is the sum of all of them; when it is empty, the segments of `back` are turned over into it.

    Attributes
    ----------
    step : points of a segment
    segments : complete segments kept at most, less one
    """

    step: int
    segments: int
    now: Part
    filled: int = 0
    front: list[Part] = field(default_factory=list)
    back: list[Part] = field(default_factory=list)

    @classmethod
    def empty(cls, window: int, m: int, k: int) -> LastRows:
        """Of the last `window` rows at most, and no less than seven eighths of them once there are as many."""
        segments = min(SEGMENTS, window)
        return cls(window // segments, segments, Part.empty(m, k))

    def total(self) -> Part:
        total = self.now
        for part in [*self.back, *self.front[-1:]]:
            total = total.plus(part)
        return Part(total.S.copy(), total.B.copy()) if total is self.now else total

    def room(self) -> int | None:
        return self.step - self.filled

    def add(self, Phi: Array, Y: Array, points: int) -> None:
        self.now.add_rows(Phi, Y)
        self.filled += points
        if self.filled == self.step:
            self.back.append(self.now)
            self.now, self.filled = Part.empty(*self.now.B.shape), 0
            if len(self.front) + len(self.back) == self.segments:
                self._forget()

    def _forget(self) -> None:
        """Drop the oldest segment."""
        if not self.front:
            total: Part | None = None
            for part in reversed(self.back):
                total = part if total is None else part.plus(total)
                self.front.append(total)
            self.back = []
        self.front.pop()

    def change(self, change: Callable[[Part], Part]) -> None:
        self.now = change(self.now)
        self.front, self.back = [change(part) for part in self.front], [change(part) for part in self.back]
