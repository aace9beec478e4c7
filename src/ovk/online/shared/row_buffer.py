"""Rows that are appended at the end and dropped at the front."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from ovk._state import State
from ovk._types import Array, Times

#: Rows for which there is space at first.
LEAST_SPACE = 256


@dataclass
class RowBuffer(State):
    """Arrays whose rows belong together, such as inputs and outputs, in the order in which they came.

    The arrays are views of larger ones with spare rows behind. When these run out the rows move into fresh arrays, so
    both ends cost O(1) a row. Rows that are there are never changed: forks share them, and of several forks one may go
    on, for it writes where the others see nothing.

    Attributes
    ----------
    arrays : one array for each quantity, all with the same number of rows
    """

    arrays: tuple[Any, ...]
    _space: list[Any] = field(init=False, repr=False, compare=False)
    _first: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._move(max(LEAST_SPACE, 2 * len(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and pickles of the views would no longer be views.
        return type(self), (tuple(array.copy() for array in self.arrays),)

    def __len__(self) -> int:
        return len(self.arrays[0])

    def append(self, *rows: Any) -> None:
        """Add rows at the end: an array for each quantity."""
        n, more = len(self), len(rows[0])
        self._make_room(more)
        end = self._first + n
        for array, new in zip(self._space, rows, strict=True):
            array[end : end + more] = new
        self._view(n + more)

    def replace(self, quantity: int, values: Any) -> None:
        """Give all rows other values of a quantity, in a fresh array."""
        space, n = list(self._space), len(self)
        fresh = np.empty_like(space[quantity])
        fresh[self._first : self._first + n] = values
        space[quantity] = fresh
        self._space = space
        self._view(n)

    def drop(self, count: int) -> None:
        """Forget the oldest rows."""
        self._first += count
        self._view(len(self) - count)

    def _make_room(self, more: int) -> None:
        n, space = len(self), len(self._space[0])
        if self._first + n + more > space:
            self._move(space if 4 * (n + more) <= 3 * space else 2 * (n + more))

    def _move(self, space: int) -> None:
        """Move the rows to the front of arrays with that many rows."""
        fresh = [np.empty((space, *array.shape[1:]), dtype=array.dtype) for array in self.arrays]
        for new, old in zip(fresh, self.arrays, strict=True):
            new[: len(old)] = old
        self._space, self._first = fresh, 0
        self._view(len(self))

    def _view(self, n: int) -> None:
        rows = slice(self._first, self._first + n)
        self.arrays = tuple([array[rows] for array in self._space])


class LearnedRows(RowBuffer):
    """Inputs (n, p) and outputs (n, d) of the rows that were learned from."""

    @classmethod
    def empty(cls, p: int, d: int) -> Self:
        """A buffer before the first row."""
        return cls((np.empty((0, p)), np.empty((0, d))))

    @property
    def X(self) -> Array:
        """(n, p)"""
        X: Array = self.arrays[0]
        return X

    @property
    def Y(self) -> Array:
        """(n, d)"""
        Y: Array = self.arrays[1]
        return Y


class SupportPoints(RowBuffer):
    """The points that a first-order learner keeps, with their coefficients.

    Attributes
    ----------
    X : (m, p) points
    A : (m, k, d) coefficients: k = 1 set of them, or 2 with the running sum of an average
    time : (m,) the step at which each point came
    """

    @classmethod
    def empty(cls, p: int, d: int, sets: int) -> Self:
        """A buffer before the first point."""
        return cls((np.empty((0, p)), np.empty((0, sets, d)), np.empty(0, dtype=np.int64)))

    @property
    def X(self) -> Array:
        """(m, p)"""
        X: Array = self.arrays[0]
        return X

    @property
    def A(self) -> Array:
        """(m, k, d)"""
        A: Array = self.arrays[1]
        return A

    def after_step(self, decay: float, leaving: int, X: Array, a: Array, t: int) -> Self:
        """The points after a step of one row: coefficients have decayed, the oldest have left, the row has joined.

        X is (1, p) and a is (d,); a row whose coefficient is 0 does not join.
        """
        other, n = self._with(), len(self)
        joins = any(a.tolist())
        other._make_room(1)
        first, (inputs, old, times) = other._first, other._space
        fresh = old
        if decay != 1.0:
            fresh = np.empty_like(old)
            np.multiply(old[first : first + n], decay, out=fresh[first : first + n])
            other._space = [inputs, fresh, times]
        if joins:
            inputs[first + n], fresh[first + n, 0], times[first + n] = X[0], a, t
        other._first = first + leaving
        other._view(n + joins - leaving)
        return other

    def replace_coefficients(self, A: Array) -> None:
        """Give the points other coefficients, (m, k, d)."""
        self.replace(1, A)

    @property
    def time(self) -> Times:
        """(m,)"""
        time: Times = self.arrays[2]
        return time
