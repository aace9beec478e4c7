"""Learning C with B given, B with C given, and the two in turn.

    L(B, C) = |Y - W F - E theta + decay O|^2 + alpha |h|^2 + Omega(C) + weight |B|_1 + [B is positive semi-definite]

F is linear in C and linear in B, so each step is convex; each lowers L or leaves it, and so does the whole.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ovk._params import check_int, positive
from ovk._types import Array
from ovk.batch.okvar.closed_form import ClosedFormCoefficients
from ovk.batch.okvar.coupling import Coupling
from ovk.batch.okvar.regression import SeriesRegression, UnpenalisedTerms
from ovk.grams import Gram
from ovk.penalties import L1, Penalty, PSDCone
from ovk.solvers import PenaltySum, ProximalInfo, proximal_gradient

#: Decays and coefficients are solved for in turn this often before the operator moves on.
TURNS = 3
#: Multiplications that find the norm of a gram, to within a few percent.
POWER_STEPS = 12


@dataclass(frozen=True)
class LearningSettings:
    """The parameters of `OKVAR` that the minimisation needs; `operator_weight` is 0 when B is not learned."""

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
            raise ValueError(f"penalty must be a penalty of ovk.penalties or None, got {self.penalty!r}")
        if self.alpha == 0 and self.penalty is None:
            raise ValueError("alpha must be > 0 without a penalty, got 0: the system would be singular")


@dataclass
class OKVARSolution:
    """Operator and coefficients, as far as the minimisation has come.

    Attributes
    ----------
    B, C : operator and coefficients
    objective : L after every step
    info : of the last proximal step for C, None after a closed form
    converged : the stopping rule of the scheme, or of its only step, was met
    """

    B: Array
    C: Array
    objective: list[float]
    info: ProximalInfo | None = None
    converged: bool = True


class AlternatingMinimiser:
    """Minimises L for one kernel on one set of samples."""

    def __init__(self, coupling: Coupling, regression: SeriesRegression, settings: LearningSettings) -> None:
        self.coupling, self.regression, self.settings = coupling, regression, settings
        self.unpenalised = UnpenalisedTerms(regression)
        self.closed = ClosedFormCoefficients(coupling, regression, self.unpenalised)

    def minimise(self, B: Array, start: OKVARSolution | None = None) -> OKVARSolution:
        """The coefficients for the operator B or, when it is learned, both from B; or from another solution."""
        learn = self.settings.operator_weight > 0
        solution = OKVARSolution(B, np.zeros((len(self.regression.Z), len(B))), [])
        if start is not None and start.C.shape == solution.C.shape:
            solution.B, solution.C = (start.B if learn else B), start.C
        if learn:
            self.alternate(solution)
        else:
            self.learn_coefficients(solution)
        return solution

    def warn_if_zero(self, fit: OKVARSolution) -> None:
        """Say so when the penalties left nothing."""
        if self.settings.penalty is not None and not fit.C.any():
            warnings.warn(
                f"the penalty {self.settings.penalty!r} leaves no coefficient, so h is zero: lower its weight",
                stacklevel=4,
            )
        elif self.settings.operator_weight and not fit.B.any():
            warnings.warn(
                f"operator_weight={self.settings.operator_weight:g} leaves no entry of the operator, so h is zero: "
                "lower it",
                stacklevel=4,
            )

    def objective(self, B: Array, C: Array) -> float:
        """L(B, C)."""
        F = self.coupling.values(self.coupling.features(C), B)
        R = self.unpenalised.residual(self.regression.left(F))
        value = float(np.vdot(R, R)) + self.settings.alpha * float(np.vdot(C, F))
        value += self.settings.operator_weight * float(np.abs(B).sum())
        return value if self.settings.penalty is None else value + self.settings.penalty.value(C)

    def values(self, fit: OKVARSolution) -> Array:
        """W F."""
        return self.regression.left(self.coupling.values(self.coupling.features(fit.C), fit.B))

    def learn_coefficients(self, fit: OKVARSolution, turns: int = 200) -> None:
        """Step 1: C, for the operator at hand."""
        if self.settings.penalty is None and self.closed.possible:
            _, decay = self.unpenalised.coefficients(self.values(fit))
            fit.C = self.closed.solve(fit.B, self.settings.alpha, decay, turns)
            fit.info = None
        else:
            gram = self.coupling.gram(fit.B)
            smooth = self._smooth_in_coefficients(gram)
            scale = float(np.linalg.norm(smooth(np.zeros_like(fit.C))[1]))
            found = proximal_gradient(
                smooth,
                self.settings.penalty,
                self._near(fit),
                step=1.0 / max(self._curvature(gram), 1e-300),
                scale=max(scale, 1e-300),
                tol=self.settings.tol,
                max_iter=self.settings.max_iter,
                value_only=lambda C: self._value_in_coefficients(gram, C)[0],
            )
            fit.C, fit.info = found
            fit.converged = found.info.converged
        fit.objective.append(self.objective(fit.B, fit.C))

    def _near(self, fit: OKVARSolution) -> Array:
        """Where to start: at the coefficients at hand, or lower where a splitting leads lower."""
        if self.settings.penalty is None:
            return fit.C
        best, lowest = fit.C, self.objective(fit.B, fit.C)
        for _ in range(1 if self.regression.decaying is None else TURNS):
            _, decay = self.unpenalised.coefficients(self.values(OKVARSolution(fit.B, best, [])))
            splitting = self.closed.splitting(fit.B, self.settings.alpha, decay)
            if splitting is None:
                break
            near = splitting.minimise(self.settings.penalty, best)
            value = self.objective(fit.B, near)
            if value >= lowest:
                break
            best, lowest = near, value
        return best

    def _smooth_in_coefficients(self, gram: Gram) -> Callable[[Array], tuple[float, Array]]:
        def smooth(C: Array) -> tuple[float, Array]:
            value, R = self._value_in_coefficients(gram, C)
            return value, gram.matmat(2.0 * (self.settings.alpha * C - self.regression.back(R)))

        return smooth

    def _value_in_coefficients(self, gram: Gram, C: Array) -> tuple[float, Array]:
        """|R|^2 + alpha |h|^2, and R."""
        F = gram.matmat(C)
        R = self.unpenalised.residual(self.regression.left(F))
        return float(np.vdot(R, R)) + self.settings.alpha * float(np.vdot(C, F)), R

    def _curvature(self, gram: Gram) -> float:
        """A little more than the largest second derivative in C: 2 |K W' W K + alpha K|."""
        X = np.random.default_rng(0).standard_normal((gram.shape[0], gram.output_dim))
        size = 0.0
        for _ in range(POWER_STEPS):
            norm = float(np.linalg.norm(X))
            if norm == 0.0:
                return 0.0
            X /= norm
            F = gram.matmat(X)
            X = gram.matmat(self.regression.back(self.regression.left(F))) + self.settings.alpha * F
            size = float(np.linalg.norm(X))
        return 2.0 * 1.05 * size

    def freedom(self, fit: OKVARSolution) -> float:
        """Parameters that the fit is worth: entries that are not zero, or degrees of freedom if it is smooth."""
        if fit.info is None:
            count = self.closed.freedom(fit.B, self.settings.alpha)
        else:
            count = float(np.count_nonzero(fit.C))
        return count + (float(np.count_nonzero(np.triu(fit.B))) if self.settings.operator_weight else 0.0)

    def bic(self, fit: OKVARSolution) -> float:
        """n log(mean squared residual) of each variable, plus log(n) for each parameter."""
        V = self.values(fit)
        R, seen = self.unpenalised.residual(V), self.unpenalised.seen.sum(axis=0)
        decays = int((self.unpenalised.coefficients(V)[1] > 0).sum())
        others = self.regression.E.shape[1] * len(seen) + decays
        squares = np.maximum((R**2).sum(axis=0), 1e-300)
        used = seen > 0
        likelihood = float((seen[used] * np.log(squares[used] / seen[used])).sum())
        return float(likelihood + np.log(seen.sum()) * (self.freedom(fit) + others))

    def learn_operator(self, fit: OKVARSolution) -> None:
        """Step 2: B, for the coefficients at hand, by proximal steps of |.|_1 on the cone."""
        A = self.coupling.features(fit.C)
        alpha, regression, coupling = self.settings.alpha, self.regression, self.coupling

        def smooth(B: Array) -> tuple[float, Array]:
            F = coupling.values(A, B)
            R = self.unpenalised.residual(regression.left(F))
            value = float(np.vdot(R, R)) + alpha * float(np.vdot(fit.C, F))
            return value, coupling.slope(A, alpha * fit.C - 2.0 * regression.back(R))

        zero = np.zeros_like(fit.B)
        scale = float(np.linalg.norm(smooth(zero)[1]))
        if scale == 0.0:
            # Without coefficients only the penalty speaks.
            fit.B = zero
        else:
            # The values move with B by at most |A| for each of its entries.
            flat = regression.left(A.reshape(len(A), -1))
            curvature = 2.0 * float(np.linalg.norm(flat, 2)) ** 2
            both = PenaltySum([L1(self.settings.operator_weight), PSDCone()], tol=1e-5, max_iter=20)
            found = proximal_gradient(
                smooth,
                both,
                fit.B,
                step=1.0 / curvature,
                scale=scale,
                tol=self.settings.tol,
                max_iter=self.settings.max_iter,
                warn=False,
            )
            fit.B = found.C
        fit.objective.append(self.objective(fit.B, fit.C))

    def alternate(self, fit: OKVARSolution) -> None:
        """Both steps in turn until neither B nor C moves, or one of them is empty."""
        tol = 10.0 * self.settings.tol
        self.learn_coefficients(fit, TURNS)
        for _ in range(self.settings.max_rounds):
            B, C = fit.B, fit.C
            self.learn_operator(fit)
            if not fit.B.any():
                break
            self.learn_coefficients(fit, TURNS)
            if relative_change(fit.B, B) <= tol and relative_change(fit.C, C) <= tol:
                return
            if not fit.C.any():
                break
        else:
            # Objectives of two rounds that agree to this have nothing left to give.
            fit.converged = abs(fit.objective[-1] - fit.objective[-3]) <= tol * abs(fit.objective[-1])
            if not fit.converged:
                warnings.warn(
                    f"operator and coefficients still moved after max_rounds={self.settings.max_rounds} rounds, the "
                    f"last of which lowered the objective by {1 - fit.objective[-1] / fit.objective[-3]:.1e} of it: "
                    "raise max_rounds or tol",
                    ConvergenceWarning,
                    stacklevel=6,
                )


def relative_change(new: Array, old: Array) -> float:
    """Relative distance of two matrices."""
    return float(np.linalg.norm(new - old)) / max(float(np.linalg.norm(new)), 1e-300)
