"""Fourier online gradient descent (Lu, Hoi, Wang, Zhao and Liu, 2016)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ovk.features import FourierMap
from ovk.kernels import ScalarKernel

Array = npt.NDArray[np.float64]


class FOGD:
    """Hinge loss on random Fourier features, w <- w + step y phi(x) wherever y w'phi(x) < 1.

    Parameters
    ----------
    kernel : stationary kernel
    features : number of features, two for each frequency
    step : of the gradient descent
    """

    def __init__(self, kernel: ScalarKernel, features: int, step: float, seed: int = 0) -> None:
        self.kernel, self.features, self.step, self.seed = kernel, features, step, seed
        self.map: FourierMap | None = None

    def predict_then_learn(self, X: Array, y: Array) -> Array:
        """(n,) scores, each from the rows before it; their sign is the class."""
        if self.map is None:
            self.map = FourierMap.from_kernel(self.kernel, self.features // 2, X.shape[1], self.seed)
            self.w = np.zeros(self.map.m)
        scores = np.empty(len(X))
        for start in range(0, len(X), 256):
            phi = self.map.transform(X[start : start + 256])
            scores[start : start + 256] = hinge_descent(self.w, phi, y[start : start + 256], self.step)
        return scores


def hinge_descent(w: Array, phi: Array, y: Array, step: float) -> Array:
    """Scores of rows of features, one after the other; `w` is moved in place."""
    scores = np.empty(len(phi))
    for i, row in enumerate(phi):
        scores[i] = w @ row
        if y[i] * scores[i] < 1.0:
            w += (step * y[i]) * row
    return scores
