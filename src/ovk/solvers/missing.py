"""Missing outputs at scale: a separable kernel, many points, holes in Y.

The rotation that decouples outputs does not survive holes. In the primal, with G = Phi Phi' (Phi = Q sqrt(g)) and
T = F F', the unknown is W, f(x_i) = phi_i W F', and the normal equations

    alpha W + Phi' [M o (Phi W F')] F = Phi' [M o Y] F            (M = 1 where an output was observed)

are close to those of complete data with each output counted by the fraction rho_q of points where it was seen:
alpha + g_i e_j in the eigenvectors of F' diag(rho) F. That is the preconditioner of a conjugate gradient. The dual
coefficients M o (Y - f) / alpha are then polished by iterative refinement, because dividing by a small alpha would
magnify what the primal iteration left over.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ovk._params import check_int, positive
from ovk._types import Array
from ovk.grams import Gram, Observed
from ovk.solvers.base import Solution, Solver, SolverInfo
from ovk.solvers.conjugate_gradient import conjugate_gradient
from ovk.solvers.eigen import Eigenpairs, eigenpairs


class PrimalState(NamedTuple):
    """The observed gram, the eigenpairs of its scalar gram, T = F F', and what was observed."""

    gram: Observed
    pairs: Eigenpairs
    F: Array  # (d, s)
    mask: Array  # (n, d) of 0 and 1


class MissingOutputs(Solver):
    """Conjugate gradient for a separable kernel with missing outputs, preconditioned by the complete problem.

    Parameters
    ----------
    tol : float > 0
        Relative residual of the dual system at which to stop.
    max_iter : int

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.grams import Kronecker, Observed
    >>> from ovk.operators import MixedEffect
    >>> from ovk.solvers import MissingOutputs
    >>> gram = Observed(Kronecker(np.eye(3), MixedEffect(0.5, 2)), np.array([0, 0, 1, 2]), np.array([0, 1, 0, 1]))
    >>> solver = MissingOutputs()
    >>> C, info = solver.solve(solver.factor(gram), np.ones((4, 1)), alpha=0.1)
    >>> np.allclose(gram.matmat(C) + 0.1 * C, 1.0)
    True
    """

    def __init__(self, tol: float = 1e-10, max_iter: int = 1000) -> None:
        self.tol = tol
        self.max_iter = max_iter

    def factor(self, gram: Gram) -> PrimalState:
        if not isinstance(gram, Observed) or len(gram.base.terms() or []) != 1:
            raise ValueError("MissingOutputs solves separable kernels with missing outputs only; use solver='auto'")
        ((G, operator),) = gram.base.terms() or []
        return PrimalState(gram, eigenpairs(G), operator.eigh().root(), gram.spread(np.ones(gram.shape[0])))

    def solve(self, state: PrimalState, Y: Array, alpha: float, start: Array | None = None) -> Solution:
        if alpha <= 0:
            raise ValueError(f"MissingOutputs needs alpha > 0, got {alpha}")
        tol, max_iter = positive(self.tol, "tol"), check_int(self.max_iter, "max_iter")
        gram, pairs, F, mask = state
        Phi = pairs.Q * np.sqrt(pairs.g)
        fractions = mask.mean(axis=0)
        e, U = np.linalg.eigh((F.T * fractions) @ F)
        denominator = alpha + pairs.g[:, None] * np.maximum(e, 0.0)[None, :]

        def normal(W: Array) -> Array:
            return alpha * W + Phi.T @ ((mask * (Phi @ W @ F.T)) @ F)

        def precondition(R: Array) -> Array:
            return np.asarray(((R @ U) / denominator) @ U.T)

        norm = max(float(np.linalg.norm(Y)), 1e-300)
        C = np.zeros_like(Y)
        residual, iterations = Y.copy(), 0
        relative = 1.0
        for _ in range(10):
            spread = gram.spread(residual)
            found = conjugate_gradient(normal, Phi.T @ (spread @ F), precondition, None, 1e-8, max_iter)
            iterations += found.iterations
            left = mask * (spread - Phi @ found.X @ F.T) / alpha
            C += left[gram.rows, gram.outputs][:, None]
            residual = Y - gram.matmat(C) - alpha * C
            previous, relative = relative, float(np.linalg.norm(residual)) / norm
            if relative <= tol or relative > 0.5 * previous:
                break
        info = SolverInfo("MissingOutputs", iterations=iterations, residual=relative)
        info.warn_above(tol, "raise max_iter or alpha")
        return Solution(C, info)
