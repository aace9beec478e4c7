"""Exact ridge regression with a large gram: factorised in place, or evaluated in tiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ovk.base import Array, Map
from ovk.kernels import ScalarKernel
from ovk.ovkernels import row_slices
from ovk.solvers import (
    CholeskyFactor,
    Iterate,
    LowRankPreconditioner,
    SolverInfo,
    cholesky_factor,
    conjugate_gradients,
    random_pivots,
)

#: Rows of a gram that are computed at a time.
GRAM_ROWS = 1024


def symmetric_gram(kernel: ScalarKernel, Z: Array) -> Array:
    """k(Z, Z), (n, n), without a second matrix of this size."""
    n = len(Z)
    G = np.empty((n, n))
    for start in range(0, n, GRAM_ROWS):
        stop = min(start + GRAM_ROWS, n)
        G[start:stop, :stop] = kernel(Z[start:stop], Z[:stop])
        G[:start, start:stop] = G[start:stop, :start].T
    # Diagonal blocks are symmetric only up to rounding.
    return G


@dataclass(frozen=True)
class FactoredRidge:
    """(K + alpha I) = L L' on training points, for ridge regression with an unpenalised intercept.

    With u = L^-1 1 and s = u'u the coefficients are A^-1 (T - 1 b'), b = u' L^-1 T / s, and the variance of a new
    value, including the noise alpha, is k(x, x) + alpha - |L^-1 k(X, x)|^2 + (1 - u' L^-1 k(X, x))^2 / s.
    """

    kernel: ScalarKernel
    points: Array
    alpha: float
    factor: CholeskyFactor
    whitened: Array

    @classmethod
    def of(cls, kernel: ScalarKernel, Z: Array, alpha: float) -> FactoredRidge:
        factor = cholesky_factor(lambda: symmetric_gram(kernel, Z), alpha)
        return cls(kernel, Z, alpha, factor, factor.whiten(np.ones((len(Z), 1)))[:, 0])

    def solve(self, T: Array) -> tuple[Array, Array]:
        """Coefficients (n, r) and intercepts (r,) for outputs (n, r)."""
        white = self.factor.whiten(T)
        b = self.whitened @ white / (self.whitened @ self.whitened)
        return self.factor.solve(T - b), b

    def variances(self, Z: Array) -> Array:
        """Predictive variances at the points, (m,), for a kernel that is a covariance."""
        found = np.empty(len(Z))
        for rows in row_slices(len(Z), len(self.points)):
            white = self.factor.whiten(self.kernel(self.points, Z[rows]))
            unexplained = 1.0 - self.whitened @ white
            explained = np.einsum("ij,ij->j", white, white)
            found[rows] = unexplained**2 / (self.whitened @ self.whitened) - explained + self.kernel.diag(Z[rows])
        return np.maximum(found + self.alpha, 0.0)


@dataclass(frozen=True)
class TiledRidge:
    """(K + alpha I) C + 1 b' = T, 1'C = 0, for a kernel matrix that is evaluated in tiles and never stored.

    Memory is that of the preconditioner, n x rank numbers if it has low rank, and a few copies of T.
    """

    kernel: ScalarKernel
    points: Array
    alpha: float
    precondition: Map
    tol: float = 1e-8
    max_iter: int = 500

    @classmethod
    def of(cls, kernel: ScalarKernel, Z: Array, alpha: float, rank: int, seed: int) -> TiledRidge:
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
