"""Solution by eigenvectors: factor once, then any alpha for the price of two products."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from ovk._validation import Array, positive
from ovk.grams import Decoupled, Gram, Rotated, decouple
from ovk.solvers.base import SingularSystem, Solution, Solver, SolverInfo


class Eigenpairs(NamedTuple):
    """G = Q diag(g) Q' on the span of Q, and zero (to a stated tolerance) on what is orthogonal to it."""

    Q: Array  # (n, r)
    g: Array  # (r,), >= 0
    full: bool  # r = n: nothing is orthogonal to Q

    def filter(self, t: float, alpha: float) -> Array:
        """1 / (t g + alpha) minus what the orthogonal part has, so that it can be applied on the span alone."""
        return 1.0 / (t * self.g + alpha) - (0.0 if self.full else 1.0 / alpha)


def eigenpairs(G: Array, tol: float = 0.0) -> Eigenpairs:
    """Eigenvectors of a symmetric positive semi-definite matrix.

    With `tol` > 0 a pivoted Cholesky factorisation G = F F' + E runs first, until trace(E) <= tol (an absolute number).
    Smooth kernels have a numerical rank far below n; the eigenvectors then come from the small F'F, and dropping E
    changes the solution at ridge alpha by at most tol / alpha, relatively.
    """
    n = len(G)
    if tol > 0:
        F, pivots, rank, _ = lapack.dpstrf(np.asfortranarray(G), tol=tol / n, lower=1)
        # A rank near n gains nothing over the plain eigenvectors.
        if rank <= 0.7 * n:
            L = np.tril(F)[:, :rank]
            low = np.empty_like(L)
            low[pivots - 1] = L
            values, vectors = np.linalg.eigh(low.T @ low)
            keep = values > np.finfo(float).eps * max(float(values[-1]), 1e-300)
            return Eigenpairs((low @ vectors[:, keep]) / np.sqrt(values[keep]), values[keep], False)
    values, vectors = np.linalg.eigh(G)
    if n and values[0] < -1e-7 * max(float(values[-1]), 1e-300):
        raise SingularSystem(
            f"the kernel matrix must be positive semi-definite, but it has the eigenvalue {values[0]:.6g} "
            f"(the largest is {values[-1]:.6g}): check the kernel"
        )
    return Eigenpairs(vectors, np.maximum(values, 0.0), True)


class EigenState(NamedTuple):
    """A decoupled gram with eigenpairs and a multiplier of the eigenvalues for each group."""

    decoupled: Decoupled
    pairs: list[tuple[Eigenpairs, float]]


class Eigen(Solver):
    """Eigendecomposition of the scalar gram: many alphas, or an output operator with many eigenvalues, at one price.

    Parameters
    ----------
    tol : float >= 0
        Trace of the scalar gram that may be dropped to make the decomposition smaller; see `eigenpairs`.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.grams import Kronecker
    >>> from ovk.operators import Identity
    >>> from ovk.solvers import Eigen
    >>> solver = Eigen()
    >>> state = solver.factor(Kronecker(2.0 * np.eye(3), Identity(1)))
    >>> [float(solver.solve(state, np.ones((3, 1)), alpha).C[0, 0]) for alpha in (2.0, 3.0)]
    [0.25, 0.2]
    """

    def __init__(self, tol: float = 0.0) -> None:
        self.tol = tol

    def factor(self, gram: Gram) -> EigenState:
        tol = positive(self.tol, "tol", zero=True)
        decoupled = decouple(gram)
        if decoupled is None:
            raise ValueError(
                "the operators of this sum of kernels do not commute, so it has no eigenvectors in common: "
                "use solver='auto' or ConjugateGradient()"
            )
        if isinstance(decoupled, Rotated) and len(decoupled.grams) == 1:
            pairs = eigenpairs(decoupled.grams[0], tol)
            return EigenState(decoupled, [(pairs, float(t)) for t in decoupled.weights[:, 0]])
        groups = range(len(decoupled.groups))
        return EigenState(decoupled, [(eigenpairs(decoupled.matrix(q), tol), 1.0) for q in groups])

    def solve(self, state: EigenState, Y: Array, alpha: float, start: Array | None = None) -> Solution:
        rotated = state.decoupled.rotate(Y)
        # Groups that share eigenvectors share the two products as well.
        Z = np.zeros_like(rotated)
        condition = 1.0
        done: list[Eigenpairs] = []
        for pairs, _ in state.pairs:
            if any(pairs is other for other in done):
                continue
            done.append(pairs)
            mine = [
                (group, t)
                for group, (p, t) in zip(state.decoupled.groups, state.pairs, strict=True)
                if p is pairs
            ]
            columns = np.concatenate([np.arange(group.start, group.stop) for group, _ in mine])
            t = np.concatenate([np.full(group.stop - group.start, t) for group, t in mine])
            inner = pairs.Q.T @ rotated[:, columns]
            denominator = pairs.g[:, None] * t[None, :] + alpha
            if alpha == 0:
                floor = len(Y) * np.finfo(float).eps * denominator.max(axis=0, initial=0.0)
                weights = np.divide(1.0, denominator, out=np.zeros_like(denominator), where=denominator > floor)
            else:
                weights = 1.0 / denominator
                if not pairs.full:
                    weights -= 1.0 / alpha
                condition = max(condition, float(denominator.max(initial=alpha)) / alpha)
            Z[:, columns] = pairs.Q @ (weights * inner)
            if not pairs.full and alpha > 0:
                Z[:, columns] += rotated[:, columns] / alpha
        return Solution(state.decoupled.unrotate(Z), SolverInfo("Eigen", condition=condition))
