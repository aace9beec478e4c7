"""A kernel of its own for every output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ovk._params import equal
from ovk._validation import Array, Indices
from ovk.grams import Gram, Kronecker, KroneckerSum
from ovk.kernels import ScalarKernel, as_kernel
from ovk.kernels.base import contract
from ovk.operators import Dense
from ovk.ovkernels.base import OperatorKernel, by_entry


class Diagonal(OperatorKernel):
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

    def _distinct(self) -> list[tuple[ScalarKernel, Array]]:
        """Each different kernel with the 0/1 vector of the outputs that have it."""
        found: list[tuple[ScalarKernel, Array]] = []
        for q, kernel in enumerate(self.scalars):
            for other, outputs in found:
                if equal(kernel, other):
                    outputs[q] = 1.0
                    break
            else:
                found.append((kernel, np.eye(self.output_dim)[q]))
        return found

    def gram(self, X: Any, Z: Any | None = None) -> Gram:
        terms = [(kernel(X, Z), Dense(np.diag(outputs))) for kernel, outputs in self._distinct()]
        return Kronecker(*terms[0]) if len(terms) == 1 else KroneckerSum(terms)

    def diagonal_blocks(self, X: Any) -> Array:
        blocks = np.zeros((X.shape[0], self.output_dim, self.output_dim))
        for q, kernel in enumerate(self.scalars):
            blocks[:, q, q] = kernel.diag(X)
        return blocks

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
