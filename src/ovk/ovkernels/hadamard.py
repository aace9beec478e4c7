"""Entrywise products of operator-valued kernels."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ovk._algebra import AND, PRODUCT, part, rule
from ovk._types import Array, Indices
from ovk.grams import DenseBlocks, Gram, Kronecker
from ovk.operators import Dense
from ovk.ovkernels.base import OperatorKernel
from ovk.ovkernels.terms import Term
from ovk.ovkernels.weighted_sum import check_same_outputs


class Hadamard(OperatorKernel):
    """K1(x, z) o K2(x, z), entry by entry, written ``K1 & K2``: positive semi-definite by Schur's theorem.

    Examples
    --------
    >>> from ovk.kernels import Gaussian
    >>> from ovk.operators import MixedEffect
    >>> from ovk.ovkernels import Transformable
    >>> K = Gaussian(1.0) * MixedEffect(0.5, output_dim=2) & Transformable(Gaussian(1.0))
    >>> K([0.0, 0.0], [0.0, 1.0]).round(4)
    array([[0.6065, 0.1839],
           [0.3033, 0.3679]])
    """

    def __init__(self, left: OperatorKernel, right: OperatorKernel) -> None:
        self.left = left
        self.right = right

    def _expression(self) -> tuple[str, int]:
        # A sum would need no parentheses; they are there for the reader.
        left = part(self.left, AND) if isinstance(self.left, Hadamard) else part(self.left, PRODUCT)
        return f"{left} & {part(self.right, PRODUCT)}", AND

    @property
    def output_dim(self) -> int | None:
        d = self.left.output_dim
        return self.right.output_dim if d is None else d

    def resolve(self, X: Any, d: int) -> Self:
        left, right = self.left.resolve(X, d), self.right.resolve(X, d)
        return self if left is self.left and right is self.right else type(self)(left, right)

    def terms(self) -> list[Term] | None:
        left, right = self.left.terms(), self.right.terms()
        # Operators can be multiplied once their number of outputs is known.
        if left is None or right is None or any(term.operator.output_dim is None for term in left + right):
            return None
        return [
            Term(a.weight * b.weight, a.kernel * b.kernel, Dense(a.operator.dense() * b.operator.dense()))
            for a in left
            for b in right
        ]

    def gram(self, X: Any, Z: Any | None = None) -> Gram:
        left, right = self.left.gram(X, Z), self.right.gram(X, Z)
        check_same_outputs([left.output_dim, right.output_dim])
        return _hadamard(left, right)

    def diagonal_blocks(self, X: Any) -> Array:
        return self.left.diagonal_blocks(X) * self.right.diagonal_blocks(X)

    def pairs(self, X: Any, s: Indices, Z: Any | None = None, t: Indices | None = None) -> Array:
        return self.left.pairs(X, s, Z, t) * self.right.pairs(X, s, Z, t)

    def jacobian(self, X: Any, Z: Any, C: Array) -> Array:
        # Entry (q, p) of d(K1 o K2) is dK1_qp K2_qp + K1_qp dK2_qp: for output q of f, the derivative of one factor
        # with the coefficients K_qp c_p that the other makes of c at each point.
        X = np.asarray(X, dtype=np.float64)
        d = C.shape[-1]
        total = np.zeros((len(X), d, X.shape[1]))
        for one, other in ((self.left, self.right), (self.right, self.left)):
            blocks = other.gram(X, Z).dense().reshape(len(X), d, -1, d)
            for q in range(d):
                total[:, q] += one.jacobian(X, Z, blocks[:, q] * C)[:, q]
        return total

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Gram]:
        left, right = self.left.gram(X, Z), self.right.gram(X, Z)
        return {
            **{f"left__{name}": _hadamard(change, right) for name, change in self.left.gradient(X, Z).items()},
            **{f"right__{name}": _hadamard(left, change) for name, change in self.right.gradient(X, Z).items()},
        }

    def norm_bound(self) -> float | None:
        # |A o B| <= max_i A_ii |B| <= |A| |B| for positive semi-definite matrices.
        left, right = self.left.norm_bound(), self.right.norm_bound()
        return None if left is None or right is None else left * right


def _hadamard(left: Gram, right: Gram) -> Gram:
    a, b = left.terms(), right.terms()
    if a is None or b is None:
        return DenseBlocks(left.dense() * right.dense(), left.output_dim)
    products = [(G * H, Dense(S.dense() * T.dense())) for G, S in a for H, T in b]
    return Kronecker([G for G, _ in products], [T for _, T in products])


rule("&", OperatorKernel, OperatorKernel)(Hadamard)
