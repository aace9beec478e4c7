"""Scalar kernels k(x, z): how similar two inputs are."""

from ovk.kernels.base import (
    Intercept,
    Linear,
    Mapped,
    NotDifferentiableError,
    Polynomial,
    Product,
    ScalarKernel,
    Scaled,
    Sum,
    Tanimoto,
    contract,
    product_window,
)
from ovk.kernels.foreign import Function, Precomputed, SklearnKernel, as_kernel, as_ours, object_indices
from ovk.kernels.mapped import OnColumns, OnCurves, Periodic
from ovk.kernels.stationary import (
    Gaussian,
    Laplacian,
    Matern,
    RationalQuadratic,
    Stationary,
    median_distance,
    spread_rows,
)

__all__ = [
    "Function",
    "Gaussian",
    "Intercept",
    "Laplacian",
    "Linear",
    "Matern",
    "NotDifferentiableError",
    "OnColumns",
    "OnCurves",
    "Periodic",
    "Polynomial",
    "Precomputed",
    "RationalQuadratic",
    "ScalarKernel",
    "Tanimoto",
]
