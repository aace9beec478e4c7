"""Functions of several variables: products of grids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, Self

import numpy as np

from ovk._params import cached, check_int
from ovk._types import Array
from ovk.curves.grid import BadGrid, Grid, as_grid
from ovk.curves.kronecker_matrix import KroneckerMatrix, column_products


class ProductGrid(Grid):
    """Functions y(t_1, ..., t_k) known at the points of a product of grids.

    A row of Y holds the values with the last variable running fastest, as ``field.ravel()`` of an array of the grid's
    `shape` does. The weights are products of those along the axes, so sums stand for integrals over the domain. Fields
    of several components have `Components` as their first axis.

    Parameters
    ----------
    axes : sequence of `Grid`, or of their points

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.curves import Grid, ProductGrid
    >>> grid = ProductGrid([Grid.regular(50), Grid(np.arange(24) / 24, period=1.0)])
    >>> grid.shape, len(grid), round(float(grid.weights().sum()), 6)
    ((50, 24), 1200, 1.0)
    """

    period = None

    def __init__(self, axes: Sequence[Any]) -> None:
        self.axes = axes

    @classmethod
    def regular(cls, d: Any, start: float = 0.0, stop: float = 1.0) -> Self:
        """As many points along each axis as `d`, a tuple, says, from `start` to `stop`.

        >>> ProductGrid.regular((3, 4)).shape
        (3, 4)
        """
        return cls([Grid.regular(size, start, stop) for size in d])

    @cached
    def sides(self) -> list[Grid]:
        """The grids along the axes, each checked."""
        if isinstance(self.axes, (Grid, str)) or not isinstance(self.axes, Sequence) or len(self.axes) == 0:
            raise BadGrid(f"axes must be a sequence of grids, one for each variable, got {self.axes!r}")
        sides = [as_grid(axis) for axis in self.axes]
        if any(isinstance(side, ProductGrid) for side in sides):
            raise BadGrid("axes of a ProductGrid must be grids of one variable: list those of the inner product")
        for side in sides:
            side.checked()
        return sides

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of points along each axis."""
        return tuple(len(side) for side in self.sides())

    def __len__(self) -> int:
        return int(np.prod(self.shape))

    @cached
    def checked(self) -> Array:
        """All points, one a row: (d, k)."""
        mesh = np.meshgrid(*(side.checked() for side in self.sides()), indexing="ij")
        return np.stack([side.ravel() for side in mesh], axis=1)

    def locations(self) -> Array:
        return self.checked()

    @cached
    def weights(self) -> Array:
        return np.asarray(reduce(np.multiply.outer, [side.weights() for side in self.sides()])).ravel()

    def interpolation(self, points: Any, *, beyond: bool = False) -> Any:
        """The matrix L, (d, m), with Y L the functions elsewhere: at the points of a `ProductGrid`, or at (m, k) points
        anywhere in the domain. Linear along each axis."""
        maps = [partial(side.interpolation, beyond=beyond) for side in self.sides()]
        return self.along(maps, points, beyond=beyond)

    def filled(self, Y: Any) -> Array:
        if np.isnan(Y).any():
            raise BadGrid("gaps are filled in curves, not in functions of several variables: fill them beforehand")
        return np.array(Y, dtype=np.float64)

    def spline(self, points: Any) -> Any:
        """The same by cubic splines along each axis."""
        return self.along([side.spline for side in self.sides()], points)

    def along(self, maps: Sequence[Callable[[Any], Array]], points: Any, *, beyond: bool = False) -> Any:
        """The product of maps along the axes, each giving a matrix for points of its own: for a `ProductGrid`, or for
        (m, k) points."""
        if isinstance(points, ProductGrid):
            return KroneckerMatrix([to(side) for to, side in zip(maps, self.matching(points), strict=True)])
        columns = self.inside(points, beyond=beyond).T
        return column_products([to(column) for to, column in zip(maps, columns, strict=True)])

    def matching(self, other: ProductGrid) -> list[Grid]:
        """The axes of another product; an error if they are not as many."""
        sides = other.sides()
        if len(sides) != len(self.sides()):
            raise BadGrid(f"the grid has {len(self.sides())} axes but the other one {len(sides)}: give one for each")
        return sides

    def inside(self, points: Any, *, beyond: bool = False) -> Array:
        if isinstance(points, ProductGrid):
            self.matching(points)
            points = points.checked()
        sides = self.sides()
        new = np.asarray(points, dtype=np.float64)
        if new.ndim != 2 or new.shape[1] != len(sides):
            raise BadGrid(
                f"points in a domain of {len(sides)} variables must be a ProductGrid or rows of {len(sides)} numbers, "
                f"got shape {new.shape}"
            )
        return np.stack([side.inside(new[:, a], beyond=beyond) for a, side in enumerate(sides)], axis=1)

    def slopes(self, Y: Array) -> Array:
        found = []
        for a, side in enumerate(self.sides()):
            if isinstance(side, Components):
                continue
            eyes: list[Any] = [np.eye(len(other)) for other in self.sides()]
            eyes[a] = side.derivative()
            found.append(Y @ KroneckerMatrix(eyes))
        return np.stack(found, axis=-2)

    def derivative(self) -> Array:
        raise BadGrid("a function of several variables has no one derivative: ask each of grid.sides() for its own")


class Components(Grid):
    """The components of a field as an axis: numbers 0, ..., count - 1 that know nothing of each other.

    Parameters
    ----------
    count : int
        Number of components.

    Examples
    --------
    >>> from ovk.curves import Components, Grid, ProductGrid
    >>> wind = ProductGrid([Components(2), Grid.regular(10), Grid.regular(20)])
    >>> len(wind), float(wind.weights().sum().round(6))
    (400, 2.0)
    """

    period = None

    def __init__(self, count: int) -> None:
        self.count = count

    @cached
    def checked(self) -> Array:
        return np.arange(float(check_int(self.count, "count")))

    @cached
    def weights(self) -> Array:
        return np.ones(len(self))

    def interpolation(self, points: Any, *, beyond: bool = False) -> Array:
        new = self.inside(points)
        return np.asarray(self.checked()[:, None] == new, dtype=np.float64)

    def spline(self, points: Any) -> Array:
        return self.interpolation(points)

    def inside(self, points: Any, *, beyond: bool = False) -> Array:
        new = np.asarray(points.checked() if isinstance(points, Grid) else points, dtype=np.float64)
        if new.ndim != 1 or not np.isin(new, self.checked()).all():
            raise BadGrid(f"components are whole numbers below {len(self)}, got {points!r}")
        return new
