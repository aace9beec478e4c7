"""Preconditioners of conjugate gradient: approximate inverses of a gram plus alpha I, at any alpha."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, singledispatch
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, solve_triangular

from ovk.base import Array, Indices, Map, ProgressBar
from ovk.operators import OutputOperator
from ovk.ovkernels import DenseBlocks, Gram, Kronecker, Observed, Rotated
from ovk.solvers.cholesky import CholeskyState, cholesky_factor, whitened_rows

#: Distinct eigenvalues of the dominant operator up to which each has a factorisation of its own.
MAX_FACTORED = 8
#: Share of the outputs that must have been observed for the complete system to be a good guide.
MIN_OBSERVED_SHARE = 0.5


@singledispatch
def preconditioner(gram: Gram, rank: int) -> Callable[[float], Map]:
    """An approximate inverse of a gram plus alpha I at any alpha; `rank` is for approximations of low rank."""
    raise TypeError(f"ConjugateGradient has no preconditioner for a {type(gram).__name__}")


@preconditioner.register
def _(gram: Kronecker, rank: int) -> Callable[[float], Map]:
    terms = gram.terms()
    # The term whose operator's spread weighs most, tr(G_k) |T_k - mean(T_k) I|.
    spectra = [operator.eigh().values for _, operator in terms]
    spread = [np.trace(G) * np.linalg.norm(t - t.mean()) for (G, _), t in zip(terms, spectra, strict=True)]
    dominant = int(np.argmax(spread))
    many = len(terms[dominant][1].eigh().groups) > MAX_FACTORED
    return pencil(terms, dominant) if many else dominant_operator(terms, dominant)


@preconditioner.register
def _(gram: DenseBlocks, rank: int) -> Callable[[float], Map]:
    return LowRankPreconditioner(pivoted_cholesky(gram, rank))


@preconditioner.register
def _(gram: Observed, rank: int) -> Callable[[float], Map]:
    mostly_seen = gram.shape[0] >= MIN_OBSERVED_SHARE * gram.base.shape[0] * gram.base.output_dim
    if gram.base.terms() is None or not mostly_seen:
        return LowRankPreconditioner(pivoted_cholesky(gram, rank))
    complete = preconditioner(gram.base, rank)

    def at(alpha: float) -> Map:
        inner = complete(alpha)
        return lambda R: inner(gram.spread(R))[gram.rows, gram.outputs][:, None]

    return at


def dominant_operator(terms: list[tuple[Array, OutputOperator]], dominant: int) -> Callable[[float], Map]:
    """The part of sum_k G_k (x) T_k + alpha I that falls apart in the eigenvectors of one operator.

    The eigenvectors of the others matter less, and of them only the diagonal v_q' T_k v_q is kept.
    """
    V = np.asarray(terms[dominant][1].eigh().vectors)
    weights = np.stack([np.einsum("qi,iq->q", operator.apply(V.T), V) for _, operator in terms], axis=1)
    # Outputs with the same weights share a factorisation.
    order = np.lexsort(weights.round(12).T)
    V, weights = V[:, order], weights[order]
    new = np.flatnonzero((np.abs(np.diff(weights, axis=0)) > 1e-9 * np.abs(weights).max()).any(axis=1)) + 1
    bounds = [0, *new.tolist(), len(V)]
    groups = [slice(a, b) for a, b in pairwise(bounds)]
    state = CholeskyState(Rotated([G for G, _ in terms], weights[bounds[:-1]], V, groups))
    return lambda alpha: lambda R: state.solve(R, alpha)


def pencil(terms: list[tuple[Array, OutputOperator]], dominant: int) -> Callable[[float], Map]:
    """(A (x) T + B (x) I + alpha I)^-1: the dominant operator T as it is, the others as multiples of the identity.

    For a dominant operator with many eigenvalues. With T = V diag(e) V' and the others replaced by their means,
    B = sum_k (tr T_k / d) G_k, problem q is (e_q A + B + alpha I). All d of them share one decomposition: with
    B + alpha I = L L', L^-1 A L'^-1 = U diag(a) U' and Z = L'^-1 U,

        (e_q A + B + alpha I)^-1 = Z diag(1 / (1 + e_q a)) Z'.

    Exact when the other operators are multiples of the identity.
    """
    A, e, V = terms[dominant][0], terms[dominant][1].eigh().values, terms[dominant][1].eigh().vectors
    others = [(float(T.eigh().values.mean()), G) for k, (G, T) in enumerate(terms) if k != dominant]

    def rest() -> Array:
        B = np.zeros_like(A)
        for mean, G in others:
            B += mean * G
        return B

    @lru_cache(maxsize=1)
    def at(alpha: float) -> Map:
        L = cholesky_factor(rest, alpha).L
        half = solve_triangular(L, A, lower=True, check_finite=False)
        inner = solve_triangular(L, half.T, lower=True, check_finite=False)
        a, U = eigh(0.5 * (inner + inner.T), check_finite=False, overwrite_a=True)
        Z = np.ascontiguousarray(solve_triangular(L, U, lower=True, trans="T", check_finite=False))
        scale = 1.0 / (1.0 + np.multiply.outer(np.maximum(a, 0.0), e))
        return lambda R: np.asarray((Z @ (scale * (Z.T @ (R @ V)))) @ V.T)

    return at


class LowRankPreconditioner:
    """(F F' + alpha I)^-1 R by Woodbury's identity, for one factor F and any alpha."""

    def __init__(self, F: Array) -> None:
        self._F = F
        self._inner = F.T @ F

    def __call__(self, alpha: float) -> Map:
        F = self._F
        factor = cho_factor(self._inner + alpha * np.eye(F.shape[1]), lower=True)

        def apply(R: Array) -> Array:
            flat = R.reshape(len(F), -1)
            return np.asarray(((flat - F @ cho_solve(factor, F.T @ flat)) / alpha).reshape(R.shape))

        return apply


def pivoted_cholesky(gram: Gram, rank: int, tol: float = 1e-12) -> Array:
    """F, (n d, r), with F F' close to the gram: columns chosen greedily by the largest remaining diagonal entry."""
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


# Randomly pivoted Cholesky: a few columns of a large positive semi-definite matrix that tell most of it.
#
# Column i joins with probability d_i / sum d, d the diagonal of what the columns so far do not explain (Chen, Epperly,
# Tropp and Webber, 2023). Proposals are drawn a block at a time from the d of its beginning, and the later ones are
# accepted with the share of their d that the earlier left (rejection sampling), so the columns have the same law as
# drawn one by one, and all work is in products of matrices.

#: Columns that are proposed at a time, at most.
BLOCK = 100
#: Diagonal entries below this part of the largest are rounding.
ROUNDING = 1e-13


class PivotedFactor(NamedTuple):
    """F F' approximates the matrix, exactly in the rows and columns `pivots`."""

    pivots: Indices  # (m,)
    F: Array  # (n, m)
    left: float  # trace of what is not explained, relative to the whole


def random_pivots(
    entries: Callable[[Indices, Indices], Array],
    diagonal: Array,
    rank: int,
    rng: np.random.Generator,
    tol: float = 0.0,
) -> PivotedFactor:
    """Choose up to `rank` columns, fewer where less than `tol` of the trace is left.

    `entries` gives the matrix at rows (r,) and columns (c,), as (r, c); `diagonal` is its diagonal (n,).
    """
    n = len(diagonal)
    d: Array = np.array(diagonal, dtype=np.float64)
    whole, largest = float(d.sum()), float(d.max(initial=0.0))
    every = np.arange(n)
    F, pivots = np.empty((n, min(rank, n))), np.empty(min(rank, n), dtype=np.intp)
    k = 0
    with ProgressBar("choosing points", total=len(pivots)) as bar:
        while k < len(pivots) and d.sum() > tol * whole and d.max() > ROUNDING * largest:
            proposed = rng.choice(n, size=min(BLOCK, max(len(pivots) // 10, 1), len(pivots) - k), p=d / d.sum())
            inner = entries(proposed, proposed) - F[proposed, :k] @ F[proposed, :k].T
            kept, L = _accepted(inner, d[proposed], rng, ROUNDING * largest)
            new = proposed[kept]
            a = k + len(new)
            F[:, k:a] = whitened_rows(L, entries(every, new) - F[:, :k] @ F[new, :k].T)
            pivots[k:a] = new
            d -= np.einsum("ij,ij->i", F[:, k:a], F[:, k:a])
            np.maximum(d, 0.0, out=d)
            d[new] = 0.0
            bar.update(len(new))
            k = a
    return PivotedFactor(pivots[:k], F[:, :k], float(d.sum()) / whole if whole > 0 else 0.0)


def _accepted(inner: Array, before: Array, rng: np.random.Generator, least: float) -> tuple[Indices, Array]:
    """Proposals that are accepted, and the Cholesky factor of their block."""
    b = len(inner)
    rest, columns = inner.copy(), np.zeros((b, b))
    kept: list[int] = []
    draws = rng.uniform(size=b)
    for i in range(b):
        if rest[i, i] > max(draws[i] * before[i], least):
            column = rest[:, i] / np.sqrt(rest[i, i])
            columns[:, len(kept)] = column
            rest -= np.outer(column, column)
            kept.append(i)
    chosen = np.array(kept, dtype=np.intp)
    return chosen, np.ascontiguousarray(np.tril(columns[chosen, : len(kept)]))
