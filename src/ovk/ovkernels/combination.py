"""K(x, z) = sum_k d_k K_k(x, z): many kernels, with weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ovk._params import equal
from ovk._validation import Array, Indices
from ovk.grams import DenseBlocks, Gram, Kronecker, KroneckerSum
from ovk.ovkernels.base import OperatorKernel
from ovk.ovkernels.separable import Separable


class Combination(OperatorKernel):
    """sum_k d_k K_k(x, z), d_k >= 0: what multiple kernel learning ends in.

    Separable kernels that share a scalar kernel evaluate it once, and those that share an operator are added up.

    Parameters
    ----------
    kernels : sequence of operator-valued kernels
    weights : (M,) numbers >= 0

    Examples
    --------
    >>> from ovk.kernels import Gaussian, Linear
    >>> from ovk.operators import Identity
    >>> from ovk.ovkernels import Combination
    >>> Combination([Gaussian(1.0) * Identity(1), Linear() * Identity(1)], [0.5, 2.0])([1.0], [1.0])
    array([[2.5]])
    """

    def __init__(self, kernels: Sequence[OperatorKernel], weights: Any) -> None:
        self.kernels = kernels
        self.weights = weights

    def _checked(self) -> Array:
        weights = np.asarray(self.weights, dtype=np.float64)
        if len(self.kernels) == 0 or weights.shape != (len(self.kernels),):
            raise ValueError(f"weights must hold a number for each of the {len(self.kernels)} kernels")
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise ValueError(f"weights must be finite and >= 0, got {self.weights!r}")
        return weights

    @property
    def output_dim(self) -> int | None:
        found = [kernel.output_dim for kernel in self.kernels]
        return next((d for d in found if d is not None), None)

    def resolve(self, X: Any, d: int) -> Self:
        kernels = [kernel.resolve(X, d) for kernel in self.kernels]
        if all(new is old for new, old in zip(kernels, self.kernels, strict=True)):
            return self
        return type(self)(kernels, self.weights)

    def _used(self) -> list[tuple[float, OperatorKernel]]:
        pairs = zip(self._checked(), self.kernels, strict=True)
        used = [(float(weight), kernel) for weight, kernel in pairs if weight > 0]
        return used or [(0.0, self.kernels[0])]

    def gram(self, X: Any, Z: Any | None = None) -> Gram:
        used = self._used()
        separable = [kernel for _, kernel in used if isinstance(kernel, Separable)]
        if len(separable) < len(used):
            total = sum(weight * kernel.gram(X, Z).dense() for weight, kernel in used)
            return DenseBlocks(np.asarray(total), used[0][1].gram(X[:1]).output_dim)
        scalars, scalar_of = distinct([kernel.scalar for kernel in separable])
        operators, operator_of = distinct([kernel.operator for kernel in separable])
        shares = np.zeros((len(operators), len(scalars)))
        np.add.at(shares, (operator_of, scalar_of), [weight for weight, _ in used])
        grams = [scalar(X, Z) for scalar in scalars]
        terms = [(weighted_sum(grams, row), T) for row, T in zip(shares, operators, strict=True)]
        return Kronecker(*terms[0]) if len(terms) == 1 else KroneckerSum(terms)

    def diagonal_blocks(self, X: Any) -> Array:
        return np.asarray(sum(weight * kernel.diagonal_blocks(X) for weight, kernel in self._used()))

    def pairs(self, X: Any, s: Indices, Z: Any | None = None, t: Indices | None = None) -> Array:
        return np.asarray(sum(weight * kernel.pairs(X, s, Z, t) for weight, kernel in self._used()))

    def jacobian(self, X: Any, Z: Any, C: Array) -> Array:
        return np.asarray(sum(weight * kernel.jacobian(X, Z, C) for weight, kernel in self._used()))

    def norm_bound(self) -> float | None:
        bounds = [(weight, kernel.norm_bound()) for weight, kernel in self._used()]
        known = [weight * bound for weight, bound in bounds if bound is not None]
        return sum(known) if len(known) == len(bounds) else None


def distinct(items: Sequence[Any]) -> tuple[list[Any], Indices]:
    """The different ones among parameter objects, and for each item the number of its equal."""
    found: list[Any] = []
    numbers = np.empty(len(items), dtype=np.intp)
    for i, item in enumerate(items):
        numbers[i] = next((j for j, other in enumerate(found) if equal(item, other)), len(found))
        if numbers[i] == len(found):
            found.append(item)
    return found, numbers


def weighted_sum(grams: Sequence[Array], weights: Array) -> Array:
    """sum_k weights_k G_k."""
    total = np.zeros_like(grams[0])
    for weight, G in zip(weights, grams, strict=True):
        if weight != 0:
            total += weight * G
    return total
