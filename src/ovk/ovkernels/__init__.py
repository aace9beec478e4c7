"""Operator-valued kernels K(x, z): kernels whose values are d x d matrices."""

from ovk.ovkernels.base import OperatorKernel
from ovk.ovkernels.curl_free import CurlFree, DivFree
from ovk.ovkernels.diagonal import Diagonal
from ovk.ovkernels.hadamard import Hadamard
from ovk.ovkernels.separable import Separable, as_operator_kernel
from ovk.ovkernels.terms import Term
from ovk.ovkernels.transformable import Transformable
from ovk.ovkernels.weighted_sum import WeightedSum

__all__ = [
    "CurlFree",
    "Diagonal",
    "DivFree",
    "Hadamard",
    "OperatorKernel",
    "Separable",
    "Term",
    "Transformable",
    "WeightedSum",
    "as_operator_kernel",
]
