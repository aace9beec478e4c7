"""Inputs that are curves."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ovk._params import cached
from ovk._validation import Array, whole
from ovk.curves import Basis, Grid
from ovk.curves.grid import as_grid
from ovk.kernels.base import ScalarKernel


class OnCurves(ScalarKernel):
    """A kernel of curves: inner products and distances are integrals, whatever the grid.

    Rows of X are curves on a grid (or several channels on it, one behind the other). The kernel sees coordinates whose
    Euclidean distance is the L2 distance of the curves, of their derivatives, or of their fits in a basis.

    Parameters
    ----------
    kernel : scalar kernel of the coordinates
    grid : `Grid` or its points; a regular grid on [0, 1] by default
    derivative : int
        How often curves are differentiated first.
    basis : `FourierBasis`, `SplineBasis` or None
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
        channels = whole(self.channels, "channels")
        d, rest = divmod(p, channels)
        if rest:
            raise ValueError(f"X has {p} columns, which is not a whole number for each of {channels} channels")
        grid = Grid.regular(d) if self.grid is None else as_grid(self.grid)
        if len(grid) != d:
            raise ValueError(f"X has {d} columns for a curve but the grid of OnCurves has {len(grid)} points")
        return grid

    @cached
    def _maps(self) -> dict[int, Array]:
        return {}

    def _map(self, p: int) -> Array:
        """The matrix, (points, coordinates), that one channel's curves are multiplied with."""
        maps = self._maps()
        if p not in maps:
            grid = self._grid(p)
            before = np.eye(len(grid))
            for _ in range(whole(self.derivative, "derivative", least=0)):
                before = before @ grid.derivative()
            if self.basis is not None:
                after = self.basis.coordinates(grid)
            else:
                after = np.diag(grid.roots())
            maps[p] = before @ after
        return maps[p]

    def coordinates(self, X: Any) -> Array:
        """The coordinates of curves, (n, q)."""
        X = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
        curves = X.reshape(len(X), whole(self.channels, "channels"), -1) if X.shape[1] % self.channels == 0 else X
        A = self._map(X.shape[1])
        return np.ascontiguousarray((curves @ A).reshape(len(X), -1))

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        return self.kernel(self.coordinates(X), None if Z is None else self.coordinates(Z))

    def diag(self, X: Any) -> Array:
        return self.kernel.diag(self.coordinates(X))

    def resolve(self, X: Any) -> OnCurves:
        inner = self.kernel.resolve(self.coordinates(X))
        return self if inner is self.kernel else self.replace(kernel=inner)

    def norm_bound(self) -> float | None:
        return self.kernel.norm_bound()

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Array]:
        inner = self.kernel.gradient(self.coordinates(X), None if Z is None else self.coordinates(Z))
        return {f"kernel__{name}": value for name, value in inner.items()}
