"""Leaving out curves of a combination of kernels, its weights kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk._progress import track
from ovk._types import Array, Indices
from ovk.batch.movkl.alternation import LearnedWeights, System
from ovk.grams import Observed, Rotated
from ovk.solvers.cholesky import cholesky_factor
from ovk.solvers.eigen import eigenpairs
from ovk.solvers.leave_one_out import DenseLeaveOneOut, KroneckerLeaveOneOut
from ovk.solvers.select import DENSE_LIMIT
from ovk.targets import members_of_groups


def left_out_residuals(system: System, learned: LearnedWeights, alpha: float, folds: Indices | None = None) -> Array:
    """Residuals of every curve predicted from the others, (n, d), times the root of its weight; nan where unseen.

    Closed form when the operators have common eigenvectors (one operator always has), also for curves that are left out
    together, for which `folds` has the same number. Otherwise the system is solved again without them, beginning at the
    whole solution.
    """
    if not system.complete:
        return _with_holes(system, learned.weights, alpha, folds)
    u = system.u if system.intercept else None
    if folds is None and len(system.alone.operators) == 1:
        [(G, T)] = system.alone.gram(learned.weights).terms() or []
        return KroneckerLeaveOneOut(eigenpairs(G), system.Y, u).residuals(T.eigh(), alpha)
    sets = np.arange(len(system.Y)) if folds is None else folds
    rotated = system.alone.rotated(learned.weights, always=True)
    if rotated is None:
        return _by_solving(system, learned, alpha, sets)
    return _in_common_eigenvectors(rotated, system.Y, u, alpha, sets)


def _in_common_eigenvectors(rotated: Rotated, Y: Array, u: Array | None, alpha: float, folds: Indices) -> Array:
    """((A^-1)_SS)^-1 (A^-1 y)_S for each set S of each scalar problem.

    With an intercept A^-1 loses z z' / u'z, z = A^-1 u.
    """
    parts = rotated.split(Y)
    sets = members_of_groups(folds)
    for q, part in enumerate(parts):
        if rotated.vanishes(q):
            inverse = np.eye(len(Y)) / alpha
        else:
            inverse = cholesky_factor(lambda q=q: rotated.matrix(q), alpha).solve(np.eye(len(Y)))  # type: ignore[misc]
        if u is not None:
            z = inverse @ u
            inverse = inverse - np.outer(z, z) / (u @ z)
        left = (inverse @ part) / np.diagonal(inverse)[:, None]
        for S in sets:
            if len(S) > 1:
                left[S] = np.linalg.solve(inverse[np.ix_(S, S)], inverse[S] @ part)
        parts[q] = left
    return rotated.join(parts)


def _by_solving(system: System, learned: LearnedWeights, alpha: float, folds: Indices) -> Array:
    residuals = np.empty_like(system.Y)
    whole = system.alone.gram(learned.weights).terms() or []
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
    observed = system.observed
    gram = Observed(system.alone.gram(weights), observed.points, observed.outputs)
    if gram.shape[0] > DENSE_LIMIT:
        raise ValueError(
            f"leaving out curves with gaps takes a matrix of all {gram.shape[0]} observed values, more than "
            f"{DENSE_LIMIT}: choose alpha on fewer curves"
        )
    together = observed.points if folds is None else folds[observed.points]
    left = DenseLeaveOneOut(gram.dense(), system.right[:, 0], together, system.columns()).residuals(alpha)
    residuals = np.full(observed.shape, np.nan)
    residuals[observed.points, observed.outputs] = left
    return residuals
