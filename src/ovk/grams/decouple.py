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

import numpy as np

from ovk._validation import Array
from ovk.grams.base import Gram
from ovk.grams.blocks import DenseBlocks
from ovk.grams.kronecker import Kronecker, KroneckerSum
from ovk.grams.observed import Observed
from ovk.operators.base import spectrum


class Decoupled(ABC):
    """A gram as scalar problems, one for each of `groups` (columns of the rotated outputs)."""

    groups: list[slice]

    @abstractmethod
    def rotate(self, Y: Array) -> Array:
        """Outputs in the coordinates in which the problems are independent."""

    @abstractmethod
    def unrotate(self, Z: Array) -> Array:
        """Back to the outputs."""

    @abstractmethod
    def matrix(self, q: int) -> Array:
        """The scalar gram of group q, newly made (the caller may overwrite it)."""


class Rotated(Decoupled):
    """Common eigenvectors: group q has the scalar gram sum_k weights[q, k] G_k."""

    def __init__(self, grams: list[Array], weights: Array, vectors: Array, groups: list[slice]) -> None:
        self.grams = grams
        self.weights = weights  # (groups, terms)
        self.vectors = vectors  # (d, d)
        self.groups = groups

    def rotate(self, Y: Array) -> Array:
        return Y @ self.vectors

    def unrotate(self, Z: Array) -> Array:
        return Z @ self.vectors.T

    def matrix(self, q: int) -> Array:
        total: Array = self.weights[q, 0] * self.grams[0]
        for weight, G in zip(self.weights[q, 1:], self.grams[1:], strict=True):
            if weight != 0:
                total += weight * G
        return total

    def like(self, grams: list[Array]) -> Rotated:
        """The same decoupling of other scalar grams, such as those between new and training points."""
        return Rotated(grams, self.weights, self.vectors, self.groups)


class Stacked(Decoupled):
    """All outputs of all points as the points of one scalar problem."""

    def __init__(self, gram: Gram) -> None:
        self.gram = gram
        self.groups = [slice(0, 1)]

    def rotate(self, Y: Array) -> Array:
        return Y.reshape(-1, 1)

    def unrotate(self, Z: Array) -> Array:
        return Z.reshape(-1, self.gram.output_dim)

    def matrix(self, q: int) -> Array:
        return self.gram.dense().copy()


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


@decouple.register(DenseBlocks)
@decouple.register(Observed)
def _(gram: Gram) -> Decoupled:
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
    close = [
        q
        for q in range(1, d)
        if (np.abs(values[:, q] - values[:, q - 1]) > tolerance * np.array(scales)).any()
    ]
    bounds = [0, *close, d]
    groups = [slice(a, b) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
    for group in groups:
        values[:, group] = values[:, group].mean(axis=1, keepdims=True)
    return values, vectors, groups
