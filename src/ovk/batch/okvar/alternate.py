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

from ovk._validation import Array
from ovk.batch.okvar.closed_form import ClosedForm
from ovk.batch.okvar.coupling import Coupling
from ovk.batch.okvar.nuisance import Nuisance
from ovk.batch.okvar.transitions import Regression
from ovk.grams import Gram
from ovk.penalties import L1, Penalty, PSDCone
from ovk.solvers import PenaltySum, ProximalInfo, proximal_gradient

#: Decays and coefficients are solved for in turn this often before the operator moves on.
TURNS = 3
#: Multiplications that find the norm of a gram, to within a few percent.
POWER_STEPS = 12


@dataclass(frozen=True)
class Settings:
    """What the steps need to know: tolerances are relative."""

    alpha: float
    penalty: Penalty | None
    operator_weight: float
    tol: float
    max_iter: int
    rounds: int


@dataclass
class Fit:
    """Where the minimisation stands.

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


class Steps:
    """The two steps for one kernel on one set of samples."""

    def __init__(self, coupling: Coupling, regression: Regression, settings: Settings) -> None:
        self.coupling, self.regression, self.settings = coupling, regression, settings
        self.nuisance = Nuisance(regression)
        self.closed = ClosedForm(coupling, regression, self.nuisance)

    def start(self, B: Array) -> Fit:
        """Nothing learned yet."""
        return Fit(B, np.zeros((len(self.regression.Z), len(B))), [])

    def objective(self, B: Array, C: Array) -> float:
        """L(B, C)."""
        F = self.coupling.values(self.coupling.features(C), B)
        R = self.nuisance.residual(self.regression.left(F))
        value = float(np.vdot(R, R)) + self.settings.alpha * float(np.vdot(C, F))
        value += self.settings.operator_weight * float(np.abs(B).sum())
        return value if self.settings.penalty is None else value + self.settings.penalty.value(C)

    def values(self, fit: Fit) -> Array:
        """W F."""
        return self.regression.left(self.coupling.values(self.coupling.features(fit.C), fit.B))

    def learn_coefficients(self, fit: Fit, turns: int = 200) -> None:
        """Step 1: C, for the operator at hand."""
        if self.settings.penalty is None and self.closed.possible:
            _, decay = self.nuisance.coefficients(self.values(fit))
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

    def _near(self, fit: Fit) -> Array:
        """Where to start: at the coefficients at hand, or lower where a splitting leads lower."""
        if self.settings.penalty is None:
            return fit.C
        best, lowest = fit.C, self.objective(fit.B, fit.C)
        for _ in range(1 if self.regression.O is None else TURNS):
            _, decay = self.nuisance.coefficients(self.values(Fit(fit.B, best, [])))
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
        R = self.nuisance.residual(self.regression.left(F))
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

    def freedom(self, fit: Fit) -> float:
        """Parameters that the fit is worth: entries that are not zero, or degrees of freedom if it is smooth."""
        if fit.info is None:
            count = self.closed.freedom(fit.B, self.settings.alpha)
        else:
            count = float(np.count_nonzero(fit.C))
        return count + (float(np.count_nonzero(np.triu(fit.B))) if self.settings.operator_weight else 0.0)

    def learn_operator(self, fit: Fit) -> None:
        """Step 2: B, for the coefficients at hand, by proximal steps of |.|_1 on the cone."""
        A = self.coupling.features(fit.C)
        alpha, regression, coupling = self.settings.alpha, self.regression, self.coupling

        def smooth(B: Array) -> tuple[float, Array]:
            F = coupling.values(A, B)
            R = self.nuisance.residual(regression.left(F))
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

    def alternate(self, fit: Fit) -> None:
        """Both steps in turn until neither B nor C moves, or one of them is empty."""
        tol = 10.0 * self.settings.tol
        self.learn_coefficients(fit, TURNS)
        for _ in range(self.settings.rounds):
            B, C = fit.B, fit.C
            self.learn_operator(fit)
            if not fit.B.any():
                break
            self.learn_coefficients(fit, TURNS)
            if moved(fit.B, B) <= tol and moved(fit.C, C) <= tol:
                return
            if not fit.C.any():
                break
        else:
            # Objectives of two rounds that agree to this have nothing left to give.
            fit.converged = abs(fit.objective[-1] - fit.objective[-3]) <= tol * abs(fit.objective[-1])
            if not fit.converged:
                warnings.warn(
                    f"operator and coefficients still moved after max_rounds={self.settings.rounds} rounds, the last "
                    f"of which lowered the objective by {1 - fit.objective[-1] / fit.objective[-3]:.1e} of it: raise "
                    "max_rounds or tol",
                    ConvergenceWarning,
                    stacklevel=4,
                )


def moved(new: Array, old: Array) -> float:
    """Relative distance of two matrices."""
    return float(np.linalg.norm(new - old)) / max(float(np.linalg.norm(new)), 1e-300)
