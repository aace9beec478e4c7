"""Inputs that are curves."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ovk._params import cached, check_int
from ovk._types import Array
from ovk.curves import Basis, Grid
from ovk.curves.grid import as_grid
from ovk.kernels.base import ScalarKernel
from ovk.kernels.mapped import OfCoordinates


class OnCurves(OfCoordinates):
    """A kernel of curves: inner products and distances are integrals, whatever the grid.

    Rows of X are curves, or functions of several variables, on a grid (or several channels on it, one behind the
    other). The kernel sees coordinates whose Euclidean distance is the L2 distance of the curves, of their derivatives,
    or of their fits in a basis.

    Parameters
    ----------
    kernel : scalar kernel of the coordinates
    grid : `Grid`, `ProductGrid` or points; a regular grid on [0, 1] by default
    derivative : int
        How often curves are differentiated first; functions of several variables along each of them.
    basis : a basis of `ovk.curves`, or None
        Compare coefficients in this basis.
    channels : int
        Curves in each row.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Linear, OnCurves
    >>> coarse, fine = np.linspace(0, 1, 11), np.linspace(0, 1, 101)
    >>> k = OnCurves(Linear(), grid=coarse)
    >>> k(np.sin(coarse)[None]).round(3), OnCurves(Linear(), grid=fine)(np.sin(fine)[None]).round(3)
    (array([[0.273]]), array([[0.273]]))
    """

    def __init__(
        self,
        kernel: ScalarKernel,
        grid: Any = None,
        derivative: int = 0,
        basis: Basis | None = None,
        channels: int = 1,
    ) -> None:
        self.kernel = kernel
        self.grid = grid
        self.derivative = derivative
        self.basis = basis
        self.channels = channels

    def _grid(self, p: int) -> Grid:
        channels = check_int(self.channels, "channels")
        d, rest = divmod(p, channels)
        if rest:
            raise ValueError(f"X has {p} columns, which is not a whole number for each of {channels} channels")
        grid = Grid.regular(d) if self.grid is None else as_grid(self.grid)
        if len(grid) != d:
            raise ValueError(f"X has {d} columns for a curve but the grid of OnCurves has {len(grid)} points")
        return grid

    @cached
    def _projections(self) -> dict[int, Any]:
        return {}

    def _projection(self, p: int, grid: Grid, basis: Basis) -> Any:
        found = self._projections()
        if p not in found:
            found[p] = basis.coordinates(grid)
        return found[p]

    def coordinates(self, X: Any) -> Array:
        """The coordinates of curves, (n, q)."""
        X = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
        n, p = X.shape
        grid = self._grid(p)
        curves = X.reshape(n, check_int(self.channels, "channels"), len(grid))
        for _ in range(check_int(self.derivative, "derivative", least=0)):
            # Of a function of several variables there is a channel for the slopes along each.
            slopes = grid.slopes(curves)
            curves = slopes.reshape(n, slopes.shape[1] * slopes.shape[2], len(grid))
        after = curves * grid.roots() if self.basis is None else curves @ self._projection(p, grid, self.basis)
        return np.ascontiguousarray(after.reshape(n, after.shape[1] * after.shape[2]))
