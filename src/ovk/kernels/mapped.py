"""Kernels of transformed inputs: a linear map, some columns, a circle, curves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ovk.base import Array, DeviceMatrix, Indices, check_int, positive
from ovk.curves import Grid, ProductGrid, as_grid
from ovk.kernels.base import NotDifferentiableError, ScalarKernel, Slope, TransformedKernel


@dataclass(eq=False, repr=False)
class OnColumns(TransformedKernel):
    """Kernel of some columns of the inputs, for sums and products with kernels of the others.

    Parameters
    ----------
    kernel : scalar kernel
        Applied to the selected columns.
    columns : sequence of int
        Their indices, from 0.

    See Also
    --------
    OnCurves, Periodic

    Examples
    --------
    Each input is a curve at three points and a number.

    >>> import numpy as np
    >>> from ovk.kernels import Gaussian, OnColumns, OnCurves
    >>> k = OnColumns(OnCurves(Gaussian(1.0)), [0, 1, 2]) * OnColumns(Gaussian(2.0), [3])
    >>> k(np.array([[0.0, 0.0, 0.0, 5.0], [1.0, 1.0, 1.0, 7.0]])).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    kernel: ScalarKernel
    columns: Any

    def _chosen(self, p: int) -> Indices:
        c = np.asarray(self.columns)
        if c.ndim != 1 or len(c) == 0 or c.dtype.kind not in "iu" or len(np.unique(c)) < len(c):
            raise ValueError(f"columns must be a non-empty list of distinct integers, got {self.columns!r}")
        if c.min() < 0 or c.max() >= p:
            raise ValueError(f"columns must be between 0 and {p - 1}, the last column of X, got {self.columns!r}")
        return c.astype(np.intp)

    def coordinates(self, X: Any) -> Any:
        """The columns, (n, q)."""
        chosen = self._chosen(X.shape[1])
        return X.columns(chosen) if isinstance(X, DeviceMatrix) else X[:, chosen]

    def runs_on_devices(self) -> bool:
        return self.kernel.runs_on_devices()

    def slopes(self, X: Any, Z: Any) -> list[Slope]:
        return self._mapped_slopes(np.eye(X.shape[1])[:, self._chosen(X.shape[1])], X, Z)


@dataclass(eq=False, repr=False)
class Periodic(TransformedKernel):
    """Periodic kernel k(u(x), u(z)), with u(x) = (P / 2 pi) (cos, sin)(2 pi x / P) on a circle of length P.

    Distances between near points are about |x - z|, so length scales keep their meaning. With a Gaussian of length l
    the kernel is exp(-(P / pi l)^2 sin^2(pi (x - z) / P) / 2).

    Parameters
    ----------
    kernel : scalar kernel
        Applied to the two coordinates of each input.
    period : float > 0
        P.

    See Also
    --------
    OnColumns

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Gaussian, Periodic
    >>> Periodic(Gaussian(0.1), period=1.0)(np.array([[0.05], [0.95]])).round(4)
    array([[1.    , 0.6165],
           [0.6165, 1.    ]])
    """

    kernel: ScalarKernel
    period: float = 1.0

    def coordinates(self, X: Any) -> Array:
        """u(x) of every input, (n, 2 p)."""
        radius = positive(self.period, "period") / (2.0 * np.pi)
        angle = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64) / radius
        return radius * np.hstack([np.cos(angle), np.sin(angle)])


@dataclass(eq=False, repr=False)
class OnCurves(TransformedKernel):
    """Kernel of curves, whose inner products and distances are integrals, independent of the grid.

    Rows of X are curves, or functions of several variables, on a grid; several channels follow one another. The kernel
    is applied to coordinates whose Euclidean distance is the L2 distance of the curves, or of their derivatives.

    With a `window`, only the curves x(t - lag) for t in the window are compared, for recordings longer than the
    relevant period, with a delayed effect. The lag can be learned, by `tune` if it starts
    above 0, or by `MovKL` from kernels with several lags.

    Parameters
    ----------
    kernel : scalar kernel
        Applied to the coordinates.
    grid : `Grid`, `ProductGrid` or points, optional
        Where the curves are known; a regular grid on [0, 1] by default.
    derivative : int
        Order of the derivative; functions of several variables are differentiated along each of them.
    channels : int
        Number of curves in each row.
    window : (start, stop), optional
        Times t at which x(t - lag) is compared; all points of the grid by default.
    lag : float
        Delay: the curve is read this much earlier than the window. Curves are constant beyond their ends.

    See Also
    --------
    ovk.curves.Grid, OnColumns, ovk.operators.Integral

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Linear, OnCurves
    >>> coarse, fine = np.linspace(0, 1, 11), np.linspace(0, 1, 101)
    >>> k = OnCurves(Linear(), grid=coarse)
    >>> k(np.sin(coarse)[None]).round(3), OnCurves(Linear(), grid=fine)(np.sin(fine)[None]).round(3)
    (array([[0.273]]), array([[0.273]]))
    """

    kernel: ScalarKernel
    grid: Any = None
    derivative: int = 0
    channels: int = 1
    window: Any = None
    lag: float = 0.0

    def _grid(self, p: int) -> Grid:
        channels = check_int(self.channels, "channels")
        d, rest = divmod(p, channels)
        if rest:
            raise ValueError(f"X must have a multiple of {channels} columns, one curve per channel, got {p}")
        grid = Grid.regular(d) if self.grid is None else as_grid(self.grid)
        if len(grid) != d:
            raise ValueError(f"grid must have one point for each of the {d} columns of a curve, got {len(grid)}")
        return grid

    def _window(self, grid: Grid) -> Grid | None:
        """A regular grid on the window, with about the spacing of the curves."""
        lag = float(np.asarray(self.lag))
        if not np.isfinite(lag):
            raise ValueError(f"lag must be finite, got {self.lag!r}")
        if self.window is None:
            if lag != 0:
                raise ValueError(f"lag={lag:g} requires a window, the times (start, stop) that are compared")
            return None
        if isinstance(grid, ProductGrid):
            raise ValueError("window requires curves of one variable, got a ProductGrid")
        bounds = np.asarray(self.window, dtype=np.float64)
        if bounds.shape != (2,) or not np.isfinite(bounds).all() or bounds[0] >= bounds[1]:
            raise ValueError(f"window must be (start, stop) with start < stop, got {self.window!r}")
        points = grid.checked()
        spacing = (points[-1] - points[0]) / (len(points) - 1)
        return Grid.regular(max(2, round((bounds[1] - bounds[0]) / spacing) + 1), *bounds.tolist())

    def coordinates(self, X: Any) -> Array:
        """The coordinates of curves, (n, q)."""
        return self._read(X, 0)

    def _read(self, X: Any, order: int) -> Array:
        """The coordinates, or with order 1 their derivatives in time."""
        X = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
        n, p = X.shape
        grid = self._grid(p)
        curves = X.reshape(n, check_int(self.channels, "channels"), len(grid))
        window = self._window(grid)
        if window is not None:
            times = window.checked() - float(self.lag)
            if grid.period is None:
                first, last = grid.checked()[[0, -1]]
                inside = (first <= times) & (times <= last)
                read = grid.spline_derivative(np.clip(times, first, last), order)
                read = read * np.where(inside, 1.0, float(order == 0))
            else:
                read = grid.spline_derivative(times, order)
            curves, grid = curves @ read, window
        for _ in range(check_int(self.derivative, "derivative", least=0)):
            # A function of several variables has one channel of slopes per variable.
            slopes = grid.slopes(curves)
            curves = slopes.reshape(n, slopes.shape[1] * slopes.shape[2], len(grid))
        return np.ascontiguousarray((curves * grid.roots()).reshape(n, curves.shape[1] * curves.shape[2]))

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Array]:
        found = super().gradient(X, Z)
        if self.window is not None:
            first = self._lag_slope(X, X if Z is None else Z)
            if first is not None:
                second = first if Z is None else self._lag_slope(Z, X)
                found["lag"] = first + np.asarray(second).T
        return found

    def gradient_product(self, weights: Array, X: Any) -> dict[str, Array]:
        found = super().gradient_product(weights, X)
        first = None if self.window is None else self._lag_slope(X, X)
        return found if first is None else found | {"lag": np.asarray(2.0 * np.vdot(weights, first))}

    def _lag_slope(self, X: Any, Z: Any) -> Array | None:
        """d k(phi(x), phi(z)) / d lag by way of phi(x), whose derivative is -x'(t - lag); None without one."""
        U, V, change = self.coordinates(X), self.coordinates(Z), -self._read(X, 1)
        try:
            slopes = self.kernel.slopes(U, V)
        except NotDifferentiableError:
            return None
        total: Array = np.zeros((len(U), len(V)))
        for A, B, metric in slopes:
            moved = change @ metric if np.ndim(metric) == 2 else change * metric
            total += A * (moved @ V.T)
            if B is not None:
                total += B * np.einsum("ij,ij->i", moved, U)[:, None]
        return total
