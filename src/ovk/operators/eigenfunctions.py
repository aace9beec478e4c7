"""Integral operators whose eigenfunctions are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import ive

from ovk._types import Array
from ovk.curves import Grid
from ovk.kernels import Gaussian, Laplacian, Matern, Periodic, ScalarKernel


@dataclass(frozen=True)
class Eigenfunctions:
    """Eigenvalues, in descending order, and orthonormal eigenfunctions of an integral operator.

    Attributes
    ----------
    values : (J,)
    functions : gives phi_j(t), (m, J), at m points
    """

    values: Array
    functions: Callable[[Array], Array]

    def __call__(self, points: Array) -> Array:
        return self.functions(points)


def analytic_eigenfunctions(kernel: ScalarKernel, grid: Grid, count: int) -> Eigenfunctions:
    """The first eigenfunctions on the interval (or circle) of a grid; an error where they are not known."""
    points = grid.checked()
    if grid.period is None:
        if isinstance(kernel, Laplacian):
            return exponential(kernel._scale(), float(points[0]), float(points[-1]), count)
        if isinstance(kernel, Matern) and kernel.nu == 0.5:
            return exponential(kernel.single_scale(), float(points[0]), float(points[-1]), count)
    elif isinstance(kernel, Periodic) and isinstance(kernel.kernel, Gaussian) and kernel.period == grid.period:
        return gaussian_on_circle(kernel.kernel.single_scale(), float(grid.period), count)
    raise ValueError(
        f"the eigenfunctions of {kernel!r} on this grid are not known in closed form: use eigenfunctions='grid'. Known "
        "are those of exp(-|t - s| / l) on an interval, and of Periodic(Gaussian(l), period) on a grid of that period"
    )


def exponential(length: float, start: float, stop: float, count: int) -> Eigenfunctions:
    """Of exp(-|t - s| / l) on [start, stop].

    With c = 1/l, middle m and half length h, the eigenfunctions are cos(w (t - m)) with w tan(w h) = c and
    sin(w (t - m)) with w = -c tan(w h), in turn; the eigenvalues are 2 c / (w^2 + c^2).

    Examples
    --------
    >>> from ovk.operators.eigenfunctions import exponential
    >>> exponential(1.0, 0.0, 1.0, 3).values.round(4)
    array([0.7388, 0.138 , 0.0451])
    """
    c, middle, half = 1.0 / length, 0.5 * (start + stop), 0.5 * (stop - start)
    frequencies = np.empty(count)
    for j in range(count):
        # The j-th root lies in (j pi / 2, (j + 1) pi / 2) / h; written without poles.
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
    """Of ``Periodic(Gaussian(l), P)``: Fourier's functions, with eigenvalues P exp(-a) I_k(a), a = (P / 2 pi l)^2.

    Examples
    --------
    >>> from ovk.operators.eigenfunctions import gaussian_on_circle
    >>> gaussian_on_circle(0.2, 1.0, 3).values.round(4)
    array([0.5854, 0.1767, 0.1767])
    """
    order = (np.arange(count) + 1) // 2
    values = period * ive(order, (period / (2.0 * np.pi * length)) ** 2)

    def functions(points: Array) -> Array:
        angle = np.multiply.outer(2.0 * np.pi * np.asarray(points) / period, order)
        waves = np.where(np.arange(count) % 2 == 1, np.sin(angle), np.cos(angle))
        return np.asarray(waves * np.sqrt(np.where(order == 0, 1.0, 2.0) / period))

    return Eigenfunctions(np.asarray(values), functions)
