"""Grams without structure: all blocks written out."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ovk._validation import Array, Indices
from ovk.grams.base import Gram


class DenseBlocks(Gram):
    """The (n d, m d) matrix itself, for kernels that do not factorise (transformable, curl-free, ...).

    Parameters
    ----------
    matrix : (n d, m d) array
        The entry of output q at point i has the row i d + q.
    output_dim : d

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.grams import DenseBlocks
    >>> DenseBlocks(np.eye(4), output_dim=2).matmat(np.ones((2, 2)))
    array([[1., 1.],
           [1., 1.]])
    """

    def __init__(self, matrix: Array, output_dim: int) -> None:
        self.matrix = matrix
        self.output_dim = output_dim
        self.shape = (matrix.shape[0] // output_dim, matrix.shape[1] // output_dim)

    def matmat(self, C: Any) -> Array:
        flat = (C.toarray() if sparse.issparse(C) else np.asarray(C)).reshape(-1)
        values: Array = (self.matrix @ flat).reshape(self.shape[0], self.output_dim)
        return values

    def entries(self, rows: Indices, outputs: Indices, columns: Indices, inputs: Indices) -> Array:
        d = self.output_dim
        chosen: Array = self.matrix[np.ix_(rows * d + outputs, columns * d + inputs)]
        return chosen

    def dense(self) -> Array:
        return self.matrix

    def rescale(self, rows: Array | None, columns: Array | None, outputs: Array | None) -> Gram:
        scales = np.ones(self.output_dim) if outputs is None else outputs
        n, m = self.shape
        left = np.outer(np.ones(n) if rows is None else rows, scales).ravel()
        right = np.outer(np.ones(m) if columns is None else columns, scales).ravel()
        return DenseBlocks(self.matrix * left[:, None] * right[None, :], self.output_dim)

    def diagonal_blocks(self) -> Array:
        n, m = self.shape
        d = self.output_dim
        each = np.arange(min(n, m))
        return self.matrix.reshape(n, d, m, d)[each, :, each, :]
