"""A good start for sparse coefficients: the quadratic part in eigenvectors, the penalty in entries.

Proximal gradient is slow where the gram is badly conditioned: its steps are as short as the largest eigenvalue
demands. Splitting the two terms (ADMM) takes the quadratic one exactly. With G = Q g Q', B = V b V', a = g b and
s = y - E theta, an entry of Q' C V is

    argmin over c of  |s - a c|^2 + alpha a c^2 + rho/2 (c - r)^2  =  (2 a s + rho r) / (2 a^2 + 2 alpha a + rho)

and theta follows from E'(s - a c) = 0, a small system for each output. Changing rho costs nothing here.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ovk._types import Array
from ovk.penalties import Penalty
from ovk.solvers.eigen import Eigenpairs

#: Rounds at most, and the relative distance of the two halves at which to stop.
ROUNDS, ENOUGH = 500, 1e-5
#: Over-relaxation, and how far the two residuals may be apart before rho moves.
RELAX, UNBALANCED = 1.6, 5.0


class Splitting:
    """Minimises |Y - W G C B - E theta|^2 + alpha <C, G C B> + Omega(C), to a few digits.

    Parameters
    ----------
    Q, V : eigenvectors of the rows and of the outputs
    curvature : (r, d) or (r, 1), the second derivative m of the quadratic part in the entries of Q' C V
    pulled_Y, pulled_E : (r, d) and (r, e, d or 1), Y V and E as the gradient of that part sees them
    EE, EY : E'E and E'Y V
    """

    def __init__(self, Q: Array, V: Array, curvature: Array, pulled_Y: Array, pulled_E: Array, EE: Array, EY: Array):
        self.Q, self.V, self.curvature = Q, V, curvature
        self.pulled_Y, self.pulled_E, self.EE, self.EY = pulled_Y, pulled_E, EE, EY

    @classmethod
    def in_eigenvectors(cls, pairs: Eigenpairs, b: Array, V: Array, Y: Array, E: Array, alpha: float) -> Self:
        """W = I, any B = V b V': the curvature is 2 (a^2 + alpha a), a = g b."""
        a = np.multiply.outer(pairs.g, b)
        Y = Y @ V
        pulled = 2.0 * a[:, None, :] * (pairs.Q.T @ E)[:, :, None]
        return cls(pairs.Q, V, 2.0 * (a**2 + alpha * a), 2.0 * a * (pairs.Q.T @ Y), pulled, E.T @ E, E.T @ Y)

    @classmethod
    def of_integrals(cls, G: Array, W: Any, b: float, Y: Array, E: Array, alpha: float) -> Self:
        """Any W, B = b I: the eigenvectors are those of 2 b^2 G W'W G + 2 alpha b G."""
        A = b * np.asarray(W @ G)
        values, Q = np.linalg.eigh(2.0 * (A.T @ A + alpha * b * G))
        pull = 2.0 * (A @ Q).T
        curvature = np.maximum(values, 0.0)[:, None]
        return cls(Q, np.eye(Y.shape[1]), curvature, pull @ Y, (pull @ E)[:, :, None], E.T @ E, E.T @ Y)

    def minimise(self, penalty: Penalty, start: Array) -> Array:
        """Coefficients near the minimum, with the zeros of the penalty."""
        curvature = self.curvature
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
        """argmin of the quadratic part + rho/2 |C - R|^2; what is not in the span of Q stays at R."""
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
        """sum over rows of pulled_E X, (e, d)."""
        if self.pulled_E.shape[2] == 1:
            return np.asarray(self.pulled_E[:, :, 0].T @ X)
        return np.asarray(np.einsum("neq,nq->eq", self.pulled_E, X))
