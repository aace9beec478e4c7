"""Solution by eigenvectors: one decomposition, then two products for any alpha."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from ovk.base import Array, DeviceMatrix, SingularSystemError, positive
from ovk.base import eigh as device_eigh
from ovk.ovkernels import Decoupled, Gram, Observed
from ovk.solvers.base import Solution, Solver, SolverInfo
from ovk.solvers.cholesky import decoupled


class Eigenpairs(NamedTuple):
    """G = Q diag(g) Q' on the span of Q, and zero (up to a tolerance) on its orthogonal complement."""

    Q: Any  # (n, r), an array or a matrix on a device
    g: Array  # (r,), >= 0
    full: bool  # r = n

    def solve(self, Y: Array, t: float | Array, alpha: float) -> Array:
        """(t G + alpha I)^-1 Y, with a multiplier t for each column of Y; the pseudo-inverse if alpha is 0."""
        denominator = np.multiply.outer(self.g, np.broadcast_to(t, Y.shape[1])) + alpha
        if alpha == 0:
            floor = len(Y) * np.finfo(float).eps * denominator.max(axis=0, initial=0.0)
            weights = np.divide(1.0, denominator, out=np.zeros_like(denominator), where=denominator > floor)
        else:
            # Outside the span of Q the matrix is alpha I: use that everywhere, and correct it on the span.
            weights = 1.0 / denominator - (0.0 if self.full else 1.0 / alpha)
        result: Array = self.Q @ (weights * (self.Q.T @ Y))
        return result if self.full or alpha == 0 else result + Y / alpha

    def condition(self, t: float, alpha: float) -> float:
        """Condition number of t G + alpha I."""
        largest = t * float(self.g.max(initial=0.0)) + alpha
        smallest = (t * float(self.g.min(initial=0.0)) if self.full else 0.0) + alpha
        return largest / smallest if smallest > 0 else float("inf")


def eigenpairs(G: Any, tol: float = 0.0) -> Eigenpairs:
    """Eigenvectors of a symmetric positive semi-definite matrix.

    With `tol` > 0 a pivoted Cholesky factorisation G = F F' + E runs first, until trace(E) <= tol (absolute). Smooth
    kernels have a numerical rank far below n; the eigenvectors then follow from the small F'F, and dropping E changes
    the solution at ridge alpha by at most tol / alpha, relatively.
    """
    n = len(G)
    if tol > 0 and not isinstance(G, DeviceMatrix):
        # G is symmetric: its transpose is the same matrix in Fortran order.
        F, pivots, rank, _ = lapack.dpstrf(G.T, tol=tol / n, lower=1)
        # With a rank near n, plain eigenvectors are faster.
        if rank <= 0.7 * n:
            low = np.empty((n, rank))
            low[pivots - 1] = np.tril(F[:, :rank])
            # The remainder of an indefinite matrix is large; one product with any vector detects it.
            probe = np.cos(np.arange(n))
            left = float(np.linalg.norm(G @ probe - low @ (low.T @ probe)) / np.linalg.norm(probe))
            if left <= tol + 1e-7 * float(np.diagonal(G).max()):
                values, inside = np.linalg.eigh(low.T @ low)
                keep = values > np.finfo(float).eps * values.max(initial=1e-300)
                return Eigenpairs((low @ inside[:, keep]) / np.sqrt(values[keep]), values[keep], False)
    vectors: Any
    values, vectors = device_eigh(G) if isinstance(G, DeviceMatrix) else np.linalg.eigh(G)
    # Single precision has larger rounding errors.
    rounding = max(1e-7, n * G.precision) if isinstance(G, DeviceMatrix) else 1e-7
    if n and values[0] < -rounding * max(float(values[-1]), 1e-300):
        raise SingularSystemError(
            f"the kernel matrix must be positive semi-definite, got eigenvalues from {values[0]:.6g} to "
            f"{values[-1]:.6g}: check the kernel"
        )
    return Eigenpairs(vectors, np.maximum(values, 0.0), True)


class EigenState(NamedTuple):
    """A decoupled gram, and for each scalar problem eigenpairs and a multiplier of the eigenvalues."""

    decoupled: Decoupled
    pairs: list[tuple[Eigenpairs, float]]


@dataclass(eq=False, repr=False)
class Eigen(Solver):
    """Eigendecomposition of the scalar gram: for many alphas, or an output operator with many eigenvalues.

    Parameters
    ----------
    tol : float >= 0
        Trace of the scalar gram that may be dropped for a smaller decomposition.

    See Also
    --------
    Cholesky, ConjugateGradient

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.ovkernels import Kronecker
    >>> from ovk.operators import Identity
    >>> from ovk.solvers import Eigen
    >>> solver = Eigen()
    >>> state = solver.factor(Kronecker(2.0 * np.eye(3), Identity(1)))
    >>> [float(solver.solve(state, np.ones((3, 1)), alpha).C[0, 0]) for alpha in (2.0, 3.0)]
    [0.25, 0.2]
    """

    tol: float = 0.0

    def factor(self, gram: Gram) -> EigenState:
        tol = positive(self.tol, "tol", zero=True)
        problems = decoupled(gram, self)
        rotated = problems.rotation()
        if rotated is not None and len(rotated.grams) == 1:
            pairs = eigenpairs(rotated.grams[0], tol)
            return EigenState(rotated, [(pairs, float(t)) for t in rotated.weights[:, 0]])
        return EigenState(problems, [(eigenpairs(problems.matrix(q), tol), 1.0) for q in range(len(problems))])

    def solve(self, state: EigenState, Y: Array, alpha: float, start: Array | None = None) -> Solution:
        parts = state.decoupled.split(Y)
        first = state.pairs[0][0]
        if all(pairs is first for pairs, _ in state.pairs):
            # Problems with the same eigenvectors share the two products.
            sizes = [part.shape[1] for part in parts]
            t = np.repeat([t for _, t in state.pairs], sizes)
            parts = np.split(first.solve(np.concatenate(parts, axis=1), t, alpha), np.cumsum(sizes)[:-1], axis=1)
        else:
            parts = [pairs.solve(part, t, alpha) for part, (pairs, t) in zip(parts, state.pairs, strict=True)]
        condition = max(pairs.condition(t, alpha) for pairs, t in state.pairs)
        return Solution(state.decoupled.join(parts), SolverInfo("Eigen", condition=condition))


class KnownEigen(Eigen, saved=False):
    """The solver for a separable kernel with known eigenpairs of its scalar gram."""

    def __init__(self, pairs: Eigenpairs) -> None:
        self.pairs = pairs

    def factor(self, gram: Gram) -> EigenState:
        rotated = gram.rotation()
        if rotated is None or len(rotated.grams) != 1:
            raise ValueError("KnownEigen requires a separable kernel")
        return EigenState(rotated, [(self.pairs, float(t)) for t in rotated.weights[:, 0]])


# Eigenvectors of a separable gram with missing outputs, from the leading eigenvectors of both factors.
#
# With G = Q diag(g) Q' and T = V diag(t) V' the gram of the N observed pairs (i, j) is
#
#     K = F F',   F[(i, j), (a, q)] = Q_ia sqrt(g_a) V_jq sqrt(t_q).
#
# The columns with the smallest g_a t_q are dropped: together they have at most the trace sum g_a t_q, and dropping a
# trace E changes solutions at ridge alpha by at most E / alpha, relatively. The eigenvalues of a smooth operator decay
# so fast that p << N columns remain, and with F'F = Z diag(l) Z', (p, p), the eigenvectors of K are F Z diag(l)^-1/2.
# F'F needs no product with N rows: with M_i the mask of the outputs observed at point i,
#
#     F'F[(a, q), (b, s)] = sum_i sqrt(g_a g_b) Q_ia Q_ib (sqrt(t_q t_s) V_q' M_i V_s).

#: Columns per observed pair above which plain eigenvectors are faster.
MAX_COLUMN_SHARE = 0.8


def observed_eigenpairs(gram: Observed, tol: float = 0.0) -> Eigenpairs:
    """Eigenpairs of a gram of observed pairs; a trace of up to `tol` may be dropped."""
    terms = gram.base.terms()
    single = terms is not None and len(terms) == 1 and not isinstance(terms[0][0], DeviceMatrix)
    found = _spanned(gram, tol) if single and tol > 0 else None
    return eigenpairs(gram.dense()) if found is None else found


def _spanned(gram: Observed, tol: float) -> Eigenpairs | None:
    """The eigenpairs from F'F; None if it is not much smaller than the gram."""
    ((G, operator),) = gram.base.terms() or []
    inputs, outputs = eigenpairs(G), operator.eigh()
    products = np.multiply.outer(inputs.g, outputs.values)
    order = np.argsort(products, axis=None)
    kept = np.ones(products.size, dtype=bool)
    kept[order[np.cumsum(products.ravel()[order]) <= tol]] = False
    if kept.sum() > MAX_COLUMN_SHARE * gram.shape[0]:
        return None
    a, q = (np.unique(numbers) for numbers in np.nonzero(kept.reshape(products.shape)))
    Phi = inputs.Q[:, a] * np.sqrt(inputs.g[a])
    V = np.asarray(outputs.vectors)[:, q] * np.sqrt(outputs.values[q])
    inside = kept.reshape(products.shape)[np.ix_(a, q)].ravel()
    a, q = np.divmod(np.flatnonzero(inside), V.shape[1])
    F = Phi[gram.rows[:, None], a] * V[gram.outputs[:, None], q]
    n, m, r = len(Phi), Phi.shape[1], V.shape[1]
    # The separate products must take no more memory than the gram.
    short = max(n * m * m, n * r * r, (m * r) ** 2) <= gram.shape[0] ** 2
    inner = _inner_products(Phi, V, gram)[np.ix_(inside, inside)] if short else F.T @ F
    values, Z = np.linalg.eigh(inner)
    used = values > np.finfo(float).eps * values.max(initial=1e-300)
    return Eigenpairs((F @ Z[:, used]) / np.sqrt(values[used]), values[used], False)


def _inner_products(Phi: Array, V: Array, gram: Observed) -> Array:
    """F'F, (m r, m r), of all products of the m columns of Phi and the r columns of V."""
    n, m, r = len(Phi), Phi.shape[1], V.shape[1]
    across = np.stack([(V * seen[:, None]).T @ V for seen in gram.spread(np.ones(gram.shape[0]))]).reshape(n, r * r)
    along = (Phi[:, :, None] * Phi[:, None, :]).reshape(n, m * m)
    return np.asarray((along.T @ across).reshape(m, m, r, r).transpose(0, 2, 1, 3).reshape(m * r, m * r))
