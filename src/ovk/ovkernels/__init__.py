"""Operator-valued kernels K(x, z): kernels whose values are d x d matrices."""

from ovk.ovkernels.base import OperatorKernel
from ovk.ovkernels.base import Term as Term
from ovk.ovkernels.curl_free import CurlFree, DivFree
from ovk.ovkernels.diagonal import Diagonal, Hadamard, Transformable
from ovk.ovkernels.expansion import Expansion
from ovk.ovkernels.expansion import row_slices as row_slices
from ovk.ovkernels.grams import ByOutput as ByOutput
from ovk.ovkernels.grams import Decoupled as Decoupled
from ovk.ovkernels.grams import DenseBlocks as DenseBlocks
from ovk.ovkernels.grams import Gram as Gram
from ovk.ovkernels.grams import Kronecker as Kronecker
from ovk.ovkernels.grams import Observed as Observed
from ovk.ovkernels.grams import Rotated as Rotated
from ovk.ovkernels.grams import Stacked as Stacked
from ovk.ovkernels.grams import common_eigenvectors as common_eigenvectors
from ovk.ovkernels.grams import distinct as distinct
from ovk.ovkernels.separable import Separable
from ovk.ovkernels.separable import as_operator_kernel as as_operator_kernel
from ovk.ovkernels.weighted_sum import WeightedSum

__all__ = [
    "CurlFree",
    "Diagonal",
    "DivFree",
    "Expansion",
    "Hadamard",
    "OperatorKernel",
    "Separable",
    "Transformable",
    "WeightedSum",
]
