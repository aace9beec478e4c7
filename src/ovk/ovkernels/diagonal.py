"""A kernel of its own for every output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ovk._params import PartsMixin
from ovk._types import Array, Indices
from ovk.grams import Gram, Kronecker
from ovk.grams.kronecker import distinct
from ovk.kernels import ScalarKernel, as_kernel
from ovk.kernels.base import contract
from ovk.operators import Dense
from ovk.ovkernels.base import OperatorKernel, by_entry
from ovk.ovkernels.terms import SeparableTerms, Term


class Diagonal(PartsMixin, OperatorKernel):
    """K(x, z) = diag(k_1(x, z), ..., k_d(x, z)): outputs apart, each with its own kernel.

    Parameters
    ----------
    kernels : sequence of d scalar kernels

    Examples
    --------
    >>> from ovk.kernels import Gaussian, Linear
    >>> from ovk.ovkernels import Diagonal
    >>> Diagonal([Gaussian(1.0), Linear()])([1.0], [2.0]).round(4)
    array([[0.6065, 0.    ],
           [0.    , 2.    ]])
    """

    _parts_name = "kernels"

    def __init__(self, kernels: Sequence[Any]) -> None:
        self.kernels = kernels

    @property
    def output_dim(self) -> int:
        return len(self.kernels)

    @property
    def scalars(self) -> list[ScalarKernel]:
        """The scalar kernels, whatever form they were given in."""
        if len(self.kernels) == 0:
            raise ValueError("kernels must hold a kernel for each output, got none")
        return [as_kernel(kernel) for kernel in self.kernels]

    def resolve(self, X: Any, d: int) -> Self:
        super().resolve(X, d)
        return type(self)([kernel.resolve(X) for kernel in self.scalars])

    def terms(self) -> list[Term]:
        only = [Dense(np.diag(row)) for row in np.eye(self.output_dim)]
        return [Term(1.0, k, only[q], f"kernels[{q}]") for q, k in enumerate(self.scalars)]

    def _separable_terms(self) -> SeparableTerms:
        """Each different kernel with the outputs that have it."""
        found, numbers = distinct(self.scalars)
        outputs = [Dense(np.diag((numbers == k).astype(np.float64))) for k in range(len(found))]
        return SeparableTerms([Term(1.0, k, T) for k, T in zip(found, outputs, strict=True)])

    def gram(self, X: Any, Z: Any | None = None) -> Gram:
        return self._separable_terms().gram(X, Z)

    def product(self, X: Any, Z: Any, C: Any, since: Indices | None = None) -> Array:
        return self._separable_terms().product(X, Z, C, since)

    def diagonal_blocks(self, X: Any) -> Array:
        return self._separable_terms().diagonal_blocks(X)

    def pairs(self, X: Any, s: Indices, Z: Any | None = None, t: Indices | None = None) -> Array:
        t = s if t is None else t
        values = np.zeros((len(s), len(t)))
        for q, kernel in enumerate(self.scalars):
            rows, columns = np.flatnonzero(s == q), np.flatnonzero(t == q)
            if len(rows) and len(columns):
                values[np.ix_(rows, columns)] = kernel(X[rows], None if Z is None else Z[columns])
        return values

    def jacobian(self, X: Any, Z: Any, C: Array) -> Array:
        parts = [contract(kernel.slopes(X, Z), X, Z, C[..., q : q + 1])[:, 0] for q, kernel in enumerate(self.scalars)]
        return np.stack(parts, axis=1)

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Gram]:
        result: dict[str, Gram] = {}
        for q, kernel in enumerate(self.scalars):
            only = Dense(np.diag(np.eye(self.output_dim)[q]))
            for name, change in by_entry(f"kernels[{q}]", kernel.gradient(X, Z)).items():
                result[name] = Kronecker(change, only)
        return result

    def norm_bound(self) -> float | None:
        bounds = [kernel.norm_bound() for kernel in self.scalars]
        known = [bound for bound in bounds if bound is not None]
        return max(known) if len(known) == len(bounds) else None
