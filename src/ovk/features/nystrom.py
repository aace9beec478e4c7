"""Nystrom features of a kernel on a few points, and landmarks by randomly pivoted Cholesky."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.linalg import lapack, solve_triangular

from ovk.base import (
    Array,
    DeviceMatrix,
    Indices,
    Parameters,
    SingularSystemError,
    State,
    check_int,
    in_interval,
    to_host,
)
from ovk.base import solve_triangular as solve_on_device
from ovk.kernels import ScalarKernel
from ovk.ovkernels import OperatorKernel
from ovk.solvers import random_pivots

#: Minimum squared distance of a point to the span of the others, relative to k(z, z), above rounding errors.
ROUNDING_TOL = 1e-12


@dataclass(frozen=True)
class NystromMap(State):
    """phi(x) = L^-1 k_D(x), L L' = k(D, D): <phi(x), phi(z)> approximates k(x, z), exactly for x in D."""

    _stored = {"points": "m * any | other", "L": "m m"}

    kernel: ScalarKernel
    points: Any  # (m, p) the dictionary D
    L: Array  # (m, m)

    @classmethod
    def from_points(cls, kernel: ScalarKernel, points: Any) -> Self:
        """The map without points that depend on the others, such as duplicates."""
        keep, L = independent(kernel(points))
        return cls(kernel, points[keep], L)

    def transform(self, X: Any) -> Array:
        """Features, (n, m); on the device of X if it is on one."""
        K: Any = self.kernel(self.points, X)
        if isinstance(K, DeviceMatrix):
            return solve_on_device(K.like(self.L), K).T  # type: ignore[no-any-return]
        return np.asarray(solve_triangular(self.L, K, lower=True, check_finite=False).T)

    def coefficients(self, W: Array) -> Array:
        """Expansion coefficients A, (m, q), of the functions phi(x)' W = sum_j k(x, z_j) A_j."""
        return np.asarray(solve_triangular(self.L, W, lower=True, trans="T", check_finite=False))


@dataclass(frozen=True)
class OperatorNystromMap(State):
    """The same for an operator-valued kernel: Phi(x) = L^-1 K(D, x), with up to m d features and d rows per input."""

    _stored = {"points": "k * any | other", "keep": "m int", "L": "m m"}

    kernel: OperatorKernel
    points: Any  # (m, p) the dictionary D
    keep: Any  # the pairs (point, output), numbered i d + q, that are independent
    L: Array  # on those pairs

    @classmethod
    def from_points(cls, kernel: OperatorKernel, points: Any) -> Self:
        keep, L = independent(kernel.gram(points).dense())
        return cls(kernel, points, keep, L)

    @cached_property
    def output_dim(self) -> int:
        return self.kernel.gram(self.points[:1]).output_dim

    def transform(self, X: Any) -> Array:
        """Features, (n d, m'): row i d + q belongs to output q of input i."""
        K = self.kernel.gram(self.points, X).dense()[self.keep]
        return np.asarray(solve_triangular(self.L, K, lower=True, check_finite=False).T)

    def coefficients(self, W: Array) -> Array:
        """Expansion coefficients, (m, d), of the function Phi(x)' W, W (m',)."""
        full = np.zeros(self.points.shape[0] * self.output_dim)
        full[self.keep] = solve_triangular(self.L, W, lower=True, trans="T", check_finite=False)
        return full.reshape(-1, self.output_dim)


def independent(gram: Array) -> tuple[Indices, Array]:
    """Indices of linearly independent rows of a gram, ascending, and their Cholesky factor."""
    largest = float(np.diagonal(gram).max(initial=0.0))
    if not np.isfinite(gram).all():
        raise SingularSystemError("the kernel is not finite at the landmarks: scale X, or check its parameters")
    if largest <= 0:
        raise ValueError("the kernel is zero at every landmark: choose other landmarks or another kernel")
    _, pivots, rank, _ = lapack.dpstrf(np.asfortranarray(gram), tol=ROUNDING_TOL * largest, lower=1)
    keep = np.sort(pivots[:rank] - 1).astype(np.intp)
    return keep, np.asarray(np.linalg.cholesky(gram[np.ix_(keep, keep)]), dtype=np.float64)


#: Number of candidate rows per landmark, for which the selection costs no more than the fit.
ROWS_PER_LANDMARK = 5


@dataclass(eq=False, repr=False)
class RPCholesky(Parameters):
    """Landmarks by randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber, 2023).

    Each is drawn with a probability proportional to the residual of k(x, x) on the previous landmarks.

    Pass it as `landmarks` of `OVKRidge` or `IOKR` (where ``"rpcholesky"`` means ``RPCholesky()``), or to `Given.chosen`
    for the dictionary of a stream.

    Parameters
    ----------
    size : int
        Maximum number of landmarks.
    tol : float in [0, 1]
        Share of the kernel's trace that may stay unexplained: fewer landmarks are used if they suffice.

    See Also
    --------
    Given, Nystrom, ovk.OVKRidge

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OVKRidge
    >>> from ovk.features import RPCholesky
    >>> from ovk.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((400, 2))
    >>> model = OVKRidge(Gaussian(1.0), 1e-3, landmarks=RPCholesky(60), random_state=0).fit(X, np.sin(X))
    >>> print(f"{model.X_fit_.shape[0]} landmarks, R^2 {model.score(X, np.sin(X)):.3f}")
    59 landmarks, R^2 1.000
    """

    size: int = 1000
    tol: float = 1e-4

    def points(self, kernel: Any, X: Any, rng: np.random.Generator) -> Any:
        """Rows of X, (m, p), for a scalar or operator-valued kernel with everything resolved."""
        size, tol = check_int(self.size, "size"), in_interval(self.tol, "tol", 0.0, 1.0)
        rows = np.arange(X.shape[0])
        if len(rows) > ROWS_PER_LANDMARK * size:
            rows = np.sort(rng.choice(len(rows), ROWS_PER_LANDMARK * size, replace=False))
        some = to_host(X[rows])
        separable = kernel.as_separable() if isinstance(kernel, OperatorKernel) else None
        k = kernel if separable is None else separable.scalar
        if isinstance(k, ScalarKernel):
            diagonal = k.diag(some)
        else:
            blocks = kernel.diagonal_blocks(some)
            k, diagonal = partial(_trace_kernel, kernel), np.einsum("iqq->i", blocks) / blocks.shape[1]
        found = random_pivots(lambda i, j: k(some[i], some[j]), diagonal, min(size, len(rows)), rng, tol)
        chosen = some[np.sort(found.pivots)]
        return chosen if sparse.issparse(chosen) else np.array(chosen, dtype=np.float64)


def _trace_kernel(kernel: OperatorKernel, X: Any, Z: Any) -> Array:
    """tr K(x, z) / d, (n, m)."""
    gram = kernel.gram(X, Z)
    d, terms = gram.output_dim, gram.terms()
    if terms is not None:
        return np.asarray(sum(float(T.eigh().values.sum()) * G for G, T in terms) / d)
    return np.asarray(np.einsum("iqjq->ij", gram.dense().reshape(X.shape[0], d, Z.shape[0], d)) / d)


def as_rpcholesky(landmarks: Any) -> RPCholesky | None:
    if isinstance(landmarks, str) and landmarks == "rpcholesky":
        return RPCholesky()
    return landmarks if isinstance(landmarks, RPCholesky) else None
