"""Grids of functions of several variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, Self

import numpy as np

from ovk.base import Array, Indices, cached, check_int
from ovk.curves.grid import Grid, GridError, as_grid


class KroneckerMatrix:
    """A_1 (x) ... (x) A_k with permuted columns, which is multiplied factor by factor.

    Supports ``Y @ M``, ``M @ Y``, ``M.T``, ``M**2`` and ``M[:, columns]`` like an array; `numpy.asarray` forms it. The
    factors are (a_i, b_i); column j is column order_j of the Kronecker product.
    """

    #: Lets this class handle ``array @ M``.
    __array_ufunc__ = None

    def __init__(self, factors: Sequence[Array], order: Indices | None = None, *, transposed: bool = False) -> None:
        self.factors = list(factors)
        self.order = order
        self.transposed = transposed

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = (int(np.prod([A.shape[side] for A in self.factors])) for side in (0, 1))
        return (columns, rows) if self.transposed else (rows, columns)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def T(self) -> KroneckerMatrix:
        return KroneckerMatrix(self.factors, self.order, transposed=not self.transposed)

    def __rmatmul__(self, Y: Any) -> Array:
        Y = np.asarray(Y, dtype=np.float64)
        rows = Y.reshape(-1, Y.shape[-1])
        if self.transposed:
            rows = rows if self.order is None else rows[:, np.argsort(self.order)]
            found = _contract(rows, [A.T for A in self.factors])
        else:
            found = _contract(rows, self.factors)
            found = found if self.order is None else found[:, self.order]
        return found.reshape(*Y.shape[:-1], self.shape[1])

    def __matmul__(self, Y: Any) -> Array:
        Y = np.asarray(Y, dtype=np.float64)
        return np.asarray((Y.T @ self.T).T)

    def __mul__(self, scale: Any) -> Array:
        return np.asarray(np.asarray(self) * scale)

    def __pow__(self, exponent: int) -> KroneckerMatrix:
        return KroneckerMatrix([A**exponent for A in self.factors], self.order, transposed=self.transposed)

    def __getitem__(self, key: tuple[slice, Any]) -> Array:
        rows, columns = key
        if self.transposed or rows != slice(None):
            return np.asarray(np.asarray(self)[key])
        chosen = np.arange(self.shape[1])[columns]
        return self._columns(chosen if self.order is None else self.order[chosen])

    def _columns(self, plain: Indices) -> Array:
        each = np.unravel_index(plain, [A.shape[1] for A in self.factors])
        return np.ascontiguousarray(column_products([A[:, j] for A, j in zip(self.factors, each, strict=True)]))

    def sum(self, axis: int) -> Array:
        return self @ np.ones(self.shape[1]) if axis == 1 else np.ones(self.shape[0]) @ self

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        plain = np.arange(int(np.prod([A.shape[1] for A in self.factors])))
        matrix = self._columns(plain if self.order is None else self.order)
        return np.asarray(matrix.T if self.transposed else matrix, dtype=dtype)


def _contract(rows: Array, factors: Sequence[Array]) -> Array:
    """Every row, as a tensor (a_1, ..., a_k), times A_i along its axis i."""
    n = len(rows)
    tensor = rows
    for A in factors:
        # Each product moves the first axis to the end, so that the order is finally as before.
        tensor = tensor.reshape(n, A.shape[0], -1).swapaxes(1, 2) @ A
    return np.ascontiguousarray(tensor).reshape(n, -1)


def column_products(matrices: Sequence[Array]) -> Array:
    """The column-wise Kronecker product of (a_i, m) matrices, (prod a_i, m)."""
    found = matrices[0]
    for A in matrices[1:]:
        found = (found[:, None, :] * A[None, :, :]).reshape(-1, A.shape[1])
    return found


class ProductGrid(Grid):
    """Grid of functions y(t_1, ..., t_k) at the points of a product of grids.

    A row of Y is ``field.ravel()`` of an array of the grid's `shape`. The weights are products of those along the axes.
    For fields with several components the first axis is `Components`.

    Parameters
    ----------
    axes : sequence of `Grid`, or of their points
        One grid per variable.

    See Also
    --------
    Grid, Components, ovk.OperatorRidge

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
        """Regular grids from `start` to `stop`, with the numbers of points in the tuple `d`.

        >>> ProductGrid.regular((3, 4)).shape
        (3, 4)
        """
        return cls([Grid.regular(size, start, stop) for size in d])

    @cached
    def sides(self) -> list[Grid]:
        """The grids along the axes, checked."""
        if isinstance(self.axes, (Grid, str)) or not isinstance(self.axes, Sequence) or len(self.axes) == 0:
            raise GridError(f"axes must be a sequence of grids, one per variable, got {self.axes!r}")
        sides = [as_grid(axis) for axis in self.axes]
        if any(isinstance(side, ProductGrid) for side in sides):
            raise GridError("axes must be grids of one variable, got a ProductGrid: pass its axes instead")
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
        """All points as rows, (d, k)."""
        mesh = np.meshgrid(*(side.checked() for side in self.sides()), indexing="ij")
        return np.stack([side.ravel() for side in mesh], axis=1)

    def locations(self) -> Array:
        return self.checked()

    @cached
    def weights(self) -> Array:
        return np.asarray(reduce(np.multiply.outer, [side.weights() for side in self.sides()])).ravel()

    def interpolation(self, points: Any, *, beyond: bool = False) -> Any:
        """The matrix L, (d, m), with Y L the functions on a `ProductGrid` or at (m, k) points, linear in each axis."""
        return self.along([partial(side.interpolation, beyond=beyond) for side in self.sides()], points, beyond=beyond)

    def filled(self, Y: Any) -> Array:
        if np.isnan(Y).any():
            raise GridError("missing values of functions of several variables are not supported: fill them first")
        return np.array(Y, dtype=np.float64)

    def spline(self, points: Any) -> Any:
        """As `interpolation`, by cubic splines in each axis."""
        return self.along([side.spline for side in self.sides()], points)

    def along(self, maps: Sequence[Callable[[Any], Array]], points: Any, *, beyond: bool = False) -> Any:
        """The product of maps, from points along an axis to a matrix, for a `ProductGrid` or (m, k) points."""
        if isinstance(points, ProductGrid):
            return KroneckerMatrix([to(side) for to, side in zip(maps, self.matching(points), strict=True)])
        columns = self.inside(points, beyond=beyond).T
        return column_products([to(column) for to, column in zip(maps, columns, strict=True)])

    def matching(self, other: ProductGrid) -> list[Grid]:
        """The axes of another product grid; an error if their number differs."""
        sides = other.sides()
        if len(sides) != len(self.sides()):
            raise GridError(f"the other grid must have {len(self.sides())} axes, got {len(sides)}")
        return sides

    def inside(self, points: Any, *, beyond: bool = False) -> Array:
        if isinstance(points, ProductGrid):
            self.matching(points)
            points = points.checked()
        sides = self.sides()
        new = np.asarray(points, dtype=np.float64)
        if new.ndim != 2 or new.shape[1] != len(sides):
            raise GridError(
                f"points must be a ProductGrid or have {len(sides)} columns, one per variable, got shape {new.shape}"
            )
        return np.stack([side.inside(new[:, a], beyond=beyond) for a, side in enumerate(sides)], axis=1)

    def slopes(self, Y: Array) -> Array:
        found, sides = [], self.sides()
        for a, side in enumerate(sides):
            if not isinstance(side, Components):
                maps = [side.derivative() if b == a else np.eye(len(other)) for b, other in enumerate(sides)]
                found.append(Y @ KroneckerMatrix(maps))
        return np.stack(found, axis=-2)

    def derivative(self) -> Array:
        raise GridError("a function of several variables has several derivatives: use slopes()")


class Components(Grid):
    """The components of a field as an axis of a `ProductGrid`: indices 0, ..., count - 1 without geometry.

    Parameters
    ----------
    count : int
        Number of components.

    See Also
    --------
    ProductGrid

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
        return np.asarray(self.checked()[:, None] == self.inside(points), dtype=np.float64)

    def spline(self, points: Any) -> Array:
        return self.interpolation(points)

    def inside(self, points: Any, *, beyond: bool = False) -> Array:
        new = np.asarray(points.checked() if isinstance(points, Grid) else points, dtype=np.float64)
        if new.ndim != 1 or not np.isin(new, self.checked()).all():
            raise GridError(f"components must be integers below {len(self)}, got {points!r}")
        return new
