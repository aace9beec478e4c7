"""Grams of separable kernels and their sums: Kronecker products that are never multiplied out."""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk._params import equal
from ovk._validation import Array, Indices
from ovk.grams.base import Gram, scaled_matrix
from ovk.kernels.base import product_since
from ovk.operators import Dense, OutputOperator


class Kronecker(Gram):
    """G (x) T: the gram of k(x, z) T.

    Parameters
    ----------
    G : (n, m) array of scalar kernel values
    operator : T

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.grams import Kronecker
    >>> from ovk.operators import Dense
    >>> gram = Kronecker(np.array([[1.0, 0.5]]), Dense([[2.0, 1.0], [1.0, 2.0]]))
    >>> gram.matmat(np.array([[1.0, 0.0], [0.0, 2.0]]))
    array([[3., 3.]])
    """

    def __init__(self, G: Array, operator: OutputOperator) -> None:
        self.G = G
        self.operator = operator
        self.shape = (G.shape[0], G.shape[1])
        self.output_dim = operator.dim()

    @property
    def terms(self) -> list[tuple[Array, OutputOperator]]:
        """The gram as a sum with one term."""
        return [(self.G, self.operator)]

    def matmat(self, C: Any) -> Array:
        return self.operator.apply(self.G @ C)

    def matmat_since(self, C: Array, since: Indices) -> Array:
        return self.operator.apply(product_since(self.G, C, since))

    def entries(self, rows: Indices, outputs: Indices, columns: Indices, inputs: Indices) -> Array:
        values = _picked(self.G, rows, columns)
        values *= _picked(self.operator.dense(), outputs, inputs)
        return values

    def rescale(self, rows: Array | None, columns: Array | None, outputs: Array | None) -> Gram:
        return Kronecker(scaled_matrix(self.G, rows, columns), rescaled_operator(self.operator, outputs))

    def diagonal_blocks(self) -> Array:
        return np.diagonal(self.G)[:, None, None] * self.operator.dense()


class KroneckerSum(Gram):
    """sum_k G_k (x) T_k: the gram of a sum of separable kernels. Terms with the same operator are added at once.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.grams import KroneckerSum
    >>> from ovk.operators import Identity, MixedEffect
    >>> G = np.eye(2)
    >>> gram = KroneckerSum([(G, Identity(2)), (G, MixedEffect(0.5, 2)), (G, Identity(2))])
    >>> len(gram.terms)
    2
    """

    def __init__(self, terms: list[tuple[Array, OutputOperator]]) -> None:
        self.terms = grouped(terms)
        G, operator = self.terms[0]
        self.shape = (G.shape[0], G.shape[1])
        self.output_dim = operator.dim()

    def matmat(self, C: Any) -> Array:
        total: Array = np.zeros((self.shape[0], self.output_dim))
        for G, operator in self.terms:
            total += operator.apply(G @ C)
        return total

    def matmat_since(self, C: Array, since: Indices) -> Array:
        total: Array = np.zeros((self.shape[0], self.output_dim))
        for G, operator in self.terms:
            total += operator.apply(product_since(G, C, since))
        return total

    def entries(self, rows: Indices, outputs: Indices, columns: Indices, inputs: Indices) -> Array:
        total = np.zeros((len(rows), len(columns)))
        for G, operator in self.terms:
            total += _picked(G, rows, columns) * _picked(operator.dense(), outputs, inputs)
        return total

    def rescale(self, rows: Array | None, columns: Array | None, outputs: Array | None) -> Gram:
        return KroneckerSum(
            [(scaled_matrix(G, rows, columns), rescaled_operator(operator, outputs)) for G, operator in self.terms]
        )

    def diagonal_blocks(self) -> Array:
        blocks: Array = np.zeros((self.shape[0], self.output_dim, self.output_dim))
        for G, operator in self.terms:
            blocks += np.diagonal(G)[:, None, None] * operator.dense()
        return blocks


def _picked(A: Array, rows: Indices, columns: Indices) -> Array:
    """A[rows, columns] of all pairs: whole rows first, which takes a third of the time of picking entry by entry."""
    return np.take(A[rows], columns, axis=1)


def grouped(terms: list[tuple[Array, OutputOperator]]) -> list[tuple[Array, OutputOperator]]:
    """Terms with one entry for each different operator, their scalar grams added."""
    groups: list[tuple[Array, OutputOperator]] = []
    for G, operator in terms:
        for k, (total, other) in enumerate(groups):
            if equal(operator, other):
                groups[k] = (total + G, other)
                break
        else:
            groups.append((G, operator))
    return groups


def rescaled_operator(operator: OutputOperator, outputs: Array | None) -> OutputOperator:
    """S T S with S = diag(outputs)."""
    if outputs is None:
        return operator
    return Dense(operator.dense() * outputs[:, None] * outputs[None, :])
