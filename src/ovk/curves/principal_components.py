"""Principal components of functions on a grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.linalg import eigh

from ovk.base import Array, Registered
from ovk.curves.grid import Grid

#: Squares of larger values may overflow.
MAX_VALUE = 1e140
#: Number of functions that components are first computed from; all are used if these are too few.
N_SAMPLED_FUNCTIONS = 2000


@dataclass(frozen=True)
class PrincipalComponents(Registered):
    """An orthonormal basis v_j of functions on a grid, in descending order of variance.

    A function y has the coordinates <y - mean, v_j>, in the inner product of the grid; without a grid, of the vectors.
    """

    _stored = {"mean": "d", "vectors": "d k", "scales": "k"}

    grid: Grid | None
    mean: Array  # (d,)
    vectors: Array  # (d, J) values of v_j times the roots of the weights: orthonormal columns
    scales: Array  # (J,) standard deviations of the coordinates, descending
    beyond: float  # share of the root mean square of y - mean outside the basis

    @classmethod
    def of(cls, Y: Array, grid: Grid | None = None, tol: float = 1e-6, most: int = 512, seed: int = 0) -> Self:
        """Components of functions (n, d): the fewest that omit a share of at most `tol`, up to `most`."""
        n, d = Y.shape
        mean = Y.mean(axis=0)
        rows = np.arange(n)
        if n > N_SAMPLED_FUNCTIONS:
            rows = np.sort(np.random.default_rng(seed).choice(n, N_SAMPLED_FUNCTIONS, replace=False))
        found = _components(Y[rows], mean, _roots(grid, d), tol, most)
        if len(found[1]) > 0.5 * len(rows) and len(rows) < n and most > len(found[1]):
            found = _components(Y, mean, _roots(grid, d), tol, most)
        return cls(grid, mean, *found)

    @property
    def unit(self) -> Array:
        """The scales, with 1 instead of 0, to divide coordinates by."""
        return np.where(self.scales > 0, self.scales, 1.0)

    def coordinates(self, Y: Array) -> Array:
        """(n, J) coordinates of functions (n, d)."""
        weighted = _roots(self.grid, len(self.mean))[:, None] * self.vectors
        return np.asarray(Y @ weighted - self.mean @ weighted)

    def functions(self, T: Array, grid: Any = None) -> Array:
        """Functions with coordinates (n, J) on their grid, (n, d), or on another by cubic splines."""
        values, mean = self.values(), self.mean
        if grid is not None:
            move = self._to(grid)
            values, mean = (values.T @ move).T, mean @ move
        return np.asarray(T @ values.T + mean)

    def values(self, grid: Any = None) -> Array:
        """v_j(t_i), (d, J)."""
        own = self.vectors / _roots(self.grid, len(self.mean))[:, None]
        return own if grid is None else np.asarray((own.T @ self._to(grid)).T)

    def _to(self, grid: Any) -> Any:
        own = Grid.regular(len(self.mean)) if self.grid is None else self.grid
        return own.spline(grid)


def _roots(grid: Grid | None, d: int) -> Array:
    return np.ones(d) if grid is None else grid.roots()


def _components(Y: Array, mean: Array, roots: Array, tol: float, most: int) -> tuple[Array, Array, float]:
    """Orthonormal columns (d, J), scales (J,) and the omitted share, from the smaller of A A' and A'A."""
    A = (Y - mean) * roots
    n, d = A.shape
    largest = float(max(A.max(initial=0.0), -A.min(initial=0.0)))
    if not largest < MAX_VALUE:
        raise ValueError(f"values must be below {MAX_VALUE:g}, as squares overflow, got {largest:.3g}: scale them")
    # Scaling by a power of two is exact, and keeps the squares of small values from underflowing.
    exponent = int(np.frexp(largest)[1])
    np.ldexp(A, -exponent, out=A)
    G, eps = (A @ A.T if n < d else A.T @ A), np.finfo(float).eps
    total = float(np.trace(G))
    if total <= 0.0:
        return np.eye(d, 1), np.zeros(1), 0.0
    # Squares up to here sum to less than may be omitted, or are rounding errors.
    few = max(0.5 * tol**2 / len(G), eps) * total
    squares, vectors = eigh(G, subset_by_value=(few, np.inf), overwrite_a=True, check_finite=False)
    squares, vectors = squares[::-1], vectors[:, ::-1]
    left = np.sqrt(np.maximum(1.0 - np.cumsum(squares) / total, 0.0))
    # Squares below the rounding error of the largest are noise.
    real = int((squares > len(G) * eps * squares[0]).sum())
    J = max(1, min(int((left > tol).sum()) + 1, real, most))
    vectors = vectors[:, :J]
    if n < d:
        # Rounding errors make A'u / s only approximately orthonormal.
        vectors = np.linalg.qr(A.T @ vectors / np.sqrt(squares[:J]))[0]
    return np.ascontiguousarray(vectors), np.ldexp(np.sqrt(squares[:J] / n), exponent), float(left[J - 1])
