"""The operator B inside a kernel, taken out so that it can be learned.

    decomposable:        K(x, z) = k(x, z) B            F = G C B
    entrywise product:   K(x, z) = B o K0(x, z)         F_li = sum_j B_ij A_lij,   A_lij = sum_m K0(x_l, x_m)_ij C_mj

Both are linear in C and linear in B. `features` does what does not depend on B.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ovk.base import Array
from ovk.operators import Dense
from ovk.ovkernels import DenseBlocks, Gram, Hadamard, Kronecker, OperatorKernel, Separable


class Coupling(ABC):
    """The values of h at the inputs as a function of C and B."""

    #: Whether the values depend on B.
    has_operator = True

    @abstractmethod
    def gram(self, B: Array) -> Gram:
        """The gram of the kernel with that operator."""

    @abstractmethod
    def features(self, C: Array) -> Array:
        """A, what multiplies B."""

    @abstractmethod
    def values(self, A: Array, B: Array) -> Array:
        """F, (m, d)."""

    @abstractmethod
    def slope(self, A: Array, D: Array) -> Array:
        """Derivative of <D, F> in B, (d, d), symmetric."""

    def product(self, C: Array, B: Array) -> Array:
        """F of coefficients C."""
        return self.values(self.features(C), B)


@dataclass(frozen=True, eq=False)
class Decomposable(Coupling):
    """K = k B on samples with the scalar gram G."""

    G: Array

    def gram(self, B: Array) -> Kronecker:
        return Kronecker(self.G, Dense(B))

    def features(self, C: Array) -> Array:
        return self.G @ C

    def values(self, A: Array, B: Array) -> Array:
        return A @ B

    def slope(self, A: Array, D: Array) -> Array:
        S = A.T @ D
        return np.asarray(0.5 * (S + S.T))


@dataclass(frozen=True, eq=False)
class Entrywise(Coupling):
    """K = B o K0 with the blocks of K0, (m, d, m, d)."""

    blocks: Array

    def gram(self, B: Array) -> DenseBlocks:
        m, d = self.blocks.shape[:2]
        return DenseBlocks((self.blocks * B[None, :, None, :]).reshape(m * d, m * d), d)

    def features(self, C: Array) -> Array:
        # sum_m K0_limj C_mj, for each output j a product of matrices.
        m, d = C.shape
        parts = [self.blocks[:, :, :, j].reshape(m * d, m) @ C[:, j] for j in range(d)]
        return np.stack(parts, axis=1).reshape(m, d, d)

    def values(self, A: Array, B: Array) -> Array:
        return np.asarray(np.einsum("lij,ij->li", A, B))

    def slope(self, A: Array, D: Array) -> Array:
        S = np.einsum("lij,li->ij", A, D)
        return np.asarray(0.5 * (S + S.T))


@dataclass(frozen=True, eq=False)
class FixedKernel(Coupling):
    """A kernel whose operator, if it has one, stays as it is."""

    has_operator = False
    K: Gram

    def gram(self, B: Array) -> Gram:
        return self.K

    def features(self, C: Array) -> Array:
        return self.K.matmat(C)

    def values(self, A: Array, B: Array) -> Array:
        return A

    def slope(self, A: Array, D: Array) -> Array:
        raise TypeError("this kernel has no operator to learn")


def learnable_part(kernel: OperatorKernel) -> tuple[Separable, Callable[[OperatorKernel], OperatorKernel]]:
    """The part k * T of the kernel whose operator can be learned, and how the kernel is made of that part.

    An error where there is none.
    """
    part = kernel.as_separable()
    if part is not None:
        return part, lambda other: other
    if isinstance(kernel, Hadamard):
        left, right = kernel.left.as_separable(), kernel.right.as_separable()
        if left is not None and right is None:
            return left, lambda other: Hadamard(other, kernel.right)
        if right is not None and left is None:
            return right, lambda other: Hadamard(kernel.left, other)
    raise ValueError(
        "learn_operator=True learns the operator T of a kernel k * T, or of (k * T) & K, but the kernel is "
        f"{kernel!r}: give one of these, or learn_operator=False"
    )


def with_operator(kernel: OperatorKernel, B: Array) -> OperatorKernel:
    """The kernel with B in the place of its learnable operator."""
    part, whole = learnable_part(kernel)
    return whole(Separable(part.kernel, Dense(B)))


def coupling_on(kernel: OperatorKernel, Z: Array, d: int, learn: bool) -> tuple[Array, Coupling]:
    """The operator of the kernel, (d, d), and the rest of the kernel on the inputs Z.

    Without `learn` a kernel that is not decomposable stays in one piece, and the operator is not used.
    """
    separable = kernel.as_separable()
    if separable is not None:
        return separable.operator.dense(), Decomposable(separable.scalar(Z))
    if not learn:
        return np.eye(d), FixedKernel(kernel.gram(Z))
    B = learnable_part(kernel)[0].operator.dense()
    bare = with_operator(kernel, np.ones((d, d)))
    return B, Entrywise(bare.gram(Z).dense().reshape(len(Z), d, len(Z), d))
