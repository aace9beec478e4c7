"""The alternation of multiple kernel learning: solve for the function, then for the weights."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ovk._progress import ProgressBar
from ovk._types import Array
from ovk.batch.movkl.kernel_terms import EXACT, BlockTerms, KernelTerms, solver_within
from ovk.grams import Observed
from ovk.ovkernels import OperatorKernel
from ovk.solvers import Solution, SolverInfo
from ovk.solvers.intercept import solve_with_intercept
from ovk.targets import Targets


def combination_weights(norms: Array, r: float) -> Array:
    """d_k = |f_k|^(2 / (r + 1)) / (sum_j |f_j|^(2 r / (r + 1)))^(1 / r): the best weights with sum_k d_k^r = 1.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.batch.movkl.alternation import combination_weights
    >>> combination_weights(np.array([1.0, 3.0]), 1.0)
    array([0.25, 0.75])
    >>> combination_weights(np.array([1.0, 3.0]), np.inf)
    array([1., 1.])
    """
    if r == np.inf:
        return np.ones(len(norms))
    # In units of the largest norm nothing overflows.
    shares = (norms / norms.max()) ** (2.0 / (r + 1.0))
    return np.asarray(shares / (shares**r).sum() ** (1.0 / r))


class System:
    """Kernels, inputs and outputs, ready to be solved with any weights and alpha.

    Sample weights scale rows by their roots; an intercept projects a complete system on what is orthogonal to it.
    Coefficients here are those of the scaled system: (n, d), or (N, 1) for N observed pairs.

    Attributes
    ----------
    complete : whether the system is about points with all their outputs; otherwise it is about observed pairs, also
        for kernels that are not all of the form k T, whose grams have no structure to keep
    """

    def __init__(
        self, kernels: Sequence[OperatorKernel], X: Any, targets: Targets, solver: Any, *, intercept: bool
    ) -> None:
        self.kernels, self.X, self.targets, self.solver, self.intercept = list(kernels), X, targets, solver, intercept
        self.rows = None if targets.weight is None else np.sqrt(targets.weight)
        self.u = np.ones(len(targets.Y)) if self.rows is None else self.rows
        separable = [part for part in (kernel.as_separable() for kernel in self.kernels) if part is not None]
        plain = len(separable) == len(self.kernels)
        self.alone = KernelTerms(separable, X, self.rows) if plain else BlockTerms(self.kernels, X, self.rows)
        self.complete = plain and targets.complete
        self.Y = targets.Y if self.rows is None else targets.Y * self.rows[:, None]
        if self.complete:
            self.terms = self.alone.centred(self.u) if intercept else self.alone
            self.right = self.Y - np.outer(self.u, self.u @ self.Y / (self.u @ self.u)) if intercept else self.Y
        else:
            self.terms = self.alone
            self.observed = targets.pairs()
            self.right = self.observed.scaled_values()[:, None]

    def columns(self) -> Array | None:
        """The intercept's columns on the observed pairs, (N, d)."""
        return self.observed.columns() if self.intercept else None

    def solve(self, weights: Array, alpha: float, start: Array | None, tol: float) -> tuple[Solution, Array | None]:
        """Coefficients, and the intercept where the outputs have holes (else see `expansion`)."""
        if self.complete:
            return self.terms.solve(weights, self.right, alpha, self.solver, start, tol=tol), None
        gram = Observed(self.terms.gram(weights), self.observed.points, self.observed.outputs)
        solver = solver_within(tol, self.solver, gram)
        return solve_with_intercept(solver, solver.factor(gram), self.right, alpha, self.columns())

    def spread(self, C: Array) -> Array:
        """Coefficients of all outputs, (n, d)."""
        return C if self.complete else self.observed.spread(C[:, 0])

    def objective(self, weights: Array, C: Array, b: Array | None, energies: Array, alpha: float) -> float:
        """sum_i w_i |y_i - f(x_i)|^2 + alpha sum_k |f_k|^2 / d_k, |f_k|^2 = d_k^2 e_k."""
        values = self.terms.gram(weights).matmat(self.spread(C))
        if not self.complete:
            values = values if b is None else values + np.outer(self.u, b)
            values = values[self.observed.points, self.observed.outputs][:, None]
        return float(((self.right - values) ** 2).sum()) + alpha * float(weights @ energies)

    def expansion(self, kernel: OperatorKernel, C: Array, b: Array | None) -> tuple[Array, Array | None]:
        """Coefficients and intercept of the function itself."""
        full = self.spread(C) if self.rows is None else self.spread(C) * self.rows[:, None]
        if not self.intercept or b is not None:
            return full, b
        left = self.targets.Y - kernel.gram(self.X).matmat(full)
        return full, np.average(left, axis=0, weights=self.targets.weight)


@dataclass(frozen=True)
class LearnedWeights:
    """The best function with some weights.

    Attributes
    ----------
    weights : (M,)
    energies, norms : (M,) e_k = <c, K_k c> and d_k sqrt(e_k)
    C, b : coefficients of the scaled system, intercept of outputs with holes
    log : (iterations, 3) objective, relative change, iterations of the solver; None on the way
    """

    weights: Array
    energies: Array
    norms: Array
    C: Array
    b: Array | None
    objective: float
    info: SolverInfo
    log: Any = None


#: Relative residual of the systems on the way, at most, and as a part of `tol`: the objective feels its square, but
#: where the weights stand still is felt in full.
ON_THE_WAY, WITHIN_TOL = 1e-7, 1e-2
#: No residual is asked to be smaller.
ROUNDING = 1e-14
#: Longest step, in multiples of the plain one, and how fast steps grow.
LONGEST, GROWTH = 32.0, 1.6
#: With r = 1, weights below this are zero.
DEAD = 1e-10


def alternate(
    system: System, alpha: float, r: float, tol: float, max_iter: int, start: LearnedWeights | None = None
) -> LearnedWeights:
    """Learn weights and coefficients, from even weights or from what was learned with another alpha.

    Small weights die out slowly under the plain update d -> d+. So steps are lengthened, log d + s (log d+ - log d) and
    back to sum d^r = 1, for as long as the objective falls; when it does not, the step is taken back and s is 1 again,
    for which the fall is guaranteed. With r = 1 weights that have died out become zero; at the end each of them must
    pass the test of optimality, e_k <= max_j e_j with e_k = <c, K_k c>, or is brought back.
    """
    precise = min(ON_THE_WAY, max(WITHIN_TOL * tol, ROUNDING))
    if start is None:
        at = _solved(system, combination_weights(np.ones(len(system.kernels)), r), alpha, None, precise)
    else:
        at = _solved(system, start.weights, alpha, start.C, precise)
    log: list[tuple[float, float, float]] = []
    step, change = 1.0, 1.0
    with ProgressBar("learning kernels") as bar:
        while True:
            log.append((at.objective, change, float(at.info.iterations)))
            bar.update()
            done = r == np.inf or not at.norms.any()
            new = None
            if change <= tol and len(log) > 1 and not done:
                new = _revived(system, at, alpha, precise) if r == 1.0 else None
                done = new is None
            if done or len(log) >= max_iter:
                break
            if new is None:
                new = _solved(system, _stepped(at, r, step), alpha, at.C, precise)
                if new.objective > at.objective and step > 1.0:
                    step = 1.0
                    new = _solved(system, _stepped(at, r, step), alpha, at.C, precise)
            change = float(np.linalg.norm(new.C - at.C) / max(float(np.linalg.norm(new.C)), 1e-300))
            at, step = new, min(GROWTH * step, LONGEST)
    if not done:
        warnings.warn(
            f"learning kernels stopped after max_iter={max_iter} iterations, the last of which changed the "
            f"coefficients by {change:.1e} instead of tol={tol:.0e}: raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=4,
        )
    return replace(_solved(system, at.weights, alpha, at.C, min(EXACT, precise)), log=np.array(log))


def _solved(system: System, d: Array, alpha: float, start: Array | None, tol: float) -> LearnedWeights:
    (C, info), b = system.solve(d, alpha, start, tol)
    energies = system.terms.energies(system.spread(C))
    return LearnedWeights(d, energies, d * np.sqrt(energies), C, b, system.objective(d, C, b, energies, alpha), info)


def _stepped(at: LearnedWeights, r: float, step: float) -> Array:
    plain = combination_weights(at.norms, r)
    d = plain
    if step > 1.0:
        alive = (plain > 0) & (at.weights > 0)
        d = np.zeros_like(plain)
        d[alive] = at.weights[alive] * (plain[alive] / at.weights[alive]) ** step
    if r == 1.0:
        d = np.where(d < DEAD * d.max(), 0.0, d)
    return np.asarray(d / (d**r).sum() ** (1.0 / r))


def _revived(system: System, at: LearnedWeights, alpha: float, tol: float) -> LearnedWeights | None:
    """With some weight for the dead kernel that deserves it most; None when none does."""
    dead = at.weights == 0
    if not dead.any() or at.energies[dead].max() <= (1.0 + 1e-6) * at.energies[~dead].max():
        return None
    k = int(np.argmax(np.where(dead, at.energies, -np.inf)))
    share = 0.1
    while share > DEAD:
        d = (1.0 - share) * at.weights
        d[k] = share
        new = _solved(system, d, alpha, at.C, tol)
        if new.objective < at.objective:
            return new
        share *= 0.1
    return None
