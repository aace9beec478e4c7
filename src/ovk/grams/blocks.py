"""Grams without structure: all blocks written out, or those of the outputs that were observed."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ovk._types import Array, Indices
from ovk.grams.base import Decoupled, Gram


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
        return np.asarray((self.matrix @ flat).reshape(self.shape[0], self.output_dim))

    def weighted(self, weights: Array) -> Gram:
        n, m = self.shape
        d = self.output_dim
        blocks = self.matrix.reshape(n, d, m, d) * weights[:, None, :, None]
        return DenseBlocks(blocks.reshape(n * d, m * d), d)

    def part_matmat(self, rows: slice, columns: slice, C: Array) -> Array:
        n, m = self.shape
        d = self.output_dim
        (top, bottom, _), (left, right, _) = rows.indices(n), columns.indices(m)
        values: Array = self.matrix[top * d : bottom * d, left * d : right * d] @ C.reshape(-1)
        return values.reshape(-1, d)

    def entries(self, rows: Indices, outputs: Indices, columns: Indices, inputs: Indices) -> Array:
        d = self.output_dim
        return np.asarray(self.matrix[np.ix_(rows * d + outputs, columns * d + inputs)])

    def dense(self) -> Array:
        return self.matrix

    def decouple(self) -> Decoupled:
        return Stacked(self)

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


class Observed(Gram):
    """The square gram `base` on the pairs (point, output) that were observed; each pair counts as a point.

    Parameters
    ----------
    base : square gram of n points and d outputs
    rows, outputs : (N,) integer arrays, the pairs

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.grams import Kronecker, Observed
    >>> from ovk.operators import Dense
    >>> base = Kronecker(np.eye(2), Dense([[2.0, 1.0], [1.0, 2.0]]))
    >>> Observed(base, np.array([0, 0, 1]), np.array([0, 1, 1])).dense()
    array([[2., 1., 0.],
           [1., 2., 0.],
           [0., 0., 2.]])
    """

    output_dim = 1

    def __init__(self, base: Gram, rows: Indices, outputs: Indices) -> None:
        self.base = base
        self.rows = rows
        self.outputs = outputs
        self.shape = (len(rows), len(rows))

    def spread(self, c: Any) -> Array:
        """Coefficients of the pairs, (N, 1), as coefficients of points, (n, d), zero where nothing was observed."""
        full = np.zeros((self.base.shape[0], self.base.output_dim))
        full[self.rows, self.outputs] = np.asarray(c).reshape(-1)
        return full

    def matmat(self, C: Any) -> Array:
        values = self.base.matmat(self.spread(C))
        return values[self.rows, self.outputs][:, None]

    def __rmul__(self, factor: float) -> Observed:
        return Observed(factor * self.base, self.rows, self.outputs)

    def weighted(self, weights: Array) -> Gram:
        return DenseBlocks(self.dense() * weights, 1)

    def part_matmat(self, rows: slice, columns: slice, C: Array) -> Array:
        c = np.zeros(self.shape[1])
        c[columns] = C[:, 0]
        points, full, every = self.rows[rows], self.spread(c), slice(None)
        values = [self.base.part_matmat(slice(i, i + 1), every, full)[0] for i in points]
        return np.array([value[q] for value, q in zip(values, self.outputs[rows], strict=True)]).reshape(-1, 1)

    def entries(self, rows: Indices, outputs: Indices, columns: Indices, inputs: Indices) -> Array:
        return self.base.entries(self.rows[rows], self.outputs[rows], self.rows[columns], self.outputs[columns])

    def dense(self) -> Array:
        return self.base.entries(self.rows, self.outputs, self.rows, self.outputs)

    def decouple(self) -> Decoupled:
        terms = self.base.terms()
        if terms is not None and all(operator.is_diagonal() for _, operator in terms):
            return ByOutput(self, [(G, np.diagonal(operator.dense())) for G, operator in terms])
        return Stacked(self)

    def rescale(self, rows: Array | None, columns: Array | None, outputs: Array | None) -> Gram:
        return Observed(self.base.rescale(rows, columns, outputs), self.rows, self.outputs)

    def diagonal_blocks(self) -> Array:
        blocks = self.base.diagonal_blocks()
        return blocks[self.rows, self.outputs, self.outputs][:, None, None]


class Stacked(Decoupled):
    """All outputs of all points as the points of one scalar problem."""

    def __init__(self, gram: Gram) -> None:
        self.gram = gram

    def __len__(self) -> int:
        return 1

    def split(self, Y: Array) -> list[Array]:
        # Pairs of a point and an output have one output each: then every column is a right-hand side.
        return [Y.copy() if self.gram.output_dim == 1 else Y.reshape(-1, 1).copy()]

    def join(self, parts: list[Array]) -> Array:
        d = self.gram.output_dim
        return parts[0] if d == 1 else parts[0].reshape(-1, d)

    def matrix(self, q: int) -> Array:
        return self.gram.dense().copy()

    def vanishes(self, q: int) -> bool:
        return False


class ByOutput(Decoupled):
    """Outputs that have nothing to do with each other, each with the points at which it was observed."""

    def __init__(self, gram: Observed, diagonals: list[tuple[Array, Array]]) -> None:
        self.gram = gram
        self.diagonals = diagonals  # (G_k, the diagonal of T_k)
        self.outputs = np.unique(gram.outputs)
        self.members = [np.flatnonzero(gram.outputs == q) for q in self.outputs]

    def __len__(self) -> int:
        return len(self.members)

    def split(self, Y: Array) -> list[Array]:
        return [Y[members] for members in self.members]

    def join(self, parts: list[Array]) -> Array:
        whole = np.empty((self.gram.shape[0], parts[0].shape[1]))
        for members, part in zip(self.members, parts, strict=True):
            whole[members] = part
        return whole

    def matrix(self, q: int) -> Array:
        points, output = self.gram.rows[self.members[q]], self.outputs[q]
        total = np.zeros((len(points), len(points)))
        for G, diagonal in self.diagonals:
            if diagonal[output] != 0:
                total += diagonal[output] * G[np.ix_(points, points)]
        return total

    def vanishes(self, q: int) -> bool:
        return all(diagonal[self.outputs[q]] == 0 for _, diagonal in self.diagonals)
