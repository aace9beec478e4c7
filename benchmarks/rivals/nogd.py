"""Nystrom online gradient descent (Lu, Hoi, Wang, Zhao and Liu, 2016)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchmarks.rivals.fogd import hinge_descent
from ovk.kernels import ScalarKernel

Array = npt.NDArray[np.float64]


class NOGD:
    """Kernel gradient descent on the hinge loss up to `budget` support points, then linear gradient descent on their
    `rank` leading Nystrom features, starting from the function reached so far.

    With k(D, D) = V diag(e) V', phi(x) = diag(e)^-1/2 V' k(D, x) on the leading eigenvectors, and
    f = sum_i a_i k(x_i, .) becomes w = sum_i a_i phi(x_i) = diag(e)^1/2 V' a.

    Parameters
    ----------
    kernel : scalar kernel
    budget : support points
    rank : features, at most `budget`
    step : of the gradient descent, before and after
    """

    def __init__(self, kernel: ScalarKernel, budget: int, rank: int, step: float) -> None:
        self.kernel, self.budget, self.rank, self.step = kernel, budget, min(rank, budget), step
        self.points: list[Array] = []
        self.a: list[float] = []
        self.project: Array | None = None

    def predict_then_learn(self, X: Array, y: Array) -> Array:
        """(n,) scores, each from the rows before it; their sign is the class."""
        scores = np.zeros(len(X))
        i = 0
        while i < len(X) and self.project is None:
            if self.points:
                scores[i] = self.kernel(np.array(self.points), X[i : i + 1])[:, 0] @ self.a
            if y[i] * scores[i] < 1.0:
                self.points.append(X[i])
                self.a.append(self.step * y[i])
                if len(self.points) == self.budget:
                    self._embed()
            i += 1
        for start in range(i, len(X), 256):
            rows = slice(start, start + 256)
            phi = self.kernel(X[rows], self.dictionary) @ self.project
            scores[rows] = hinge_descent(self.w, phi, y[rows], self.step)
        return scores

    def _embed(self) -> None:
        self.dictionary = np.array(self.points)
        e, V = np.linalg.eigh(self.kernel(self.dictionary))
        # e^-1/2 would amplify rounding errors.
        keep = np.flatnonzero(e > 1e-10 * e[-1])[-self.rank :]
        self.project = V[:, keep] / np.sqrt(e[keep])
        self.w = np.sqrt(e[keep]) * (V[:, keep].T @ np.array(self.a))
