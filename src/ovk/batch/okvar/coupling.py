"""The operator B inside a kernel, taken out so that it can be learned.

    decomposable:        K(x, z) = k(x, z) B            F = G C B
    entrywise product:   K(x, z) = B o K0(x, z)         F_li = sum_j B_ij A_lij,   A_lij = sum_m K0(x_l, x_m)_ij C_mj

Both are linear in C and linear in B. `features` does what does not depend on B.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ovk.base import Array
from ovk.operators import Dense
from ovk.ovkernels import DenseBlocks, Gram, Hadamard, Kronecker, OperatorKernel, Separable


class Coupling:
    """The values of h at the inputs as a function of C and B; here for a kernel whose operator stays as it is."""

    #: Whether the values depend on B.
    has_operator = False

    def __init__(self, K: Gram) -> None:
        self.K = K

    def gram(self, B: Array) -> Gram:
        """The gram of the kernel with the operator B."""
        return self.K

    def features(self, C: Array) -> Array:
        """A, what multiplies B."""
        return self.K.matmat(C)

    def values(self, A: Array, B: Array) -> Array:
        """F, (m, d)."""
        return A

    def slope(self, A: Array, D: Array) -> Array:
        """Derivative of <D, F> in B, (d, d), symmetric."""
        raise TypeError("this kernel has no operator to learn")

    def product(self, C: Array, B: Array) -> Array:
        """F of coefficients C."""
        return self.values(self.features(C), B)


class Decomposable(Coupling):
    """K = k B on samples with the scalar gram G."""

    has_operator = True

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

    has_operator = True

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


def learnable_part(kernel: OperatorKernel) -> tuple[Separable, Callable[[OperatorKernel], OperatorKernel]]:
    """The part k * T of the kernel whose operator can be learned, and a function that replaces this part."""
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
    part, whole = learnable_part(kernel)
    return whole(Separable(part.kernel, Dense(B)))


def coupling_on(kernel: OperatorKernel, Z: Array, d: int, learn: bool) -> tuple[Array, Coupling]:
    """The operator of the kernel, (d, d), and the rest of the kernel on the inputs Z, (m, q).

    Without `learn` a kernel that is not decomposable stays in one piece, and the operator is not used.
    """
    separable = kernel.as_separable()
    if separable is not None:
        return separable.operator.dense(), Decomposable(separable.scalar(Z))
    if not learn:
        return np.eye(d), Coupling(kernel.gram(Z))
    B = learnable_part(kernel)[0].operator.dense()
    bare = with_operator(kernel, np.ones((d, d)))
    return B, Entrywise(bare.gram(Z).dense().reshape(len(Z), d, len(Z), d))
