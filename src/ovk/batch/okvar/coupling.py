"""The operator B inside a kernel, taken out so that it can be learned.

    decomposable:        K(x, z) = k(x, z) B            F = G C B
    entrywise product:   K(x, z) = B o K0(x, z)         F_li = sum_j B_ij A_lij,   A_lij = sum_m K0(x_l, x_m)_ij C_mj

Both are linear in C and linear in B. `features` does what does not depend on B.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ovk._validation import Array
from ovk.grams import DenseBlocks, Gram, Kronecker
from ovk.operators import Dense, OutputOperator
from ovk.ovkernels import Hadamard, OperatorKernel, Separable


class Coupling(ABC):
    """The values of h at the inputs as a function of C and B."""

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


class Decomposable(Coupling):
    """K = k B on samples with the scalar gram G."""

    def __init__(self, G: Array) -> None:
        self.G = G

    def gram(self, B: Array) -> Kronecker:
        return Kronecker(self.G, Dense(B))

    def features(self, C: Array) -> Array:
        return self.G @ C

    def values(self, A: Array, B: Array) -> Array:
        return A @ B

    def slope(self, A: Array, D: Array) -> Array:
        S = A.T @ D
        return np.asarray(0.5 * (S + S.T))


class Entrywise(Coupling):
    """K = B o K0 with the blocks of K0, (m, d, m, d)."""

    def __init__(self, blocks: Array) -> None:
        self.blocks = blocks

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


def learnable(kernel: OperatorKernel) -> OutputOperator:
    """The operator of the kernel that `learn_operator` learns; an error where there is none."""
    if isinstance(kernel, Separable):
        return kernel.operator
    if isinstance(kernel, Hadamard):
        sides = [side for side in (kernel.left, kernel.right) if isinstance(side, Separable)]
        if len(sides) == 1:
            return sides[0].operator
    raise ValueError(
        "learn_operator=True learns the operator T of a kernel k * T, or of (k * T) & K, but the kernel is "
        f"{kernel!r}: give one of these, or learn_operator=False"
    )


def with_operator(kernel: OperatorKernel, B: Array) -> OperatorKernel:
    """The same kernel with another operator."""
    if isinstance(kernel, Separable):
        return Separable(kernel.kernel, Dense(B))
    assert isinstance(kernel, Hadamard)
    if isinstance(kernel.left, Separable):
        return Hadamard(Separable(kernel.left.kernel, Dense(B)), kernel.right)
    return Hadamard(kernel.left, with_operator(kernel.right, B))


def take_out(kernel: OperatorKernel, Z: Array, d: int) -> Coupling:
    """The kernel on samples without its operator."""
    if isinstance(kernel, Separable):
        return Decomposable(kernel.scalar(Z))
    bare = with_operator(kernel, np.ones((d, d)))
    return Entrywise(bare.gram(Z).dense().reshape(len(Z), d, len(Z), d))


class Fixed(Coupling):
    """A kernel whose operator, if it has one, stays as it is."""

    def __init__(self, gram: Gram) -> None:
        self._gram = gram

    def gram(self, B: Array) -> Gram:
        return self._gram

    def features(self, C: Array) -> Array:
        return self._gram.matmat(C)

    def values(self, A: Array, B: Array) -> Array:
        return A

    def slope(self, A: Array, D: Array) -> Array:
        raise TypeError("this kernel has no operator to learn")
