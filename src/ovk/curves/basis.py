"""Bases of functions on an interval, and products of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.polynomial.legendre import legvander
from scipy.interpolate import BSpline
from scipy.linalg import eigh

from ovk.base import Array, Parameters, Registered, check_int
from ovk.curves.grid import BadGrid, Grid
from ovk.curves.product import KroneckerMatrix, ProductGrid


class Basis(Parameters, ABC):
    """A few functions b_1, ..., b_J on the interval of a grid, or on its domain."""

    @abstractmethod
    def values(self, grid: Grid) -> Array:
        """b_j(t_i), (d, J)."""

    def coordinates(self, grid: Grid) -> Any:
        """The matrix B, (d, J'), that takes curves to coordinates of their best fit in the basis, Y B.

        The coordinates are orthonormal, so their distances are L2 distances of the fitted curves; J' < J when the grid
        cannot tell all J functions apart.
        """
        roots = grid.roots()
        left, values, _ = np.linalg.svd(roots[:, None] * self.values(grid), full_matrices=False)
        kept: Array = left[:, values > 1e-10 * values[0]]
        return roots[:, None] * kept


@dataclass(eq=False, repr=False)
class FourierBasis(Basis):
    """1, sin(2 pi t / P), cos(2 pi t / P), sin(4 pi t / P), ...: `count` functions (odd), P the period or the span.

    Examples
    --------
    >>> from ovk.curves import FourierBasis, Grid
    >>> FourierBasis(3).values(Grid([0.0, 0.25, 0.5, 0.75], period=1.0)).round(3)
    array([[ 1.,  0.,  1.],
           [ 1.,  1.,  0.],
           [ 1.,  0., -1.],
           [ 1., -1., -0.]])
    """

    count: int = 7

    def values(self, grid: Grid) -> Array:
        count = check_int(self.count, "count")
        if count % 2 == 0:
            raise ValueError(f"count must be odd, a constant and pairs of sine and cosine, got {count}")
        points = one_variable(self, grid)
        period = points[-1] - points[0] if grid.period is None else grid.period
        angle = 2.0 * np.pi * (points[:, None] / period) * np.arange(1, count // 2 + 1)
        waves = np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(len(points), -1)
        return np.hstack([np.ones((len(points), 1)), waves])


@dataclass(eq=False, repr=False)
class SplineBasis(Basis):
    """B-splines of a degree with even knots: `count` functions.

    Examples
    --------
    >>> from ovk.curves import Grid, SplineBasis
    >>> SplineBasis(4).values(Grid.regular(3)).round(3)
    array([[1.   , 0.   , 0.   , 0.   ],
           [0.125, 0.375, 0.375, 0.125],
           [0.   , 0.   , 0.   , 1.   ]])
    """

    count: int = 8
    degree: int = 3

    def values(self, grid: Grid) -> Array:
        degree = check_int(self.degree, "degree")
        count = check_int(self.count, "count", least=degree + 1)
        if grid.period is not None:
            raise BadGrid("SplineBasis is for curves on an interval: use FourierBasis where curves have a period")
        points = one_variable(self, grid)
        inner = np.linspace(points[0], points[-1], count - degree + 1)
        knots = np.concatenate([np.repeat(inner[0], degree), inner, np.repeat(inner[-1], degree)])
        return np.asarray(BSpline.design_matrix(points, knots, degree).toarray())


@dataclass(eq=False, repr=False)
class SineBasis(Basis):
    """sin(pi t), sin(2 pi t), ... of t running from 0 to 1 along the grid: functions that are zero at both ends.

    Examples
    --------
    >>> from ovk.curves import Grid, SineBasis
    >>> SineBasis(2).values(Grid.regular(5)).round(3) + 0.0
    array([[ 0.   ,  0.   ],
           [ 0.707,  1.   ],
           [ 1.   ,  0.   ],
           [ 0.707, -1.   ],
           [ 0.   ,  0.   ]])
    """

    count: int = 8

    def values(self, grid: Grid) -> Array:
        t = _share(self, grid)
        return np.sin(np.pi * t[:, None] * np.arange(1, check_int(self.count, "count") + 1))


@dataclass(eq=False, repr=False)
class LegendreBasis(Basis):
    """Legendre's polynomials of degree 0, ..., count - 1, their argument running from -1 to 1 along the grid.

    Examples
    --------
    >>> from ovk.curves import Grid, LegendreBasis
    >>> LegendreBasis(3).values(Grid.regular(3))
    array([[ 1. , -1. ,  1. ],
           [ 1. ,  0. , -0.5],
           [ 1. ,  1. ,  1. ]])
    """

    count: int = 8

    def values(self, grid: Grid) -> Array:
        degree = check_int(self.count, "count") - 1
        return np.asarray(legvander(2.0 * _share(self, grid) - 1.0, degree), dtype=np.float64)


@dataclass(eq=False, repr=False)
class ProductBasis(Basis):
    """All products b_i(t_1) c_j(t_2) ... of functions of one variable each, on a `ProductGrid`.

    Parameters
    ----------
    bases : sequence of bases, one for each axis; None on an axis, as on `Components`, takes its points one by one

    Examples
    --------
    >>> from ovk.curves import FourierBasis, LegendreBasis, ProductBasis, ProductGrid
    >>> ProductBasis([LegendreBasis(3), FourierBasis(5)]).values(ProductGrid.regular((10, 20))).shape
    (200, 15)
    """

    bases: Sequence[Basis | None]

    def _pairs(self, grid: Grid) -> list[tuple[Basis | None, Grid]]:
        if not isinstance(grid, ProductGrid) or len(grid.sides()) != len(self.bases):
            raise BadGrid(f"ProductBasis has {len(self.bases)} bases: it is for a ProductGrid of as many axes")
        return list(zip(self.bases, grid.sides(), strict=True))

    def values(self, grid: Grid) -> Array:
        pairs = self._pairs(grid)
        return np.asarray(KroneckerMatrix([np.eye(len(g)) if b is None else b.values(g) for b, g in pairs]))

    def coordinates(self, grid: Grid) -> Any:
        """B as in `Basis`, a product of those along the axes that is never formed."""
        pairs = self._pairs(grid)
        return KroneckerMatrix([np.diag(g.roots()) if b is None else b.coordinates(g) for b, g in pairs])


def one_variable(basis: Basis, grid: Grid) -> Array:
    """The points of a grid of one variable, (d,)."""
    if isinstance(grid, ProductGrid):
        raise BadGrid(
            f"{type(basis).__name__} is for functions of one variable: put one for each axis into a ProductBasis"
        )
    return grid.checked()


def _share(basis: Basis, grid: Grid) -> Array:
    """Where each point lies between the first and the last: 0 to 1."""
    points = one_variable(basis, grid)
    return np.asarray((points - points[0]) / (points[-1] - points[0]))


# Principal components of functions: the few coordinates in which they differ.

#: Values beyond this have sums of squares that are no numbers.
MAX_VALUE = 1e140

#: Functions from which components are found; more are taken where these do not show them all.
FUNCTIONS_SAMPLED = 2000


@dataclass(frozen=True)
class PrincipalComponents(Registered):
    """An orthonormal basis of functions on a grid, those along which they differ most first.

    A function y has the coordinates <y - mean, v_j>, with the inner product of the grid's quadrature.

    Attributes
    ----------
    grid : `Grid` or None, where integrals are plain sums
    mean : (d,) the mean function
    vectors : (d, J) values of the v_j, times the roots of the weights: orthonormal columns
    scales : (J,) standard deviations of the coordinates, descending
    beyond : share of the root mean square of y - mean that lies outside the basis

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.curves import Grid, PrincipalComponents
    >>> t = np.linspace(0, 1, 50)
    >>> a = np.random.default_rng(0).standard_normal((30, 2))
    >>> Y = 3 * a[:, :1] + a[:, 1:] * np.sin(2 * np.pi * t)
    >>> basis = PrincipalComponents.of(Y, Grid(t))
    >>> basis.coordinates(Y).shape, bool(np.allclose(basis.functions(basis.coordinates(Y)), Y))
    ((30, 2), True)
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
