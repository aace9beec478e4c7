"""Conjugate gradient for sums of separable kernels, preconditioned by the part that decouples."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ovk._params import check_int, positive
from ovk._progress import ProgressBar
from ovk._types import Array, Map
from ovk.grams import Gram
from ovk.solvers.base import Solution, Solver, SolverInfo
from ovk.solvers.preconditioners import preconditioner


class Iterate(NamedTuple):
    """Where an iteration ended."""

    X: Array
    iterations: int
    residual: float


def conjugate_gradient(
    apply: Map, B: Array, precondition: Map, start: Array | None, tol: float, max_iter: int
) -> Iterate:
    """Solve apply(X) = B, apply symmetric positive definite, to a relative residual `tol`."""
    norm = float(np.linalg.norm(B))
    if norm == 0.0:
        return Iterate(np.zeros_like(B), 0, 0.0)
    X = np.zeros_like(B) if start is None else start.copy()
    R = B.copy() if start is None else B - apply(X)
    Z = precondition(R)
    P = Z.copy()
    energy = float(np.vdot(R, Z))
    for iteration in range(1, max_iter + 1):
        residual = float(np.linalg.norm(R)) / norm
        if residual <= tol:
            return Iterate(X, iteration - 1, residual)
        A = apply(P)
        step = energy / float(np.vdot(P, A))
        X += step * P
        R -= step * A
        Z = precondition(R)
        previous, energy = energy, float(np.vdot(R, Z))
        P *= energy / previous
        P += Z
    return Iterate(X, max_iter, float(np.linalg.norm(R)) / norm)


def conjugate_gradients(
    apply: Map, B: Array, precondition: Map, start: Array | None, tol: float, max_iter: int
) -> Iterate:
    """Solve apply(X) = B column by column, (n, r): each has steps of its own, all share the products.

    Columns that have arrived take no further part. `residual` is the largest of all columns.
    """
    norms = np.linalg.norm(B, axis=0)
    norms[norms == 0.0] = 1.0
    X = np.zeros_like(B) if start is None else start.copy()
    R = B.copy() if start is None else B - apply(X)
    left = np.linalg.norm(R, axis=0) / norms
    active = np.flatnonzero(left > tol)
    iteration = 0
    P, energy = np.zeros_like(B), np.ones(B.shape[1])
    with ProgressBar("solving") as bar:
        while len(active) and iteration < max_iter:
            Z = precondition(R[:, active])
            new = np.einsum("ij,ij->j", R[:, active], Z)
            P[:, active] = Z + P[:, active] * (new / energy[active] if iteration else 0.0)
            energy[active] = new
            A = apply(P[:, active])
            step = new / np.einsum("ij,ij->j", P[:, active], A)
            X[:, active] += step * P[:, active]
            R[:, active] -= step * A
            left[active] = np.linalg.norm(R[:, active], axis=0) / norms[active]
            iteration += 1
            bar.label = f"solving, residual {left.max():.1e}, iteration"
            bar.update()
            active = active[left[active] > tol]
    return Iterate(X, iteration, float(left.max(initial=0.0)))


class GradientState(NamedTuple):
    """A gram and the means to precondition it at any alpha."""

    gram: Gram
    preconditioner: Callable[[float], Map]


class ConjugateGradient(Solver):
    """Preconditioned conjugate gradient: no matrix larger than the scalar grams is ever formed.

    For a sum of separable kernels the preconditioner is the part of the system that falls apart in the eigenvectors
    v_q of its dominant operator: (sum_k (v_q' T_k v_q) G_k + alpha I) for each q, or, when that operator has many
    eigenvalues, the same with the other operators replaced by their means (`Pencil`). For other grams it is a low-rank
    approximation by pivoted Cholesky.

    Parameters
    ----------
    tol : float > 0
        Relative residual at which to stop.
    max_iter : int
    rank : int
        Rank of the low-rank preconditioner.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.grams import Kronecker
    >>> from ovk.operators import Dense, MixedEffect
    >>> from ovk.solvers import ConjugateGradient
    >>> gram = Kronecker([np.eye(3), np.ones((3, 3))], [MixedEffect(0.5, 2), Dense([[2.0, 0.0], [0.0, 1.0]])])
    >>> solver = ConjugateGradient()
    >>> C, info = solver.solve(solver.factor(gram), np.ones((3, 2)), alpha=0.1)
    >>> np.allclose(gram.matmat(C) + 0.1 * C, 1.0), info.route
    (True, 'ConjugateGradient')
    """

    def __init__(self, tol: float = 1e-11, max_iter: int = 2000, rank: int = 300) -> None:
        self.tol = tol
        self.max_iter = max_iter
        self.rank = rank

    def factor(self, gram: Gram) -> GradientState:
        return GradientState(gram, preconditioner(gram, check_int(self.rank, "rank")))

    def solve(self, state: GradientState, Y: Array, alpha: float, start: Array | None = None) -> Solution:
        if alpha <= 0:
            raise ValueError(f"ConjugateGradient needs alpha > 0, got {alpha}")
        tol, max_iter = positive(self.tol, "tol"), check_int(self.max_iter, "max_iter")
        found = conjugate_gradient(
            lambda C: state.gram.matmat(C) + alpha * C, Y, state.preconditioner(alpha), start, tol, max_iter
        )
        info = SolverInfo("ConjugateGradient", iterations=found.iterations, residual=found.residual)
        info.warn_above(tol, "raise max_iter or alpha")
        return Solution(found.X, info)
