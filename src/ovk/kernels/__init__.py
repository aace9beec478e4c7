"""Scalar kernels k(x, z): how similar two inputs are."""

from ovk.kernels.base import Intercept, Linear, NotDifferentiable, Polynomial, ScalarKernel, Tanimoto
from ovk.kernels.base import Product as Product
from ovk.kernels.base import Scaled as Scaled
from ovk.kernels.base import Sum as Sum
from ovk.kernels.base import contract as contract
from ovk.kernels.base import product_window as product_window
from ovk.kernels.foreign import Function, Precomputed, SklearnKernel
from ovk.kernels.foreign import as_kernel as as_kernel
from ovk.kernels.foreign import as_ours as as_ours
from ovk.kernels.foreign import numbers_of_objects as numbers_of_objects
from ovk.kernels.mapped import Mapped as Mapped
from ovk.kernels.mapped import OnColumns, OnCurves, Periodic
from ovk.kernels.stationary import Gaussian, Laplacian, Matern, RationalQuadratic
from ovk.kernels.stationary import Stationary as Stationary
from ovk.kernels.stationary import median_distance as median_distance
from ovk.kernels.stationary import spread_rows as spread_rows

__all__ = [
    "Function",
    "Gaussian",
    "Intercept",
    "Laplacian",
    "Linear",
    "Matern",
    "NotDifferentiable",
    "OnColumns",
    "OnCurves",
    "Periodic",
    "Polynomial",
    "Precomputed",
    "RationalQuadratic",
    "ScalarKernel",
    "SklearnKernel",
    "Tanimoto",
]
