"""Ridge regression without its matrix: conjugate gradient in tiles, with a randomly pivoted Cholesky preconditioner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ovk._types import Array, Map
from ovk.kernels import ScalarKernel
from ovk.solvers import SolverInfo
from ovk.solvers.conjugate_gradient import Iterate, conjugate_gradients
from ovk.solvers.preconditioners import LowRankPreconditioner
from ovk.solvers.random_pivots import random_pivots


@dataclass(frozen=True)
class TiledRidge:
    """(K + alpha I) C + 1 b' = T, 1'C = 0, for a kernel matrix that is evaluated in tiles and never held.

    Memory is that of the preconditioner, n x rank numbers if it is of low rank, and a few times those of T.
    """

    kernel: ScalarKernel
    points: Array
    alpha: float
    precondition: Map
    tol: float = 1e-8
    max_iter: int = 500

    @classmethod
    def of(cls, kernel: ScalarKernel, Z: Array, alpha: float, rank: int, seed: int) -> TiledRidge:
        """Choose the pivots of the preconditioner."""
        found = random_pivots(
            lambda i, j: kernel(Z[i], Z[j]), kernel.diag(Z), min(rank, len(Z)), np.random.default_rng(seed)
        )
        return cls(kernel, Z, alpha, LowRankPreconditioner(found.F)(alpha))

    def iterate(self, B: Array) -> Iterate:
        """(K + alpha I)^-1 B for columns (n, r)."""
        Z = self.points
        found = conjugate_gradients(
            lambda C: self.kernel.product(Z, Z, C) + self.alpha * C, B, self.precondition, None, self.tol, self.max_iter
        )
        info = SolverInfo("ConjugateGradient", iterations=found.iterations, residual=found.residual)
        info.warn_above(self.tol, "use a larger alpha, or solver='cholesky' in float64")
        return found

    def solve(self, T: Array) -> tuple[Array, Array]:
        """Coefficients (n, r) and intercepts (r,) for outputs (n, r)."""
        found = self.iterate(np.column_stack([T, np.ones(len(T))])).X
        # C = A^-1 T - z b' with 1'C = 0.
        C, z = found[:, :-1], found[:, -1:]
        b = C.sum(axis=0) / z.sum()
        return C - z * b, b
