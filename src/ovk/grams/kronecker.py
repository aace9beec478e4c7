"""Grams of separable kernels and their sums: Kronecker products that are never multiplied out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from ovk._params import equal
from ovk._types import Array, Indices
from ovk.grams.base import Decoupled, Gram
from ovk.kernels.base import product_since
from ovk.operators import Dense, OutputOperator
from ovk.operators.base import spectrum


class Kronecker(Gram):
    """sum_os weights_os G_s (x) T_o: the gram of a sum of separable kernels. A single product G (x) T has length one.

    Parameters
    ----------
    grams : (n, m) array of scalar kernel values, or a sequence of them
    operators : T, or a sequence of them
    weights : (operators, grams) array, optional
        By default the first gram belongs to the first operator, and so on; equal operators are added up.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.grams import Kronecker
    >>> from ovk.operators import Dense, Identity
    >>> gram = Kronecker(np.array([[1.0, 0.5]]), Dense([[2.0, 1.0], [1.0, 2.0]]))
    >>> gram.matmat(np.array([[1.0, 0.0], [0.0, 2.0]]))
    array([[3., 3.]])

    Two products with the same operator are one.

    >>> G, H = np.eye(2), np.ones((2, 2))
    >>> len(Kronecker([G, H], [Identity(2), Identity(2)]).terms())
    1
    """

    def __init__(
        self,
        grams: Array | Sequence[Array],
        operators: OutputOperator | Sequence[OutputOperator],
        weights: Array | None = None,
    ) -> None:
        self.grams: list[Array] = [grams] if isinstance(grams, np.ndarray) else list(grams)
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
        # Operators that come with the same scalar grams are added up first.
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

    def matmat_since(self, C: Array, since: Indices) -> Array:
        return _total(operator.apply(product_since(G, C, since)) for G, operator in self.terms())

    def weighted(self, weights: Array) -> Kronecker:
        return Kronecker([G * weights for G, _ in self.terms()], [operator for _, operator in self.terms()])

    def part_matmat(self, rows: slice, columns: slice, C: Array) -> Array:
        return _total(
            G[rows, columns] @ C if T is None else (G[rows, columns] @ C) @ T
            for (G, _), T in zip(self.terms(), self._matrices, strict=True)
        )

    @cached_property
    def _matrices(self) -> list[Array | None]:
        """The operators of the terms as matrices; None for the identity, which needs no product."""
        matrices = [operator.dense() for _, operator in self.terms()]
        return [None if np.array_equal(T, np.eye(len(T))) else T for T in matrices]

    def entries(self, rows: Indices, outputs: Indices, columns: Indices, inputs: Indices) -> Array:
        def values(G: Array, operator: OutputOperator) -> Array:
            picked = _picked(G, rows, columns)
            picked *= _picked(operator.dense(), outputs, inputs)
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

    def energies(self, a: Array) -> Array:
        return _total(np.diagonal(G) * np.einsum("jq,jq->j", a, operator.apply(a)) for G, operator in self.terms())

    def block_norms(self) -> Array:
        return _total(np.diagonal(G) * operator.eigh().values[-1] for G, operator in self.terms())


class Rotated(Decoupled):
    """Common eigenvectors: problem q is about the outputs Y vectors[:, groups[q]], its gram sum_k weights[q, k] G_k."""

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
        total: Array = self.weights[q, 0] * self.grams[0]
        for weight, G in zip(self.weights[q, 1:], self.grams[1:], strict=True):
            if weight != 0:
                total += weight * G
        return total

    def vanishes(self, q: int) -> bool:
        return not self.weights[q].any()

    def rotation(self) -> Rotated:
        return self

    def like(self, grams: list[Array]) -> Rotated:
        """This decoupling of other scalar grams, such as those between new and training points."""
        return Rotated(grams, self.weights, self.vectors, self.groups)


def _total(parts: Any) -> Array:
    """The sum of some arrays; the first of them is overwritten."""
    parts = iter(parts)
    total: Array = next(parts)
    for part in parts:
        total += part
    return total


def _picked(A: Array, rows: Indices, columns: Indices) -> Array:
    """A[rows, columns] of all pairs: whole rows first, which takes a third of the time of picking entry by entry."""
    return np.take(A[rows], columns, axis=1)


def _sum_of_operators(operators: Sequence[OutputOperator], parts: list[tuple[int, float]]) -> OutputOperator:
    """sum of factor_o T_o over pairs (o, factor_o)."""
    if len(parts) == 1 and parts[0][1] == 1.0:
        return operators[parts[0][0]]
    return Dense(sum(factor * operators[o].dense() for o, factor in parts))


def proportional(rows: Array) -> list[list[tuple[int, float]]]:
    """Groups of rows that are multiples of each other, as pairs of a row's number and its multiple of the first.

    Rows of zeros belong to no group; a matrix of zeros is a group of its first row.
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
    """The different ones among parameter objects, and for each item the number of its equal."""
    found: list[Any] = []
    numbers = np.empty(len(items), dtype=np.intp)
    for i, item in enumerate(items):
        numbers[i] = next((j for j, other in enumerate(found) if equal(item, other)), len(found))
        if numbers[i] == len(found):
            found.append(item)
    return found, numbers


def weighted_sum(grams: Sequence[Array], weights: Array) -> Array:
    """sum_s weights_s G_s; the gram itself where it is the only one and has weight one."""
    used = np.flatnonzero(weights)
    if len(used) == 1 and weights[used[0]] == 1.0:
        return grams[int(used[0])]
    if not len(used):
        return np.zeros_like(grams[0])
    total: Array = weights[used[0]] * grams[used[0]]
    for s in used[1:]:
        total += grams[s] if weights[s] == 1.0 else weights[s] * grams[s]
    return total


def common_eigenvectors(matrices: list[Array]) -> tuple[Array, Array, list[slice]] | None:
    """Eigenvalues (terms, d), common eigenvectors and groups of equal eigenvalue tuples; None if there are none.

    The eigenvectors of a generic combination of commuting matrices are eigenvectors of each.
    """
    scales = [max(float(np.linalg.norm(T, 2)), 1e-300) for T in matrices]
    # Weights that no accident of the matrices is likely to cancel.
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
    bounds = [0, *close, d]
    groups = [slice(a, b) for a, b in pairwise(bounds)]
    for group in groups:
        values[:, group] = values[:, group].mean(axis=1, keepdims=True)
    return values, vectors, groups
