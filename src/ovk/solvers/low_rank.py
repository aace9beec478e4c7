"""A preconditioner from a few columns of the gram: K + alpha I by F F' + alpha I."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ovk._validation import Array, Indices
from ovk.grams import Gram


def pivoted_cholesky(gram: Gram, rank: int, tol: float = 1e-12) -> Array:
    """F, (n d, r), with F F' close to the gram: columns chosen greedily by the largest remaining diagonal entry.

    Only the columns that are used are computed.
    """
    n, d = gram.shape[0], gram.output_dim
    points, outputs = np.repeat(np.arange(n), d), np.tile(np.arange(d), n)
    left = np.einsum("iqq->iq", gram.diagonal_blocks()).reshape(-1).copy()
    largest = max(float(left.max(initial=0.0)), 1e-300)
    F = np.zeros((n * d, min(rank, n * d)))
    for k in range(F.shape[1]):
        pivot = int(left.argmax())
        if left[pivot] <= tol * largest:
            return F[:, :k]
        one: Indices = np.array([pivot])
        column = gram.entries(points, outputs, points[one], outputs[one])[:, 0]
        column = (column - F[:, :k] @ F[pivot, :k]) / np.sqrt(left[pivot])
        F[:, k] = column
        left -= column**2
        left[pivot] = 0.0
    return F


class LowRankPreconditioner:
    """(F F' + alpha I)^-1 R by Woodbury's identity, F from pivoted Cholesky."""

    def __init__(self, gram: Gram, rank: int) -> None:
        self._F = pivoted_cholesky(gram, rank)
        self._inner = self._F.T @ self._F

    def __call__(self, alpha: float) -> Callable[[Array], Array]:
        F = self._F
        factor = cho_factor(self._inner + alpha * np.eye(F.shape[1]), lower=True)

        def apply(R: Array) -> Array:
            flat = R.reshape(-1)
            result: Array = ((flat - F @ cho_solve(factor, F.T @ flat)) / alpha).reshape(R.shape)
            return result

        return apply
