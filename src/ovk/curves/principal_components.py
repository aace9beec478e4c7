"""Principal components of functions: the few coordinates in which they differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.linalg import eigh

from ovk.base import Array, Registered
from ovk.curves.grid import Grid

#: Values beyond this have sums of squares that are no numbers.
MAX_VALUE = 1e140

#: Functions from which components are found; more are taken where these do not show them all.
FUNCTIONS_SAMPLED = 2000


@dataclass(frozen=True)
class PrincipalComponents(Registered):
    """An orthonormal basis of functions on a grid, those along which they differ most first.

    A function y has the coordinates <y - mean, v_j>, with the inner product of the grid's quadrature.

    `vectors`, (d, J), has the values of the v_j times the roots of the weights: orthonormal columns. `scales`, (J,),
    are the standard deviations of the coordinates, descending, and `beyond` is the share of the root mean square of
    y - mean that lies outside the basis. Without a grid, integrals are plain sums.
    """

    grid: Any
    mean: Array
    vectors: Array
    scales: Array
    beyond: float

    @classmethod
    def of(cls, Y: Array, grid: Grid | None = None, tol: float = 1e-6, most: int = 512, seed: int = 0) -> Self:
        """The components of functions (n, d): as few as leave out at most `tol`, and at most `most` of them."""
        n, d = Y.shape
        mean = Y.mean(axis=0)
        rows = np.arange(n)
        if n > FUNCTIONS_SAMPLED:
            rows = np.sort(np.random.default_rng(seed).choice(n, FUNCTIONS_SAMPLED, replace=False))
        found = _components(Y[rows], mean, _roots(grid, d), tol, most)
        if len(found[1]) > 0.5 * len(rows) and len(rows) < n and most > len(found[1]):
            found = _components(Y, mean, _roots(grid, d), tol, most)
        return cls(grid, mean, *found)

    @property
    def unit(self) -> Array:
        """The scales, with 1 for those of functions that do not differ at all: what coordinates can be divided by."""
        return np.where(self.scales > 0, self.scales, 1.0)

    def coordinates(self, Y: Array) -> Array:
        """Coordinates (n, J) of functions (n, d)."""
        weighted = _roots(self.grid, len(self.mean))[:, None] * self.vectors
        return np.asarray(Y @ weighted - self.mean @ weighted)

    def functions(self, T: Array, grid: Any = None) -> Array:
        """The functions with coordinates (n, J), on their own grid (n, d) or on another, by cubic splines."""
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
    """Orthonormal columns (d, J), scales (J,) and the share left out, from the smaller of A A' and A'A."""
    A = (Y - mean) * roots
    n, d = A.shape
    largest = float(max(A.max(initial=0.0), -A.min(initial=0.0)))
    if not largest < MAX_VALUE:
        raise ValueError(f"functions with values up to {largest:.3g} are too large for their squares: scale them")
    # A power of two, which costs no digit, keeps the squares of small values within the range of numbers.
    exponent = int(np.frexp(largest)[1])
    np.ldexp(A, -exponent, out=A)
    G, eps = (A @ A.T if n < d else A.T @ A), np.finfo(float).eps
    total = float(np.trace(G))
    if total <= 0.0:
        return np.eye(d, 1), np.zeros(1), 0.0
    # All squares up to here together are less than may be left out, or no more than rounding.
    few = max(0.5 * tol**2 / len(G), eps) * total
    squares, vectors = eigh(G, subset_by_value=(few, np.inf), overwrite_a=True, check_finite=False)
    squares, vectors = squares[::-1], vectors[:, ::-1]
    left = np.sqrt(np.maximum(1.0 - np.cumsum(squares) / total, 0.0))
    # Squares below the rounding of the largest show nothing.
    real = int((squares > len(G) * eps * squares[0]).sum())
    J = max(1, min(int((left > tol).sum()) + 1, real, most))
    vectors = vectors[:, :J]
    if n < d:
        # What A'u / s lost to rounding in being orthonormal is put right.
        vectors = np.linalg.qr(A.T @ vectors / np.sqrt(squares[:J]))[0]
    return np.ascontiguousarray(vectors), np.ldexp(np.sqrt(squares[:J] / n), exponent), float(left[J - 1])
