"""Kronecker products of operators: one for each variable of functions of several."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Self

import numpy as np

from ovk._params import PartsMixin, cached
from ovk._types import Array
from ovk.curves.kronecker_matrix import KroneckerMatrix
from ovk.operators.base import OutputOperator, Spectrum, equalised


class TensorProduct(PartsMixin, OutputOperator):
    """T = T_1 (x) ... (x) T_k on outputs that are tables: T_i along the i-th axis of a table, none of T ever formed.

    A row of Y holds a table with its last axis running fastest. Eigenvalues are products of those along the axes, and
    eigenvectors Kronecker products: with d = d_1 ... d_k outputs products with them cost d (d_1 + ... + d_k), not d^2.

    Parameters
    ----------
    operators : sequence of output operators, each with its number of outputs

    Examples
    --------
    Outputs for 3 sites and 2 hours, coupled along both.

    >>> import numpy as np
    >>> from ovk.operators import Dense, MixedEffect, TensorProduct
    >>> T = TensorProduct([MixedEffect(0.5, output_dim=3), Dense([[1.0, 0.5], [0.5, 1.0]])])
    >>> T.output_dim, T.eigh().distinct
    (6, array([0.25, 0.75, 1.  , 3.  ]))
    """

    _parts_name = "operators"

    def __init__(self, operators: Sequence[OutputOperator]) -> None:
        self.operators = operators

    @cached
    def _factors(self) -> list[OutputOperator]:
        parts = self.operators
        if not isinstance(parts, Sequence) or not parts or not all(isinstance(T, OutputOperator) for T in parts):
            raise ValueError(f"operators must be a sequence of output operators, got {parts!r}")
        for T in parts:
            T.dim()
        return list(parts)

    @property
    def output_dim(self) -> int:  # type: ignore[override]
        return int(np.prod([T.dim() for T in self._factors()]))

    def resolve(self, d: int) -> Self:
        if self.output_dim != d:
            raise ValueError(f"TensorProduct is an operator on {self.output_dim} outputs but Y has {d}")
        return self

    @cached
    def matrix(self) -> KroneckerMatrix:
        """T as a Kronecker product of matrices."""
        return KroneckerMatrix([T.dense() for T in self._factors()])

    def dense(self) -> Array:
        return np.asarray(self.matrix())

    def apply(self, Y: Any) -> Array:
        return np.asarray((Y if isinstance(Y, np.ndarray) else Y.toarray()) @ self.matrix())

    @cached
    def eigh(self) -> Spectrum:
        parts = [T.eigh() for T in self._factors()]
        values = np.asarray(reduce(np.multiply.outer, [part.values for part in parts])).ravel()
        order = np.argsort(values, kind="stable")
        vectors: Any = KroneckerMatrix([np.asarray(part.vectors) for part in parts], order)
        return Spectrum(equalised(values[order]), vectors)
