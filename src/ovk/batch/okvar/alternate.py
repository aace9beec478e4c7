"""Minimisation over C for given B, and over B of the minimum over C.

    L(B, C) = |Y - W F - E theta + decay O|^2 + alpha |h|^2 + Omega(C) + weight |B|_1 + [B is positive semi-definite]

F holds the values of h at the inputs. It is linear in C and linear in B. L is convex in C; without Omega its minimum
over C is convex in B.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.exceptions import ConvergenceWarning

from ovk.base import Array, check_int, positive
from ovk.batch.okvar.regression import SeriesRegression
from ovk.objectives import L1, Penalty, PSDCone
from ovk.operators import Dense, spectrum
from ovk.ovkernels import DenseBlocks, Gram, Hadamard, Kronecker, OperatorKernel, Separable
from ovk.solvers import Eigenpairs, PenaltySum, ProximalInfo, eigenpairs, proximal_gradient

# A kernel as a function of its operator B, so that B can be learned.
#
#     decomposable:        K(x, z) = k(x, z) B            F = G C B
#     entrywise product:   K(x, z) = B o K0(x, z)         F_li = sum_j B_ij A_lij,   A_lij = sum_m K0(x_l, x_m)_ij C_mj
#
# `features` computes what does not depend on B.


class Coupling:
    """The values of h at the inputs as a function of C and B; in this class, for a kernel with a fixed operator."""

    def __init__(self, K: Gram) -> None:
        self.K = K

    def gram(self, B: Array) -> Gram:
        """The gram of the kernel with the operator B."""
        return self.K

    def features(self, C: Array) -> Array:
        """A, the factor of B."""
        return self.K.matmat(C)

    def values(self, A: Array, B: Array) -> Array:
        """F, (m, d)."""
        return A

    def slope(self, A: Array, D: Array) -> Array:
        """Derivative of <D, F> in B, (d, d), of which the symmetric part counts."""
        raise TypeError("this kernel has no operator to learn")

    def product(self, C: Array, B: Array) -> Array:
        """F of coefficients C."""
        return self.values(self.features(C), B)


class Decomposable(Coupling):
    """K = k B on samples with the scalar gram G."""

    def __init__(self, G: Array) -> None:
        self.G = G

    def gram(self, B: Array) -> Kronecker:
        return Kronecker(self.G, Dense(B))

    def features(self, C: Array) -> Array:
        return self.G @ C

    def values(self, A: Array, B: Array) -> Array:
        return A @ B

    def slope(self, A: Array, D: Array) -> Array:
        return np.asarray(A.T @ D)


class Entrywise(Coupling):
    """K = B o K0 with the blocks of K0, (m, d, m, d)."""

    def __init__(self, blocks: Array) -> None:
        self.blocks = blocks

    def gram(self, B: Array) -> DenseBlocks:
        m, d = self.blocks.shape[:2]
        return DenseBlocks((self.blocks * B[None, :, None, :]).reshape(m * d, m * d), d)

    def features(self, C: Array) -> Array:
        # sum_m K0_limj C_mj, for each output j a product of matrices.
        m, d = C.shape
        parts = [self.blocks[:, :, :, j].reshape(m * d, m) @ C[:, j] for j in range(d)]
        return np.stack(parts, axis=1).reshape(m, d, d)

    def values(self, A: Array, B: Array) -> Array:
        return np.asarray(np.einsum("lij,ij->li", A, B))

    def slope(self, A: Array, D: Array) -> Array:
        return np.asarray(np.einsum("lij,li->ij", A, D))


def learnable_part(kernel: OperatorKernel) -> tuple[Separable, Callable[[OperatorKernel], OperatorKernel]]:
    """The part k * T of the kernel whose operator can be learned, and a function that replaces this part."""
    part = kernel.as_separable()
    if part is not None:
        return part, lambda other: other
    if isinstance(kernel, Hadamard):
        left, right = kernel.left.as_separable(), kernel.right.as_separable()
        if left is not None and right is None:
            return left, lambda other: Hadamard(other, kernel.right)
        if right is not None and left is None:
            return right, lambda other: Hadamard(kernel.left, other)
    raise ValueError(f"kernel must be k * T or (k * T) & K with learn_operator=True, got {kernel!r}")


def with_operator(kernel: OperatorKernel, B: Array) -> OperatorKernel:
    part, whole = learnable_part(kernel)
    return whole(Separable(part.kernel, Dense(B)))


def coupling_on(kernel: OperatorKernel, Z: Array, d: int, learn: bool) -> tuple[Array, Coupling]:
    """The operator of the kernel, (d, d), and the rest of the kernel on the inputs Z, (m, q).

    Without `learn` a kernel that is not decomposable stays in one piece, and the operator is not used.
    """
    separable = kernel.as_separable()
    if separable is not None:
        return separable.operator.dense(), Decomposable(separable.scalar(Z))
    if not learn:
        return np.eye(d), Coupling(kernel.gram(Z))
    B = learnable_part(kernel)[0].operator.dense()
    bare = with_operator(kernel, np.ones((d, d)))
    return B, Entrywise(bare.gram(Z).dense().reshape(len(Z), d, len(Z), d))


# A starting point for sparse coefficients: the quadratic part in eigenvectors, the penalty in entries.
#
# Proximal gradient is slow for an ill-conditioned gram: the largest eigenvalue limits its steps. Splitting both terms
# (ADMM) minimises the quadratic one exactly. With G = Q g Q', B = V b V', a = g b and s = y - E theta, an entry of
# Q' C V is
#
#     argmin over c of  |s - a c|^2 + alpha a c^2 + rho/2 (c - r)^2  =  (2 a s + rho r) / (2 a^2 + 2 alpha a + rho)
#
# and theta follows from E'(s - a c) = 0, a small system for each output. Changing rho requires no new factorisation.

#: Maximum number of rounds, and relative residual at which to stop.
MAX_SPLITTING_ROUNDS, SPLITTING_TOL = 500, 1e-5
#: Over-relaxation, and the ratio of the two residuals above which rho is adapted.
OVER_RELAXATION, MAX_RESIDUAL_RATIO = 1.6, 5.0


@dataclass(frozen=True, eq=False)
class Splitting:
    """Minimises |Y - W G C B - E theta|^2 + alpha <C, G C B> + Omega(C), to a few digits."""

    Q: Array  # eigenvectors of the rows
    V: Array  # eigenvectors of the outputs
    curvature: Array  # (r, d) or (r, 1) second derivative of the quadratic part in the entries of Q' C V
    pulled_Y: Array  # (r, d) Y V in the gradient of that part
    pulled_E: Array  # (r, e, d) or (r, e, 1) E in the gradient of that part
    EE: Array  # E'E
    EY: Array  # E'Y V

    def minimise(self, penalty: Penalty, start: Array) -> Array:
        curvature = self.curvature
        # Between the few large eigenvalues and the many small ones; adapted below.
        rho = float(np.sqrt(curvature.mean() * max(float(np.median(curvature)), 1e-12 * float(curvature.max()))))
        if rho == 0.0:
            return start
        Z, U = start, np.zeros_like(start)
        for turn in range(1, MAX_SPLITTING_ROUNDS + 1):
            C = self._quadratic(Z - U, rho)
            mixed = OVER_RELAXATION * C + (1.0 - OVER_RELAXATION) * Z
            before, Z = Z, penalty.prox(mixed + U, 1.0 / rho)
            U = U + mixed - Z
            # Residuals relative to the iterates and to the multipliers.
            primal = float(np.linalg.norm(C - Z)) / max(float(np.linalg.norm(Z)), float(np.linalg.norm(C)), 1e-300)
            dual = float(np.linalg.norm(Z - before)) / max(float(np.linalg.norm(U)), 1e-300)
            if primal <= SPLITTING_TOL and dual <= SPLITTING_TOL:
                break
            if turn % 5 == 0 and max(primal, dual) > MAX_RESIDUAL_RATIO * min(primal, dual):
                factor = 2.0 if primal > dual else 0.5
                rho, U = rho * factor, U / factor
        return Z

    def _quadratic(self, R: Array, rho: float) -> Array:
        """argmin of the quadratic part + rho/2 |C - R|^2; equal to R outside the span of Q."""
        r, weights = self.Q.T @ R @ self.V, 1.0 / (self.curvature + rho)
        pulled = self.pulled_Y
        if len(self.EE):
            M = self.EE - 0.5 * np.einsum("neq,nq,nfq->qef", self.pulled_E, weights, self.pulled_E, optimize=True)
            right = self.EY - 0.5 * self._against_columns((pulled + rho * r) * weights)
            theta = np.linalg.solve(M, right.T[:, :, None])[:, :, 0].T
            pulled = pulled - (self.pulled_E * theta).sum(axis=1)
        change = (pulled + rho * r) * weights - r
        return np.asarray(R + self.Q @ change @ self.V.T)

    def _against_columns(self, X: Array) -> Array:
        if self.pulled_E.shape[2] == 1:
            return np.asarray(self.pulled_E[:, :, 0].T @ X)
        return np.asarray(np.einsum("neq,nq->eq", self.pulled_E, X))


# Coefficients in closed form, with the norm as the only penalty.
#
#     minimise over C, theta, decay  |Y - W K C - E theta + decay O|^2 + alpha <C, K C>
#
# With C = W' D this is ridge regression with the gram W K W', E and O unpenalised:  (W K W' + alpha) D = Y - E theta +
# decay O, with D orthogonal to the columns used. A negative decay is set to zero and the system solved again.

#: Largest number of observed values for which a dense system is factorised (a matrix of 200 MB).
MAX_DENSE_VALUES = 5000
#: Smallest number of rows for which a low-rank gram is tried, and its tolerance.
MIN_ROWS_LOW_RANK, LOW_RANK_TOL = 500, 1e-9


class ClosedFormCoefficients:
    """Solves for C at any operator and alpha; what does not depend on them is computed once.

    `possible`: for decomposable kernels with complete outputs, and for small systems of any kind. Outputs that both
    decay and are coupled by the operator do not decouple: C and the decays are then solved for in turn.
    """

    def __init__(self, coupling: Coupling, regression: SeriesRegression) -> None:
        self.coupling, self.regression = coupling, regression
        self.splits = isinstance(coupling, Decomposable) and bool(regression.seen.all())
        self.small = int(regression.seen.sum()) <= MAX_DENSE_VALUES
        self.possible = self.splits or self.small
        self._pairs: Eigenpairs | None = None

    def solve(self, B: Array, alpha: float, decay: Array, turns: int) -> Array:
        """The coefficients, (m, d); decaying coupled outputs take at most `turns` rounds from the given decay."""
        mixed = self.regression.decaying is not None and not _is_multiple_of_identity(B)
        if not self.splits or (mixed and self.small and turns > 10):
            return self._dense(B, alpha)
        if not mixed:
            return self._decoupled(B, alpha, None)
        for _ in range(turns):
            C = self._decoupled(B, alpha, decay)
            before = decay
            _, decay = self.regression.coefficients(self.regression.apply(self.coupling.product(C, B)))
            if np.abs(decay - before).max() <= 1e-8 * max(float(decay.max()), 1e-300):
                break
        return C

    def _spectra(self, B: Array, alpha: float) -> tuple[Eigenpairs, Array, Array]:
        """Eigenvectors of W G W', and eigenvalues and eigenvectors of B."""
        if self._pairs is None:
            assert isinstance(self.coupling, Decomposable)
            # The part dropped from a low-rank gram changes the solution by at most a part LOW_RANK_TOL.
            G = self.regression.apply(self.regression.apply(self.coupling.G).T)
            self._pairs = eigenpairs(G, LOW_RANK_TOL * alpha if len(G) >= MIN_ROWS_LOW_RANK else 0.0)
        if _is_multiple_of_identity(B):
            return self._pairs, np.diagonal(B), np.eye(len(B))
        found = spectrum(B, "the operator")
        return self._pairs, found.values, found.vectors

    def splitting(self, B: Array, alpha: float, decay: Array) -> Splitting | None:
        """The problem with a penalty, split for ADMM, for given decays; None if it does not decouple."""
        if not self.splits or alpha == 0:
            return None
        Y, E, W, decaying = self.regression.Y, self.regression.E, self.regression.W, self.regression.decaying
        Y = Y if decaying is None else Y + decay * decaying
        if W is None:
            # Any B = V b V': the curvature is 2 (a^2 + alpha a), a = g b.
            pairs, values, V = self._spectra(B, alpha)
            a, Y = np.multiply.outer(pairs.g, values), Y @ V
            pulled_Y, pulled_E = 2.0 * a * (pairs.Q.T @ Y), 2.0 * a[:, None, :] * (pairs.Q.T @ E)[:, :, None]
            return Splitting(pairs.Q, V, 2.0 * (a**2 + alpha * a), pulled_Y, pulled_E, E.T @ E, E.T @ Y)
        b = float(B[0, 0])
        if not _is_multiple_of_identity(B) or b == 0:
            return None
        # B = b I, any W: the eigenvectors are those of 2 b^2 G W'W G + 2 alpha b G.
        assert isinstance(self.coupling, Decomposable)
        A = b * np.asarray(W @ self.coupling.G)
        eigenvalues, Q = np.linalg.eigh(2.0 * (A.T @ A + alpha * b * self.coupling.G))
        pull, curvature = 2.0 * (A @ Q).T, np.maximum(eigenvalues, 0.0)[:, None]
        return Splitting(Q, np.eye(len(B)), curvature, pull @ Y, (pull @ E)[:, :, None], E.T @ E, E.T @ Y)

    def degrees_of_freedom(self, B: Array, alpha: float) -> float:
        """Trace of the map from Y to the fitted h, without constants and decay."""
        if self.splits:
            pairs, t, _ = self._spectra(B, alpha)
            return float((t[:, None] * pairs.g / (t[:, None] * pairs.g + alpha)).sum())
        values = np.maximum(np.linalg.eigvalsh(self._observed(B)), 0.0)
        return float((values / (values + alpha)).sum())

    def _decoupled(self, B: Array, alpha: float, decay: Array | None) -> Array:
        """One scalar problem for each eigenvector of B, each solved in the eigenvectors of W G W'."""
        pairs, t, V = self._spectra(B, alpha)
        own, Y, E = self.regression.decaying, self.regression.Y, self.regression.E
        if decay is not None and own is not None:
            Y, own = Y + decay * own, None
        Y = Y @ V
        d, e = Y.shape[1], E.shape[1]
        D = np.empty_like(Y)
        shared = bool((t == t[0]).all())
        columns = np.column_stack([E, Y] if own is None else [E, Y, -own])
        solved = pairs.solve(columns, float(t[0]), alpha) if shared else np.empty(0)
        for q in range(d):
            # The decay is an unknown if all outputs have the same eigenvalue, otherwise it is given.
            places = [*range(e), *([] if own is None else [e + d + q]), e + q]
            each = solved[:, places] if shared else pairs.solve(columns[:, places], float(t[q]), alpha)
            D[:, q], theta = _profiled(columns[:, places], each)
            if own is not None and theta[-1] < 0:
                places.remove(e + d + q)
                D[:, q], _ = _profiled(columns[:, places], solved[:, places])
        return self.regression.apply_adjoint(D @ V.T)

    def _observed(self, B: Array) -> Array:
        """W K W' on the observed entries."""
        m, d = len(self.regression.Z), len(B)
        K = self.coupling.gram(B).dense().reshape(m, d * m * d)
        n = len(self.regression.Y)
        for _ in range(2):
            # One side, then the other: rows (point, output) become columns.
            K = self.regression.apply(K).reshape(n * d, -1).T.reshape(-1, d * n * d)
        seen = self.regression.seen.reshape(-1)
        return np.asarray(K.reshape(n * d, n * d)[np.ix_(seen, seen)])

    def _dense(self, B: Array, alpha: float) -> Array:
        regression, seen = self.regression, self.regression.seen.reshape(-1)
        n, d = regression.Y.shape
        A = self._observed(B)
        A[np.diag_indices_from(A)] += alpha
        factor = cho_factor(A, lower=True, overwrite_a=True)
        columns = np.einsum("ne,pq->npeq", regression.E, np.eye(d)).reshape(n * d, -1)
        if regression.decaying is not None:
            own = np.einsum("np,pq->npq", -regression.decaying, np.eye(d)).reshape(n * d, d)
            columns = np.column_stack([columns, own])
        columns, y = columns[seen], regression.Y.reshape(-1)[seen]
        solved, SY = cho_solve(factor, columns), cho_solve(factor, y)
        used = np.ones(columns.shape[1], dtype=bool)
        first = columns.shape[1] - (d if regression.decaying is not None else 0)
        while True:
            coefficients = np.zeros(len(used))
            coefficients[used] = _least_squares(columns[:, used].T @ solved[:, used], columns[:, used].T @ SY)
            negative = np.flatnonzero(coefficients[first:] < 0) + first
            if len(negative) == 0:
                break
            used[negative] = False
        D = np.zeros(n * d)
        D[seen] = SY - solved @ coefficients
        return regression.apply_adjoint(D.reshape(n, d))


def _is_multiple_of_identity(B: Array) -> bool:
    return np.array_equal(B, B[0, 0] * np.eye(len(B)))


def _profiled(columns: Array, solved: Array) -> tuple[Array, Array]:
    """S (y - E theta) orthogonal to E, from [E, y] and S [E, y]; and theta."""
    E, SE, Sy = columns[:, :-1], solved[:, :-1], solved[:, -1]
    theta = _least_squares(E.T @ SE, E.T @ Sy)
    return Sy - SE @ theta, theta


def _least_squares(A: Array, b: Array) -> Array:
    """A^-1 b, or the shortest solution for a singular A."""
    return np.asarray(np.linalg.lstsq(A, b, rcond=1e-12)[0])


#: Rounds of solving for decays and coefficients in turn: for a starting point, and in closed form.
DECAY_ROUNDS, MAX_DECAY_ROUNDS = 3, 200
#: Proximal steps for the operator per round, and growth of the step size from round to round.
ROUND_STEPS, STEP_GROWTH = 20, 2.0
#: Tolerances for the operator, relative to `tol`, and those of the coefficients, relative to these.
TOL_FACTORS, INNER_ACCURACY = (30.0, 5.0, 1.0), 0.3
#: Power iterations for the norm of a gram, accurate to a few percent.
POWER_STEPS = 12
#: Relative size of the diagonal added to the matrix of a Newton step, which may be singular.
NEWTON_RIDGE = 1e-12


@dataclass
class OKVARSolution:
    B: Array
    C: Array
    objective: list[float]  # after every step
    info: ProximalInfo | None = None  # None for a closed form
    converged: bool = True


@dataclass(eq=False)
class AlternatingMinimiser:
    """Minimises L for one kernel on one set of samples; `operator_weight` is 0 if B is not learned."""

    coupling: Coupling
    regression: SeriesRegression
    alpha: float
    penalty: Penalty | None
    operator_weight: float
    tol: float
    max_iter: int
    max_rounds: int

    def __post_init__(self) -> None:
        positive(self.alpha, "alpha", zero=True)
        positive(self.tol, "tol")
        check_int(self.max_iter, "max_iter")
        check_int(self.max_rounds, "max_rounds")
        if self.penalty is not None and not isinstance(self.penalty, Penalty):
            raise ValueError(f"penalty must be None or a penalty of ovk.objectives, got {self.penalty!r}")
        if self.alpha == 0 and self.penalty is None:
            raise ValueError("alpha must be positive without a penalty, got 0: the system would be singular")
        self.closed = ClosedFormCoefficients(self.coupling, self.regression)

    def minimise(self, B: Array) -> OKVARSolution:
        """The coefficients for the operator B or, if it is learned, both, starting from B."""
        solution = OKVARSolution(B, np.zeros((len(self.regression.Z), len(B))), [])
        if self.operator_weight > 0:
            self.learn_operator(solution)
        else:
            self.learn_coefficients(solution, self.tol, self.max_iter)
            solution.objective.append(self.objective(solution.B, solution.C))
        return solution

    def warn_if_zero(self, fit: OKVARSolution) -> None:
        if self.penalty is not None and not fit.C.any():
            message = f"the penalty {self.penalty!r} sets all coefficients, and so h, to zero: lower its weight"
            warnings.warn(message, stacklevel=3)
        elif self.operator_weight and not fit.B.any():
            message = f"operator_weight={self.operator_weight:g} sets the operator, and so h, to zero: lower it"
            warnings.warn(message, stacklevel=3)

    def objective(self, B: Array, C: Array) -> float:
        value, _ = self._squares(C, self.coupling.product(C, B))
        value += self.operator_weight * float(np.abs(B).sum())
        return value if self.penalty is None else value + self.penalty.value(C)

    def _squares(self, C: Array, F: Array) -> tuple[float, Array]:
        """|R|^2 + alpha |h|^2, and R."""
        R = self.regression.residual(self.regression.apply(F))
        return float(np.vdot(R, R)) + self.alpha * float(np.vdot(C, F)), R

    def values(self, B: Array, C: Array) -> Array:
        """W F."""
        return self.regression.apply(self.coupling.product(C, B))

    def learn_coefficients(self, fit: OKVARSolution, tol: float, max_iter: int, *, warn: bool = True) -> None:
        """C for the current operator, with an objective within a fraction `tol` of the minimum."""
        if self.penalty is None and self.closed.possible:
            _, decay = self.regression.coefficients(self.values(fit.B, fit.C))
            fit.C = self.closed.solve(fit.B, self.alpha, decay, MAX_DECAY_ROUNDS)
            fit.info = None
        else:
            gram, pull = self.coupling.gram(fit.B), np.empty(0)

            def smooth(C: Array) -> tuple[float, Array]:
                nonlocal pull
                value, R = self._squares(C, gram.matmat(C))
                pull = self.alpha * C - self.regression.apply_adjoint(R)
                return value, gram.matmat(2.0 * pull)

            def lower_bound(C: Array, value: float, gradient: Array) -> float:
                # With c = 1 - e and polar(c gradient) <= 1, the dual objective is at least
                # value - c <gradient, C> - e^2 k,  k = value or <pull, K pull> / alpha.
                slope, k = float(np.vdot(gradient, C)), value
                if self.alpha > 0:
                    k = min(k, 0.5 * float(np.vdot(pull, gradient)) / self.alpha)
                polar = float("inf") if self.penalty is None else self.penalty.polar(gradient)
                e = max(1.0 - 1.0 / max(polar or 0.0, 1.0), 0.5 * slope / max(k, 1e-300))
                return value - (1.0 - e) * slope - e**2 * k

            # Integrals are so ill-conditioned that the dual objective would take far more steps than the primal one.
            norm = self.penalty is None or self.penalty.polar(fit.C) is not None
            certified = norm and self.regression.W is None
            fit.C, fit.info = proximal_gradient(
                smooth,
                self.penalty,
                self._starting_point(fit),
                step=1.0 / max(self._curvature(gram), 1e-300),
                scale=max(float(np.linalg.norm(smooth(np.zeros_like(fit.C))[1])), 1e-300),
                tol=tol,
                max_iter=max_iter,
                lower_bound=lower_bound if certified else None,
                newton=self._newton(gram) if certified else None,
                value_only=lambda C: self._squares(C, gram.matmat(C))[0],
                warn=warn,
            )
            fit.converged = fit.info.converged

    def _newton(self, gram: Gram) -> Callable[[Array, Array], Array | None] | None:
        """The end of a Newton step in the non-zero coefficients S, for small systems that cannot be split.

        The smooth part has the second derivative 2 (K'PK + alpha K), with P the projection on what the unpenalised
        columns leave of the observed entries; proximal steps decide about S.
        """
        regression, penalty = self.regression, self.penalty
        if penalty is None or regression.decaying is not None or self.closed.splits or not self.closed.small:
            return None
        K = np.asarray(gram.dense())

        def end(C: Array, gradient: Array) -> Array | None:
            found, S = penalty.derivatives(C), np.flatnonzero(C)
            if found is None or len(S) == 0:
                return None
            slope, within = found
            H = 2.0 * regression.normal_matrix(K[:, S]) + 2.0 * self.alpha * K[np.ix_(S, S)]
            row, output = np.divmod(S, C.shape[1])
            H += np.where(row[:, None] == row, within[row[:, None], output[:, None], output], 0.0)
            H[np.diag_indices_from(H)] += NEWTON_RIDGE * H.diagonal().max()
            ahead = C.copy()
            ahead.flat[S] -= cho_solve(cho_factor(H, overwrite_a=True), (gradient + slope).flat[S])
            return ahead

        return end

    def _starting_point(self, fit: OKVARSolution) -> Array:
        """The current coefficients, or those of a splitting if they have a lower objective."""
        if self.penalty is None:
            return fit.C
        best, lowest = fit.C, self.objective(fit.B, fit.C)
        for _ in range(1 if self.regression.decaying is None else DECAY_ROUNDS):
            _, decay = self.regression.coefficients(self.values(fit.B, best))
            splitting = self.closed.splitting(fit.B, self.alpha, decay)
            if splitting is None:
                break
            near = splitting.minimise(self.penalty, best)
            value = self.objective(fit.B, near)
            if value >= lowest:
                break
            best, lowest = near, value
        return best

    def _curvature(self, gram: Gram) -> float:
        """An upper estimate of the largest second derivative in C: 2 |K W' W K + alpha K|."""
        X = np.random.default_rng(0).standard_normal((gram.shape[0], gram.output_dim))
        size = 0.0
        for _ in range(POWER_STEPS):
            norm = float(np.linalg.norm(X))
            if norm == 0.0:
                return 0.0
            X /= norm
            F = gram.matmat(X)
            X = gram.matmat(self.regression.apply_adjoint(self.regression.apply(F))) + self.alpha * F
            size = float(np.linalg.norm(X))
        return 2.0 * 1.05 * size

    def degrees_of_freedom(self, fit: OKVARSolution) -> float:
        """Number of non-zero parameters, or the effective number for a closed form."""
        if fit.info is None:
            count = self.closed.degrees_of_freedom(fit.B, self.alpha)
        else:
            count = float(np.count_nonzero(fit.C))
        return count + (float(np.count_nonzero(np.triu(fit.B))) if self.operator_weight else 0.0)

    def bic(self, fit: OKVARSolution) -> float:
        """n log(mean squared residual) of each variable, plus log(n) for each parameter."""
        V = self.values(fit.B, fit.C)
        R, seen = self.regression.residual(V), self.regression.seen.sum(axis=0)
        others = self.regression.E.shape[1] * len(seen) + int((self.regression.coefficients(V)[1] > 0).sum())
        squares = np.maximum((R**2).sum(axis=0), 1e-300)
        used = seen > 0
        likelihood = float((seen[used] * np.log(squares[used] / seen[used])).sum())
        return float(likelihood + np.log(seen.sum()) * (self.degrees_of_freedom(fit) + others))

    def learn_operator(self, fit: OKVARSolution) -> None:
        """B by proximal steps of |.|_1 on the cone for phi(B), the minimum over C, and C.

        The gradient of phi is the partial derivative in B at the minimising C. Without a penalty phi is convex, and a
        step with the gradient mapping G ends within |G| (|B| + |B*|) of the minimum. As no rescaling lowers the
        minimum, weight |B*|_1 is at most half of it, which bounds |B*|. With a penalty the point is stationary.
        """
        weight, work = self.operator_weight, replace(fit, objective=[])
        both = PenaltySum([L1(weight), PSDCone()], tol=1e-8, max_iter=100)

        def smooth(B: Array) -> tuple[float, Array]:
            # Extrapolated points may lie outside the cone.
            work.B = PSDCone().prox(B, 1.0)
            self.learn_coefficients(work, INNER_ACCURACY * tol, -(-self.max_iter // 10), warn=False)
            total = self.objective(work.B, work.C)
            if not fit.objective or total < fit.objective[-1]:
                fit.B, fit.C, fit.info, fit.converged = work.B, work.C, work.info, work.converged
                fit.objective.append(total)
            A = self.coupling.features(work.C)
            _, R = self._squares(work.C, self.coupling.values(A, work.B))
            slope = self.coupling.slope(A, self.alpha * work.C - 2.0 * self.regression.apply_adjoint(R))
            return total - weight * float(np.abs(work.B).sum()), 0.5 * (slope + slope.T)

        levels = list(TOL_FACTORS if self.penalty is not None else TOL_FACTORS[-1:])
        tol = levels.pop(0) * self.tol
        step = max(float(np.linalg.norm(fit.B)), 1e-8) / max(float(np.linalg.norm(smooth(fit.B)[1])), 1e-300)
        for _ in range(self.max_rounds):
            self._rescale(fit)
            work.C, best = fit.C, fit.objective[-1]
            scale = best / (float(np.linalg.norm(fit.B)) + 0.5 * best / weight)
            _, info = proximal_gradient(
                smooth, both, fit.B, step=step, scale=max(scale, 1e-300), tol=tol, max_iter=ROUND_STEPS, warn=False
            )
            step, done = STEP_GROWTH * info.step, info.converged and tol == self.tol
            if done or not fit.B.any() or not fit.C.any():
                break
            if info.converged:
                tol = levels.pop(0) * self.tol
        else:
            warnings.warn(
                f"operator and coefficients did not reach tol={self.tol:g} within max_rounds={self.max_rounds} rounds, "
                f"gradient mapping {info.gradient_mapping:.1e}: increase max_rounds or tol",
                ConvergenceWarning,
                stacklevel=5,
            )
        self.learn_coefficients(fit, self.tol, self.max_iter)
        fit.objective.append(self.objective(fit.B, fit.C))
        fit.converged = fit.converged and done

    def _rescale(self, fit: OKVARSolution) -> None:
        """B s and C / s with the same h; alpha |h|^2 + Omega(C) is divided by s if Omega is a norm."""
        size = self.operator_weight * float(np.abs(fit.B).sum())
        rest = self.alpha * float(np.vdot(fit.C, self.coupling.product(fit.C, fit.B)))
        rest += 0.0 if self.penalty is None else self.penalty.value(fit.C)
        if size > 0 and rest > 0:
            s = float(np.sqrt(rest / size))
            total = self.objective(s * fit.B, fit.C / s)
            if total < fit.objective[-1]:
                fit.B, fit.C = s * fit.B, fit.C / s
                fit.objective.append(total)
