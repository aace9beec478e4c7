"""A good start for sparse coefficients: the quadratic part in eigenvectors, the penalty in entries.

Proximal gradient is slow where the gram is badly conditioned: its steps are as short as the largest eigenvalue
demands. Splitting the two terms (ADMM) takes the quadratic one exactly. With G = Q g Q', B = V b V', a = g b and s =
y - E theta, an entry of Q' C V is

    argmin over c of  |s - a c|^2 + alpha a c^2 + rho/2 (c - r)^2  =  (2 a s + rho r) / (2 a^2 + 2 alpha a + rho)

and theta follows from E'(s - a c) = 0, a small system for each output. Changing rho costs nothing here.
"""

from __future__ import annotations

import numpy as np

from ovk._validation import Array
from ovk.penalties import Penalty
from ovk.solvers.eigen import Eigenpairs

#: Rounds at most, and the relative distance of the two halves at which to stop.
ROUNDS, ENOUGH = 500, 1e-5
#: Over-relaxation, and how far the two residuals may be apart before rho moves.
RELAX, UNBALANCED = 1.6, 5.0


class Splitting:
    """Minimises |Y - G C B - E theta|^2 + alpha <C, G C B> + Omega(C), to a few digits."""

    def __init__(self, pairs: Eigenpairs, b: Array, V: Array, Y: Array, E: Array, alpha: float) -> None:
        self.Q, self.V, self.alpha = pairs.Q, V, alpha
        self.a = np.multiply.outer(pairs.g, b)
        Y = Y @ V
        self.Y, self.E = self.Q.T @ Y, self.Q.T @ E
        self.EE, self.EY = E.T @ E, E.T @ Y

    def minimise(self, penalty: Penalty, start: Array) -> Array:
        """Coefficients near the minimum, with the zeros of the penalty."""
        curvature = 2.0 * (self.a**2 + self.alpha * self.a)
        # Between the few large eigenvalues and the many small ones; balancing does the rest.
        rho = float(np.sqrt(curvature.mean() * max(float(np.median(curvature)), 1e-12 * float(curvature.max()))))
        if rho == 0.0:
            return start
        Z, U = start, np.zeros_like(start)
        for turn in range(1, ROUNDS + 1):
            C = self._quadratic(Z - U, rho)
            mixed = RELAX * C + (1.0 - RELAX) * Z
            before, Z = Z, penalty.prox(mixed + U, 1.0 / rho)
            U = U + mixed - Z
            # Each residual relative to what it is the residual of: the two halves, and the multipliers.
            primal = float(np.linalg.norm(C - Z)) / max(float(np.linalg.norm(Z)), float(np.linalg.norm(C)), 1e-300)
            dual = float(np.linalg.norm(Z - before)) / max(float(np.linalg.norm(U)), 1e-300)
            if primal <= ENOUGH and dual <= ENOUGH:
                break
            if turn % 5 == 0:
                factor = 2.0 if primal > UNBALANCED * dual else 0.5 if dual > UNBALANCED * primal else 1.0
                rho, U = rho * factor, U / factor
        return Z

    def _quadratic(self, R: Array, rho: float) -> Array:
        """argmin of the quadratic part + rho/2 |C - R|^2."""
        a, r = self.a, self.Q.T @ R @ self.V
        D = 2.0 * a**2 + 2.0 * self.alpha * a + rho
        s = self.Y
        if self.E.shape[1]:
            # What is not in the span of Q takes no part: there C stays at R.
            M = self.EE - np.einsum("ne,nq,nf->qef", self.E, 2.0 * a**2 / D, self.E)
            right = self.EY - self.E.T @ (a * (2.0 * a * self.Y + rho * r) / D)
            s = s - self.E @ np.linalg.solve(M, right.T[:, :, None])[:, :, 0].T
        change = (2.0 * a * s + rho * r) / D - r
        return np.asarray(R + self.Q @ change @ self.V.T)
