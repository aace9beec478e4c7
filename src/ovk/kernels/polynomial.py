"""Kernels of an inner product: k(x, z) = g(<x, z>)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk._validation import Array, positive, whole
from ovk.kernels.base import ScalarKernel, Slope
from ovk.kernels.tiles import products, square_norms


class Polynomial(ScalarKernel):
    """k(x, z) = (gamma <x, z> + coef0)^degree.

    Parameters
    ----------
    degree : int >= 1
    gamma : float > 0
    coef0 : float >= 0

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Polynomial
    >>> Polynomial(degree=2)(np.array([[1.0], [2.0]]))
    array([[ 4.,  9.],
           [ 9., 25.]])
    """

    def __init__(self, degree: int = 2, gamma: float = 1.0, coef0: float = 1.0) -> None:
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0

    def _checked(self) -> tuple[int, float, float]:
        degree = whole(self.degree, "degree")
        return degree, positive(self.gamma, "gamma"), positive(self.coef0, "coef0", zero=True)

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        degree, gamma, coef0 = self._checked()
        return (gamma * products(X, Z) + coef0) ** degree

    def diag(self, X: Any) -> Array:
        degree, gamma, coef0 = self._checked()
        return (gamma * square_norms(X) + coef0) ** degree

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Array]:
        degree, gamma, coef0 = self._checked()
        inner = products(X, Z)
        outer = degree * (gamma * inner + coef0) ** (degree - 1)
        return {"gamma": outer * inner, "coef0": outer}

    def slopes(self, X: Any, Z: Any) -> list[Slope]:
        degree, gamma, coef0 = self._checked()
        return [Slope(degree * gamma * (gamma * products(X, Z) + coef0) ** (degree - 1), None, 1.0)]


class Linear(ScalarKernel):
    """k(x, z) = <x, z>.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Linear
    >>> Linear()(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[11.]])
    """

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        return products(X, Z)

    def diag(self, X: Any) -> Array:
        return square_norms(X)

    def slopes(self, X: Any, Z: Any) -> list[Slope]:
        return [Slope(np.ones((len(X), len(Z))), None, 1.0)]
