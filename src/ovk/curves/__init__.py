"""Functions on grids: quadrature, products of grids, principal components, irregularly sampled curves."""

from ovk.curves.common_grid import common_grid
from ovk.curves.grid import Grid, GridError, as_grid
from ovk.curves.principal_components import PrincipalComponents
from ovk.curves.product import Components, KroneckerMatrix, ProductGrid

__all__ = ["Components", "Grid", "GridError", "ProductGrid", "common_grid"]
