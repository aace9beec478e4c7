"""Leaving out curves of a combination of kernels, its weights kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk._progress import track
from ovk._validation import Array
from ovk.batch.alternation import Learned, System
from ovk.grams import Observed, Rotated
from ovk.grams.base import Indices
from ovk.solvers.cholesky import triangle
from ovk.solvers.eigen import eigenpairs
from ovk.solvers.leave_one_out import DenseLeaveOneOut, KroneckerLeaveOneOut
from ovk.solvers.select import DENSE_LIMIT


def left_out_residuals(system: System, learned: Learned, alpha: float, folds: Indices | None = None) -> Array:
    """Residuals of every curve predicted from the others, (n, d), times the root of its weight; nan where unseen.

    One curve at a time is closed form when the operators have common eigenvectors (one operator always has); otherwise,
    and when `folds` gives each curve the number of the set that it is left out with, the system is solved again without
    them, beginning at the whole solution.
    """
    if not system.targets.complete:
        return _with_holes(system, learned.weights, alpha, folds)
    if folds is None:
        u = system.u if system.intercept else None
        if len(system.alone.operators) == 1:
            G, T = system.alone.terms(learned.weights)[0]
            return KroneckerLeaveOneOut(eigenpairs(G), system.Y, u).residuals(T.eigh(), alpha)
        rotated = system.alone.rotated(learned.weights, always=True)
        if rotated is not None:
            return _in_common_eigenvectors(rotated, system.Y, u, alpha)
        folds = np.arange(len(system.Y))
    return _by_solving(system, learned, alpha, folds)


def _in_common_eigenvectors(rotated: Rotated, Y: Array, u: Array | None, alpha: float) -> Array:
    """(A^-1)_ii^-1 (A^-1 y)_i for each scalar problem; with an intercept A^-1 loses z z' / u'z, z = A^-1 u."""
    parts = rotated.split(Y)
    for q, part in enumerate(parts):
        if rotated.vanishes(q):
            inverse = np.eye(len(Y)) / alpha
        else:
            inverse = triangle(lambda q=q: rotated.matrix(q), alpha).solve(np.eye(len(Y)))  # type: ignore[misc]
        if u is not None:
            z = inverse @ u
            inverse = inverse - np.outer(z, z) / (u @ z)
        parts[q] = (inverse @ part) / np.diagonal(inverse)[:, None]
    return rotated.join(parts)


def _by_solving(system: System, learned: Learned, alpha: float, folds: Indices) -> Array:
    residuals = np.empty_like(system.Y)
    whole = system.alone.gram(learned.weights).terms
    for fold in track(np.unique(folds), "leaving out curves"):
        out, kept = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        rest, right, u = system.alone.restricted(kept), system.Y[kept], system.u[kept]
        if system.intercept:
            rest, right = rest.centred(u), right - np.outer(u, u @ right / (u @ u))
        C = rest.solve(learned.weights, right, alpha, system.solver, learned.C[kept]).C

        def values(rows: Indices, C: Array = C, kept: Indices = kept) -> Any:
            return sum(T.apply(G[np.ix_(rows, kept)] @ C) for G, T in whole)

        residuals[out] = system.Y[out] - values(out)
        if system.intercept:
            b = u @ (system.Y[kept] - values(kept)) / (u @ u)
            residuals[out] -= np.outer(system.u[out], b)
    return residuals


def _with_holes(system: System, weights: Array, alpha: float, folds: Indices | None) -> Array:
    gram = Observed(system.alone.gram(weights), *system.pairs)
    if gram.shape[0] > DENSE_LIMIT:
        raise ValueError(
            f"leaving out curves with gaps takes a matrix of all {gram.shape[0]} observed values, more than "
            f"{DENSE_LIMIT}: choose alpha on fewer curves"
        )
    points = system.pairs[0]
    together = points if folds is None else folds[points]
    left = DenseLeaveOneOut(gram.dense(), system.right[:, 0], together, system.columns()).residuals(alpha)
    residuals = np.full(system.shape, np.nan)
    residuals[system.pairs] = left
    return residuals
