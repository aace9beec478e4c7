"""The points that an online learner keeps, in the order in which they came."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ovk._params import Registered
from ovk._validation import Array

Times = npt.NDArray[np.int64]


@dataclass
class Support(Registered):
    """A queue of support points with their coefficients: new ones behind, old ones dropped in front.

    The arrays are views of larger ones with room behind; when it runs out the points move to the front, or into larger
    arrays if there is little to gain in front, so both ends cost O(1) a point.

    Attributes
    ----------
    X : (m, p) points
    A : (m, k, d) coefficients: k = 1 set of them, or 2 with the running sum of an average
    time : (m,) the step at which each point came
    """

    X: Array
    A: Array
    time: Times
    _room: tuple[Array, Array, Times] = field(init=False, repr=False, compare=False)
    _start: int = field(init=False, default=0, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._move(max(256, 2 * len(self.X)))

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and pickles of the views would no longer be views.
        return Support, (self.X, self.A, self.time)

    @classmethod
    def empty(cls, p: int, d: int, sets: int) -> Support:
        """No points yet."""
        return cls(np.empty((0, p)), np.empty((0, sets, d)), np.empty(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.X)

    def _move(self, room: int) -> None:
        """To the front, or into new arrays if the room is another."""
        m = len(self.X)
        if hasattr(self, "_room") and room == len(self._room[0]):
            for array in self._room:
                array[:m] = array[self._start : self._start + m]
            self._start = 0
            self._view(m)
            return
        fresh = (
            np.empty((room, self.X.shape[1])),
            np.empty((room, *self.A.shape[1:])),
            np.empty(room, dtype=np.int64),
        )
        for new, old in zip(fresh, (self.X, self.A, self.time), strict=True):
            new[:m] = old
        self._room, self._start = fresh, 0
        self._view(m)

    def _view(self, m: int) -> None:
        rows = slice(self._start, self._start + m)
        X, A, time = self._room
        self.X, self.A, self.time = X[rows], A[rows], time[rows]

    def append(self, X: Array, A: Array, time: Times) -> None:
        """Add points behind."""
        m, n = len(self), len(X)
        room = len(self._room[0])
        if self._start + m + n > room:
            self._move(room if 4 * (m + n) <= 3 * room else 2 * (m + n))
        end = self._start + m
        for array, new in zip(self._room, (X, A, time), strict=True):
            array[end : end + n] = new
        self._view(m + n)

    def drop(self, count: int) -> None:
        """Forget the oldest points."""
        m = len(self) - count
        self._start += count
        self._view(m)
