"""A fair NumPy reference for online learners: one row at a time, with the window in a ring buffer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class RingBuffer:
    """OLOK with exp(-|x - z|^2 / mu) T, squared loss and steps eta / sqrt(min(t, s)), or eta, on the last s points."""

    def __init__(
        self, p: int, T: Array, mu: float, alpha: float, eta: float, s: int, *, constant: bool = False
    ) -> None:
        self.T, self.mu, self.alpha, self.eta, self.s, self.constant = T, mu, alpha, eta, s, constant
        self.points, self.squares = np.zeros((s, p)), np.zeros(s)
        self.A = np.zeros((s, len(T)))
        self.t = 0

    def predict_then_learn(self, X: Array, Y: Array) -> Array:
        """(n, d) predictions, each made before its label is used."""
        Z = np.empty_like(Y)
        for i, x in enumerate(X):
            m = min(self.t, self.s)
            square = x @ x
            k = np.exp((2.0 * (self.points[:m] @ x) - self.squares[:m] - square) / self.mu)
            Z[i] = (k @ self.A[:m]) @ self.T
            self.t += 1
            eta = self.eta if self.constant else self.eta / np.sqrt(min(self.t, self.s))
            self.A[:m] *= 1.0 - eta * self.alpha
            place = (self.t - 1) % self.s
            self.points[place], self.squares[place] = x, square
            self.A[place] = eta * (Y[i] - Z[i])
        return Z
