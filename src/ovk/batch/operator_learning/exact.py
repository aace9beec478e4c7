"""Exact ridge regression with a large gram: factorised in place, or evaluated in tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ovk.base import Array, DeviceMatrix, Map
from ovk.batch.ridge.ridge_system import pivoted_preconditioner
from ovk.kernels import ScalarKernel
from ovk.ovkernels import row_slices
from ovk.solvers import CholeskyFactor, SolverInfo, cholesky_factor, conjugate_gradients

#: Rows of a gram that are computed at a time.
GRAM_ROWS = 1024


def symmetric_gram(kernel: ScalarKernel, Z: Any) -> Any:
    """k(Z, Z), (n, n), without a second matrix of this size, or on the device of Z."""
    if isinstance(Z, DeviceMatrix):
        return kernel(Z)
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
    points: Any  # (n, J), an array or a matrix on a device
    alpha: float
    factor: CholeskyFactor
    whitened: Array

    @classmethod
    def of(cls, kernel: ScalarKernel, Z: Any, alpha: float) -> FactoredRidge:
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
    points: Any  # (n, J), an array or a matrix on a device
    alpha: float
    precondition: Map
    tol: float = 1e-8
    max_iter: int = 500

    @classmethod
    def of(cls, kernel: ScalarKernel, Z: Any, alpha: float, rank: int, seed: int) -> TiledRidge:
        return cls(kernel, Z, alpha, pivoted_preconditioner(kernel, Z, np.ones(len(Z)), alpha, rank, seed))

    def _apply(self, C: Array) -> Array:
        """(K + alpha I) C, for a block of rows at a time."""
        Z, result = self.points, self.alpha * C
        for rows in row_slices(len(C), len(C)):
            result[rows] += self.kernel.product(Z[rows], Z, C)
        return result

    def solve(self, T: Array) -> tuple[Array, Array]:
        """Coefficients (n, r) and intercepts (r,) for outputs (n, r)."""
        B = np.column_stack([T, np.ones(len(T))])
        found = conjugate_gradients(self._apply, B, self.precondition, None, self.tol, self.max_iter)
        info = SolverInfo("ConjugateGradient", iterations=found.iterations, residual=found.residual)
        info.warn_above(self.tol, "use a larger alpha, or solver='cholesky' in float64")
        # C = A^-1 T - z b' with 1'C = 0.
        C, z = found.X[:, :-1], found.X[:, -1:]
        b = C.sum(axis=0) / z.sum()
        return C - z * b, b
