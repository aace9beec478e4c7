"""Grams: structured matrices of operator-valued kernels on samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from ovk.base import Array, DeviceMatrix, Indices, equal
from ovk.kernels import product_window
from ovk.operators import Dense, OutputOperator, spectrum


class Gram(ABC):
    """K(x_i, z_j) for all i, j, as a linear map from (m, d) to (n, d); only `dense` forms the (n d, m d) matrix."""

    shape: tuple[int, int]  # (n, m) points
    output_dim: int

    @abstractmethod
    def matmat(self, C: Any) -> Array:
        """Values sum_j K(x_i, z_j) c_j, (n, d), for coefficients (m, d), an array or a scipy sparse matrix."""

    def terms(self) -> list[tuple[Array, OutputOperator]] | None:
        """The fewest scalar grams G_k, (n, m), and operators T_k with K = sum_k G_k (x) T_k; None if there are none."""
        return None

    def by_operator(self) -> list[tuple[Array, OutputOperator]] | None:
        """`terms` with the operators of the kernel itself, without adding any of them."""
        return self.terms()

    def matmul_window(self, C: Array, since: Indices) -> Array:
        """`matmat` where row i uses only the points from since_i on; `since`, (n,), is non-decreasing."""
        return self.weighted((np.arange(self.shape[1]) >= since[:, None]).astype(np.float64)).matmat(C)

    def weighted(self, weights: Array) -> Gram:
        """The gram with K(x_i, z_j) replaced by weights_ij K(x_i, z_j); `weights` is (n, m)."""
        (n, m), d = self.shape, self.output_dim
        blocks = self.dense().reshape(n, d, m, d) * weights[:, None, :, None]
        return DenseBlocks(blocks.reshape(n * d, m * d), d)

    @abstractmethod
    def part_matmat(self, rows: slice, columns: slice, C: Array) -> Array:
        """`matmat` of some rows and columns, (rows, d); C has the coefficients of these columns."""

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
        """The gram as independent scalar problems, or None if its operators have no common eigenvectors."""

    def rotation(self) -> Rotated | None:
        """The gram in common eigenvectors of its operators, or None if there are none."""
        decoupled = self.decouple()
        return None if decoupled is None else decoupled.rotation()

    def __rmul__(self, factor: float) -> Gram:
        return self.rescale(np.full(self.shape[0], factor), None, None)

    def quadratic_forms(self, a: Array) -> Array:
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

    If the operators of a gram have common eigenvectors v_q, the system  sum_k G_k C T_k + alpha C = Y  decouples into

        (sum_k t_kq G_k + alpha I) (C v_q) = Y v_q,

    with t_kq the eigenvalue of T_k on v_q: one scalar problem for every *distinct* tuple (t_1q, t_2q, ...). A single
    operator and commuting operators decouple (`Rotated`). Uncoupled observed outputs are one problem each (`ByOutput`),
    and a gram without structure is a single problem on n d points (`Stacked`).
    """

    @abstractmethod
    def __len__(self) -> int:
        """Number of scalar problems."""

    @abstractmethod
    def split(self, Y: Array) -> list[Array]:
        """The right-hand sides of the scalar problems, (n_q, k_q) each, as copies."""

    @abstractmethod
    def join(self, parts: list[Array]) -> Array:
        """The inverse of `split`, for their solutions."""

    @abstractmethod
    def matrix(self, q: int) -> Array:
        """The gram of problem q, a copy that the caller may overwrite."""

    @abstractmethod
    def vanishes(self, q: int) -> bool:
        """Whether the gram of problem q is known to be zero."""

    def rotation(self) -> Rotated | None:
        """The problems if they are those of common eigenvectors, else None."""
        return None


# Grams without structure.


class DenseBlocks(Gram):
    """The dense (n d, m d) matrix, for kernels that do not factorise (transformable, curl-free, ...)."""

    def __init__(self, matrix: Array, output_dim: int) -> None:
        self.matrix = matrix  # the entry of output q at point i has the row i d + q
        self.output_dim = output_dim
        self.shape = (matrix.shape[0] // output_dim, matrix.shape[1] // output_dim)

    def matmat(self, C: Any) -> Array:
        flat = (C.toarray() if sparse.issparse(C) else np.asarray(C)).reshape(-1)
        return np.asarray((self.matrix @ flat).reshape(self.shape[0], self.output_dim))

    def part_matmat(self, rows: slice, columns: slice, C: Array) -> Array:
        n, m = self.shape
        d = self.output_dim
        (top, bottom, _), (left, right, _) = rows.indices(n), columns.indices(m)
        values: Array = self.matrix[top * d : bottom * d, left * d : right * d] @ C.reshape(-1)
        return values.reshape(-1, d)

    def entries(self, rows: Indices, outputs: Indices, columns: Indices, inputs: Indices) -> Array:
        d = self.output_dim
        return np.asarray(self.matrix[np.ix_(rows * d + outputs, columns * d + inputs)])

    def dense(self) -> Array:
        return self.matrix

    def decouple(self) -> Decoupled:
        return Stacked(self)

    def rescale(self, rows: Array | None, columns: Array | None, outputs: Array | None) -> Gram:
        scales = np.ones(self.output_dim) if outputs is None else outputs
        n, m = self.shape
        left = np.outer(np.ones(n) if rows is None else rows, scales).ravel()
        right = np.outer(np.ones(m) if columns is None else columns, scales).ravel()
        return DenseBlocks(self.matrix * left[:, None] * right[None, :], self.output_dim)

    def diagonal_blocks(self) -> Array:
        n, m = self.shape
        d = self.output_dim
        each = np.arange(min(n, m))
        return self.matrix.reshape(n, d, m, d)[each, :, each, :]


class Observed(Gram):
    """The square gram `base` restricted to the observed pairs (point, output); each pair is a point."""

    output_dim = 1

    def __init__(self, base: Gram, rows: Indices, outputs: Indices) -> None:
        self.base = base
        self.rows = rows  # (N,)
        self.outputs = outputs  # (N,)
        self.shape = (len(rows), len(rows))

    def spread(self, c: Any) -> Array:
        """Coefficients of the pairs, (N, 1), as an (n, d) matrix with zeros elsewhere."""
        full = np.zeros((self.base.shape[0], self.base.output_dim))
        full[self.rows, self.outputs] = np.asarray(c).reshape(-1)
        return full

    def matmat(self, C: Any) -> Array:
        return self.base.matmat(self.spread(C))[self.rows, self.outputs][:, None]

    def __rmul__(self, factor: float) -> Observed:
        return Observed(factor * self.base, self.rows, self.outputs)

    def part_matmat(self, rows: slice, columns: slice, C: Array) -> Array:
        c = np.zeros(self.shape[1])
        c[columns] = C[:, 0]
        points, full, every = self.rows[rows], self.spread(c), slice(None)
        values = [self.base.part_matmat(slice(i, i + 1), every, full)[0] for i in points]
        return np.array([value[q] for value, q in zip(values, self.outputs[rows], strict=True)]).reshape(-1, 1)

    def entries(self, rows: Indices, outputs: Indices, columns: Indices, inputs: Indices) -> Array:
        return self.base.entries(self.rows[rows], self.outputs[rows], self.rows[columns], self.outputs[columns])

    def dense(self) -> Array:
        return self.base.entries(self.rows, self.outputs, self.rows, self.outputs)

    def decouple(self) -> Decoupled:
        terms = self.base.terms()
        if terms is not None and all(operator.is_diagonal() for _, operator in terms):
            return ByOutput(self, [(G, np.diagonal(operator.dense())) for G, operator in terms])
        return Stacked(self)

    def rescale(self, rows: Array | None, columns: Array | None, outputs: Array | None) -> Gram:
        return Observed(self.base.rescale(rows, columns, outputs), self.rows, self.outputs)

    def diagonal_blocks(self) -> Array:
        return self.base.diagonal_blocks()[self.rows, self.outputs, self.outputs][:, None, None]


class Stacked(Decoupled):
    """All outputs of all points as the points of one scalar problem."""

    def __init__(self, gram: Gram) -> None:
        self.gram = gram

    def __len__(self) -> int:
        return 1

    def split(self, Y: Array) -> list[Array]:
        # A gram with one output, such as one of pairs, may have several right-hand sides.
        return [Y.copy() if self.gram.output_dim == 1 else Y.reshape(-1, 1).copy()]

    def join(self, parts: list[Array]) -> Array:
        d = self.gram.output_dim
        return parts[0] if d == 1 else parts[0].reshape(-1, d)

    def matrix(self, q: int) -> Array:
        return self.gram.dense().copy()

    def vanishes(self, q: int) -> bool:
        return False


class ByOutput(Decoupled):
    """Uncoupled outputs, each with the points at which it was observed."""

    def __init__(self, gram: Observed, diagonals: list[tuple[Array, Array]]) -> None:
        self.gram = gram
        self.diagonals = diagonals  # (G_k, the diagonal of T_k)
        self.outputs = np.unique(gram.outputs)
        self.members = [np.flatnonzero(gram.outputs == q) for q in self.outputs]

    def __len__(self) -> int:
        return len(self.members)

    def split(self, Y: Array) -> list[Array]:
        return [Y[members] for members in self.members]

    def join(self, parts: list[Array]) -> Array:
        whole = np.empty((self.gram.shape[0], parts[0].shape[1]))
        for members, part in zip(self.members, parts, strict=True):
            whole[members] = part
        return whole

    def matrix(self, q: int) -> Array:
        points, output = self.gram.rows[self.members[q]], self.outputs[q]
        own = [(float(diagonal[output]), G) for G, diagonal in self.diagonals if diagonal[output] != 0]
        if not own:
            return np.zeros((len(points), len(points)))
        return _total(t * G[np.ix_(points, points)] for t, G in own)

    def vanishes(self, q: int) -> bool:
        return all(diagonal[self.outputs[q]] == 0 for _, diagonal in self.diagonals)


# Grams of separable kernels and their sums: Kronecker products that are never formed.


class Kronecker(Gram):
    """sum_os weights_os G_s (x) T_o: the gram of a sum of separable kernels.

    Without weights, (operators, grams), the gram is sum_s G_s (x) T_s; terms with equal operators are added.
    """

    def __init__(
        self,
        grams: Array | Sequence[Array],
        operators: OutputOperator | Sequence[OutputOperator],
        weights: Array | None = None,
    ) -> None:
        self.grams: list[Array] = list(grams) if isinstance(grams, Sequence) else [grams]
        self.operators = [operators] if isinstance(operators, OutputOperator) else list(operators)
        if weights is None:
            pairs = len(self.operators)
            self.operators, numbers = distinct(self.operators)
            weights = np.zeros((len(self.operators), pairs))
            weights[numbers, np.arange(pairs)] = 1.0
        self.weights = weights
        self.shape = (self.grams[0].shape[0], self.grams[0].shape[1])
        self.output_dim = self.operators[0].dim()

    def terms(self) -> list[tuple[Array, OutputOperator]]:
        return self._terms

    @cached_property
    def _terms(self) -> list[tuple[Array, OutputOperator]]:
        if len(self.grams) == len(self.operators) == 1 and self.weights[0, 0] == 1.0:
            return [(self.grams[0], self.operators[0])]
        # Operators with proportional weights are added first.
        groups = proportional(self.weights)
        weights = self.weights[[group[0][0] for group in groups]]
        operators = [_sum_of_operators(self.operators, group) for group in groups]
        used = np.flatnonzero(weights.any(axis=0))
        if 0 < len(used) < len(groups):
            columns = [[(o, float(w)) for o, w in enumerate(weights[:, s]) if w != 0] for s in used]
            return [(self.grams[s], _sum_of_operators(operators, c)) for s, c in zip(used, columns, strict=True)]
        return [(weighted_sum(self.grams, row), T) for row, T in zip(weights, operators, strict=True)]

    def by_operator(self) -> list[tuple[Array, OutputOperator]]:
        used = np.flatnonzero(self.weights.any(axis=1)) if self.weights.any() else [0]
        return [(weighted_sum(self.grams, self.weights[o]), self.operators[o]) for o in used]

    def __rmul__(self, factor: float) -> Kronecker:
        return Kronecker(self.grams, self.operators, factor * self.weights)

    def matmat(self, C: Any) -> Array:
        return _total(operator.apply(G @ C) for G, operator in self.terms())

    def matmul_window(self, C: Array, since: Indices) -> Array:
        return _total(operator.apply(product_window(G, C, since)) for G, operator in self.terms())

    def weighted(self, weights: Array) -> Kronecker:
        return Kronecker([G * weights for G, _ in self.terms()], [operator for _, operator in self.terms()])

    def part_matmat(self, rows: slice, columns: slice, C: Array) -> Array:
        return _total(
            G[rows, columns] @ C if T is None else (G[rows, columns] @ C) @ T
            for (G, _), T in zip(self.terms(), self._matrices, strict=True)
        )

    @cached_property
    def _matrices(self) -> list[Array | None]:
        """The operators of the terms as matrices; None for the identity."""
        matrices = [operator.dense() for _, operator in self.terms()]
        return [None if np.array_equal(T, np.eye(len(T))) else T for T in matrices]

    def entries(self, rows: Indices, outputs: Indices, columns: Indices, inputs: Indices) -> Array:
        def values(G: Any, operator: OutputOperator) -> Array:
            picked = _picked(G, rows, columns)
            T = operator.dense()
            picked *= _picked(G.like(T) if isinstance(G, DeviceMatrix) else T, outputs, inputs)
            return picked

        return _total(values(G, operator) for G, operator in self.terms())

    def decouple(self) -> Rotated | None:
        grams = [G for G, _ in self.terms()]
        operators = [operator for _, operator in self.terms()]
        if len(operators) == 1:
            s = operators[0].eigh()
            return Rotated(grams, s.distinct[:, None], s.vectors, s.groups)
        common = common_eigenvectors([operator.dense() for operator in operators])
        if common is None:
            return None
        values, vectors, groups = common
        return Rotated(grams, values[:, [g.start for g in groups]].T, vectors, groups)

    def rescale(self, rows: Array | None, columns: Array | None, outputs: Array | None) -> Gram:
        grams = self.grams if rows is None else [G * rows[:, None] for G in self.grams]
        grams = grams if columns is None else [G * columns for G in grams]
        scales = None if outputs is None else np.outer(outputs, outputs)
        operators = [T if scales is None else Dense(T.dense() * scales) for T in self.operators]
        return Kronecker(grams, operators, self.weights)

    def diagonal_blocks(self) -> Array:
        return _total(np.diagonal(G)[:, None, None] * operator.dense() for G, operator in self.terms())

    def quadratic_forms(self, a: Array) -> Array:
        return _total(np.diagonal(G) * np.einsum("jq,jq->j", a, operator.apply(a)) for G, operator in self.terms())

    def block_norms(self) -> Array:
        return _total(np.diagonal(G) * operator.eigh().values[-1] for G, operator in self.terms())


class Rotated(Decoupled):
    """Problems of common eigenvectors: problem q has outputs Y vectors[:, groups[q]], gram sum_k weights[q, k] G_k."""

    def __init__(self, grams: list[Array], weights: Array, vectors: Array, groups: list[slice]) -> None:
        self.grams = grams
        self.weights = weights  # (groups, terms)
        self.vectors = vectors  # (d, d)
        self.groups = groups

    def __len__(self) -> int:
        return len(self.groups)

    def split(self, Y: Array) -> list[Array]:
        rotated = Y @ self.vectors
        return [rotated[:, group] for group in self.groups]

    def join(self, parts: list[Array]) -> Array:
        return np.concatenate(parts, axis=1) @ self.vectors.T

    def matrix(self, q: int) -> Array:
        pairs = enumerate(zip(self.weights[q], self.grams, strict=True))
        return _total(weight * G for k, (weight, G) in pairs if k == 0 or weight != 0)

    def vanishes(self, q: int) -> bool:
        return not self.weights[q].any()

    def rotation(self) -> Rotated:
        return self

    def with_grams(self, grams: list[Array]) -> Rotated:
        """The same decoupling of other scalar grams, such as those between new and training points."""
        return Rotated(grams, self.weights, self.vectors, self.groups)


def _total(parts: Any) -> Array:
    """The sum of arrays; overwrites the first."""
    parts = iter(parts)
    total: Array = next(parts)
    for part in parts:
        total += part
    return total


def _picked(A: Any, rows: Indices, columns: Indices) -> Array:
    """A[np.ix_(rows, columns)], in a third of the time."""
    if isinstance(A, DeviceMatrix):
        return A[rows].columns(columns)  # type: ignore[return-value]
    return np.take(A[rows], columns, axis=1)


def _sum_of_operators(operators: Sequence[OutputOperator], parts: list[tuple[int, float]]) -> OutputOperator:
    """sum_o factor_o T_o over pairs (o, factor_o)."""
    if len(parts) == 1 and parts[0][1] == 1.0:
        return operators[parts[0][0]]
    return Dense(sum(factor * operators[o].dense() for o, factor in parts))


def proportional(rows: Array) -> list[list[tuple[int, float]]]:
    """Groups of proportional rows, as pairs of the row index and its multiple of the group's first row.

    Rows of zeros belong to no group; a matrix of zeros has one group, its first row.
    """
    groups: list[list[tuple[int, float]]] = []
    for i, row in enumerate(rows):
        if not row.any():
            continue
        for group in groups:
            first = rows[group[0][0]]
            largest = int(np.argmax(np.abs(first)))
            if np.array_equal(row * first[largest], first * row[largest]):
                group.append((i, float(row[largest] / first[largest])))
                break
        else:
            groups.append([(i, 1.0)])
    return groups or [[(0, 1.0)]]


def distinct(items: Sequence[Any]) -> tuple[list[Any], Indices]:
    """The distinct parameter objects, and for each item the index of its equal among them."""
    found: list[Any] = []
    numbers = np.empty(len(items), dtype=np.intp)
    for i, item in enumerate(items):
        numbers[i] = next((j for j, other in enumerate(found) if equal(item, other)), len(found))
        if numbers[i] == len(found):
            found.append(item)
    return found, numbers


def weighted_sum(grams: Sequence[Array], weights: Array) -> Array:
    """sum_s weights_s G_s; a single gram of weight one is not copied."""
    used = np.flatnonzero(weights).tolist()
    if len(used) == 1 and weights[used[0]] == 1.0:
        return grams[used[0]]
    if not len(used):
        return np.zeros_like(grams[0])
    return _total(grams[s] if s != used[0] and weights[s] == 1.0 else weights[s] * grams[s] for s in used)


def common_eigenvectors(matrices: list[Array]) -> tuple[Array, Array, list[slice]] | None:
    """Eigenvalues (terms, d), common eigenvectors and groups of equal eigenvalue tuples; None if there are none.

    The eigenvectors of a generic linear combination of commuting matrices are eigenvectors of each.
    """
    scales = [max(float(np.linalg.norm(T, 2)), 1e-300) for T in matrices]
    # Irrational weights are unlikely to cancel.
    generic = [1.0 + np.sqrt(2.0 + k) % 1.0 for k in range(len(matrices))]
    mixed = sum(w / s * T for w, s, T in zip(generic, scales, matrices, strict=True))
    vectors = spectrum(mixed, "the sum of the operators").vectors
    d = len(vectors)
    values = np.empty((len(matrices), d))
    tolerance = 1e-11 * d
    for k, T in enumerate(matrices):
        inside = vectors.T @ T @ vectors
        values[k] = np.diagonal(inside)
        if np.abs(inside - np.diag(values[k])).max() > tolerance * scales[k]:
            return None
        values[k][values[k] < tolerance * scales[k]] = 0.0
    close = [q for q in range(1, d) if (np.abs(values[:, q] - values[:, q - 1]) > tolerance * np.array(scales)).any()]
    groups = [slice(a, b) for a, b in pairwise([0, *close, d])]
    for group in groups:
        values[:, group] = values[:, group].mean(axis=1, keepdims=True)
    return values, vectors, groups
