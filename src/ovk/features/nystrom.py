"""Nystrom features: the kernel seen from a few points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.linalg import lapack, solve_triangular

from ovk.base import Array, Parameters, SingularSystem, State, check_int, in_interval
from ovk.kernels import ScalarKernel
from ovk.ovkernels import OperatorKernel
from ovk.solvers import random_pivots

#: A point whose squared distance to the span of the others is below this part of k(z, z) adds nothing but noise.
DEPENDENT_PIVOT = 1e-8


@dataclass(frozen=True)
class NystromMap(State):
    """phi(x) = L^-1 k_D(x), L L' = k(D, D): <phi(x), phi(z)> approximates k(x, z), exactly for x in D."""

    kernel: ScalarKernel
    points: Any  # (m, p) the dictionary D
    L: Array  # (m, m)

    @classmethod
    def from_points(cls, kernel: ScalarKernel, points: Any) -> Self:
        """The map of a dictionary; points that depend on the others (such as duplicates) are left out."""
        keep, L = independent(kernel(points))
        return cls(kernel, points[keep], L)

    def transform(self, X: Any) -> Array:
        """Features, (n, m)."""
        return np.asarray(solve_triangular(self.L, self.kernel(self.points, X), lower=True, check_finite=False).T)

    def coefficients(self, W: Array) -> Array:
        """Expansion coefficients A, (m, q), of the functions phi(x)' W = sum_j k(x, z_j) A_j."""
        return np.asarray(solve_triangular(self.L, W, lower=True, trans="T", check_finite=False))


@dataclass(frozen=True)
class OperatorNystromMap(State):
    """The same for an operator-valued kernel: Phi(x) = L^-1 K(D, x), with m d features for each of the d outputs."""

    kernel: OperatorKernel
    points: Any  # (m, p) the dictionary D
    keep: Any  # the pairs (point, output), numbered i d + q, that are independent
    L: Array  # on those pairs

    @classmethod
    def from_points(cls, kernel: OperatorKernel, points: Any) -> Self:
        """The map of a dictionary; dependent pairs are left out."""
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


def independent(gram: Array) -> tuple[Array, Array]:
    """Rows of a gram that are linearly independent (to `DEPENDENT_PIVOT`), ascending, and their Cholesky factor."""
    largest = float(np.diagonal(gram).max(initial=0.0))
    if not np.isfinite(gram).all():
        raise SingularSystem(
            "the kernel has values at the landmarks that are not finite: scale X, or check the kernel's parameters"
        )
    if largest <= 0:
        raise ValueError("the kernel is zero at every landmark: choose other landmarks or another kernel")
    _, pivots, rank, _ = lapack.dpstrf(np.asfortranarray(gram), tol=DEPENDENT_PIVOT * largest, lower=1)
    keep = np.sort(pivots[:rank] - 1)
    return keep, np.linalg.cholesky(gram[np.ix_(keep, keep)])


# Landmarks by randomly pivoted Cholesky.

#: Rows for each landmark that are looked at: with these, choosing costs no more than learning from them.
ROWS_PER_LANDMARK = 5


@dataclass(eq=False, repr=False)
class RPCholesky(Parameters):
    """Landmarks where the kernel is not yet explained: each is drawn in proportion to k(x, x) minus what the landmarks
    so far say of it (randomly pivoted Cholesky; Chen, Epperly, Tropp and Webber, 2023).

    Give it as `landmarks` of `OVKRidge` or `IOKR` (where ``"rpcholesky"`` means ``RPCholesky()``), or let
    `Given.chosen` make a dictionary for a stream of it.

    Parameters
    ----------
    size : int
        Most landmarks.
    tol : float in [0, 1]
        Share of the kernel's trace that may stay unexplained: fewer landmarks where they are enough.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OVKRidge
    >>> from ovk.features import RPCholesky
    >>> from ovk.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((400, 2))
    >>> model = OVKRidge(Gaussian(1.0), 1e-3, landmarks=RPCholesky(60), random_state=0).fit(X, np.sin(X))
    >>> model.X_fit_.shape[0] <= 60, bool(model.score(X, np.sin(X)) > 0.99)
    (True, True)
    """

    size: int = 1000
    tol: float = 1e-4

    def points(self, kernel: Any, X: Any, rng: np.random.Generator) -> Any:
        """Rows of X, (m, p), for a scalar or operator-valued kernel with everything resolved."""
        size, tol = check_int(self.size, "size"), in_interval(self.tol, "tol", 0.0, 1.0)
        rows = np.arange(X.shape[0])
        if len(rows) > ROWS_PER_LANDMARK * size:
            rows = np.sort(rng.choice(len(rows), ROWS_PER_LANDMARK * size, replace=False))
        some = X[rows]
        k = _ScalarPart(kernel)
        found = random_pivots(lambda i, j: k(some[i], some[j]), k.diag(some), min(size, len(rows)), rng, tol)
        chosen = some[np.sort(found.pivots)]
        return chosen if sparse.issparse(chosen) else np.array(chosen, dtype=np.float64)


class _ScalarPart:
    """A scalar kernel, the one of k T, or tr K(x, z) / d of any other."""

    def __init__(self, kernel: ScalarKernel | OperatorKernel) -> None:
        self._kernel: Any = kernel
        if isinstance(kernel, OperatorKernel):
            separable = kernel.as_separable()
            self._kernel = kernel if separable is None else separable.scalar

    def __call__(self, X: Any, Z: Any) -> Array:
        if isinstance(self._kernel, ScalarKernel):
            return self._kernel(X, Z)
        gram = self._kernel.gram(X, Z)
        terms = gram.terms()
        if terms is not None:
            total = sum(float(T.eigh().values.sum()) * G for G, T in terms)
            return np.asarray(total / gram.output_dim)
        blocks = gram.dense().reshape(X.shape[0], gram.output_dim, Z.shape[0], gram.output_dim)
        return np.asarray(np.einsum("iqjq->ij", blocks) / gram.output_dim)

    def diag(self, X: Any) -> Array:
        if isinstance(self._kernel, ScalarKernel):
            return self._kernel.diag(X)
        blocks = self._kernel.diagonal_blocks(X)
        return np.asarray(np.einsum("iqq->i", blocks) / blocks.shape[1])


def as_rpcholesky(landmarks: Any) -> RPCholesky | None:
    """The selection that a user means by `landmarks`; None if it is something else."""
    if isinstance(landmarks, str) and landmarks == "rpcholesky":
        return RPCholesky()
    return landmarks if isinstance(landmarks, RPCholesky) else None
