"""A preconditioner for sums of separable kernels whose main operator has many eigenvalues."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh, solve_triangular

from ovk._validation import Array
from ovk.grams import Kronecker, KroneckerSum
from ovk.solvers.cholesky import triangle

Map = Callable[[Array], Array]


class Pencil:
    """(A (x) T + B (x) I + alpha I)^-1: the dominant operator T as it is, the others as multiples of the identity.

    With T = V diag(e) V' and the others replaced by their means, B = sum_k (tr T_k / d) G_k, problem q is
    (e_q A + B + alpha I). All d of them share one decomposition: with B + alpha I = L L', L^-1 A L'^-1 = U diag(a) U'
    and Z = L'^-1 U,

        (e_q A + B + alpha I)^-1 = Z diag(1 / (1 + e_q a)) Z'.

    Exact when the other operators are multiples of the identity.
    """

    def __init__(self, gram: Kronecker | KroneckerSum, dominant: int) -> None:
        self._grams = [G for G, _ in gram.terms]
        operators = [operator for _, operator in gram.terms]
        self._dominant = dominant
        self._spectrum = operators[dominant].eigh()
        self._means = [float(operator.eigh().values.mean()) for operator in operators]
        self._alpha: float | None = None
        self._apply: Map = np.copy

    def __call__(self, alpha: float) -> Map:
        if alpha != self._alpha:
            self._apply, self._alpha = self._factored(alpha), alpha
        return self._apply

    def _factored(self, alpha: float) -> Map:
        A = self._grams[self._dominant]
        others = [(m, G) for k, (m, G) in enumerate(zip(self._means, self._grams, strict=True)) if k != self._dominant]

        def rest() -> Array:
            B = np.zeros_like(A)
            for mean, G in others:
                B += mean * G
            return B

        L = triangle(rest, alpha).L
        half = solve_triangular(L, A, lower=True, check_finite=False)
        inner = solve_triangular(L, half.T, lower=True, check_finite=False)
        a, U = eigh(0.5 * (inner + inner.T), check_finite=False, overwrite_a=True)
        Z = np.ascontiguousarray(solve_triangular(L, U, lower=True, trans="T", check_finite=False))
        e, V = self._spectrum.values, self._spectrum.vectors
        scale = 1.0 / (1.0 + np.multiply.outer(np.maximum(a, 0.0), e))

        def apply(R: Array) -> Array:
            result: Array = (Z @ (scale * (Z.T @ (R @ V)))) @ V.T
            return result

        return apply
