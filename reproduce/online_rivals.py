"""Other online kernel learners with bounded memory, from their papers, for the squared loss (f(x) - y)^2.

Gradient descent on random Fourier features and on Nystrom features (Lu, Hoi, Wang, Zhao and Liu 2016: FOGD and NOGD),
and Newton steps with a sketch of the second-order matrix (Luo, Agarwal, Cesa-Bianchi and Langford 2016), here on the
same Fourier features.
"""

from __future__ import annotations

import numpy as np

from ovk.features import FourierMap
from ovk.kernels import ScalarKernel
from reproduce.support import Array


class FourierGradient:
    """w <- w - step (w'phi(x) - y) phi(x) on random Fourier features.

    >>> from ovk.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((300, 1))
    >>> F = FourierGradient(Gaussian(1.0), 50, 0.5).predict_then_learn(X, np.sin(X[:, 0]))
    >>> bool(np.abs(F - np.sin(X[:, 0]))[200:].mean() < 0.1)
    True
    """

    def __init__(self, kernel: ScalarKernel, features: int, step: float, seed: int = 0) -> None:
        self.kernel, self.features, self.step, self.seed = kernel, features, step, seed
        self.map: FourierMap | None = None

    def predict_then_learn(self, X: Array, y: Array) -> Array:
        """(n,) predictions, each from the rows before it."""
        if self.map is None:
            self.map = FourierMap.from_kernel(self.kernel, self.features // 2, X.shape[1], self.seed)
            self.w = np.zeros(self.map.m)
        return gradient_descent(self.w, self.map.transform(X), y, self.step)


class NystromGradient:
    """Kernel gradient descent on the first `budget` rows, then descent on the Nystrom features of these rows.

    With k(D, D) = V e V', phi(x) = e^-1/2 V' k(D, x) on the `rank` leading eigenvectors, and f = sum_i a_i k(x_i, .)
    continues as w = e^1/2 V' a.

    >>> from ovk.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((300, 1))
    >>> F = NystromGradient(Gaussian(1.0), 50, 50, 0.5).predict_then_learn(X, np.sin(X[:, 0]))
    >>> bool(np.abs(F - np.sin(X[:, 0]))[200:].mean() < 0.1)
    True
    """

    def __init__(self, kernel: ScalarKernel, budget: int, rank: int, step: float) -> None:
        self.kernel, self.budget, self.rank, self.step = kernel, budget, rank, step
        self.D: Array | None = None

    def predict_then_learn(self, X: Array, y: Array) -> Array:
        """(n,) predictions, each from the rows before it."""
        if self.D is None:
            self.D, self.a = X[:0], np.zeros(0)
        first = min(self.budget - len(self.D), len(X))
        predictions = np.zeros(len(X))
        if first > 0:
            self.D = np.concatenate([self.D, X[:first]])
            K = self.kernel(X[:first], self.D)
            for i in range(first):
                predictions[i] = K[i, : len(self.a)] @ self.a
                self.a = np.append(self.a, self.step * (y[i] - predictions[i]))
        if len(self.D) == self.budget and first > 0:
            e, V = np.linalg.eigh(self.kernel(self.D))
            # e^-1/2 would amplify rounding errors.
            keep = np.flatnonzero(e > 1e-10 * e[-1])[-self.rank :]
            self.project, self.w = V[:, keep] / np.sqrt(e[keep]), np.sqrt(e[keep]) * (V[:, keep].T @ self.a)
        if first < len(X):
            phi = self.kernel(X[first:], self.D) @ self.project
            predictions[first:] = gradient_descent(self.w, phi, y[first:], self.step)
        return predictions


def gradient_descent(w: Array, phi: Array, y: Array, step: float) -> Array:
    """Predictions of rows of features, one after the other; `w` is moved in place.

    >>> w = np.zeros(1)
    >>> gradient_descent(w, np.ones((3, 1)), np.ones(3), 0.5)
    array([0.  , 0.5 , 0.75])
    """
    predictions = np.empty(len(phi))
    for i, row in enumerate(phi):
        predictions[i] = w @ row
        w += (step * (y[i] - predictions[i])) * row
    return predictions


class SketchedNewton:
    """w <- w - A^-1 phi (w'phi - y) on Fourier features, A = alpha I + a sketch of the sum of phi phi'.

    The sketch S'S has at most 2 `size` rows (frequent directions): when it is full, an orthogonal rotation puts its
    squared singular values s_1 >= s_2 >= ... on the rows, which become s_i - s_size, and `size` rows are free again.
    A^-1 v = (v - S'(alpha I + S S')^-1 S v) / alpha.

    >>> from ovk.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((300, 1))
    >>> F = SketchedNewton(Gaussian(1.0), 50, 10, 0.1).predict_then_learn(X, np.sin(X[:, 0]))
    >>> bool(np.abs(F - np.sin(X[:, 0]))[200:].mean() < 0.1)
    True
    """

    def __init__(self, kernel: ScalarKernel, features: int, size: int, alpha: float, seed: int = 0) -> None:
        self.kernel, self.features, self.size, self.alpha, self.seed = kernel, features, size, alpha, seed
        self.map: FourierMap | None = None

    def predict_then_learn(self, X: Array, y: Array) -> Array:
        """(n,) predictions, each from the rows before it."""
        if self.map is None:
            self.map = FourierMap.from_kernel(self.kernel, self.features // 2, X.shape[1], self.seed)
            self.w, self.S, self.used = np.zeros(self.map.m), np.zeros((2 * self.size, self.map.m)), 0
            self.inverse = np.eye(2 * self.size) / self.alpha
        predictions = np.empty(len(X))
        for i, phi in enumerate(self.map.transform(X)):
            predictions[i] = self.w @ phi
            self._add(phi)
            direction = (phi - self.S.T @ (self.inverse @ (self.S @ phi))) / self.alpha
            self.w -= (predictions[i] - y[i]) * direction
        return predictions

    def _add(self, phi: Array) -> None:
        """One more row of S, and (alpha I + S S')^-1, bordered by that row."""
        if self.used == len(self.S):
            _, s, V = np.linalg.svd(self.S, full_matrices=False)
            shrunk = np.sqrt(np.maximum(s**2 - s[self.size - 1] ** 2, 0.0))
            self.S[: len(s)] = shrunk[:, None] * V
            self.S[self.size :], self.used = 0.0, self.size
            self.inverse = np.asarray(
                np.linalg.inv(self.alpha * np.eye(len(self.S)) + self.S @ self.S.T), dtype=np.float64
            )
        k = self.used
        c = self.S[:k] @ phi
        u = self.inverse[:k, :k] @ c
        rest = 1.0 / (self.alpha + phi @ phi - c @ u)
        self.inverse[:k, :k] += rest * np.outer(u, u)
        self.inverse[:k, k] = self.inverse[k, :k] = -rest * u
        self.inverse[k, k] = rest
        self.S[k], self.used = phi, k + 1
