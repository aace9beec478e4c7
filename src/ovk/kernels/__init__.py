"""Scalar kernels k(x, z): how similar two inputs are."""

from ovk.kernels.algebra import Product, Scaled, Sum
from ovk.kernels.base import NotDifferentiable, ScalarKernel
from ovk.kernels.foreign import Function, SklearnKernel, as_kernel
from ovk.kernels.inner_product import Linear, Polynomial, Tanimoto
from ovk.kernels.intercept import Intercept
from ovk.kernels.laplacian import Laplacian
from ovk.kernels.mapped import Mapped, OnColumns, Periodic
from ovk.kernels.matern import Matern
from ovk.kernels.on_curves import OnCurves
from ovk.kernels.precomputed import Precomputed
from ovk.kernels.stationary import Gaussian, RationalQuadratic, Stationary, median_distance

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
