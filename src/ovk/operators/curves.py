"""Operators on curves: multiplication by a function, and integral operators.

All matrices are in the coordinates sqrt(w_j) y(t_j) of curves on a grid (`ovk.curves.Grid`), in which the L2 inner
product is Euclidean and a self-adjoint operator is a symmetric matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.linalg import lapack
from scipy.optimize import brentq
from scipy.special import expit, ive

from ovk.base import Array, cached, check_int, positive
from ovk.curves import Components, Grid, ProductGrid, as_grid
from ovk.kernels import Function, Gaussian, Laplacian, Matern, Periodic, ScalarKernel
from ovk.operators.base import Identity, MatrixOperator, OutputOperator, Spectrum, checked_symmetric, spectrum
from ovk.operators.groups import TensorProduct

# Integral operators with known eigenfunctions.


class Eigenfunctions(NamedTuple):
    values: Array  # (J,) descending
    functions: Callable[[Array], Array]  # orthonormal phi_j at m points, (m, J)


def analytic_eigenfunctions(kernel: ScalarKernel, grid: Grid, count: int) -> Eigenfunctions:
    """The first eigenfunctions on the interval or circle of a grid."""
    points = grid.checked()
    length = exponential_length(kernel)
    if grid.period is None and length is not None:
        return exponential(length, float(points[0]), float(points[-1]), count)
    if isinstance(kernel, Periodic) and isinstance(kernel.kernel, Gaussian) and kernel.period == grid.period:
        return gaussian_on_circle(kernel.kernel.single_scale(), float(grid.period), count)
    raise ValueError(
        f"eigenfunctions='analytic' does not support {kernel!r} on this grid: use eigenfunctions='grid'. It supports "
        "exp(-|t - s| / l) on an interval, and Periodic(Gaussian(l), period) on a grid of that period"
    )


def exponential(length: float, start: float, stop: float, count: int) -> Eigenfunctions:
    """Eigenfunctions of exp(-|t - s| / l) on [start, stop].

    With c = 1/l, centre m and half length h, they alternate between cos(w (t - m)) with w tan(w h) = c and
    sin(w (t - m)) with w = -c tan(w h); the eigenvalues are 2 c / (w^2 + c^2).
    """
    c, middle, half = 1.0 / length, 0.5 * (start + stop), 0.5 * (stop - start)
    frequencies = np.empty(count)
    for j in range(count):
        # The j-th root lies in (j pi / 2, (j + 1) pi / 2) / h; the equations have no poles.
        low, high = 0.5 * np.pi * j / half, 0.5 * np.pi * (j + 1) / half
        if j % 2 == 0:
            equation = lambda w: w * np.sin(w * half) - c * np.cos(w * half)  # noqa: E731
        else:
            equation = lambda w: w * np.cos(w * half) + c * np.sin(w * half)  # noqa: E731
        frequencies[j] = brentq(equation, low, high, xtol=1e-14 / half)
    even = np.arange(count) % 2 == 0
    # integral of cos^2 (sin^2) over the interval: h +- sin(2 w h) / (2 w)
    squares = half + np.where(even, 1.0, -1.0) * np.sin(2.0 * frequencies * half) / (2.0 * frequencies)

    def functions(points: Array) -> Array:
        angle = np.multiply.outer(np.asarray(points) - middle, frequencies)
        return np.asarray(np.where(even, np.cos(angle), np.sin(angle)) / np.sqrt(squares))

    return Eigenfunctions(2.0 * c / (frequencies**2 + c**2), functions)


def gaussian_on_circle(length: float, period: float, count: int) -> Eigenfunctions:
    """The Fourier basis, for ``Periodic(Gaussian(l), P)``; eigenvalues P exp(-a) I_k(a) with a = (P / 2 pi l)^2."""
    order = (np.arange(count) + 1) // 2
    values = period * ive(order, (period / (2.0 * np.pi * length)) ** 2)

    def functions(points: Array) -> Array:
        angle = np.multiply.outer(2.0 * np.pi * np.asarray(points) / period, order)
        waves = np.where(np.arange(count) % 2 == 1, np.sin(angle), np.cos(angle))
        return np.asarray(waves * np.sqrt(np.where(order == 0, 1.0, 2.0) / period))

    return Eigenfunctions(np.asarray(values), functions)


class CurveOperator(OutputOperator):
    """An operator on curves. If `grid` is None, estimators set theirs, and `resolve` a regular grid on [0, 1]."""

    grid: Any

    @property
    def output_dim(self) -> int | None:  # type: ignore[override]
        return None if self.grid is None else len(self._grid())

    def _grid(self) -> Grid:
        if self.grid is None:
            raise ValueError(f"{type(self).__name__} requires a grid; estimators of curves set theirs")
        return as_grid(self.grid)

    def resolve(self, d: int) -> Self:
        if self.grid is None:
            return self.replace(grid=Grid.regular(d))
        return super().resolve(d)


@dataclass(eq=False, repr=False)
class Multiplication(CurveOperator):
    """Multiplication of curves by a function, (T y)(t) = g(t) y(t).

    Parameters
    ----------
    function : scalar kernel, (d,) array or callable, with values >= 0
        g: the function t -> k(t, 0) of a kernel, so ``Gaussian.from_mu(1.0)`` is exp(-t^2); its values on the grid; or
        a callable of the points ((d, k) on a `ProductGrid`), which cannot be saved. Predictions are zero where g is.
    grid : `Grid`, `ProductGrid` or points, optional
        Where the curves are known; set by the estimator by default.

    See Also
    --------
    Integral

    Examples
    --------
    >>> from ovk.kernels import Gaussian
    >>> from ovk.operators import Multiplication
    >>> Multiplication(Gaussian.from_mu(1.0), grid=[0.0, 0.5, 1.0]).eigh().values.round(4)
    array([0.3679, 0.7788, 1.    ])
    """

    function: Any = None
    grid: Any = None

    def _values(self, points: Array) -> Array | None:
        """g at any points; None if only its values on the grid are known."""
        function, rows = self.function, points.reshape(len(points), -1)
        if function is None:
            return np.asarray(np.exp(-(rows**2).sum(axis=1)))
        if isinstance(function, ScalarKernel):
            return function(rows, np.zeros((1, rows.shape[1])))[:, 0]
        if callable(function):
            return np.broadcast_to(np.asarray(function(points), dtype=np.float64), len(points))
        return None

    @cached
    def _diagonal(self) -> Array:
        points = self._grid().checked()
        found = self._values(points)
        values = np.asarray(self.function, dtype=np.float64) if found is None else np.array(found)
        if values.shape != (len(points),):
            allowed = f"a callable, a kernel or {len(points)} numbers, one per point"
            raise ValueError(f"function must be {allowed}, got shape {values.shape}")
        if not np.isfinite(values).all() or (values < 0).any():
            worst = int(np.argmin(np.where(np.isfinite(values), values, -np.inf)))
            where = f"{values[worst]:.6g} at t = {_written(points[worst])}"
            raise ValueError(f"function must be non-negative and finite on the grid, got {where}")
        return values

    def dense(self) -> Array:
        return np.diag(self._diagonal())

    def apply(self, Y: Array) -> Array:
        return _array(Y) * self._diagonal()

    @cached
    def eigh(self) -> Spectrum:
        order = np.argsort(self._diagonal(), kind="stable")
        return Spectrum(self._diagonal()[order], np.eye(len(order))[:, order])

    def evaluation_on(self, grid: Grid, points: Any) -> Array:
        grid = self._grid()
        L = np.asarray(grid.interpolation(points))
        g = self._values(grid.inside(points))
        before = 1.0 / grid.roots()
        # If only values on the grid are known, the product is interpolated.
        return before[:, None] * L * g if g is not None else (before * self._diagonal())[:, None] * L


@dataclass(eq=False, repr=False)
class Integral(CurveOperator, MatrixOperator):
    """Integral operator on curves, (T y)(t) = integral of k(t, s) y(s) ds, which couples neighbouring times.

    Its range is spanned by the eigenfunctions of k, of which `n_eigen` are kept. Predictions on another grid are exact
    rather than interpolated, up to half the largest spacing beyond the ends of the grid.

    Parameters
    ----------
    kernel : scalar kernel of time, optional
        k, by default ``Laplacian(1.0)``, which is exp(-|t - s|). Kernels exp(-|t - s| / l) are applied in O(d); use
        ``Periodic(Gaussian(l), period)`` for closed curves. May be a callable of two matrices of times. On a
        `ProductGrid`, k is the product of this kernel along each axis, or of a list with one kernel per axis, and T
        is a Kronecker product that is never formed.
    grid : `Grid`, `ProductGrid` or points, optional
        Where the curves are known; set by the estimator by default.
    n_eigen : int, optional
        Number of eigenfunctions, those with the largest eigenvalues; all by default.
    eigenfunctions : "grid" or "analytic"
        "grid" decomposes the quadrature matrix (Nystrom method); "analytic" uses known eigenfunctions, for
        exp(-|t - s| / l) on an interval and for a Gaussian on a circle, and requires `n_eigen`.
    lag : float, optional
        Delay of the response after the start a of the grid. T is then
        (T y)(t) = h(t) integral of k(t, s) h(s) y(s) ds, h(t) = 1 / (1 + exp(-(t - a - lag) / delta)), where delta is
        the mean spacing of the grid. `tune` learns it if it is above 0, `MovKL` from kernels with several lags.

    See Also
    --------
    Multiplication, ovk.kernels.OnCurves, ovk.curves.Grid, ovk.FunctionalRidge

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.curves import Grid
    >>> from ovk.operators import Integral
    >>> T = Integral(grid=Grid.regular(200), n_eigen=3)
    >>> T.eigh().values[-3:].round(3)
    array([0.045, 0.138, 0.739])
    """

    kernel: Any = None
    grid: Any = None
    n_eigen: int | None = None
    eigenfunctions: str = "grid"
    lag: float | None = None

    def _gate(self, points: Array) -> Array:
        """h at any times, 1 without a lag."""
        return np.ones(len(points)) if self.lag is None else expit((points - self._onset()) / self._rise())

    def _onset(self) -> float:
        grid = self._grid()
        if isinstance(grid, ProductGrid) or grid.period is not None:
            raise ValueError("lag requires curves of one variable on an interval: use lag=None")
        if self.eigenfunctions != "grid":
            raise ValueError("lag and eigenfunctions='analytic' cannot be combined: use eigenfunctions='grid'")
        return float(grid.checked()[0]) + positive(self.lag, "lag", zero=True)

    def _rise(self) -> float:
        points = self._grid().checked()
        return float(points[-1] - points[0]) / (len(points) - 1)

    def gradient(self) -> dict[str, Array]:
        if self.lag is None or self.n_eigen is not None:
            return {}
        # T = H M H and dh / dlag = -h (1 - h) / delta
        changes = -(1.0 - self._gate(self._grid().checked())) / self._rise()
        T = self._matrix()
        return {"lag": changes[:, None] * T + T * changes}

    @cached
    def _product(self) -> TensorProduct | None:
        """The operators along the axes of a `ProductGrid`, else None."""
        grid = self._grid()
        if not isinstance(grid, ProductGrid):
            return None
        if self.lag is not None:
            self._onset()
        if self.eigenfunctions != "grid":
            raise ValueError("eigenfunctions='analytic' does not support a ProductGrid: use eigenfunctions='grid'")
        sides = grid.sides()
        kernels = self.kernel if isinstance(self.kernel, (list, tuple)) else [self.kernel] * len(sides)
        if len(kernels) != len(sides):
            raise ValueError(f"kernel must be one kernel or a list of {len(sides)}, one per axis, got {len(kernels)}")
        pairs = zip(kernels, sides, strict=True)
        return TensorProduct([Identity(len(s)) if isinstance(s, Components) else Integral(k, s) for k, s in pairs])

    def _kernel(self) -> ScalarKernel:
        if self.kernel is None:
            return Laplacian(1.0)
        if isinstance(self.kernel, ScalarKernel):
            return self.kernel
        if isinstance(self.kernel, Callable):  # type: ignore[arg-type]
            return Function(self.kernel)
        raise ValueError(f"kernel must be a scalar kernel or a function of two times, got {self.kernel!r}")

    @cached
    def _gated_roots(self) -> Array:
        grid = self._grid()
        return grid.roots() if self.lag is None else grid.roots() * self._gate(grid.checked())

    @cached
    def _whole(self) -> tuple[Array, Spectrum]:
        """W^1/2 k(t, s) W^1/2 and its spectrum."""
        roots = self._gated_roots()
        values = checked_symmetric(self._kernel()(self._grid().locations()), "the kernel of Integral")
        matrix = roots[:, None] * values * roots
        return matrix, spectrum(matrix, "the kernel of Integral")

    @cached
    def _analytic(self) -> Eigenfunctions | None:
        if self.eigenfunctions == "grid":
            return None
        if self.lag is not None:
            self._onset()
        if self.eigenfunctions != "analytic":
            raise ValueError(f"eigenfunctions must be 'grid' or 'analytic', got {self.eigenfunctions!r}")
        if self.n_eigen is None:
            raise ValueError("eigenfunctions='analytic' requires n_eigen")
        return analytic_eigenfunctions(self._kernel(), self._grid(), check_int(self.n_eigen, "n_eigen"))

    @cached
    def eigh(self) -> Spectrum:
        exact = None if self._product() is not None else self._analytic()
        if exact is not None:
            factor = self._grid().roots()[:, None] * exact.functions(self._grid().checked()) * np.sqrt(exact.values)
            return spectrum(factor @ factor.T, "the kernel of Integral")
        product = self._product()
        found = self._whole()[1] if product is None else product.eigh()
        if self.n_eigen is None:
            return found
        kept = check_int(self.n_eigen, "n_eigen")
        if kept > len(found.values):
            raise ValueError(f"n_eigen must be at most {len(found.values)}, the number of points, got {kept}")
        values = found.values.copy()
        values[: len(values) - kept] = 0.0
        return Spectrum(values, found.vectors)

    @cached
    def _matrix(self) -> Array:
        if self.n_eigen is None:
            product = self._product()
            if product is not None:
                return product.dense()
            self._analytic()
            return self._whole()[0]
        s = self.eigh()
        used = s.values > 0
        return (s.vectors[:, used] * s.values[used]) @ s.vectors[:, used].T

    def apply(self, Y: Array) -> Array:
        Y = _array(Y)
        if self.n_eigen is not None:
            s = self.eigh()
            V = s.vectors[:, s.values > 0]
            return np.asarray(((Y @ V) * s.values[s.values > 0]) @ V.T)
        product = self._product()
        if product is not None:
            return product.apply(Y)
        rate = exponential_length(self._kernel())
        if rate is None or len(Y) == 0:
            return Y @ self._matrix()
        roots = self._gated_roots()
        return exponential_sums(Y * roots, self._grid().checked(), rate) * roots

    def evaluation_on(self, grid: Grid, points: Any) -> Any:
        grid = self._grid()
        if isinstance(grid, ProductGrid):
            product = self._product()
            assert product is not None
            sides = zip(product.operators, grid.sides(), strict=True)
            whole = grid.along([partial(T.evaluation_on, side) for T, side in sides], points, beyond=True)
            return whole if self.n_eigen is None else self._projected(whole)
        exact = self._analytic()
        # A kernel is also defined beyond the ends of the grid, analytic eigenfunctions only on the interval.
        points = grid.inside(points, beyond=exact is None)
        if exact is not None:
            own: Array = grid.roots()[:, None] * exact.functions(grid.checked())
            return (own * exact.values) @ exact.functions(points).T
        E: Array = self._gated_roots()[:, None] * self._kernel()(grid.locations(), points[:, None]) * self._gate(points)
        return E if self.n_eigen is None else self._projected(E)

    def _projected(self, E: Any) -> Array:
        """E projected on the kept eigenfunctions."""
        s = self.eigh()
        V = s.vectors[:, s.values > 0]
        return np.asarray(V @ (V.T @ E))


def exponential_length(kernel: ScalarKernel) -> float | None:
    """l if the kernel of time is exp(-|t - s| / l), else None."""
    if not isinstance(kernel, Laplacian) and not (isinstance(kernel, Matern) and kernel.nu == 0.5):
        return None
    length = kernel.length_scale
    return None if isinstance(length, str) or np.ndim(length) else float(length)


def exponential_sums(Y: Array, points: Array, length: float) -> Array:
    """sum_j exp(-|t_i - t_j| / l) y_j for each row of Y, (n, d), in O(n d).

    With rho_j = exp(-(t_j - t_{j-1}) / l) the sums from the left are a_j = rho_j a_{j-1} + y_j, a triangular system
    with two diagonals; those from the right are its transpose.
    """
    band = np.ones((2, len(points)))
    band[1, :-1] = -np.exp(-np.diff(points) / length)
    columns = np.ascontiguousarray(Y).T
    left, _ = lapack.dtbtrs(band, columns, uplo="L", diag="U")
    right, _ = lapack.dtbtrs(band, columns, uplo="L", diag="U", trans="T")
    return np.asarray((left + right - columns).T)


def _written(point: Any) -> str:
    return f"{point:g}" if np.ndim(point) == 0 else "(" + ", ".join(f"{t:g}" for t in point) + ")"


def _array(Y: Any) -> Array:
    return Y.toarray() if sparse.issparse(Y) else np.asarray(Y)
