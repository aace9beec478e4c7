"""What a weighted dictionary leaves of the kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ovk._state import State
from ovk._types import Array
from ovk.features.selection.base import BlockKernels
from ovk.solvers.triangular import solve_lower


@dataclass
class KernelResidual(State):
    """c(x, y) = k(x, y) - b_x' (S K S + mu I)^-1 b_y, b_x = S k_D(x), by a Cholesky factor L L' = S K S + mu I.

    Attributes
    ----------
    mu : >= 0
    weights : (N,) the diagonal of S
    L : (N, N)
    """

    mu: float
    weights: Array = field(default_factory=lambda: np.empty(0))
    L: Array = field(default_factory=lambda: np.empty((0, 0)))

    def on_block(self, block: BlockKernels) -> BlockResidual:
        """What is left of the kernel on a block of inputs."""
        return BlockResidual(self, block)


class BlockResidual:
    """c(x, y) on a block of inputs, while points of it join."""

    def __init__(self, residual: KernelResidual, block: BlockKernels) -> None:
        self._all, self._block = residual, block
        # V = L^-1 S k_D(X), so that c(x, y) = k(x, y) - v_x' v_y.
        self._V = solve_lower(residual.L, residual.weights[:, None] * block.cross)
        self._c: Array = block.diagonal - np.einsum("ij,ij->j", self._V, self._V)

    def diagonal(self, start: int) -> Array:
        """c(x, x) of the rows from `start` on; not below zero by rounding."""
        rest: Array = np.maximum(self._c[start:], 0.0)
        return rest

    def add_point(self, j: int, s: float) -> None:
        """Add row j to the dictionary, with weight s: c(x, y) -= s^2 c(x, z) c(z, y) / (mu + s^2 c(z, z))."""
        known = self._all
        N = len(known.weights)
        pivot = float(np.sqrt(known.mu + s * s * float(self.diagonal(j)[0])))
        c = self._block.column(j) - self._V.T @ self._V[:, j]
        L = np.zeros((N + 1, N + 1))
        L[:N, :N], L[N, :N], L[N, N] = known.L, s * self._V[:, j], pivot
        row = s * c / pivot
        known.weights, known.L = np.append(known.weights, s), L
        self._V = np.concatenate([self._V, row[None]])
        self._c = self._c - row**2
