"""The Laplacian kernel of the L1 distance."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.spatial.distance import cdist

from ovk._params import dense_inputs, positive
from ovk._types import Array
from ovk.kernels.base import ScalarKernel
from ovk.kernels.stationary import median_distance
from ovk.kernels.tiles import over_rows


class Laplacian(ScalarKernel):
    """k(x, z) = exp(-|x - z|_1 / l), the L1 distance (as scikit-learn's `laplacian_kernel` with gamma = 1/l).

    For the exponential of the Euclidean distance use ``Matern(nu=0.5)``.

    Parameters
    ----------
    length_scale : float or "median"
        l; "median" takes the median L1 distance between training inputs.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Laplacian
    >>> Laplacian(2.0)(np.array([[0.0, 0.0], [1.0, 1.0]])).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    def __init__(self, length_scale: float | str = "median") -> None:
        self.length_scale = length_scale

    def _is_median(self) -> bool:
        return isinstance(self.length_scale, str) and self.length_scale == "median"

    def _scale(self) -> float:
        if self._is_median():
            raise ValueError(
                "length_scale='median' of Laplacian is learned from training inputs: fit an estimator, or call "
                "kernel.resolve(X) and use the kernel that it returns"
            )
        return positive(self.length_scale, "length_scale")

    def _distances(self, X: Any, Z: Any | None) -> Array:
        X = dense_inputs(X, "Laplacian")
        Z = X if Z is None else dense_inputs(Z, "Laplacian")
        out = np.empty((len(X), len(Z)))

        def work(start: int, stop: int) -> None:
            cdist(X[start:stop], Z, "cityblock", out=out[start:stop])

        over_rows(work, len(X), len(Z))
        return out

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        scale = self._scale()
        values = self._distances(X, Z)
        values *= -1.0 / scale
        return np.exp(values, out=values)

    def diag(self, X: Any) -> Array:
        self._scale()
        return np.ones(len(X))

    def norm_bound(self) -> float:
        return 1.0

    def resolve(self, X: Any) -> Self:
        if not self._is_median():
            return self
        return type(self)(median_distance(X, "cityblock"))

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Array]:
        ratio = self._distances(X, Z) / self._scale()
        return {"length_scale": np.exp(-ratio) * ratio / self._scale()}

    def sample_frequencies(self, n: int, p: int, rng: np.random.Generator) -> Array:
        """n draws, (n, p), from the spectral density: independent Cauchy coordinates."""
        return rng.standard_cauchy((n, p)) / self._scale()
