"""The dual of support vector machines by an interior point method.

    minimise  1/2 b'Kb - q'b + epsilon |b|_1   subject to  lower <= b <= upper,  E'b = e

Each coordinate is the difference of what is above zero and what is below, b = S x with 0 <= x <= u (the side that has
no room is left out), so that the value is smooth. With multipliers z of x >= 0, w of u - x >= 0 and beta of the sums,
and a target mu > 0 for every product x z and (u - x) w, a Newton step solves

    (K + D) db + E dbeta = D S Theta^-1 rho,   E' db = e - E'b,    D = (S Theta^-1 S')^-1,  Theta = z / x + w / (u - x):

one Cholesky factorisation, for a step that predicts and one that corrects (Mehrotra 1992). The number of steps hardly
depends on C, epsilon or the condition of K, where methods that change a few coordinates at a time take ever longer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from ovk._types import Array, Indices

#: Part of the way to the nearest bound that a step may go, and steps at most.
WAY, STEPS = 0.995, 60
#: Part of the mean diagonal of K that is added to it when it cannot be factored, and its growth.
JITTER, GROWTH = 1e-13, 100.0


class BoxProgramme(NamedTuple):
    """The problem on all its coordinates: dense K, (N, N), q, bounds and epsilon; E, (N, T), and e, (T,), or None."""

    K: Array
    q: Array
    lower: Array
    upper: Array
    epsilon: float
    E: Array | None = None
    e: Array | None = None


def interior_point(problem: BoxProgramme, *, tol: float = 1e-9, start: Array | None = None) -> tuple[Array, Array]:
    """Solution b, (N,), exactly at its bounds or at zero where the multipliers say so, and beta, (T,).

    `tol` is the mean of the products x z at which to stop, relative to the scale of the value.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.solvers.interior_point import BoxProgramme, interior_point
    >>> K = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> q, room = np.array([1.0, 5.0]), np.ones(2)
    >>> interior_point(BoxProgramme(K, q, 0 * room, room, 0.0))[0]
    array([0., 1.])
    """
    p = problem
    above, below = np.flatnonzero(p.upper > 0), np.flatnonzero(p.lower < 0)
    of = np.concatenate([above, below])
    sign = np.concatenate([np.ones(len(above)), -np.ones(len(below))])
    u = np.concatenate([p.upper[above], -p.lower[below]])
    search = _Path(p, of, sign, u, np.zeros(len(p.q)) if start is None else start)
    for _ in range(STEPS):
        if search.mu <= tol * search.scale or not search.step():
            break
    return search.solution(), search.beta


class _Path:
    """x between 0 and u, multipliers z, w > 0 and beta: g - z + w + sign E beta = 0 from the start."""

    def __init__(self, problem: BoxProgramme, of: Indices, sign: Array, u: Array, start: Array) -> None:
        self.p, self.of, self.sign, self.u = problem, of, sign, u
        q, K = problem.q, problem.K
        self._diagonal = max(float(np.einsum("ii->i", K).mean()), 1e-300)
        # As far inside as coefficients usually are; C can be far larger.
        inside = np.minimum(0.5 * u, max(0.1 * float(np.abs(q).mean()) / self._diagonal, 1e-300))
        self.x = np.minimum(np.maximum(np.maximum(sign * start[of], 0.0), inside), np.maximum(u - inside, 0.5 * u))
        E = problem.E
        self.E = np.zeros((len(q), 0)) if E is None else E
        self.e = np.zeros(self.E.shape[1]) if problem.e is None else problem.e
        self.beta = np.zeros(self.E.shape[1])
        self._renew()
        level = max(float(np.abs(self.g).mean()), 1e-300)
        self.z, self.w = np.maximum(self.g, 0.0) + level, np.maximum(-self.g, 0.0) + level
        self.scale = max(float(np.abs(q).mean()) ** 2 / self._diagonal, 1e-300)

    def _renew(self) -> None:
        """b and the gradient g in x."""
        self.v = self.u - self.x
        self.b = np.bincount(self.of, weights=self.sign * self.x, minlength=len(self.p.q))
        slope = self.p.K @ self.b - self.p.q
        self.g = self.sign * slope[self.of] + self.p.epsilon

    @property
    def mu(self) -> float:
        """Mean of the products that are zero at the solution."""
        return float(self.x @ self.z + self.v @ self.w) / (2 * len(self.x))

    def step(self) -> bool:
        """Predict, correct, and go; False where rounding leaves nothing to gain."""
        theta = self.z / self.x + self.w / self.v
        D = 1.0 / np.bincount(self.of, weights=1.0 / theta, minlength=len(self.p.q))
        L = self._factor(D)
        if L is None:
            return False
        solved_E = _solve(L, self.E)
        inner = self.E.T @ solved_E
        slack = -(self.g - self.z + self.w + self.sign * (self.E @ self.beta)[self.of])
        sums = self.E.T @ self.b - self.e

        def direction(xz: Array, vw: Array) -> tuple[Array, Array, Array, Array]:
            """Moves of x, z, w and beta towards products x z + xz = 0 and v w + vw = 0."""
            rho = slack - xz / self.x + vw / self.v
            h = D * np.bincount(self.of, weights=self.sign * rho / theta, minlength=len(D))
            db = _solve(L, h)
            dbeta = np.asarray(np.linalg.solve(inner, self.E.T @ db + sums), dtype=np.float64)
            db = db - solved_E @ dbeta
            # K db + E dbeta = h - D db, which does not suffer from the condition of K.
            dx = (rho - self.sign * (h - D * db)[self.of]) / theta
            return dx, -(xz + self.z * dx) / self.x, -(vw - self.w * dx) / self.v, dbeta

        dx, dz, dw, _ = direction(self.x * self.z, self.v * self.w)
        near = self._room(dx, dz, dw)
        ahead = float((self.x + near * dx) @ (self.z + near * dz) + (self.v - near * dx) @ (self.w + near * dw))
        target = self.mu * (max(ahead, 0.0) / (2 * len(self.x) * self.mu)) ** 3
        dx, dz, dw, dbeta = direction(self.x * self.z + dx * dz - target, self.v * self.w - dx * dw - target)
        length = min(1.0, WAY * self._room(dx, dz, dw))
        if not (np.isfinite(dx).all() and length > 1e-10):
            return False
        self.x, self.z, self.w = self.x + length * dx, self.z + length * dz, self.w + length * dw
        self.beta = self.beta + length * dbeta
        self._renew()
        return bool((self.x > 0).all() and (self.v > 0).all())

    def _room(self, dx: Array, dz: Array, dw: Array) -> float:
        """How much of the moves there is room for."""
        most = 1.0 / WAY
        for value, move in ((self.x, dx), (self.v, -dx), (self.z, dz), (self.w, dw)):
            down = move < 0
            if down.any():
                most = min(most, float((value[down] / -move[down]).min()))
        return most

    def _factor(self, D: Array) -> Array | None:
        jitter = 0.0
        for _ in range(6):
            A = self.p.K + np.diag(D + jitter)
            L, failed = lapack.dpotrf(A.T, lower=1, overwrite_a=1)
            if not failed:
                return np.asarray(L)
            jitter = max(GROWTH * jitter, JITTER * self._diagonal)
        return None

    def solution(self) -> Array:
        """b with x at the bound whose multiplier outweighs the distance to it, both in their own units."""
        unit = self._diagonal
        x = np.where(unit * self.x < self.z, 0.0, np.where(unit * self.v < self.w, self.u, self.x))
        b = np.bincount(self.of, weights=self.sign * x, minlength=len(self.p.q))
        return np.asarray(np.clip(b, self.p.lower, self.p.upper))


def _solve(L: Array, right: Array) -> Array:
    found, _ = lapack.dpotrs(L, right, lower=1)
    return np.asarray(found)
