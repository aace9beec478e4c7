"""Conjugate gradient with its preconditioners, for sums of separable kernels and for missing outputs; Gauss-Seidel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, singledispatch
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh, solve_triangular

from ovk.base import Array, Indices, Map, ProgressBar, check_int, positive, to_host
from ovk.operators import Dense, OutputOperator
from ovk.ovkernels import DenseBlocks, Gram, Kronecker, Observed, Rotated
from ovk.solvers.base import Solution, Solver, SolverInfo
from ovk.solvers.cholesky import MAX_FACTORISATIONS, CholeskyState, cholesky_factor, whitened_rows
from ovk.solvers.eigen import Eigenpairs, eigenpairs

#: The preconditioner at any alpha.
Preconditioner = Callable[[float], Map]


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
    """Solve apply(X) = B column by column, (n, r): step sizes are separate, products are shared.

    Columns that have converged are skipped. `residual` is the largest of all columns.
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
    """The checked tolerance and maximum number of steps."""
    if alpha <= 0:
        raise ValueError(f"alpha must be positive with {type(solver).__name__}, got {alpha}")
    return positive(solver.tol, "tol"), check_int(solver.max_iter, "max_iter")


@dataclass(eq=False, repr=False)
class ConjugateGradient(Solver):
    """Preconditioned conjugate gradient, which forms no matrix larger than the scalar grams.

    For a sum of separable kernels the preconditioner is the part of the system that decouples in the eigenvectors v_q
    of its dominant operator: (sum_k (v_q' T_k v_q) G_k + alpha I) for each q, or, if that operator has many
    eigenvalues, the same with the other operators replaced by their means. For other grams it is a low-rank
    approximation by pivoted Cholesky.

    Parameters
    ----------
    tol : float > 0
        Relative residual at which to stop.
    max_iter : int
        Maximum number of iterations.
    rank : int
        Rank of the low-rank preconditioner.

    See Also
    --------
    Cholesky, Eigen, GaussSeidel

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

    def factor(self, gram: Gram) -> tuple[Gram, Preconditioner]:
        return gram, preconditioner(gram, check_int(self.rank, "rank"))

    def solve(self, state: tuple[Gram, Preconditioner], Y: Array, alpha: float, start: Array | None = None) -> Solution:
        return self._solved(lambda C: state[0].matmat(C) + alpha * C, Y, state[1](alpha), alpha, start)

    def _solved(self, apply: Map, Y: Array, precondition: Map, alpha: float, start: Array | None = None) -> Solution:
        tol, max_iter = _limits(self, alpha)
        found = conjugate_gradient(apply, Y, precondition, start, tol, max_iter)
        info = SolverInfo("ConjugateGradient", iterations=found.iterations, residual=found.residual)
        info.warn_above(tol, "increase max_iter or alpha")
        return Solution(found.X, info)

    def solve_centred(
        self, state: tuple[Gram, Preconditioner], Y: Array, alpha: float, e: Array
    ) -> tuple[Solution, Array]:
        """Coefficients (N, 1) of observed pairs, and an intercept (d,) with the column e (N,) of each output.

        The iteration stays in E'C = 0, in one solution instead of d + 1: residuals are projected orthogonally to E, and
        with the preconditioner M, which has no coupling, Z = M^-1 R - M^-1 E (E'M^-1 E)^-1 E'M^-1 R.
        """
        gram, at = state
        assert isinstance(gram, Observed)
        inverse, outputs = at(alpha), gram.outputs

        def without(f: Array) -> Map:
            """A - f (e'f)^-1 e'A for each output."""
            total = np.bincount(outputs, e * f)
            total[total == 0.0] = 1.0
            return lambda A: A - (f * (np.bincount(outputs, e * A[:, 0]) / total)[outputs])[:, None]

        project, centre = without(e), without(inverse(e[:, None])[:, 0])
        found = self._solved(
            lambda C: project(gram.matmat(C) + alpha * C), project(Y), lambda R: centre(inverse(R)), alpha
        )
        left, size = Y - gram.matmat(found.C) - alpha * found.C, gram.base.output_dim
        squares = np.maximum(np.bincount(outputs, e**2, size), 1e-300)
        return found, np.bincount(outputs, e * left[:, 0], size) / squares


@dataclass(eq=False, repr=False)
class GaussSeidel(Solver):
    """Block Gauss-Seidel: solves for the coefficients of one example at a time, with the others fixed.

        [K(x_i, x_i) + alpha I] c_i = y_i - sum_{j != i} K(x_i, x_j) c_j.

    Each d x d block is solved directly. Converges for every positive semi-definite gram, but slowly if alpha is small;
    `ConjugateGradient` is faster.

    Parameters
    ----------
    tol : float > 0
        Relative residual at which to stop.
    max_iter : int
        Maximum number of sweeps over the examples.

    See Also
    --------
    ConjugateGradient, Cholesky

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
        # Stationary kernels have equal blocks: factor each distinct one once.
        different = {block.tobytes(): block for block in blocks}
        factored = {key: cholesky_factor(block.copy, alpha) for key, block in different.items()}
        factors = [factored[block.tobytes()] for block in blocks]
        C = np.zeros_like(Y) if start is None else start.copy()
        norm, every = max(float(np.linalg.norm(Y)), 1e-300), slice(None)
        for sweep in range(1, max_iter + 1):
            for i, factor in enumerate(factors):
                others = gram.part_matmat(slice(i, i + 1), every, C)[0] - blocks[i] @ C[i]
                C[i] = factor.solve(Y[i] - others)
            residual = float(np.linalg.norm(Y - gram.matmat(C) - alpha * C)) / norm
            info = SolverInfo("GaussSeidel", iterations=sweep, residual=residual)
            if residual <= tol:
                break
        info.warn_above(tol, "increase max_iter or alpha, or use ConjugateGradient")
        return Solution(C, info)


# Missing outputs at scale: a separable kernel, many points, gaps in Y.
#
# Gaps break the rotation that decouples outputs. In the primal, with G = Phi Phi' (Phi = Q sqrt(g)) and T = F F', the
# unknown is W, f(x_i) = phi_i W F', and the normal equations
#
#     alpha W + Phi' [M o (Phi W F')] F = Phi' [M o Y] F            (M = 1 where an output is observed)
#
# are close to those of complete data with each output weighted by the fraction rho_q of points with this output:
# alpha + g_i e_j in the eigenvectors of F' diag(rho) F. That is the preconditioner of a conjugate gradient. Iterative
# refinement then corrects the dual coefficients M o (Y - f) / alpha, because dividing by a small alpha magnifies the
# residual of the primal iteration.


@dataclass(eq=False, repr=False)
class MissingOutputs(Solver):
    """Conjugate gradient for a separable kernel with missing outputs, preconditioned by the complete problem."""

    tol: float = 1e-10  # relative residual of the dual system at which to stop
    max_iter: int = 1000

    def factor(self, gram: Gram) -> tuple[Observed, Eigenpairs, OutputOperator]:
        if not isinstance(gram, Observed) or len(gram.base.terms() or []) != 1:
            raise ValueError("MissingOutputs requires a separable kernel and missing outputs: use solver='auto'")
        ((G, operator),) = gram.base.terms() or []
        return gram, eigenpairs(G), operator

    def solve(
        self, state: tuple[Observed, Eigenpairs, OutputOperator], Y: Array, alpha: float, start: Array | None = None
    ) -> Solution:
        tol, max_iter = _limits(self, alpha)
        gram, pairs, operator = state
        F, mask = operator.eigh().root(), gram.spread(np.ones(gram.shape[0]))
        Phi: Array = pairs.Q * np.sqrt(pairs.g)
        e, U = np.linalg.eigh((F.T * mask.mean(axis=0)) @ F)
        denominator = alpha + pairs.g[:, None] * np.maximum(e, 0.0)[None, :]

        def normal(W: Array) -> Array:
            return alpha * W + Phi.T @ ((mask * (Phi @ W @ F.T)) @ F)

        def precondition(R: Array) -> Array:
            return np.asarray(((R @ U) / denominator) @ U.T)

        norm = max(float(np.linalg.norm(Y)), 1e-300)
        C, residual, relative, iterations = np.zeros_like(Y), Y, 1.0, 0
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
        info.warn_above(tol, "increase max_iter or alpha")
        return Solution(C, info)


# Preconditioners: approximate inverses of a gram plus alpha I, at any alpha.

#: Maximum number of entries of all factors of single outputs (800 MB).
MAX_FACTOR_ENTRIES = 1e8


def solves_by_output(gram: Gram) -> bool:
    """Whether a preconditioner may factor the matrix of each output, without coupling."""
    if not isinstance(gram, Observed) or len(gram.base.terms() or []) != 1:
        return False
    return float((np.bincount(gram.outputs).astype(np.float64) ** 2).sum()) <= MAX_FACTOR_ENTRIES


#: Minimum share of observed outputs for the complete system to be a good preconditioner.
MIN_OBSERVED_SHARE = 0.5


@singledispatch
def preconditioner(gram: Gram, rank: int) -> Preconditioner:
    """An approximate inverse of a gram plus alpha I at any alpha; `rank` is that of low-rank approximations."""
    raise TypeError(f"ConjugateGradient has no preconditioner for a {type(gram).__name__}")


@preconditioner.register
def _(gram: Kronecker, rank: int) -> Preconditioner:
    terms = gram.terms()
    # The dominant term has the largest tr(G_k) |T_k - mean(T_k) I|.
    spectra = [operator.eigh().values for _, operator in terms]
    spread = [np.trace(G) * np.linalg.norm(t - t.mean()) for (G, _), t in zip(terms, spectra, strict=True)]
    dominant = int(np.argmax(spread))
    many = len(terms[dominant][1].eigh().groups) > MAX_FACTORISATIONS
    return pencil(terms, dominant) if many else dominant_operator(terms, dominant)


@preconditioner.register
def _(gram: DenseBlocks, rank: int) -> Preconditioner:
    return LowRankPreconditioner(pivoted_cholesky(gram, rank))


@preconditioner.register
def _(gram: Observed, rank: int) -> Preconditioner:
    if solves_by_output(gram):
        # With correlation R = diag(T)^-1/2 T diag(T)^-1/2, the condition number is at most that of R at any alpha.
        ((G, operator),) = gram.base.terms() or []
        diagonal = Kronecker(G, Dense(np.diag(np.diagonal(operator.dense()))))
        state = CholeskyState(Observed(diagonal, gram.rows, gram.outputs).decouple())
        return lambda alpha: lambda R: state.solve(R, alpha)
    mostly_observed = gram.shape[0] >= MIN_OBSERVED_SHARE * gram.base.shape[0] * gram.base.output_dim
    if gram.base.terms() is None or not mostly_observed:
        return LowRankPreconditioner(pivoted_cholesky(gram, rank))
    complete = preconditioner(gram.base, rank)

    def at(alpha: float) -> Map:
        inner = complete(alpha)
        return lambda R: inner(gram.spread(R))[gram.rows, gram.outputs][:, None]

    return at


def dominant_operator(terms: list[tuple[Array, OutputOperator]], dominant: int) -> Preconditioner:
    """The part of sum_k G_k (x) T_k + alpha I that decouples in the eigenvectors v_q of one operator.

    Of the other operators only the diagonal v_q' T_k v_q is used.
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


def pencil(terms: list[tuple[Array, OutputOperator]], dominant: int) -> Preconditioner:
    """(A (x) T + B (x) I + alpha I)^-1: the dominant operator T, and the others as multiples of the identity.

    For a dominant operator with many eigenvalues. With T = V diag(e) V' and the others replaced by their means,
    B = sum_k (tr T_k / d) G_k, problem q is (e_q A + B + alpha I). All d of them share one decomposition: with
    B + alpha I = L L', L^-1 A L'^-1 = U diag(a) U' and Z = L'^-1 U,

        (e_q A + B + alpha I)^-1 = Z diag(1 / (1 + e_q a)) Z'.

    Exact if the other operators are multiples of the identity.
    """
    A, e, V = terms[dominant][0], terms[dominant][1].eigh().values, terms[dominant][1].eigh().vectors
    others = [(float(T.eigh().values.mean()), G) for k, (G, T) in enumerate(terms) if k != dominant]

    @lru_cache(maxsize=1)
    def at(alpha: float) -> Map:
        L = cholesky_factor(lambda: sum((mean * G for mean, G in others), np.zeros_like(A)), alpha).L
        half = solve_triangular(L, A, lower=True, check_finite=False)
        inner = solve_triangular(L, half.T, lower=True, check_finite=False)
        a, U = eigh(0.5 * (inner + inner.T), check_finite=False, overwrite_a=True)
        Z = np.ascontiguousarray(solve_triangular(L, U, lower=True, trans="T", check_finite=False))
        scale = 1.0 / (1.0 + np.multiply.outer(np.maximum(a, 0.0), e))
        return lambda R: np.asarray((Z @ (scale * (Z.T @ (R @ V)))) @ V.T)

    return at


class LowRankPreconditioner:
    """(F F' + alpha I)^-1 R by Woodbury's identity, for one factor F and any alpha."""

    def __init__(self, F: Any) -> None:
        self._F = F  # (n, r), an array or a matrix on a device
        self._inner = to_host(F.T @ F)

    def __call__(self, alpha: float) -> Map:
        F = self._F
        factor = cho_factor(self._inner + alpha * np.eye(F.shape[1]), lower=True)

        def apply(R: Array) -> Array:
            flat = R.reshape(len(F), -1)
            return np.asarray(((flat - F @ cho_solve(factor, F.T @ flat)) / alpha).reshape(R.shape))

        return apply


def pivoted_cholesky(gram: Gram, rank: int, tol: float = 1e-12) -> Array:
    """F, (n d, r), with F F' close to the gram: pivots are the largest remaining diagonal entries."""
    n, d = gram.shape[0], gram.output_dim
    points, outputs = np.repeat(np.arange(n), d), np.tile(np.arange(d), n)
    left = np.einsum("iqq->iq", gram.diagonal_blocks()).reshape(-1).copy()
    largest = max(float(left.max(initial=0.0)), 1e-300)
    F = np.zeros((n * d, min(rank, n * d)))
    for k in range(F.shape[1]):
        pivot = int(left.argmax())
        if left[pivot] <= tol * largest:
            return F[:, :k]
        column = gram.entries(points, outputs, points[[pivot]], outputs[[pivot]])[:, 0]
        F[:, k] = column = (column - F[:, :k] @ F[pivot, :k]) / np.sqrt(left[pivot])
        left -= column**2
        left[pivot] = 0.0
    return F


# Randomly pivoted Cholesky: a low-rank approximation of a large positive semi-definite matrix from a few columns.
#
# Column i is drawn with probability d_i / sum d, where d is the diagonal of the residual (Chen, Epperly, Tropp and
# Webber, 2023). Proposals are drawn in blocks from the d at the start of the block, and accepted with probability
# current d / d at the start (rejection sampling), so the columns have the same distribution as if drawn one by one, and
# the work is in matrix products.

#: Maximum number of columns proposed at a time.
MAX_PROPOSALS = 100
#: Diagonal entries below this share of the largest are rounding errors.
ROUNDING = 1e-13


class PivotedFactor(NamedTuple):
    """F F' approximates the matrix, exactly in the rows and columns `pivots`."""

    pivots: Indices  # (m,)
    F: Array  # (n, m)
    left: float  # trace of the residual, relative to the whole


def random_pivots(
    entries: Callable[[Indices, Indices], Array], diagonal: Array, rank: int, rng: np.random.Generator, tol: float = 0.0
) -> PivotedFactor:
    """Choose up to `rank` columns, fewer if the relative trace of the residual falls below `tol`.

    `entries` gives the matrix at rows (r,) and columns (c,), as (r, c); `diagonal` is its diagonal (n,).
    """
    n, every = len(diagonal), np.arange(len(diagonal))
    d: Array = np.array(diagonal, dtype=np.float64)
    whole, largest = float(d.sum()), float(d.max(initial=0.0))
    F, pivots = np.empty((n, min(rank, n))), np.empty(min(rank, n), dtype=np.intp)
    k = 0
    with ProgressBar("choosing points", total=len(pivots)) as bar:
        while k < len(pivots) and d.sum() > tol * whole and d.max() > ROUNDING * largest:
            proposed = rng.choice(n, size=min(MAX_PROPOSALS, max(len(pivots) // 10, 1), len(pivots) - k), p=d / d.sum())
            inner = entries(proposed, proposed) - F[proposed, :k] @ F[proposed, :k].T
            kept, L = _accepted(inner, d[proposed], rng, ROUNDING * largest)
            new, a = proposed[kept], k + len(kept)
            F[:, k:a] = whitened_rows(L, entries(every, new) - F[:, :k] @ F[new, :k].T)
            pivots[k:a] = new
            d -= np.einsum("ij,ij->i", F[:, k:a], F[:, k:a])
            np.maximum(d, 0.0, out=d)
            d[new] = 0.0
            bar.update(len(new))
            k = a
    return PivotedFactor(pivots[:k], F[:, :k], float(d.sum()) / whole if whole > 0 else 0.0)


def _accepted(inner: Array, before: Array, rng: np.random.Generator, least: float) -> tuple[Indices, Array]:
    """Accepted proposals, and the Cholesky factor of their block."""
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
