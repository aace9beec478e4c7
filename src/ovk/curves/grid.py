"""Grids of curves: points and quadrature weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.interpolate import CubicSpline

from ovk.base import Array, Parameters, cached, check_int, positive


class GridError(ValueError):
    """A grid, or curves and points that do not fit it, are not valid.

    See Also
    --------
    Grid

    Examples
    --------
    >>> from ovk.curves import Grid
    >>> Grid([0.0, 0.5, 0.2]).weights()  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ovk.curves.grid.GridError: points of a grid must increase, but point 2 is 0.2 after 0.5: sort the columns of Y ...
    """


@dataclass(eq=False, repr=False)
class Grid(Parameters):
    """Grid of curves y(t) at points t_1 < ... < t_d, with the inner product <y, z> = sum_j w_j y(t_j) z(t_j).

    The weights w are those of the trapezoidal rule, whose error is of the order of the spacing squared. With a `period`
    curves are closed: the last point is a neighbour of the first, and the rule is exact for trigonometric polynomials
    on a regular grid.

    The Euclidean inner product of the *coordinates* sqrt(w_j) y(t_j) is that of the curves. Estimators use them.

    Parameters
    ----------
    points : (d,) array
        Increasing and finite; at least two points.
    period : float, optional
        Length after which curves repeat; longer than the span of the points.
    quadrature : (d,) array of weights > 0, optional
        Weights that replace those of the trapezoidal rule.

    See Also
    --------
    ProductGrid, Components, common_grid

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.curves import Grid
    >>> grid = Grid([0.0, 0.1, 0.4, 1.0])
    >>> grid.weights()
    array([0.05, 0.2 , 0.45, 0.3 ])
    >>> float(grid.inner(np.ones(4), np.ones(4)))
    1.0
    """

    points: Any
    period: float | None = None
    quadrature: Any = None

    @classmethod
    def regular(cls, d: int, start: float = 0.0, stop: float = 1.0) -> Self:
        """d points from `start` to `stop`.

        >>> Grid.regular(3).points
        array([0. , 0.5, 1. ])
        """
        if check_int(d, "d") < 2:
            raise GridError("a grid must have at least 2 points, got 1")
        return cls(np.linspace(start, stop, d))

    def __len__(self) -> int:
        return len(self.checked())

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of points along each axis."""
        return (len(self),)

    def locations(self) -> Array:
        """The points as rows, (d, 1), the inputs of a kernel of time."""
        return self.checked()[:, None]

    @cached
    def checked(self) -> Array:
        """The points as an array (d,), checked to be finite, increasing and within the period."""
        try:
            points = np.asarray(self.points, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise GridError(f"points of a grid must be numbers, got {self.points!r}") from error
        if points.ndim != 1:
            raise GridError(f"points of a grid must be a sequence of numbers, got shape {points.shape}")
        if len(points) < 2:
            raise GridError(f"a grid must have at least 2 points, got {len(points)}")
        if not np.isfinite(points).all():
            bad = int(np.flatnonzero(~np.isfinite(points))[0])
            raise GridError(f"points of a grid must be finite, but point {bad} is {points[bad]}")
        back = np.flatnonzero(np.diff(points) <= 0)
        if len(back):
            j = int(back[0]) + 1
            raise GridError(
                f"points of a grid must increase, but point {j} is {points[j]:g} after {points[j - 1]:g}: sort the "
                "columns of Y by time"
            )
        if self.period is not None:
            period = positive(self.period, "period")
            if points[-1] - points[0] >= period:
                raise GridError(
                    f"points of a grid must span less than the period {period:g}, got {points[-1] - points[0]:g}: "
                    "remove the points that repeat the first ones"
                )
        return points

    @cached
    def weights(self) -> Array:
        """The quadrature weights w, (d,)."""
        points = self.checked()
        if self.quadrature is not None:
            w = np.asarray(self.quadrature, dtype=np.float64)
            if w.shape != points.shape or not (np.isfinite(w).all() and (w > 0).all()):
                raise GridError(f"quadrature must have {len(points)} positive and finite weights, one per point")
            return w
        gaps = np.diff(points)
        closing = 0.0 if self.period is None else self.period - float(points[-1] - points[0])
        return np.asarray(0.5 * (np.append(gaps, closing) + np.append(closing, gaps)))

    @cached
    def roots(self) -> Array:
        """sqrt(w), (d,), the factors from values to coordinates."""
        return np.sqrt(self.weights())

    def inner(self, Y: Any, Z: Any) -> Any:
        """Inner products of curves, along the last axis."""
        return (np.asarray(Y) * np.asarray(Z)) @ self.weights()

    def interpolation(self, points: Any, *, beyond: bool = False) -> Array:
        """The matrix L, (d, m), with Y L the curves at other points, by linear interpolation.

        `beyond` allows points slightly outside, as in `inside`, where curves are constant.
        """
        own, new = self.checked(), self.inside(points, beyond=beyond)
        own = own if self.period is None else np.append(own, own[0] + self.period)
        new = np.clip(new, own[0], own[-1])
        right = np.clip(np.searchsorted(own, new, side="right"), 1, len(own) - 1)
        share = (new - own[right - 1]) / (own[right] - own[right - 1])
        L = np.zeros((len(own), len(new)))
        each = np.arange(len(new))
        L[right - 1, each] = 1.0 - share
        L[right, each] += share
        if self.period is not None:
            L[0] += L[-1]
            L = L[:-1]
        return L

    def filled(self, Y: Any) -> Array:
        """Curves (n, d) with every nan replaced by linear interpolation.

        Curves are constant before their first and after their last value; with a `period` they are interpolated there.

        >>> Grid([0.0, 1.0, 2.0, 4.0]).filled([[np.nan, 1.0, np.nan, 4.0]])
        array([[1., 1., 2., 4.]])
        """
        filled: Array = np.array(Y, dtype=np.float64)
        points, seen = self.checked(), ~np.isnan(filled)
        if filled.ndim != 2 or filled.shape[1] != len(points):
            raise GridError(f"curves must have {len(points)} columns, one per point, got shape {filled.shape}")
        for i in np.flatnonzero(~seen.all(axis=1)):
            if not seen[i].any():
                raise GridError(f"the curve in row {i} has no observed value: remove the row")
            filled[i] = np.interp(points, points[seen[i]], filled[i, seen[i]], period=self.period)
        return filled

    def spline(self, points: Any) -> Any:
        """The matrix S, (d, m), with Y S the curves at other points, by cubic splines."""
        return self.spline_derivative(points, 0)

    def spline_derivative(self, points: Any, order: int) -> Array:
        """`spline` for derivatives of the curves, of some order."""
        own, new = self.checked(), self.inside(points)
        if self.period is None:
            kind: Any = "not-a-knot"
            values = np.eye(len(own))
        else:
            kind, own = "periodic", np.append(own, own[0] + self.period)
            values = np.vstack([np.eye(len(own) - 1), np.eye(len(own) - 1)[:1]])
        return np.ascontiguousarray(CubicSpline(own, values, bc_type=kind)(new, order).T)

    def inside(self, points: Any, *, beyond: bool = False) -> Array:
        """`points`, or those of a grid, as an array; folded into the period, or checked to be in the interval.

        With `beyond`, the interval is extended at both ends by half the largest spacing, the reach of bins.
        """
        new = np.asarray(points.checked() if isinstance(points, Grid) else points, dtype=np.float64)
        if new.ndim != 1 or len(new) == 0 or not np.isfinite(new).all():
            raise GridError(f"points must be a sequence of finite numbers, got {points!r}")
        own = self.checked()
        if self.period is not None:
            new = own[0] + np.mod(new - own[0], self.period)
        else:
            reach = 0.5 * float(np.diff(own).max()) if beyond else 0.0
            first, last = own[0] - reach, own[-1] + reach
            slack = 1e-9 * (own[-1] - own[0])
            if new.min() < first - slack or new.max() > last + slack:
                outside = new[np.argmax(np.maximum(first - new, new - last))]
                where = ", half a grid spacing beyond the observed range" if beyond else ", the observed range"
                raise GridError(f"grid points must lie in [{first:g}, {last:g}]{where}; got {outside:g}")
            new = np.clip(new, first, last)
        return new

    def slopes(self, Y: Array) -> Array:
        """Derivatives of curves (..., d) along each axis: (..., axes, d)."""
        return (Y @ self.derivative())[..., None, :]

    def derivative(self) -> Array:
        """The matrix D, (d, d), with Y D the derivatives of curves, by differences of second order in the interior."""
        points = self.checked()
        if self.period is None:
            return np.asarray(np.gradient(np.eye(len(points)), points, axis=1, edge_order=2 if len(points) > 2 else 1))
        longer = np.concatenate([[points[-1] - self.period], points, [points[0] + self.period]])
        wrapped = np.concatenate([np.eye(len(points))[:, -1:], np.eye(len(points)), np.eye(len(points))[:, :1]], axis=1)
        return np.asarray(np.gradient(wrapped, longer, axis=1))[:, 1:-1]


def as_grid(grid: Any) -> Grid:
    return grid if isinstance(grid, Grid) else Grid(grid)
