"""Scalar kernels k(x, z): how alike two inputs are."""

from ovk.kernels.algebra import Product, Scaled, Sum
from ovk.kernels.base import NotDifferentiable, ScalarKernel
from ovk.kernels.foreign import Function, SklearnKernel, as_kernel
from ovk.kernels.gaussian import Gaussian
from ovk.kernels.laplacian import Laplacian
from ovk.kernels.matern import Matern
from ovk.kernels.on_curves import OnCurves
from ovk.kernels.periodic import Periodic
from ovk.kernels.polynomial import Linear, Polynomial
from ovk.kernels.precomputed import Precomputed
from ovk.kernels.rational_quadratic import RationalQuadratic
from ovk.kernels.stationary import Stationary
from ovk.kernels.tanimoto import Tanimoto

__all__ = [
    "Function",
    "Gaussian",
    "Laplacian",
    "Linear",
    "Matern",
    "NotDifferentiable",
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
]
