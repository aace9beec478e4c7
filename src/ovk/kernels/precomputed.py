"""A kernel given as a matrix over known objects."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from ovk._types import Array, Indices
from ovk.kernels.base import ScalarKernel


class Precomputed(ScalarKernel):
    """k(i, j) = matrix[i, j].

    Two ways of use:

    - ``Precomputed(matrix)``: the matrix covers all objects, training and test; an input is an object's number, so
      `X` is a column of indices. Everything that works with other kernels works with this one.
    - ``Precomputed()``: as in scikit-learn, `X` itself is the kernel matrix, (n, n) in `fit` and (m, n), new against
      training objects, in `predict`. Then k(x, x) of a new object is unknown and there is no `return_std`.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Precomputed
    >>> k = Precomputed(np.array([[2.0, 1.0], [1.0, 3.0]]))
    >>> k(np.array([[1], [0]]), np.array([[0]]))
    array([[1.],
           [2.]])
    """

    def __init__(self, matrix: Array | None = None) -> None:
        self.matrix = matrix

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        if self.matrix is None:
            return self._given(X, Z)
        rows = self._indices(X)
        columns = rows if Z is None else self._indices(Z)
        return np.ascontiguousarray(np.asarray(self.matrix, dtype=np.float64)[np.ix_(rows, columns)])

    @staticmethod
    def _given(X: Any, Z: Any | None) -> Array:
        gram = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
        columns = gram.shape[0] if Z is None else Z.shape[0]
        if gram.ndim != 2 or gram.shape[1] != columns:
            raise ValueError(
                f"X must be a kernel matrix with a column for each of the {columns} training objects, "
                f"got shape {gram.shape}; or use Precomputed(matrix) and pass indices"
            )
        return gram

    def _indices(self, X: Any) -> Indices:
        matrix = np.asarray(self.matrix)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"matrix must be square, got shape {matrix.shape}")
        wrong = "with Precomputed(matrix) an input is the index of an object: X must have one column"
        return numbers_of_objects(
            X.toarray() if sparse.issparse(X) else X, len(matrix), wrong, "the rows of the matrix"
        )

    def diag(self, X: Any) -> Array:
        if self.matrix is None:
            if X.shape[0] != X.shape[1]:
                raise ValueError(
                    "Precomputed() does not know k(x, x) of new objects; use Precomputed(matrix) with indices"
                )
            return np.array(np.diagonal(X), dtype=np.float64)
        indices = self._indices(X)
        return np.asarray(np.asarray(self.matrix, dtype=np.float64)[indices, indices])

    def norm_bound(self) -> float | None:
        return None if self.matrix is None else float(np.max(np.diagonal(self.matrix)))


def numbers_of_objects(X: Any, count: int, wrong_shape: str, which: str) -> Indices:
    """(n,) numbers below `count`, from a list of n or a table of one column; n may be 0. The texts go into errors."""
    numbers: Array = np.asarray(X, dtype=np.float64)
    rows = numbers.reshape(len(numbers), math.prod(numbers.shape[1:]))
    if rows.shape[1] != 1:
        raise ValueError(f"{wrong_shape}, got {rows.shape[1]}")
    column = rows[:, 0]
    # Written so that nan fails as well.
    if not ((column >= 0) & (column < count) & (column == np.floor(column))).all():
        raise ValueError(f"objects must be given as whole numbers from 0 to {count - 1}, {which}")
    return column.astype(np.intp)
