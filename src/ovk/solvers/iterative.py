"""Conjugate gradient for sums of separable kernels and for missing outputs; Gauss-Seidel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ovk.base import Array, Map, ProgressBar, check_int, positive
from ovk.operators import OutputOperator
from ovk.ovkernels import Gram, Observed
from ovk.solvers.base import Solution, Solver, SolverInfo
from ovk.solvers.cholesky import CholeskyFactor, cholesky_factor
from ovk.solvers.eigen import Eigenpairs, eigenpairs
from ovk.solvers.preconditioners import preconditioner


class Iterate(NamedTuple):
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


def _limits(solver: ConjugateGradient | GaussSeidel | MissingOutputs, alpha: float) -> tuple[float, int]:
    """The checked residual and number of steps at which to stop."""
    if alpha <= 0:
        raise ValueError(f"{type(solver).__name__} needs alpha > 0, got {alpha}")
    return positive(solver.tol, "tol"), check_int(solver.max_iter, "max_iter")


class GradientState(NamedTuple):
    gram: Gram
    preconditioner: Callable[[float], Map]  # at any alpha


@dataclass(eq=False, repr=False)
class ConjugateGradient(Solver):
    """Preconditioned conjugate gradient: no matrix larger than the scalar grams is ever formed.

    For a sum of separable kernels the preconditioner is the part of the system that falls apart in the eigenvectors
    v_q of its dominant operator: (sum_k (v_q' T_k v_q) G_k + alpha I) for each q, or, when that operator has many
    eigenvalues, the same with the other operators replaced by their means (`pencil`). For other grams it is a low-rank
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
    >>> from ovk.ovkernels import Kronecker
    >>> from ovk.operators import Dense, MixedEffect
    >>> from ovk.solvers import ConjugateGradient
    >>> gram = Kronecker([np.eye(3), np.ones((3, 3))], [MixedEffect(0.5, 2), Dense([[2.0, 0.0], [0.0, 1.0]])])
    >>> solver = ConjugateGradient()
    >>> C, info = solver.solve(solver.factor(gram), np.ones((3, 2)), alpha=0.1)
    >>> np.allclose(gram.matmat(C) + 0.1 * C, 1.0), info.route
    (True, 'ConjugateGradient')
    """

    tol: float = 1e-11
    max_iter: int = 2000
    rank: int = 300

    def factor(self, gram: Gram) -> GradientState:
        return GradientState(gram, preconditioner(gram, check_int(self.rank, "rank")))

    def solve(self, state: GradientState, Y: Array, alpha: float, start: Array | None = None) -> Solution:
        tol, max_iter = _limits(self, alpha)
        found = conjugate_gradient(
            lambda C: state.gram.matmat(C) + alpha * C, Y, state.preconditioner(alpha), start, tol, max_iter
        )
        info = SolverInfo("ConjugateGradient", iterations=found.iterations, residual=found.residual)
        info.warn_above(tol, "raise max_iter or alpha")
        return Solution(found.X, info)


# Block Gauss-Seidel over examples: the iteration of the multiple-kernel paper, as a route and a check.


@dataclass(eq=False, repr=False)
class GaussSeidel(Solver):
    """Solve for the coefficients of one example at a time, the others held fixed, until nothing moves:

        [K(x_i, x_i) + alpha I] c_i = y_i - sum_{j != i} K(x_i, x_j) c_j.

    Each d x d block is solved directly. Converges for every positive semi-definite gram, but slowly when alpha is
    small; `ConjugateGradient` is the faster choice.

    Parameters
    ----------
    tol : float > 0
        Relative residual at which to stop.
    max_iter : int
        Sweeps over the examples.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.ovkernels import Kronecker
    >>> from ovk.operators import MixedEffect
    >>> from ovk.solvers import GaussSeidel
    >>> gram = Kronecker(np.eye(3) + 0.5, MixedEffect(0.5, output_dim=2))
    >>> solver = GaussSeidel()
    >>> C, info = solver.solve(solver.factor(gram), np.ones((3, 2)), alpha=0.5)
    >>> np.allclose(gram.matmat(C) + 0.5 * C, 1.0), info.route
    (True, 'GaussSeidel')
    """

    tol: float = 1e-10
    max_iter: int = 1000

    def factor(self, gram: Gram) -> tuple[Gram, Array]:
        return gram, gram.diagonal_blocks()

    def solve(self, state: tuple[Gram, Array], Y: Array, alpha: float, start: Array | None = None) -> Solution:
        tol, max_iter = _limits(self, alpha)
        gram, blocks = state
        # Stationary kernels have the same block everywhere: factor each different one once.
        seen: dict[bytes, CholeskyFactor] = {}
        factors = []
        for block in blocks:
            key = block.tobytes()
            if key not in seen:
                seen[key] = cholesky_factor(block.copy, alpha)
            factors.append(seen[key])
        C = np.zeros_like(Y) if start is None else start.copy()
        norm = max(float(np.linalg.norm(Y)), 1e-300)
        every = slice(None)
        for sweep in range(1, max_iter + 1):
            for i, factor in enumerate(factors):
                others = gram.part_matmat(slice(i, i + 1), every, C)[0] - blocks[i] @ C[i]
                C[i] = factor.solve(Y[i] - others)
            residual = float(np.linalg.norm(Y - gram.matmat(C) - alpha * C)) / norm
            info = SolverInfo("GaussSeidel", iterations=sweep, residual=residual)
            if residual <= tol:
                break
        info.warn_above(tol, "raise max_iter or alpha, or use ConjugateGradient")
        return Solution(C, info)


# Missing outputs at scale: a separable kernel, many points, holes in Y.
#
# The rotation that decouples outputs does not survive holes. In the primal, with G = Phi Phi' (Phi = Q sqrt(g)) and
# T = F F', the unknown is W, f(x_i) = phi_i W F', and the normal equations
#
#     alpha W + Phi' [M o (Phi W F')] F = Phi' [M o Y] F            (M = 1 where an output was observed)
#
# are close to those of complete data with each output counted by the fraction rho_q of points where it was seen:
# alpha + g_i e_j in the eigenvectors of F' diag(rho) F. That is the preconditioner of a conjugate gradient. The dual
# coefficients M o (Y - f) / alpha are then polished by iterative refinement, because dividing by a small alpha would
# magnify what the primal iteration left over.


@dataclass(eq=False, repr=False)
class MissingOutputs(Solver):
    """Conjugate gradient for a separable kernel with missing outputs, preconditioned by the complete problem."""

    tol: float = 1e-10  # relative residual of the dual system at which to stop
    max_iter: int = 1000

    def factor(self, gram: Gram) -> tuple[Observed, Eigenpairs, OutputOperator]:
        if not isinstance(gram, Observed) or len(gram.base.terms() or []) != 1:
            raise ValueError("MissingOutputs solves separable kernels with missing outputs only; use solver='auto'")
        ((G, operator),) = gram.base.terms() or []
        return gram, eigenpairs(G), operator

    def solve(
        self, state: tuple[Observed, Eigenpairs, OutputOperator], Y: Array, alpha: float, start: Array | None = None
    ) -> Solution:
        tol, max_iter = _limits(self, alpha)
        gram, pairs, operator = state
        F, mask = operator.eigh().root(), gram.spread(np.ones(gram.shape[0]))
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
