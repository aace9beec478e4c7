"""Ridge regression without its matrix: conjugate gradient in tiles, with a randomly pivoted Cholesky preconditioner."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ovk._types import Array, Map
from ovk.kernels import ScalarKernel
from ovk.solvers.base import SolverInfo
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
    preconditioner: Callable[[float], Map]
    tol: float = 1e-8
    max_iter: int = 500

    @classmethod
    def of(cls, kernel: ScalarKernel, Z: Array, alpha: float, rank: int, seed: int) -> TiledRidge:
        """Choose the pivots of the preconditioner, which serves every alpha."""
        found = random_pivots(
            lambda i, j: kernel(Z[i], Z[j]), kernel.diag(Z), min(rank, len(Z)), np.random.default_rng(seed)
        )
        return cls(kernel, Z, alpha, LowRankPreconditioner(found.F))

    def iterate(self, B: Array, alpha: float, start: Array | None = None) -> Iterate:
        """(K + alpha I)^-1 B for columns (n, r)."""
        Z = self.points
        found = conjugate_gradients(
            lambda C: self.kernel.product(Z, Z, C) + alpha * C,
            B,
            self.preconditioner(alpha),
            start,
            self.tol,
            self.max_iter,
        )
        if found.residual > self.tol:
            warnings.warn(
                f"conjugate gradient stopped after {self.max_iter} iterations at a relative residual of "
                f"{found.residual:.1e} instead of {self.tol:.0e}: use a larger alpha, or solver='cholesky' in float64",
                ConvergenceWarning,
                stacklevel=3,
            )
        return found

    def solve(self, T: Array) -> tuple[Array, Array]:
        """Coefficients (n, r) and intercepts (r,) for outputs (n, r)."""
        return next(self.path(T, [self.alpha]))[:2]

    def path(self, T: Array, alphas: Iterable[float]) -> Iterator[tuple[Array, Array, SolverInfo]]:
        """Coefficients, intercepts and how they were found at each of `alphas`, each begun where the last one ended."""
        B = np.column_stack([T, np.ones(len(T))])
        start: Array | None = None
        for alpha in alphas:
            found = self.iterate(B, alpha, start)
            start = found.X
            C, z = found.X[:, :-1], found.X[:, -1:]
            # C = A^-1 T - z b' with 1'C = 0.
            b = C.sum(axis=0) / z.sum()
            info = SolverInfo("TiledRidge", iterations=found.iterations, residual=found.residual)
            yield C - z * b, b, info
