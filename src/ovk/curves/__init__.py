"""Functions sampled on grids: quadrature, bases, products of grids, and curves seen at points of their own."""

from ovk.curves.basis import Basis as Basis
from ovk.curves.basis import FourierBasis as FourierBasis
from ovk.curves.basis import LegendreBasis as LegendreBasis
from ovk.curves.basis import PrincipalComponents as PrincipalComponents
from ovk.curves.basis import ProductBasis as ProductBasis
from ovk.curves.basis import SineBasis as SineBasis
from ovk.curves.basis import SplineBasis as SplineBasis
from ovk.curves.common_grid import common_grid
from ovk.curves.grid import BadGrid, Grid
from ovk.curves.grid import as_grid as as_grid
from ovk.curves.product import Components, ProductGrid
from ovk.curves.product import KroneckerMatrix as KroneckerMatrix

__all__ = [
    "BadGrid",
    "Components",
    "Grid",
    "ProductGrid",
    "common_grid",
]
