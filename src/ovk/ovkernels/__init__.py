"""Operator-valued kernels K(x, z): kernels whose values are d x d matrices."""

from ovk.ovkernels.algebra import Hadamard, Scaled, Sum
from ovk.ovkernels.base import OperatorKernel
from ovk.ovkernels.combination import Combination
from ovk.ovkernels.curl_free import CurlFree, DivFree
from ovk.ovkernels.diagonal import Diagonal
from ovk.ovkernels.separable import Separable, as_operator_kernel
from ovk.ovkernels.transformable import Transformable

__all__ = [
    "Combination",
    "CurlFree",
    "Diagonal",
    "DivFree",
    "Hadamard",
    "OperatorKernel",
    "Scaled",
    "Separable",
    "Sum",
    "Transformable",
    "as_operator_kernel",
]
