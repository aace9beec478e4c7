"""Operator-valued kernels K(x, z): kernels whose values are d x d matrices."""

from ovk.ovkernels.base import OperatorKernel, Term
from ovk.ovkernels.curl_free import CurlFree, DivFree
from ovk.ovkernels.diagonal import Diagonal, Hadamard, Transformable
from ovk.ovkernels.expansion import Expansion
from ovk.ovkernels.expansion import row_slices as row_slices
from ovk.ovkernels.grams import ByOutput, Decoupled, DenseBlocks, Gram, Kronecker, Observed, Rotated, Stacked
from ovk.ovkernels.grams import common_eigenvectors as common_eigenvectors
from ovk.ovkernels.grams import distinct as distinct
from ovk.ovkernels.separable import Separable, as_operator_kernel
from ovk.ovkernels.weighted_sum import WeightedSum

__all__ = [
    "ByOutput",
    "CurlFree",
    "Decoupled",
    "DenseBlocks",
    "Diagonal",
    "DivFree",
    "Expansion",
    "Gram",
    "Hadamard",
    "Kronecker",
    "Observed",
    "OperatorKernel",
    "Rotated",
    "Separable",
    "Stacked",
    "Term",
    "Transformable",
    "WeightedSum",
    "as_operator_kernel",
]
