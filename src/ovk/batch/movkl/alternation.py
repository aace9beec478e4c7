"""Alternating minimisation of multiple kernel learning: solve for the function, then for the weights.

The grams of separable kernels share scalar grams and operators (`KernelTerms`); those of other kernels are summed as
matrices (`BlockTerms`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ovk.base import Array, Indices, ProgressBar, Targets, track
from ovk.ovkernels import (
    DenseBlocks,
    Gram,
    Kronecker,
    Observed,
    OperatorKernel,
    Rotated,
    Separable,
    common_eigenvectors,
    distinct,
)
from ovk.solvers import (
    MAX_DENSE_UNKNOWNS,
    MAX_FACTORISATIONS,
    Cholesky,
    CholeskyState,
    ConjugateGradient,
    SeparablePath,
    Solution,
    Solver,
    SolverInfo,
    as_solver,
    eigenpairs,
    factored_leave_one_out,
    pairwise_path,
    preconditioner,
    solve_with_intercept,
)

#: Solver iterations above which the preconditioner of earlier weights is replaced.
MAX_STALE_ITERATIONS = 4
#: Relative residual of the final solution.
FINAL_TOL = 1e-11


class KernelTerms:
    """Resolved kernels k_s T_o on n points; each distinct scalar gram and operator is stored once.

    `rows`, (n,) square roots of sample weights, scale the grams on both sides.
    """

    def __init__(self, kernels: Sequence[Separable], X: Any, rows: Array | None = None) -> None:
        scalars, self.scalar_of = distinct([kernel.scalar for kernel in kernels])
        self.operators, self.operator_of = distinct([kernel.operator for kernel in kernels])
        self.grams: list[Array] = [scalar(X) for scalar in scalars]
        if rows is not None:
            self.grams = [rows[:, None] * G * rows for G in self.grams]
        self._common: dict[tuple[int, ...], Any] = {}
        self._preconditioner: tuple[float, Any] | None = None

    def restricted(self, rows: Indices) -> KernelTerms:
        """The same kernels on a subset of the points; the grams must not be centred."""
        return self._with_grams([G[np.ix_(rows, rows)] for G in self.grams])

    def centred(self, u: Array) -> KernelTerms:
        """The same kernels with grams projected on the complement of u, the column of an unpenalised intercept.

        With P = I - u u' / u'u the system (K + alpha I) C + u b' = Y, u'C = 0 is (P K P + alpha I) C = P Y.
        """
        return self._with_grams([_centred(G, u / np.linalg.norm(u)) for G in self.grams])

    def _with_grams(self, grams: list[Array]) -> KernelTerms:
        part = copy(self)
        part.grams, part._preconditioner = grams, None
        return part

    def used_operators(self, weights: Array) -> list[int]:
        return [o for o in range(len(self.operators)) if weights[self.operator_of == o].any()] or [0]

    def gram(self, weights: Array) -> Gram:
        """The gram of the combination sum_k d_k K_k."""
        return Kronecker(self.grams, self.operators, self._shares(weights))

    def quadratic_forms(self, C: Array) -> Array:
        """e_k = sum_ij <c_i, K_k(x_i, x_j) c_j> for each kernel, (M,); |f_k|^2 = d_k^2 e_k.

        One product C T C' for each operator; then every scalar gram is a sum over its entries.
        """
        inner = np.empty((len(self.operators), len(self.grams)))
        for o, operator in enumerate(self.operators):
            S = operator.apply(C) @ C.T
            inner[o] = [float(np.vdot(G, S)) for G in self.grams]
        return np.asarray(np.maximum(inner[self.operator_of, self.scalar_of], 0.0))

    def solve(
        self, weights: Array, Y: Array, alpha: float, solver: Any, start: Array | None = None, *, tol: float = FINAL_TOL
    ) -> Solution:
        """Coefficients of complete outputs: by a common rotation where there is one, else by the solver.

        `tol` is the relative residual at which an iterative solver stops, unless the user passed a solver object.
        """
        if solver == "auto":
            rotated = self.rotated(weights)
            if rotated is not None:
                return Cholesky().solve(CholeskyState(rotated), Y, alpha)
            if len(self.used_operators(weights)) > 1:
                return self._conjugate_gradients(weights, Y, alpha, start, tol)
        gram = self.gram(weights)
        chosen = solver_within(tol, solver, gram)
        return chosen.solve(chosen.factor(gram), Y, alpha, start)

    def _conjugate_gradients(self, weights: Array, Y: Array, alpha: float, start: Array | None, tol: float) -> Solution:
        """Conjugate gradients; the preconditioner of earlier weights is kept as long as few iterations suffice."""
        gram = self.gram(weights)
        if self._preconditioner is None or self._preconditioner[0] != alpha:
            self._preconditioner = alpha, preconditioner(gram, ConjugateGradient().rank)
        found = ConjugateGradient(tol=tol).solve((gram, self._preconditioner[1]), Y, alpha, start)
        if found.info.iterations > MAX_STALE_ITERATIONS:
            self._preconditioner = None
        return found

    def rotated(self, weights: Array, *, always: bool = False) -> Rotated | None:
        """The combination as scalar problems, if the operators commute and this is the fastest way (or `always`)."""
        used = tuple(self.used_operators(weights))
        if used not in self._common:
            self._common[used] = common_eigenvectors([self.operators[o].dense() for o in used])
        if self._common[used] is None:
            return None
        values, vectors, groups = self._common[used]
        different = sum(len(self.operators[o].eigh().groups) > 1 for o in used)
        # One operator with many eigenvalues: one decomposition of its gram serves them all.
        if not always and different <= 1 and len(groups) > MAX_FACTORISATIONS:
            return None
        mixing = values[:, [group.start for group in groups]].T @ self._shares(weights)[list(used)]
        return Rotated(self.grams, mixing, vectors, groups)

    def _shares(self, weights: Array) -> Array:
        """Weights by operator and scalar kernel, (operators, scalars)."""
        shares = np.zeros((len(self.operators), len(self.grams)))
        np.add.at(shares, (self.operator_of, self.scalar_of), weights)
        return shares


class BlockTerms(KernelTerms):
    """Resolved kernels of which some are not separable: dense grams."""

    def __init__(self, kernels: Sequence[OperatorKernel], X: Any, rows: Array | None = None) -> None:
        found = [kernel.gram(X) for kernel in kernels]
        self.each: list[Gram] = found if rows is None else [gram.rescale(rows, rows, None) for gram in found]

    def gram(self, weights: Array) -> DenseBlocks:
        total = np.zeros((self.each[0].shape[0] * self.each[0].output_dim,) * 2)
        for k in np.flatnonzero(weights):
            total += weights[k] * self.each[k].dense()
        return DenseBlocks(total, self.each[0].output_dim)

    def quadratic_forms(self, C: Array) -> Array:
        return np.array([max(float(np.vdot(C, gram.matmat(C))), 0.0) for gram in self.each])


def solver_within(tol: float, solver: Any, gram: Gram) -> Solver:
    """As `as_solver`, but a solver chosen by name stops at `tol` if its own tolerance is larger."""
    chosen = as_solver(solver, gram)
    own = chosen.get_params().get("tol", 0.0)
    return chosen.set_params(tol=tol) if isinstance(solver, str) and own > tol else chosen


def _centred(G: Array, u: Array) -> Array:
    """P G P with P = I - u u', |u| = 1."""
    Gu = G @ u
    return G - np.outer(Gu, u) - np.outer(u, Gu) + float(u @ Gu) * np.outer(u, u)


def combination_weights(norms: Array, r: float) -> Array:
    """The optimal weights with sum_k d_k^r = 1: d_k = |f_k|^(2 / (r + 1)) / (sum_j |f_j|^(2 r / (r + 1)))^(1 / r)."""
    if r == np.inf:
        return np.ones(len(norms))
    # Relative to the largest norm, to avoid overflow.
    shares = (norms / norms.max()) ** (2.0 / (r + 1.0))
    return np.asarray(shares / (shares**r).sum() ** (1.0 / r))


class System:
    """Kernels, inputs and outputs; solves for any weights and alpha.

    Square roots of sample weights scale the rows; with an intercept, a complete system is projected on its complement.
    Coefficients are those of the scaled system: (n, d) if it is `complete`; otherwise (N, 1) for N observed pairs, also
    for kernels that are not separable, whose grams are dense.
    """

    def __init__(
        self, kernels: Sequence[OperatorKernel], X: Any, targets: Targets, solver: Any, *, intercept: bool
    ) -> None:
        self.kernels, self.X, self.targets, self.solver, self.intercept = list(kernels), X, targets, solver, intercept
        self.rows = None if targets.weight is None else np.sqrt(targets.weight)
        self.u = np.ones(len(targets.Y)) if self.rows is None else self.rows
        separable = [part for part in (kernel.as_separable() for kernel in self.kernels) if part is not None]
        plain = len(separable) == len(self.kernels)
        self.uncentred = KernelTerms(separable, X, self.rows) if plain else BlockTerms(self.kernels, X, self.rows)
        self.complete = plain and targets.complete
        self.Y = targets.Y if self.rows is None else targets.Y * self.rows[:, None]
        if self.complete:
            self.terms = self.uncentred.centred(self.u) if intercept else self.uncentred
            self.right = self.Y - np.outer(self.u, self.u @ self.Y / (self.u @ self.u)) if intercept else self.Y
        else:
            self.terms = self.uncentred
            self.observed = targets.pairs()
            self.right = self.observed.scaled_values()[:, None]

    def columns(self) -> Array | None:
        """Columns of the intercept on the observed pairs, (N, d), or None."""
        return self.observed.columns() if self.intercept else None

    def solve(self, weights: Array, alpha: float, start: Array | None, tol: float) -> tuple[Solution, Array | None]:
        """Coefficients, and the intercept if outputs are missing (otherwise see `expansion`)."""
        if self.complete:
            return self.terms.solve(weights, self.right, alpha, self.solver, start, tol=tol), None
        gram = Observed(self.terms.gram(weights), self.observed.points, self.observed.outputs)
        solver = solver_within(tol, self.solver, gram)
        return solve_with_intercept(solver, solver.factor(gram), self.right, alpha, self.columns())

    def spread(self, C: Array) -> Array:
        """Coefficients of all outputs, (n, d)."""
        return C if self.complete else self.observed.spread(C[:, 0])

    def objective(self, weights: Array, C: Array, b: Array | None, quadratic_forms: Array, alpha: float) -> float:
        """sum_i w_i |y_i - f(x_i)|^2 + alpha sum_k |f_k|^2 / d_k, |f_k|^2 = d_k^2 e_k."""
        values = self.terms.gram(weights).matmat(self.spread(C))
        if not self.complete:
            values = values if b is None else values + np.outer(self.u, b)
            values = values[self.observed.points, self.observed.outputs][:, None]
        return float(((self.right - values) ** 2).sum()) + alpha * float(weights @ quadratic_forms)

    def expansion(self, kernel: OperatorKernel, C: Array, b: Array | None) -> tuple[Array, Array | None]:
        """Coefficients and intercept of the unscaled function."""
        full = self.spread(C) if self.rows is None else self.spread(C) * self.rows[:, None]
        if not self.intercept or b is not None:
            return full, b
        left = self.targets.Y - kernel.gram(self.X).matmat(full)
        return full, np.average(left, axis=0, weights=self.targets.weight)


@dataclass(frozen=True)
class LearnedWeights:
    weights: Array  # (M,)
    quadratic_forms: Array  # (M,) e_k = <c, K_k c>
    norms: Array  # (M,) d_k sqrt(e_k)
    C: Array  # coefficients of the scaled system
    b: Array | None  # intercept of outputs with gaps
    objective: float
    info: SolverInfo
    log: Any = None  # (iterations, 3) objective, relative change, iterations of the solver; None before the last one


#: Relative residual of intermediate systems: at most, and relative to `tol`. The objective depends on its square, but
#: the stationarity of the weights on the residual itself.
INTERMEDIATE_TOL, RELATIVE_INTERMEDIATE_TOL = 1e-7, 1e-2
#: Smallest relative residual that is requested.
MIN_TOL = 1e-14
#: Longest step, in multiples of the plain update, and growth factor of steps.
MAX_STEP, STEP_GROWTH = 32.0, 1.6
#: With r = 1, weights below this fraction of the largest are set to zero.
MIN_WEIGHT = 1e-10


def alternate(
    system: System, alpha: float, r: float, tol: float, max_iter: int, start: LearnedWeights | None = None
) -> LearnedWeights:
    """Learn weights and coefficients, starting from equal weights or from the result for another alpha.

    Small weights decay slowly under the plain update d -> d+. Therefore steps are lengthened, log d + s (log d+ - log
    d) and back to sum d^r = 1, while the objective decreases; otherwise the step is repeated with s = 1, for which the
    decrease is guaranteed. With r = 1, negligible weights become zero; at the end each of them must satisfy the
    optimality condition e_k <= max_j e_j with e_k = <c, K_k c>, or it is restored.
    """
    precise = min(INTERMEDIATE_TOL, max(RELATIVE_INTERMEDIATE_TOL * tol, MIN_TOL))
    d = combination_weights(np.ones(len(system.kernels)), r) if start is None else start.weights
    at = _evaluate(system, d, alpha, None if start is None else start.C, precise)
    log: list[tuple[float, float, float]] = []
    step, change = 1.0, 1.0
    with ProgressBar("learning kernels") as bar:
        while True:
            log.append((at.objective, change, float(at.info.iterations)))
            bar.update()
            done = r == np.inf or not at.norms.any()
            new = None
            if change <= tol and len(log) > 1 and not done:
                new = _with_restored_kernel(system, at, alpha, precise) if r == 1.0 else None
                done = new is None
            if done or len(log) >= max_iter:
                break
            if new is None:
                new = _evaluate(system, _next_weights(at, r, step), alpha, at.C, precise)
                if new.objective > at.objective and step > 1.0:
                    step = 1.0
                    new = _evaluate(system, _next_weights(at, r, step), alpha, at.C, precise)
            change = float(np.linalg.norm(new.C - at.C) / max(float(np.linalg.norm(new.C)), 1e-300))
            at, step = new, min(STEP_GROWTH * step, MAX_STEP)
    if not done:
        warnings.warn(
            f"kernel learning did not reach tol={tol:.0e} within max_iter={max_iter} iterations, relative change "
            f"{change:.1e}: increase max_iter or tol",
            ConvergenceWarning,
            stacklevel=4,
        )
    return replace(_evaluate(system, at.weights, alpha, at.C, min(FINAL_TOL, precise)), log=np.array(log))


def _evaluate(system: System, d: Array, alpha: float, start: Array | None, tol: float) -> LearnedWeights:
    (C, info), b = system.solve(d, alpha, start, tol)
    quadratic_forms = system.terms.quadratic_forms(system.spread(C))
    return LearnedWeights(
        d, quadratic_forms, d * np.sqrt(quadratic_forms), C, b, system.objective(d, C, b, quadratic_forms, alpha), info
    )


def _next_weights(at: LearnedWeights, r: float, step: float) -> Array:
    plain = combination_weights(at.norms, r)
    d = plain
    if step > 1.0:
        positive = (plain > 0) & (at.weights > 0)
        d = np.zeros_like(plain)
        d[positive] = at.weights[positive] * (plain[positive] / at.weights[positive]) ** step
    if r == 1.0:
        d = np.where(d < MIN_WEIGHT * d.max(), 0.0, d)
    return np.asarray(d / (d**r).sum() ** (1.0 / r))


def _with_restored_kernel(system: System, at: LearnedWeights, alpha: float, tol: float) -> LearnedWeights | None:
    """The solution with some weight for the zero-weight kernel with the largest e_k; None if all satisfy optimality."""
    zero = at.weights == 0
    if not zero.any() or at.quadratic_forms[zero].max() <= (1.0 + 1e-6) * at.quadratic_forms[~zero].max():
        return None
    k = int(np.argmax(np.where(zero, at.quadratic_forms, -np.inf)))
    share = 0.1
    while share > MIN_WEIGHT:
        d = (1.0 - share) * at.weights
        d[k] = share
        new = _evaluate(system, d, alpha, at.C, tol)
        if new.objective < at.objective:
            return new
        share *= 0.1
    return None


def loo_residuals(system: System, learned: LearnedWeights, alpha: float, folds: Indices | None = None) -> Array:
    """Leave-one-out residuals of every curve, (n, d), times the root of its weight; nan where missing.

    Closed form if the operators have common eigenvectors, also for curves that are left out together, which have the
    same number in `folds`. Otherwise the system is solved again without them, starting at the full solution.
    """
    if not system.complete:
        return _leave_out_pairs(system, learned.weights, alpha, folds)
    u = system.u if system.intercept else None
    if len(system.uncentred.operators) == 1:
        [(G, T)] = system.uncentred.gram(learned.weights).terms() or []
        return SeparablePath(eigenpairs(G), system.Y, u, folds).residuals(T.eigh(), alpha)
    rotated = system.uncentred.rotated(learned.weights, always=True)
    if rotated is None:
        return _leave_out_by_solving(system, learned, alpha, np.arange(len(system.Y)) if folds is None else folds)
    parts = [
        factored_leave_one_out(partial(rotated.matrix, q), alpha, part, u, folds)[0]
        for q, part in enumerate(rotated.split(system.Y))
    ]
    return rotated.join(parts)


def _leave_out_by_solving(system: System, learned: LearnedWeights, alpha: float, folds: Indices) -> Array:
    residuals = np.empty_like(system.Y)
    whole = system.uncentred.gram(learned.weights).terms() or []
    for fold in track(np.unique(folds), "leaving out curves"):
        out, kept = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        rest, right, u = system.uncentred.restricted(kept), system.Y[kept], system.u[kept]
        if system.intercept:
            rest, right = rest.centred(u), right - np.outer(u, u @ right / (u @ u))
        C = rest.solve(learned.weights, right, alpha, system.solver, learned.C[kept]).C

        def values(rows: Indices, C: Array = C, kept: Indices = kept) -> Any:
            return sum(T.apply(G[np.ix_(rows, kept)] @ C) for G, T in whole)

        residuals[out] = system.Y[out] - values(out)
        if system.intercept:
            residuals[out] -= np.outer(system.u[out], u @ (system.Y[kept] - values(kept)) / (u @ u))
    return residuals


def _leave_out_pairs(system: System, weights: Array, alpha: float, folds: Indices | None) -> Array:
    observed = system.observed
    gram = Observed(system.uncentred.gram(weights), observed.points, observed.outputs)
    if gram.shape[0] > MAX_DENSE_UNKNOWNS:
        raise ValueError(
            f"leave-one-out with gaps supports at most {MAX_DENSE_UNKNOWNS} observed values, got {gram.shape[0]}: "
            "choose alpha on fewer curves"
        )
    together = observed.points if folds is None else folds[observed.points]
    path = pairwise_path(gram.dense(), system.right[:, 0], together, np.array([alpha]), system.columns())
    return observed.spread(next(path), np.nan)
