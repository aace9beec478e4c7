"""The constant kernel, which is an intercept."""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk._params import positive
from ovk._types import Array
from ovk.kernels.base import ScalarKernel, Slope


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
