"""Second-order kernel learning with adaptive embedding (Calandriello, Lazaric and Valko, 2017).

A dictionary grown by KORS, and the online Newton step on its Nystrom features: for the squared loss, |y| <= C, with
sigma = 1 / (8 C^2),

    predict  w'phi(x), w first moved (in the norm of A) so that |w'phi(x)| <= C
    learn    g = 2 (w'phi - y) phi,     A <- A + sigma / 2 g g',     w <- w - A^-1 g

KORS keeps x with probability min(beta tau, 1), tau = (1 + eps) r / (r + mu), r = k(x, x) - b'(S K S + mu I)^-1 b with
b = S k(D, x) and S = diag(1 / sqrt(p_i)).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dsymv, dsyr

from ovk.kernels import ScalarKernel

Array = npt.NDArray[np.float64]

BLOCK = 128
#: Squared distance to the span of the dictionary, as part of k(x, x), below which a point adds no feature.
DEPENDENT = 1e-8


class ProsNKONS:
    """Every new point of the dictionary restarts the Newton step, as the proof requires.

    Parameters
    ----------
    kernel : scalar kernel
    budget : points at which the dictionary stops growing
    mu, beta, eps : of KORS
    alpha : A begins as alpha I
    C : bound on the labels
    """

    restart = True

    def __init__(
        self,
        kernel: ScalarKernel,
        budget: int,
        *,
        mu: float = 1.0,
        beta: float = 1.0,
        eps: float = 0.5,
        alpha: float = 1.0,
        C: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.kernel, self.budget = kernel, budget
        self.mu, self.beta, self.eps, self.alpha, self.C = mu, beta, eps, alpha, C
        self.rng = np.random.default_rng(seed)
        self.kept = 0  # kept by KORS, whether or not they add a feature
        self.m = 0
        # Lower triangles of S K S + mu I and of k(D, D) on the points that add a feature.
        self.K = np.zeros((budget, budget))
        self.L = np.zeros((budget, budget))
        self.scale = np.zeros(budget)
        self.features = np.zeros(budget, dtype=np.int64)  # their indices among the kept points
        self._begin()

    def _begin(self) -> None:
        self.w = np.zeros(self.m)
        self.inverse = np.asfortranarray(np.eye(self.m) / self.alpha)  # of A; its lower triangle

    def predict_then_learn(self, X: Array, y: Array) -> Array:
        """(n,) predictions, each from the rows before it and the row's own input."""
        F = np.empty(len(X))
        for start in range(0, len(X), BLOCK):
            rows = slice(start, start + BLOCK)
            F[rows] = self._block(X[rows], y[rows])
        return F

    def _block(self, X: Array, y: Array) -> Array:
        F = np.empty(len(X))
        norms, uniforms = self.kernel.diag(X), self.rng.random(len(X))
        if self.kept == 0:
            self.points = np.empty((self.budget, X.shape[1]))
        k = self.kernel(self.points[: self.kept], X) if self.kept else np.empty((0, len(X)))
        # Both families of coordinates of all rows of the block; a new point appends one to each.
        U = _triangular(self.K, self.scale[: self.kept, None] * k)
        phi = _triangular(self.L, k[self.features[: self.m]])
        for i in range(len(X)):
            if self.kept < self.budget:
                r = max(norms[i] - U[:, i] @ U[:, i], 0.0)
                p = min(self.beta * (1 + self.eps) * r / (r + self.mu), 1.0)
                if uniforms[i] < p:
                    U, phi = self._grow(X, i, p, norms[i], U, phi)
            F[i] = self._newton(np.ascontiguousarray(phi[:, i]), y[i])
        return F

    def _grow(self, X: Array, i: int, p: float, norm: float, U: Array, phi: Array) -> tuple[Array, Array]:
        j, s = self.kept, 1 / np.sqrt(p)
        column = self.kernel(X[i : i + 1], X)[0]
        pivot = np.sqrt(s**2 * (norm - U[:, i] @ U[:, i]) + self.mu)
        self.K[j, :j], self.K[j, j] = s * U[:, i], pivot
        U = np.vstack([U, (s * column - s * U[:, i] @ U) / pivot])
        self.points[j], self.scale[j] = X[i], s
        self.kept += 1
        delta = norm - phi[:, i] @ phi[:, i]
        if delta > DEPENDENT * norm:
            m = self.m
            self.L[m, :m], self.L[m, m] = phi[:, i], np.sqrt(delta)
            phi = np.vstack([phi, (column - phi[:, i] @ phi) / np.sqrt(delta)])
            self.features[m] = j
            self.m += 1
            self._grown()
        return U, phi

    def _grown(self) -> None:
        self._begin()

    def _newton(self, phi: Array, y: float) -> float:
        if self.m == 0:
            return 0.0
        moved = dsymv(1.0, self.inverse, phi, lower=1)
        quadratic, raw = float(phi @ moved), float(self.w @ phi)
        excess = np.sign(raw) * max(abs(raw) - self.C, 0.0)
        if excess != 0:
            self.w = self.w - excess / quadratic * moved
        f = raw - excess
        slope = 2 * (f - y)
        # A^-1 after adding c phi phi', by Sherman and Morrison.
        c = slope**2 / (16 * self.C**2)
        self.inverse = dsyr(-c / (1 + c * quadratic), moved, lower=1, a=self.inverse, overwrite_a=1)
        self.w = self.w - slope / (1 + c * quadratic) * moved
        return f


class ConKONS(ProsNKONS):
    """The authors' variant without restarts: a new feature starts with weight 0 and alpha on A's diagonal."""

    restart = False

    def _grown(self) -> None:
        grown = np.zeros((self.m, self.m), order="F")
        grown[:-1, :-1], grown[-1, -1] = self.inverse, 1 / self.alpha
        self.w, self.inverse = np.append(self.w, 0.0), grown


def _triangular(L: Array, B: Array) -> Array:
    """L^-1 B on the leading rows."""
    m = len(B)
    return solve_triangular(L[:m, :m], B, lower=True, check_finite=False) if m else B
