"""Scalar kernels k(x, z): how similar two inputs are."""

from ovk.kernels.base import (
    Intercept,
    Linear,
    NotDifferentiable,
    Polynomial,
    Product,
    ScalarKernel,
    Scaled,
    Sum,
    Tanimoto,
)
from ovk.kernels.base import contract as contract
from ovk.kernels.base import product_window as product_window
from ovk.kernels.foreign import Function, Precomputed, SklearnKernel, as_kernel
from ovk.kernels.foreign import as_ours as as_ours
from ovk.kernels.foreign import numbers_of_objects as numbers_of_objects
from ovk.kernels.mapped import Mapped, OnColumns, OnCurves, Periodic
from ovk.kernels.stationary import Gaussian, Laplacian, Matern, RationalQuadratic, Stationary, median_distance
from ovk.kernels.stationary import spread_rows as spread_rows

__all__ = [
    "Function",
    "Gaussian",
    "Intercept",
    "Laplacian",
    "Linear",
    "Mapped",
    "Matern",
    "NotDifferentiable",
    "OnColumns",
    "OnCurves",
    "Periodic",
    "Polynomial",
    "Precomputed",
    "Product",
    "RationalQuadratic",
    "ScalarKernel",
    "Scaled",
    "SklearnKernel",
    "Stationary",
    "Sum",
    "Tanimoto",
    "as_kernel",
    "median_distance",
]
