"""The contract of a gram: an operator-valued kernel on samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ovk._validation import Array, Indices


class Gram(ABC):
    """K(x_i, z_j) for all i, j, as a linear map from coefficients (m, d) to values (n, d).

    A gram keeps the structure of its kernel; the (n d, m d) matrix is formed by `dense` alone.
    """

    shape: tuple[int, int]  # (n, m) points
    output_dim: int

    @abstractmethod
    def matmat(self, C: Any) -> Array:
        """Values sum_j K(x_i, z_j) c_j, (n, d), of coefficients (m, d) (an array or a scipy sparse matrix)."""

    def matmat_since(self, C: Array, since: Indices) -> Array:
        """The same for rows that each see the points from since_i on only; `since`, (n,), never decreases."""
        n, m = self.shape
        d = self.output_dim
        weights = (np.arange(m) >= since[:, None]).astype(np.float64)
        values: Array = np.einsum("iqjp,ij,jp->iq", self.dense().reshape(n, d, m, d), weights, C, optimize=True)
        return values

    @abstractmethod
    def entries(self, rows: Indices, outputs: Indices, columns: Indices, inputs: Indices) -> Array:
        """K(x_i, z_j)[q, p] for pairs (i, q) of `rows`, `outputs` and pairs (j, p) of `columns`, `inputs`."""

    @abstractmethod
    def rescale(self, rows: Array | None, columns: Array | None, outputs: Array | None) -> Gram:
        """The gram with K(x_i, z_j) replaced by rows_i columns_j S K(x_i, z_j) S, S = diag(outputs)."""

    @abstractmethod
    def diagonal_blocks(self) -> Array:
        """K(x_i, z_i), (n, d, d)."""

    def dense(self) -> Array:
        """The matrix, (n d, m d); the entry of output q at point i has the row i d + q."""
        n, m = self.shape
        d = self.output_dim
        return self.entries(
            np.repeat(np.arange(n), d), np.tile(np.arange(d), n), np.repeat(np.arange(m), d), np.tile(np.arange(d), m)
        )


def scaled_matrix(G: Array, rows: Array | None, columns: Array | None) -> Array:
    """diag(rows) G diag(columns); G itself when there is nothing to do."""
    if rows is not None:
        G = G * rows[:, None]
    if columns is not None:
        G = G * columns[None, :]
    return G
