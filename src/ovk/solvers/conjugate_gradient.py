"""Conjugate gradient for sums of separable kernels, preconditioned by the part that decouples."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ovk._validation import Array, positive, whole
from ovk.grams import DenseBlocks, Gram, Kronecker, KroneckerSum, Observed, Rotated
from ovk.solvers.base import Solution, Solver, SolverInfo
from ovk.solvers.cholesky import CholeskyState
from ovk.solvers.low_rank import LowRankPreconditioner
from ovk.solvers.pencil import Pencil

Map = Callable[[Array], Array]

#: Distinct eigenvalues of the dominant operator up to which each has a factorisation of its own.
FEW = 8
#: Share of the outputs that must have been observed for the complete system to be a good guide.
MOSTLY = 0.5


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
    >>> from ovk.grams import KroneckerSum
    >>> from ovk.operators import Dense, MixedEffect
    >>> from ovk.solvers import ConjugateGradient
    >>> gram = KroneckerSum([(np.eye(3), MixedEffect(0.5, 2)), (np.ones((3, 3)), Dense([[2.0, 0.0], [0.0, 1.0]]))])
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
        if isinstance(gram, (Kronecker, KroneckerSum)):
            return GradientState(gram, preconditioner(gram))
        if isinstance(gram, Observed) and isinstance(gram.base, (Kronecker, KroneckerSum)) and _mostly_seen(gram):
            return GradientState(gram, SeenPart(gram))
        if isinstance(gram, (DenseBlocks, Observed)):
            return GradientState(gram, LowRankPreconditioner(gram, whole(self.rank, "rank")))
        raise TypeError(f"ConjugateGradient has no preconditioner for a {type(gram).__name__}")

    def solve(self, state: GradientState, Y: Array, alpha: float, start: Array | None = None) -> Solution:
        if alpha <= 0:
            raise ValueError(f"ConjugateGradient needs alpha > 0, got {alpha}")
        tol, max_iter = positive(self.tol, "tol"), whole(self.max_iter, "max_iter")
        found = conjugate_gradient(
            lambda C: state.gram.matmat(C) + alpha * C, Y, state.preconditioner(alpha), start, tol, max_iter
        )
        if found.residual > tol:
            warnings.warn(
                f"ConjugateGradient stopped after max_iter={max_iter} iterations at a relative residual of "
                f"{found.residual:.1e} instead of tol={tol:.0e}: raise max_iter or alpha",
                ConvergenceWarning,
                stacklevel=3,
            )
        info = SolverInfo("ConjugateGradient", iterations=found.iterations, residual=found.residual)
        return Solution(found.X, info)


def preconditioner(gram: Kronecker | KroneckerSum) -> Callable[[float], Map]:
    """One for a sum of separable kernels."""
    k = dominant(gram)
    return Pencil(gram, k) if len(gram.terms[k][1].eigh().groups) > FEW else DominantOperator(gram, k)


def dominant(gram: Kronecker | KroneckerSum) -> int:
    """The term whose operator's spread weighs most, tr(G_k) |T_k - mean(T_k) I|."""
    spread = []
    for G, operator in gram.terms:
        values = operator.eigh().values
        spread.append(float(np.trace(G)) * float(np.linalg.norm(values - values.mean())))
    return int(np.argmax(spread))


def _mostly_seen(gram: Observed) -> bool:
    return gram.shape[0] >= MOSTLY * gram.base.shape[0] * gram.base.output_dim


class SeenPart:
    """The preconditioner of the complete system, with nothing where nothing was observed."""

    def __init__(self, gram: Observed) -> None:
        assert isinstance(gram.base, (Kronecker, KroneckerSum))
        self._gram = gram
        self._complete = preconditioner(gram.base)

    def __call__(self, alpha: float) -> Map:
        inner, gram = self._complete(alpha), self._gram
        return lambda R: inner(gram.spread(R))[gram.rows, gram.outputs][:, None]


class DominantOperator:
    """The part of sum_k G_k (x) T_k + alpha I that falls apart in the eigenvectors of one operator.

    The eigenvectors of the others matter less, and of them only the diagonal v_q' T_k v_q is kept.
    """

    def __init__(self, gram: Kronecker | KroneckerSum, dominant: int) -> None:
        grams = [G for G, _ in gram.terms]
        d = gram.output_dim
        V = gram.terms[dominant][1].eigh().vectors
        weights = np.stack([np.einsum("qi,iq->q", operator.apply(V.T), V) for _, operator in gram.terms], axis=1)
        # Outputs with the same weights share a factorisation.
        order = np.lexsort(weights.round(12).T)
        V, weights = V[:, order], weights[order]
        new = np.flatnonzero((np.abs(np.diff(weights, axis=0)) > 1e-9 * np.abs(weights).max()).any(axis=1)) + 1
        bounds = [0, *new.tolist(), d]
        groups = [slice(a, b) for a, b in pairwise(bounds)]
        self._state = CholeskyState(Rotated(grams, weights[bounds[:-1]], V, groups))

    def __call__(self, alpha: float) -> Map:
        return lambda R: self._state.solve(R, alpha)
