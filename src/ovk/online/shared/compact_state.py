"""States with triangular matrices: files and pickles hold each triangle once, nothing that can be computed again."""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from typing import Any, ClassVar, Self

import numpy as np

from ovk.base import Array, State


class CompactState(State):
    """A state of which pickles hold what files do, and of lower triangular matrices both hold the triangle."""

    #: Attributes that are (m, m) matrices of which only the lower triangle is read.
    _triangles: ClassVar[tuple[str, ...]] = ()

    def state(self) -> dict[str, Any]:
        return super().state() | {name: packed(getattr(self, name)) for name in self._triangles}

    @classmethod
    def _build(cls, state: Mapping[str, Any]) -> Self:
        built = super()._build(state)
        vars(built).update({name: unpacked(getattr(built, name)) for name in cls._triangles})
        return built

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_state, (self.state(),)


def packed(A: Array) -> Array:
    """(m (m + 1) / 2,) entries of the lower triangle of an (m, m) matrix, row by row.

    >>> packed(np.array([[1.0, 9.0], [2.0, 3.0]]))
    array([1., 2., 3.])
    """
    triangle: Array = A[np.tri(len(A), dtype=bool)]
    return triangle


def unpacked(triangle: Array) -> Array:
    """The (m, m) matrix of a lower triangle, 0 above it, in the order of LAPACK.

    >>> unpacked(np.array([1.0, 2.0, 3.0]))
    array([[1., 0.],
           [2., 3.]])
    """
    m = (isqrt(8 * len(triangle) + 1) - 1) // 2
    A = np.zeros((m, m), order="F")
    A[np.tri(m, dtype=bool)] = triangle
    return A
