"""Direct solution: one Cholesky factorisation for each scalar problem of the gram."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve, lapack, solve_triangular
from scipy.linalg.blas import dtrsm, dtrsv

from ovk.base import Array, DeviceMatrix, SingularSystemError
from ovk.base import cholesky as device_cholesky
from ovk.base import solve_triangular as solve_on_device
from ovk.ovkernels import Decoupled, Gram
from ovk.solvers.base import Solution, Solver, SolverInfo

#: Cholesky factorisations that cost about as much as one eigendecomposition.
MAX_FACTORISATIONS = 8


class CholeskyFactor(NamedTuple):
    """Lower Cholesky factor of a symmetric matrix, in Fortran order."""

    L: Any  # an array, or a matrix on a device
    jitter: float  # added to the diagonal
    condition: float  # estimate of the condition number, nan on a device

    def solve(self, B: Array) -> Array:
        """A^-1 B."""
        if isinstance(self.L, DeviceMatrix):
            right = solve_on_device(self.L, self.L.like(B))
            return solve_on_device(self.L, right, transposed=True).host()  # type: ignore[no-any-return]
        return np.asarray(cho_solve((self.L, True), B, check_finite=False))

    def whiten(self, B: Array) -> Array:
        """L^-1 B."""
        if isinstance(self.L, DeviceMatrix):
            return solve_on_device(self.L, B)  # type: ignore[no-any-return]
        return np.asarray(solve_triangular(self.L, B, lower=True, check_finite=False))


def cholesky_factor(make: Callable[[], Any], alpha: float) -> CholeskyFactor:
    """Factor ``make() + alpha I`` in place, so `make` is called again to add jitter if rounding makes it indefinite."""
    jitter, start = 0.0, 0.0
    for attempt in range(4):
        A = make()
        if isinstance(A, DeviceMatrix):
            if attempt:
                start = start or len(A) * A.precision * max(float(A.xp.max(A.values)) + alpha, 1e-300)
                jitter = start * 10.0 ** (attempt - 1)
            on_device = device_cholesky(A, alpha + jitter)
            if on_device is not None:
                return CholeskyFactor(on_device, jitter, float("nan"))
            continue
        diagonal = np.einsum("ii->i", A)
        if attempt == 0:
            start = len(A) * np.finfo(float).eps * max(float(diagonal.max(initial=0.0)) + alpha, 1e-300)
        else:
            jitter = start * 10.0 ** (attempt - 1)
        diagonal += alpha + jitter
        # A is symmetric: its transpose is the same matrix in Fortran order, without a copy.
        norm = float(lapack.dlange("1", A.T))
        L, failed = lapack.dpotrf(A.T, lower=1, clean=0, overwrite_a=1)
        if failed == 0:
            reciprocal, _ = lapack.dpocon(L, norm, uplo="L")
            return CholeskyFactor(L, jitter, 1.0 / reciprocal if reciprocal > 0 else np.inf)
    raise SingularSystemError(
        f"the kernel matrix of {len(A)} points plus alpha={alpha:.3g} is not positive definite, even with "
        f"{jitter:.1e} added to its diagonal: increase alpha, remove duplicated inputs, or check that the kernel "
        "is positive semi-definite"
    )


class CholeskyState:
    """A decoupled gram and its factors at the last alpha."""

    def __init__(self, decoupled: Decoupled) -> None:
        self.decoupled = decoupled
        self._alpha: float | None = None
        self._triangles: list[CholeskyFactor | None] = []

    def triangles(self, alpha: float) -> list[CholeskyFactor | None]:
        """A factor for each scalar problem; None if its gram is zero."""
        if alpha != self._alpha:
            parts = self.decoupled
            makers = [None if parts.vanishes(q) else partial(parts.matrix, q) for q in range(len(parts))]
            self._triangles = [None if make is None else cholesky_factor(make, alpha) for make in makers]
            self._alpha = alpha
        return self._triangles

    def solve(self, Y: Array, alpha: float) -> Array:
        """(K + alpha I)^-1 Y; zero where both K and alpha are zero."""
        parts = self.decoupled.split(Y)
        for q, factor in enumerate(self.triangles(alpha)):
            if factor is not None:
                parts[q] = factor.solve(parts[q])
            else:
                parts[q] = parts[q] / alpha if alpha > 0 else np.zeros_like(parts[q])
        return self.decoupled.join(parts)


def decoupled(gram: Gram, solver: Solver) -> Decoupled:
    found = gram.decouple()
    if found is None:
        raise ValueError(
            f"{type(solver).__name__} does not support sums of kernels whose operators do not commute: use "
            "solver='auto' or ConjugateGradient()"
        )
    return found


class Cholesky(Solver):
    """Direct solver: one Cholesky factorisation for each distinct eigenvalue of the output operator.

    For separable kernels, sums with commuting operators, and grams without structure (as one large problem).

    See Also
    --------
    Eigen, ConjugateGradient

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.ovkernels import Kronecker
    >>> from ovk.operators import MixedEffect
    >>> from ovk.solvers import Cholesky
    >>> gram = Kronecker(np.eye(3), MixedEffect(0.5, output_dim=2))
    >>> solver = Cholesky()
    >>> C, info = solver.solve(solver.factor(gram), np.ones((3, 2)), alpha=0.5)
    >>> np.allclose(gram.matmat(C) + 0.5 * C, 1.0), info.route
    (True, 'Cholesky')
    """

    def factor(self, gram: Gram) -> CholeskyState:
        return CholeskyState(decoupled(gram, self))

    def solve(self, state: CholeskyState, Y: Array, alpha: float, start: Array | None = None) -> Solution:
        found = [(factor.condition, factor.jitter) for factor in state.triangles(alpha) if factor is not None]
        condition, jitter = np.max(found, axis=0).tolist() if found else (1.0, 0.0)
        return Solution(state.solve(Y, alpha), SolverInfo("Cholesky", condition=condition, jitter=jitter))


# Triangular systems without copies, for lower triangles and right-hand sides in C order.


def solve_lower(L: Array, B: Array, *, transposed: bool = False) -> Array:
    """L^-1 B (or L'^-1 B), (n, r), for a lower triangle L; entries above its diagonal are ignored."""
    if L.shape[0] == 0 or B.shape[1] == 0:
        return B
    # BLAS expects Fortran order, in which C arrays are their transposes: solve B' = X' L' from the right.
    return np.asarray(dtrsm(1.0, L.T, B.T, side=1, lower=0, trans_a=int(transposed)).T)


def whitened_rows(L: Array, Phi: Array) -> Array:
    """Phi L'^-1, (r, n): L^-1 applied to each row of Phi."""
    if L.shape[0] == 0 or Phi.shape[0] == 0:
        return Phi
    return np.asarray(dtrsm(1.0, L.T, Phi.T, side=0, lower=0, trans_a=1).T)


def forward_row(L: Array, b: Array) -> Array:
    """L^-1 b, (n,), for a single right-hand side."""
    return np.asarray(dtrsv(L.T, b, lower=0, trans=1))
