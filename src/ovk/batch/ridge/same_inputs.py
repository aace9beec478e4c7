"""Which rows have the same inputs: a copy left in would give away the one that is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ovk._types import Array, Indices


def same_inputs(X: Any) -> Indices:
    """For each row the number of its group of rows with the same inputs, groups in order of appearance."""
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in row_keys(X)], dtype=np.intp)


def order_of_rows(X: Any, Y: Array) -> Indices:
    """Numbers of the rows in an order that depends on what they hold alone, inputs and outputs, not on how they came.

    >>> X, Y = np.array([[2.0], [1.0], [2.0]]), np.array([[0.0], [1.0], [3.0]])
    >>> order, other = order_of_rows(X, Y), order_of_rows(X[::-1], Y[::-1])
    >>> np.array_equal(X[order], X[::-1][other]) and np.array_equal(Y[order], Y[::-1][other])
    True
    """
    keys = list(zip(row_keys(X), row_keys(Y), strict=True))
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.intp)


def row_keys(X: Any) -> list[Any]:
    """Something for each row that is equal where inputs are, and can be sorted."""
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        X.sum_duplicates()
        bounds = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        return [(X.indices[a:b].tobytes(), X.data[a:b].tobytes()) for a, b in bounds]
    # + 0.0 makes -0.0 the zero that it is.
    return [row.tobytes() for row in np.ascontiguousarray(X) + 0.0]
