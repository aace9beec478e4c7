"""Ridge regression with a factor in single precision, put right by iterations in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_solve, lapack

from ovk._singular import SingularSystem
from ovk._types import Array, Map
from ovk.batch.operator_learning.exact import ROWS
from ovk.batch.operator_learning.tiled import TiledRidge
from ovk.kernels import ScalarKernel


class SingleFactor:
    """R -> (K + beta I)^-1 R, the factor in float32: half the memory of the exact one and about half its time.

    beta is alpha, or as much more as rounding to single precision needs. As a preconditioner it has condition
    beta / alpha at most, so that a few iterations do unless alpha is tiny.
    """

    def __init__(self, kernel: ScalarKernel, Z: Array, alpha: float) -> None:
        rounding = float(np.finfo(np.float32).eps) * float(kernel.diag(Z).max())
        self.beta = max(alpha, rounding)
        while True:
            # Its transpose is the lower triangle in the order that LAPACK wants, without a copy.
            A = _upper(kernel, Z)
            A[np.diag_indices_from(A)] += np.float32(self.beta)
            self._L, failed = lapack.spotrf(A.T, lower=1, clean=0, overwrite_a=1)
            if failed == 0:
                return
            if self.beta > len(Z) * rounding:
                raise SingularSystem(
                    f"the kernel matrix of {len(Z)} points is not positive definite in single precision, even with "
                    f"{self.beta:.1e} added to its diagonal: use dtype='float64'"
                )
            self.beta *= 10.0

    def __call__(self, alpha: float) -> Map:
        def apply(R: Array) -> Array:
            # Residuals become small, numbers in single precision must not.
            size = np.linalg.norm(R, axis=0)
            size[size == 0.0] = 1.0
            scaled: Any = (R / size).astype(np.float32)
            found = cho_solve((self._L, True), scaled, check_finite=False)
            return np.asarray(found.astype(np.float64) * size)

        return apply


def single_ridge(kernel: ScalarKernel, Z: Array, alpha: float) -> TiledRidge:
    """(K + alpha I) C = T by conjugate gradient with the factor in single precision as its preconditioner."""
    return TiledRidge(kernel, Z, alpha, SingleFactor(kernel, Z, alpha))


def _upper(kernel: ScalarKernel, Z: Array) -> Any:
    """k(Z, Z) in float32, (n, n), on and above the diagonal; below it whatever the blocks of rows bring along."""
    n = len(Z)
    G = np.empty((n, n), dtype=np.float32)
    for start in range(0, n, ROWS):
        G[start : start + ROWS, start:] = kernel(Z[start : start + ROWS], Z[start:])
    return G
