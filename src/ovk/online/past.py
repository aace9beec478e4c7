"""All rows that were learned from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ovk._params import Registered
from ovk._validation import Array


@dataclass
class Past(Registered):
    """Inputs (n, p) and outputs (n, d), as views of larger arrays with room for more."""

    X: Array
    Y: Array
    _room: tuple[Array, Array] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._room = self.X, self.Y

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and pickles of the views would no longer be views.
        return Past, (self.X.copy(), self.Y.copy())

    @classmethod
    def empty(cls, p: int, d: int) -> Past:
        """No rows yet."""
        return cls(np.empty((0, p)), np.empty((0, d)))

    def __len__(self) -> int:
        return len(self.X)

    def append(self, X: Array, Y: Array) -> None:
        """Add rows behind."""
        n = len(self) + len(X)
        if n > len(self._room[0]):
            room = max(256, 2 * n)
            fresh = np.empty((room, X.shape[1])), np.empty((room, Y.shape[1]))
            fresh[0][: len(self)], fresh[1][: len(self)] = self.X, self.Y
            self._room = fresh
        self._room[0][len(self) : n], self._room[1][len(self) : n] = X, Y
        self.X, self.Y = self._room[0][:n], self._room[1][:n]
