"""Bases of functions on an interval."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy.interpolate import BSpline

from ovk._params import Parameters
from ovk._validation import Array, whole
from ovk.curves.grid import BadGrid, Grid


class Basis(Parameters, ABC):
    """A few functions b_1, ..., b_J on the interval of a grid."""

    @abstractmethod
    def values(self, grid: Grid) -> Array:
        """b_j(t_i), (d, J)."""

    def coordinates(self, grid: Grid) -> Array:
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
        count = whole(self.count, "count")
        if count % 2 == 0:
            raise ValueError(f"count must be odd, a constant and pairs of sine and cosine, got {count}")
        points = grid.checked()
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
        degree = whole(self.degree, "degree")
        count = whole(self.count, "count", least=degree + 1)
        if grid.period is not None:
            raise BadGrid("SplineBasis is for curves on an interval: use FourierBasis where curves have a period")
        points = grid.checked()
        inner = np.linspace(points[0], points[-1], count - degree + 1)
        knots = np.concatenate([np.repeat(inner[0], degree), inner, np.repeat(inner[-1], degree)])
        result: Array = BSpline.design_matrix(points, knots, degree).toarray()
        return result
