"""Functions sampled on grids: quadrature, bases, products of grids, and curves seen at points of their own."""

from ovk.curves.basis import (
    Basis,
    FourierBasis,
    LegendreBasis,
    PrincipalComponents,
    ProductBasis,
    SineBasis,
    SplineBasis,
)
from ovk.curves.common_grid import common_grid
from ovk.curves.grid import BadGrid, Grid
from ovk.curves.grid import as_grid as as_grid
from ovk.curves.product import Components, ProductGrid
from ovk.curves.product import KroneckerMatrix as KroneckerMatrix

__all__ = [
    "BadGrid",
    "Basis",
    "Components",
    "FourierBasis",
    "Grid",
    "LegendreBasis",
    "PrincipalComponents",
    "ProductBasis",
    "ProductGrid",
    "SineBasis",
    "SplineBasis",
    "common_grid",
]
