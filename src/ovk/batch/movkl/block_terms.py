"""Many kernels of any kind on one sample: curl-free ones, diagonal ones, products of operators entry by entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ovk._types import Array
from ovk.batch.movkl.kernel_terms import KernelTerms
from ovk.grams import DenseBlocks, Gram
from ovk.ovkernels import OperatorKernel


class BlockTerms(KernelTerms):
    """Kernels that are not all of the form k T: their grams have no common structure, and are added up as matrices.

    Parameters
    ----------
    kernels : resolved operator-valued kernels
    X : inputs
    rows : (n,) square roots of sample weights, or None: the grams are scaled by them on both sides
    """

    def __init__(self, kernels: Sequence[OperatorKernel], X: Any, rows: Array | None = None) -> None:
        found = [kernel.gram(X) for kernel in kernels]
        self.each: list[Gram] = found if rows is None else [gram.rescale(rows, rows, None) for gram in found]

    def gram(self, weights: Array) -> DenseBlocks:
        alive = [(weight, gram) for weight, gram in zip(weights, self.each, strict=True) if weight != 0]
        total = np.zeros((self.each[0].shape[0] * self.each[0].output_dim,) * 2)
        for weight, gram in alive:
            total += weight * gram.dense()
        return DenseBlocks(total, self.each[0].output_dim)

    def energies(self, C: Array) -> Array:
        return np.array([max(float(np.vdot(C, gram.matmat(C))), 0.0) for gram in self.each])
