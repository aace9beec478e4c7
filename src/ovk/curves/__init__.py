"""Curves sampled on grids: quadrature, bases, and curves that were seen at points of their own."""

from ovk.curves.basis import Basis, FourierBasis, SplineBasis
from ovk.curves.gather import common_grid
from ovk.curves.grid import BadGrid, Grid

__all__ = ["BadGrid", "Basis", "FourierBasis", "Grid", "SplineBasis", "common_grid"]
