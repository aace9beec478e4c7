"""Sums, multiples and entrywise products of operator-valued kernels."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ovk._algebra import rule
from ovk._validation import Array, Indices, positive
from ovk.grams import DenseBlocks, Gram, Kronecker, KroneckerSum
from ovk.operators import Dense, OutputOperator
from ovk.ovkernels.base import OperatorKernel

Terms = list[tuple[Array, OutputOperator]]


def _terms(gram: Gram) -> Terms | None:
    return gram.terms if isinstance(gram, (Kronecker, KroneckerSum)) else None


def _from_terms(terms: Terms) -> Gram:
    total = KroneckerSum(terms)
    return Kronecker(*total.terms[0]) if len(total.terms) == 1 else total


def _scaled(gram: Gram, factor: float) -> Gram:
    return gram.rescale(np.full(gram.shape[0], factor), None, None)


def _check_outputs(grams: list[Gram]) -> None:
    found = [gram.output_dim for gram in grams]
    if len(set(found)) > 1:
        raise ValueError(f"kernels that are combined must have the same number of outputs, got {found}")


def _prefixed(name: str, gradient: dict[str, Gram]) -> dict[str, Gram]:
    return {f"{name}__{key}": value for key, value in gradient.items()}


class _Pair(OperatorKernel):
    """Two kernels combined."""

    def __init__(self, left: OperatorKernel, right: OperatorKernel) -> None:
        self.left = left
        self.right = right

    @property
    def output_dim(self) -> int | None:
        d = self.left.output_dim
        return self.right.output_dim if d is None else d

    def resolve(self, X: Any, d: int) -> Self:
        left, right = self.left.resolve(X, d), self.right.resolve(X, d)
        return self if left is self.left and right is self.right else type(self)(left, right)


class Sum(_Pair):
    """K1(x, z) + K2(x, z), written ``K1 + K2``.

    Examples
    --------
    >>> from ovk.kernels import Gaussian, Linear
    >>> from ovk.operators import Identity, MixedEffect
    >>> K = Gaussian(1.0) * MixedEffect(0.5) + Linear() * Identity()
    >>> type(K).__name__
    'Sum'
    """

    @property
    def terms(self) -> list[OperatorKernel]:
        """The kernels that are added, nested sums taken apart."""
        return [leaf for side in (self.left, self.right) for leaf in (side.terms if isinstance(side, Sum) else [side])]

    def gram(self, X: Any, Z: Any | None = None) -> Gram:
        grams = [term.gram(X, Z) for term in self.terms]
        _check_outputs(grams)
        pieces = [_terms(gram) for gram in grams]
        if all(piece is not None for piece in pieces):
            return _from_terms([term for piece in pieces if piece is not None for term in piece])
        total = grams[0].dense().copy()
        for gram in grams[1:]:
            total += gram.dense()
        return DenseBlocks(total, grams[0].output_dim)

    def product(self, X: Any, Z: Any, C: Any, since: Indices | None = None) -> Array:
        return self.left.product(X, Z, C, since) + self.right.product(X, Z, C, since)

    def diagonal_blocks(self, X: Any) -> Array:
        return self.left.diagonal_blocks(X) + self.right.diagonal_blocks(X)

    def pairs(self, X: Any, s: Indices, Z: Any | None = None, t: Indices | None = None) -> Array:
        return self.left.pairs(X, s, Z, t) + self.right.pairs(X, s, Z, t)

    def jacobian(self, X: Any, Z: Any, C: Array) -> Array:
        return self.left.jacobian(X, Z, C) + self.right.jacobian(X, Z, C)

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Gram]:
        return {
            **_prefixed("left", self.left.gradient(X, Z)),
            **_prefixed("right", self.right.gradient(X, Z)),
        }

    def norm_bound(self) -> float | None:
        left, right = self.left.norm_bound(), self.right.norm_bound()
        return None if left is None or right is None else left + right


class Hadamard(_Pair):
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

    def gram(self, X: Any, Z: Any | None = None) -> Gram:
        left, right = self.left.gram(X, Z), self.right.gram(X, Z)
        _check_outputs([left, right])
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
            **{k: _hadamard(v, right) for k, v in _prefixed("left", self.left.gradient(X, Z)).items()},
            **{k: _hadamard(left, v) for k, v in _prefixed("right", self.right.gradient(X, Z)).items()},
        }

    def norm_bound(self) -> float | None:
        # |A o B| <= max_i A_ii |B| <= |A| |B| for positive semi-definite matrices.
        left, right = self.left.norm_bound(), self.right.norm_bound()
        return None if left is None or right is None else left * right


def _hadamard(left: Gram, right: Gram) -> Gram:
    a, b = _terms(left), _terms(right)
    if a is not None and b is not None:
        return _from_terms([(G * H, Dense(S.dense() * T.dense())) for G, S in a for H, T in b])
    return DenseBlocks(left.dense() * right.dense(), left.output_dim)


class Scaled(OperatorKernel):
    """factor K(x, z), written ``factor * K``.

    Examples
    --------
    >>> from ovk.kernels import Gaussian
    >>> from ovk.ovkernels import CurlFree
    >>> type(2.0 * CurlFree(Gaussian(1.0))).__name__
    'Scaled'
    """

    def __init__(self, factor: float, kernel: OperatorKernel) -> None:
        self.factor = factor
        self.kernel = kernel

    @property
    def output_dim(self) -> int | None:
        return self.kernel.output_dim

    def _factor(self) -> float:
        return positive(self.factor, "factor", zero=True)

    def resolve(self, X: Any, d: int) -> Self:
        inner = self.kernel.resolve(X, d)
        return self if inner is self.kernel else type(self)(self.factor, inner)

    def gram(self, X: Any, Z: Any | None = None) -> Gram:
        return _scaled(self.kernel.gram(X, Z), self._factor())

    def product(self, X: Any, Z: Any, C: Any, since: Indices | None = None) -> Array:
        return self._factor() * self.kernel.product(X, Z, C, since)

    def diagonal_blocks(self, X: Any) -> Array:
        return self._factor() * self.kernel.diagonal_blocks(X)

    def pairs(self, X: Any, s: Indices, Z: Any | None = None, t: Indices | None = None) -> Array:
        return self._factor() * self.kernel.pairs(X, s, Z, t)

    def jacobian(self, X: Any, Z: Any, C: Array) -> Array:
        return self._factor() * self.kernel.jacobian(X, Z, C)

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Gram]:
        inner = _prefixed("kernel", self.kernel.gradient(X, Z))
        scaled = {name: _scaled(gram, self._factor()) for name, gram in inner.items()}
        return {"factor": self.kernel.gram(X, Z), **scaled}

    def norm_bound(self) -> float | None:
        bound = self.kernel.norm_bound()
        return None if bound is None else self._factor() * bound


rule("+", OperatorKernel, OperatorKernel)(Sum)
rule("&", OperatorKernel, OperatorKernel)(Hadamard)
rule("*", float, OperatorKernel)(Scaled)


@rule("*", OperatorKernel, float)
def _scale_from_the_right(kernel: OperatorKernel, factor: float) -> Scaled:
    return Scaled(factor, kernel)
