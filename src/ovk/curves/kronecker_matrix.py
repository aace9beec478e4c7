"""A Kronecker product of matrices that is never formed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ovk._types import Array, Indices


class KroneckerMatrix:
    """(A_1 (x) ... (x) A_k) with its columns in another order: products with it cost those with the factors.

    Stands where an array of its shape would: ``Y @ M``, ``M @ Y``, ``M.T``, ``M**2`` and ``M[:, columns]`` are what
    they say, and `numpy.asarray` forms it.

    Parameters
    ----------
    factors : matrices (a_i, b_i)
    order : (prod b_i,) permutation, optional
        Column j is column order_j of the plain product.
    transposed : bool
        Stand for the transpose.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.curves.kronecker_matrix import KroneckerMatrix
    >>> A, B = np.array([[1.0, 2.0]]), np.array([[1.0], [3.0]])
    >>> np.ones((1, 2)) @ KroneckerMatrix([A, B])
    array([[4., 8.]])
    >>> np.asarray(KroneckerMatrix([A, B]).T)
    array([[1., 3.],
           [2., 6.]])
    """

    #: numpy leaves ``array @ M`` to this class.
    __array_ufunc__ = None

    def __init__(self, factors: Sequence[Array], order: Indices | None = None, *, transposed: bool = False) -> None:
        self.factors = list(factors)
        self.order = order
        self.transposed = transposed

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        rows, columns = (int(np.prod([A.shape[side] for A in self.factors])) for side in (0, 1))
        return (columns, rows) if self.transposed else (rows, columns)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def T(self) -> KroneckerMatrix:
        """The transpose."""
        return KroneckerMatrix(self.factors, self.order, transposed=not self.transposed)

    def __rmatmul__(self, Y: Any) -> Array:
        Y = np.asarray(Y, dtype=np.float64)
        rows = Y.reshape(-1, Y.shape[-1])
        if self.transposed:
            if self.order is not None:
                moved = np.empty_like(rows)
                moved[:, self.order] = rows
                rows = moved
            found = _contract(rows, [A.T for A in self.factors])
        else:
            found = _contract(rows, self.factors)
            if self.order is not None:
                found = found[:, self.order]
        return found.reshape(*Y.shape[:-1], self.shape[1])

    def __matmul__(self, Y: Any) -> Array:
        Y = np.asarray(Y, dtype=np.float64)
        return np.asarray((Y.T @ self.T).T)

    def __mul__(self, scale: Any) -> Array:
        return np.asarray(np.asarray(self) * scale)

    def __pow__(self, exponent: int) -> KroneckerMatrix:
        powers = [A**exponent for A in self.factors]
        return KroneckerMatrix(powers, self.order, transposed=self.transposed)

    def __getitem__(self, key: tuple[slice, Any]) -> Array:
        rows, columns = key
        if self.transposed or rows != slice(None):
            return np.asarray(np.asarray(self)[key])
        chosen = np.arange(self.shape[1])[columns]
        return self._columns(chosen if self.order is None else self.order[chosen])

    def _columns(self, plain: Indices) -> Array:
        each = np.unravel_index(plain, [A.shape[1] for A in self.factors])
        return np.ascontiguousarray(column_products([A[:, j] for A, j in zip(self.factors, each, strict=True)]))

    def sum(self, axis: int) -> Array:
        """Sums along an axis."""
        return self @ np.ones(self.shape[1]) if axis == 1 else np.ones(self.shape[0]) @ self

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        plain = np.arange(int(np.prod([A.shape[1] for A in self.factors])))
        matrix = self._columns(plain if self.order is None else self.order)
        return np.asarray(matrix.T if self.transposed else matrix, dtype=dtype)


def _contract(rows: Array, factors: Sequence[Array]) -> Array:
    """Every row, read as a tensor (a_1, ..., a_k), times A_i along its axis i."""
    n = len(rows)
    tensor = rows
    for A in factors:
        # The first axis of each tensor is multiplied and becomes the last: after all of them the order is as before.
        tensor = tensor.reshape(n, A.shape[0], -1).swapaxes(1, 2) @ A
    return np.ascontiguousarray(tensor).reshape(n, -1)


def column_products(matrices: Sequence[Array]) -> Array:
    """The matrix whose column j is the Kronecker product of the columns j of (a_i, m) matrices: (prod a_i, m)."""
    found = matrices[0]
    for A in matrices[1:]:
        found = (found[:, None, :] * A[None, :, :]).reshape(-1, A.shape[1])
    return found
