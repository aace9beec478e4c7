"""Ridge regression with one matrix in single precision, and a solution in double precision.

A direct solution in double precision holds the matrix of the kernel twice, as it is and factored: 16 n^2 bytes. Here

    A = t R G R + ridge I     (t an eigenvalue of the output operator, R the square roots of weights)

is made in single precision and factored in its own place: 4 n^2 bytes. Such a factor is off by 6e-8 of the largest
eigenvalue, which may be more than the ridge. So it only preconditions conjugate gradients in double precision, whose
products with A are made from the kernel anew, some rows at a time. What they arrive at solves the system as well as a
factor in double precision does. There are three iterations or so while the ridge is above rounding, and more below.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve, lapack

from ovk._singular import SingularSystem
from ovk._types import Array
from ovk.batch.ridge.problem import takes_gram
from ovk.expansion import row_slices
from ovk.kernels import ScalarKernel
from ovk.operators.base import spectrum
from ovk.ovkernels import OperatorKernel, Separable
from ovk.solvers import SolverInfo
from ovk.solvers.conjugate_gradient import conjugate_gradients
from ovk.targets import Targets, ridge_and_scales

#: Relative residual at which the iteration stops, and iterations after which it gives up.
TOLERANCE, MOST_ITERATIONS = 1e-12, 500
#: Entries of the kernel's matrix that are held in double precision at a time: 2 MiB.
ENTRIES = 1 << 18
#: What is added to the diagonal of a factor that rounding has made indefinite, in turn, over sqrt(n) times rounding.
JITTERS = (0.0, 1.0, 10.0, 100.0, 1000.0)


def as_single(X: Any) -> Any:
    """Inputs in single precision, arrays or sparse matrices; refuses numbers beyond its range."""
    with np.errstate(over="ignore"):
        found = X.astype(np.float32)
    if not np.isfinite(found.data if sparse.issparse(found) else found).all():
        raise ValueError(
            f"X goes up to {abs(X).max():.3g}, beyond the range of single precision: scale X, or give dtype='float64'"
        )
    return found


def single_precision_ridge(
    kernel: OperatorKernel, X: Any, targets: Targets, alpha: float | Array, *, intercept: bool
) -> tuple[Array, Array | None, SolverInfo]:
    """Coefficients (n, d), intercept (d,) and how they were found, for a resolved kernel k T and complete outputs.

    With S = diag(alpha^-1/2) and S T S = V diag(t) V' the columns of R Y S V are problems of their own, those with the
    same t with the same factor; an intercept that is not penalised is eliminated in each of them.
    """
    separable = _separable(kernel, targets, alpha)
    n, d = targets.Y.shape
    roots = np.ones(n) if targets.weight is None else np.sqrt(targets.weight)
    ridge, own = ridge_and_scales(alpha)
    scales = np.ones(d) if own is None else own
    found = spectrum(separable.operator.dense() * np.outer(scales, scales), "operator")
    V = np.asarray(found.vectors)
    rotated = (targets.Y * roots[:, None] * scales) @ V
    C, b = np.empty((n, d)), np.zeros(d)
    iterations, residual, jitter = 0, 0.0, 0.0
    for t, columns in zip(found.distinct, found.groups, strict=True):
        right = np.column_stack([rotated[:, columns], roots]) if intercept else rotated[:, columns]
        system = SinglePrecisionSystem(separable.scalar, X, roots, float(t), ridge)
        end = conjugate_gradients(system.apply, right, system.precondition, None, TOLERANCE, MOST_ITERATIONS)
        if intercept:
            Z, z = end.X[:, :-1], end.X[:, -1]
            b[columns] = (roots @ Z) / (roots @ z)
            C[:, columns] = Z - np.outer(z, b[columns])
        else:
            C[:, columns] = end.X
        iterations, residual = max(iterations, end.iterations), max(residual, end.residual)
        jitter = max(jitter, system.jitter)
    info = SolverInfo("SinglePrecision", iterations=iterations, jitter=jitter, residual=residual)
    info.warn_above(TOLERANCE, "raise alpha, or give dtype='float64'")
    return (C @ V.T) * scales * roots[:, None], (b @ V.T) / scales if intercept else None, info


def _separable(kernel: OperatorKernel, targets: Targets, alpha: float | Array) -> Separable:
    """The kernel as k T, where everything is as single precision needs it."""
    separable = kernel.as_separable()
    cure = "give dtype='float64'"
    if separable is None or takes_gram(kernel):
        raise ValueError(f"dtype='float32' needs a kernel k * T of inputs, got {kernel!r}: {cure}")
    if not targets.complete:
        raise ValueError(f"dtype='float32' needs every output of every row, and some are missing: {cure}")
    if np.any(np.asarray(alpha) <= 0):
        raise ValueError(f"dtype='float32' needs alpha > 0, got {alpha!r}: {cure}")
    return separable


class SinglePrecisionSystem:
    """A = t R G R + ridge I: products in double precision, and a factor in single precision.

    Parameters
    ----------
    kernel, X : of the gram G
    roots : (n,) the diagonal of R

    Attributes
    ----------
    jitter : what was added to the factor's diagonal
    """

    def __init__(self, kernel: ScalarKernel, X: Any, roots: Array, t: float, ridge: float) -> None:
        self._kernel, self._X, self._roots, self._t, self._ridge = kernel, X, roots, t, ridge
        # In units of the largest entry nothing leaves the range of single precision.
        self._unit = t * float((roots**2 * kernel.diag(X)).max()) + ridge
        if not np.isfinite(self._unit):
            raise SingularSystem("values of the kernel are not finite, or too large: scale X, or check the kernel")
        self._factor, self.jitter = self._factored()

    def _factored(self) -> tuple[Any, float]:
        n = len(self._roots)
        for times in JITTERS:
            jitter = times * np.sqrt(n) * float(np.finfo(np.float32).eps)
            U, failed = lapack.spotrf(self._matrix(jitter).T, lower=0, clean=0, overwrite_a=1)
            if failed == 0:
                return U, jitter * self._unit
        raise SingularSystem(
            f"the kernel matrix of {n} points plus alpha={self._ridge:.3g} is not positive definite in single "
            "precision: use a larger alpha, check that the kernel is positive semi-definite, or give dtype='float64'"
        )

    def _matrix(self, jitter: float) -> Any:
        """The lower triangle of A / unit, (n, n) in single precision."""
        n = len(self._roots)
        A = np.zeros((n, n), dtype=np.float32)
        for rows in row_slices(n, n, ENTRIES):
            before = slice(0, rows.stop)
            values = self._kernel(self._X[rows], self._X[before])
            A[rows, before] = values * (self._roots[rows, None] * (self._t / self._unit)) * self._roots[before]
        A[np.diag_indices(n)] += self._ridge / self._unit + jitter
        return A

    def apply(self, B: Array) -> Array:
        """A B, the kernel's values made for some rows at a time."""
        result: Array = self._ridge * B
        if self._t > 0:
            scaled = B * self._roots[:, None]
            for rows in row_slices(len(B), len(B), ENTRIES):
                result[rows] += (self._t * self._roots[rows, None]) * (self._kernel(self._X[rows], self._X) @ scaled)
        return result

    def precondition(self, B: Array) -> Array:
        """About A^-1 B; columns of any size, since single precision has a small range."""
        size = np.abs(B).max(axis=0)
        size[size == 0] = 1.0
        small = cho_solve((self._factor, False), (B / size).astype(np.float32), check_finite=False)
        return np.asarray(small * (size / self._unit), dtype=np.float64)
