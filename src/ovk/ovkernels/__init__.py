"""Operator-valued kernels K(x, z): kernels whose values are d x d matrices."""

from ovk.ovkernels.base import Expansion, OperatorKernel, Separable, Term, as_operator_kernel, row_slices
from ovk.ovkernels.curl_free import CurlFree, DivFree
from ovk.ovkernels.diagonal import Diagonal, Hadamard, Transformable
from ovk.ovkernels.grams import (
    ByOutput,
    Decoupled,
    DenseBlocks,
    Gram,
    Kronecker,
    Observed,
    Rotated,
    Stacked,
    common_eigenvectors,
    distinct,
)
from ovk.ovkernels.weighted_sum import WeightedSum

__all__ = ["CurlFree", "Diagonal", "DivFree", "Expansion", "Hadamard", "OperatorKernel", "Transformable", "WeightedSum"]
