"""The contract of a gram, an operator-valued kernel on samples, and of the scalar problems that it falls apart into."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from ovk._types import Array, Indices
from ovk.operators import OutputOperator

if TYPE_CHECKING:
    from ovk.grams.kronecker import Rotated


class Gram(ABC):
    """K(x_i, z_j) for all i, j, as a linear map from coefficients (m, d) to values (n, d).

    A gram keeps the structure of its kernel; the (n d, m d) matrix is formed by `dense` alone.
    """

    shape: tuple[int, int]  # (n, m) points
    output_dim: int

    @abstractmethod
    def matmat(self, C: Any) -> Array:
        """Values sum_j K(x_i, z_j) c_j, (n, d), of coefficients (m, d) (an array or a scipy sparse matrix)."""

    def terms(self) -> list[tuple[Array, OutputOperator]] | None:
        """Scalar grams G_k, (n, m), and operators T_k with sum_k G_k (x) T_k = K, as few as possible; None where the
        gram is not such a sum."""
        return None

    def by_operator(self) -> list[tuple[Array, OutputOperator]] | None:
        """`terms` with the operators of the kernel itself, none of them added to another."""
        return self.terms()

    def matmat_since(self, C: Array, since: Indices) -> Array:
        """`matmat` for rows that each see the points from since_i on only; `since`, (n,), never decreases."""
        return self.weighted((np.arange(self.shape[1]) >= since[:, None]).astype(np.float64)).matmat(C)

    @abstractmethod
    def weighted(self, weights: Array) -> Gram:
        """The gram with K(x_i, z_j) replaced by weights_ij K(x_i, z_j); `weights` is (n, m)."""

    @abstractmethod
    def part_matmat(self, rows: slice, columns: slice, C: Array) -> Array:
        """`matmat` for some of the rows and some of the columns, (rows, d); C holds coefficients of these columns."""

    @abstractmethod
    def entries(self, rows: Indices, outputs: Indices, columns: Indices, inputs: Indices) -> Array:
        """K(x_i, z_j)[q, p] for pairs (i, q) of `rows`, `outputs` and pairs (j, p) of `columns`, `inputs`."""

    @abstractmethod
    def rescale(self, rows: Array | None, columns: Array | None, outputs: Array | None) -> Gram:
        """The gram with K(x_i, z_j) replaced by rows_i columns_j S K(x_i, z_j) S, S = diag(outputs)."""

    @abstractmethod
    def diagonal_blocks(self) -> Array:
        """K(x_i, z_i), (n, d, d)."""

    @abstractmethod
    def decouple(self) -> Decoupled | None:
        """The gram as independent scalar problems, or None when its operators have no common eigenvectors.

        >>> import numpy as np
        >>> from ovk.grams import Kronecker
        >>> from ovk.operators import MixedEffect
        >>> len(Kronecker(np.eye(4), MixedEffect(0.3, output_dim=5)).decouple().groups)
        2
        """

    def rotation(self) -> Rotated | None:
        """The gram in common eigenvectors of its operators, or None when there are none.

        >>> import numpy as np
        >>> from ovk.grams import DenseBlocks, Kronecker
        >>> from ovk.operators import MixedEffect
        >>> Kronecker(np.eye(4), MixedEffect(0.5, output_dim=3)).rotation().weights
        array([[0.5],
               [2. ]])
        >>> DenseBlocks(np.eye(4), output_dim=2).rotation() is None
        True
        """
        decoupled = self.decouple()
        return None if decoupled is None else decoupled.rotation()

    def __rmul__(self, factor: float) -> Gram:
        """The gram times a number."""
        return self.rescale(np.full(self.shape[0], factor), None, None)

    def energies(self, a: Array) -> Array:
        """<a_i, K(x_i, z_i) a_i> of each row, (n,)."""
        return np.asarray(np.einsum("jp,jpq,jq->j", a, self.diagonal_blocks(), a))

    def block_norms(self) -> Array:
        """A bound on the largest eigenvalue of K(x_i, z_i), (n,)."""
        return np.asarray(np.einsum("jqq->j", self.diagonal_blocks()))

    def dense(self) -> Array:
        """The matrix, (n d, m d); the entry of output q at point i has the row i d + q."""
        n, m = self.shape
        d = self.output_dim
        return self.entries(
            np.repeat(np.arange(n), d), np.tile(np.arange(d), n), np.repeat(np.arange(m), d), np.tile(np.arange(d), m)
        )


class Decoupled(ABC):
    """A gram as independent scalar problems.

    When the operators of a gram have common eigenvectors v_q, the system  sum_k G_k C T_k + alpha C = Y  falls apart:
    with t_kq the eigenvalue of T_k on v_q,

        (sum_k t_kq G_k + alpha I) (C v_q) = Y v_q,

    a scalar problem for every *distinct* tuple (t_1q, t_2q, ...). One operator always decouples, and so do operators
    that commute (`Rotated`). Observed outputs that have nothing to do with each other are a problem each (`ByOutput`),
    and a gram without structure is a single scalar problem on n d points (`Stacked`).
    """

    @abstractmethod
    def __len__(self) -> int:
        """Number of scalar problems."""

    @abstractmethod
    def split(self, Y: Array) -> list[Array]:
        """The right-hand sides of the scalar problems, (n_q, k_q) each, newly made."""

    @abstractmethod
    def join(self, parts: list[Array]) -> Array:
        """Their solutions put together again: the inverse of `split`."""

    @abstractmethod
    def matrix(self, q: int) -> Array:
        """The gram of problem q, newly made (the caller may overwrite it)."""

    @abstractmethod
    def vanishes(self, q: int) -> bool:
        """Whether the gram of problem q is known to be zero."""

    def rotation(self) -> Rotated | None:
        """The problems as common eigenvectors of the outputs, None where they are of another kind."""
        return None
