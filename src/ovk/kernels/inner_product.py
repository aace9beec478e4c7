"""Kernels of the inner product <x, z>: polynomials of it, itself, and Tanimoto's part of the union."""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk.base import Array, check_int, positive
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
        degree = check_int(self.degree, "degree")
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


class Tanimoto(ScalarKernel):
    """k(x, z) = <x, z> / (|x|^2 + |z|^2 - <x, z>).

    For binary vectors this is the size of the intersection over the size of the union (Jaccard); counts and other
    real vectors, dense or scipy sparse, are welcome too. Two empty fingerprints are alike: k(0, 0) = 1.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Tanimoto
    >>> Tanimoto()(np.array([[1, 1, 0], [0, 1, 1]])).round(4)
    array([[1.    , 0.3333],
           [0.3333, 1.    ]])
    """

    def _parts(self, X: Any, Z: Any | None) -> tuple[Array, Array]:
        inner = products(X, Z)
        norms = square_norms(X)
        union = norms[:, None] + (norms if Z is None else square_norms(Z))[None, :] - inner
        return inner, union

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        inner, union = self._parts(X, Z)
        # The union is zero only where both vectors are.
        return np.divide(inner, union, out=np.ones_like(inner), where=union > 0)

    def diag(self, X: Any) -> Array:
        return np.ones(X.shape[0])

    def norm_bound(self) -> float:
        return 1.0

    def slopes(self, X: Any, Z: Any) -> list[Slope]:
        # d/dx <x,z>/u = z/u - <x,z> (2x - z)/u^2
        inner, union = self._parts(X, Z)
        safe = np.where(union > 0, union, 1.0)
        return [Slope(1.0 / safe + inner / safe**2, -2.0 * inner / safe**2, 1.0)]


# The constant kernel, which is an intercept.


class Intercept(ScalarKernel):
    """k(x, z) = v: an intercept that is penalised, the less the larger v is.

    In ``(Gaussian() + Intercept(100.0)) * T`` the intercept is as smooth as T makes everything else.

    Parameters
    ----------
    variance : float > 0
        v, the prior variance of the constant.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Intercept
    >>> Intercept(3.0)(np.zeros((2, 1)))
    array([[3., 3.],
           [3., 3.]])
    """

    def __init__(self, variance: float = 1.0) -> None:
        self.variance = variance

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        return np.full((X.shape[0], (X if Z is None else Z).shape[0]), positive(self.variance, "variance"))

    def diag(self, X: Any) -> Array:
        return np.full(X.shape[0], positive(self.variance, "variance"))

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Array]:
        return {"variance": np.ones((X.shape[0], (X if Z is None else Z).shape[0]))}

    def slopes(self, X: Any, Z: Any) -> list[Slope]:
        return []

    def norm_bound(self) -> float:
        return positive(self.variance, "variance")
