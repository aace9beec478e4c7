"""Bases of functions on an interval, and products of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.polynomial.legendre import legvander
from scipy.interpolate import BSpline

from ovk._params import Parameters, check_int
from ovk._types import Array
from ovk.curves.grid import BadGrid, Grid
from ovk.curves.kronecker_matrix import KroneckerMatrix
from ovk.curves.product import ProductGrid


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

    def __init__(self, count: int = 7) -> None:
        self.count = count

    def values(self, grid: Grid) -> Array:
        count = check_int(self.count, "count")
        if count % 2 == 0:
            raise ValueError(f"count must be odd, a constant and pairs of sine and cosine, got {count}")
        points = one_variable(self, grid)
        period = points[-1] - points[0] if grid.period is None else grid.period
        angle = 2.0 * np.pi * (points[:, None] / period) * np.arange(1, count // 2 + 1)
        waves = np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(len(points), -1)
        return np.hstack([np.ones((len(points), 1)), waves])


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

    def __init__(self, count: int = 8, degree: int = 3) -> None:
        self.count = count
        self.degree = degree

    def values(self, grid: Grid) -> Array:
        degree = check_int(self.degree, "degree")
        count = check_int(self.count, "count", least=degree + 1)
        if grid.period is not None:
            raise BadGrid("SplineBasis is for curves on an interval: use FourierBasis where curves have a period")
        points = one_variable(self, grid)
        inner = np.linspace(points[0], points[-1], count - degree + 1)
        knots = np.concatenate([np.repeat(inner[0], degree), inner, np.repeat(inner[-1], degree)])
        return np.asarray(BSpline.design_matrix(points, knots, degree).toarray())


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

    def __init__(self, count: int = 8) -> None:
        self.count = count

    def values(self, grid: Grid) -> Array:
        t = _share(self, grid)
        return np.sin(np.pi * t[:, None] * np.arange(1, check_int(self.count, "count") + 1))


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

    def __init__(self, count: int = 8) -> None:
        self.count = count

    def values(self, grid: Grid) -> Array:
        degree = check_int(self.count, "count") - 1
        return np.asarray(legvander(2.0 * _share(self, grid) - 1.0, degree), dtype=np.float64)


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

    def __init__(self, bases: Sequence[Basis | None]) -> None:
        self.bases = bases

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
