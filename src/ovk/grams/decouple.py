"""Seeing a gram as independent scalar problems.

When the operators of a gram have common eigenvectors v_q, the system  sum_k G_k C T_k + alpha C = Y  falls apart: with
t_kq the eigenvalue of T_k on v_q,

    (sum_k t_kq G_k + alpha I) (C v_q) = Y v_q,

a scalar problem for every *distinct* tuple (t_1q, t_2q, ...). One operator always decouples, and so do operators that
commute. A gram without structure is a single scalar problem on n d points.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import singledispatch
from itertools import pairwise

import numpy as np

from ovk._validation import Array
from ovk.grams.base import Gram
from ovk.grams.blocks import DenseBlocks
from ovk.grams.kronecker import Kronecker, KroneckerSum
from ovk.grams.observed import Observed
from ovk.operators.base import spectrum


class Decoupled(ABC):
    """A gram as independent scalar problems."""

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

    def vanishes(self, q: int) -> bool:
        """Whether the gram of problem q is known to be zero."""
        return False


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

    def like(self, grams: list[Array]) -> Rotated:
        """The same decoupling of other scalar grams, such as those between new and training points."""
        return Rotated(grams, self.weights, self.vectors, self.groups)


class Stacked(Decoupled):
    """All outputs of all points as the points of one scalar problem."""

    def __init__(self, gram: Gram) -> None:
        self.gram = gram

    def __len__(self) -> int:
        return 1

    def split(self, Y: Array) -> list[Array]:
        # Pairs of a point and an output have one output each: then every column is a right-hand side.
        return [Y.copy() if self.gram.output_dim == 1 else Y.reshape(-1, 1).copy()]

    def join(self, parts: list[Array]) -> Array:
        d = self.gram.output_dim
        return parts[0] if d == 1 else parts[0].reshape(-1, d)

    def matrix(self, q: int) -> Array:
        return self.gram.dense().copy()


class ByOutput(Decoupled):
    """Outputs that have nothing to do with each other, each with the points at which it was observed."""

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
        total = np.zeros((len(points), len(points)))
        for G, diagonal in self.diagonals:
            if diagonal[output] != 0:
                total += diagonal[output] * G[np.ix_(points, points)]
        return total

    def vanishes(self, q: int) -> bool:
        return all(diagonal[self.outputs[q]] == 0 for _, diagonal in self.diagonals)


@singledispatch
def decouple(gram: Gram) -> Decoupled | None:
    """The gram as independent scalar problems, or None when its operators have no common eigenvectors.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.grams import Kronecker, decouple
    >>> from ovk.operators import MixedEffect
    >>> len(decouple(Kronecker(np.eye(4), MixedEffect(0.3, output_dim=5))).groups)
    2
    """
    raise TypeError(f"no rule to decouple a {type(gram).__name__}")


@decouple.register
def _(gram: Kronecker) -> Decoupled:
    s = gram.operator.eigh()
    return Rotated([gram.G], s.distinct[:, None], s.vectors, s.groups)


@decouple.register
def _(gram: DenseBlocks) -> Decoupled:
    return Stacked(gram)


@decouple.register
def _(gram: Observed) -> Decoupled:
    if isinstance(gram.base, (Kronecker, KroneckerSum)):
        operators = [operator.dense() for _, operator in gram.base.terms]
        if all((np.diag(np.diagonal(T)) == T).all() for T in operators):
            grams = [G for G, _ in gram.base.terms]
            return ByOutput(gram, [(G, np.diagonal(T)) for G, T in zip(grams, operators, strict=True)])
    return Stacked(gram)


@decouple.register
def _(gram: KroneckerSum) -> Decoupled | None:
    common = common_eigenvectors([operator.dense() for _, operator in gram.terms])
    if common is None:
        return None
    values, vectors, groups = common
    return Rotated([G for G, _ in gram.terms], values[:, [g.start for g in groups]].T, vectors, groups)


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
