"""The rational quadratic kernel: a mixture of Gaussian kernels of all widths."""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk._validation import Array, positive
from ovk.kernels.stationary import Stationary


class RationalQuadratic(Stationary):
    """k(x, z) = (1 + |x - z|^2 / (2 a l^2))^(-a).

    Parameters
    ----------
    alpha : float > 0
        a: small values mix many widths, large values approach the Gaussian kernel.
    length_scale : float, (p,) array or "median"

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import RationalQuadratic
    >>> RationalQuadratic(alpha=1.0, length_scale=1.0)(np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.3333],
           [0.3333, 1.    ]])
    """

    def __init__(self, alpha: float = 1.0, length_scale: float | Array | str = "median") -> None:
        self.alpha = alpha
        self.length_scale = length_scale

    def unit_profile(self, s: Array, order: int = 0) -> Array:
        # phi^(k) = (-1/2)^k [a (a+1) ... (a+k-1) / a^k] (1 + s / 2a)^(-a-k)
        a = positive(self.alpha, "alpha")
        rising = float(np.prod(a + np.arange(order))) / a**order
        return (-0.5) ** order * rising * (1.0 + s / (2.0 * a)) ** (-a - order)

    def _log_derivative(self, s: Array, order: int) -> Array:
        """d log|phi^(k)| / da."""
        a = positive(self.alpha, "alpha")
        base = 1.0 + s / (2.0 * a)
        constant = float(np.sum(1.0 / (a + np.arange(order)))) - order / a
        result: Array = constant - np.log(base) + (a + order) * s / (2.0 * a**2 * base)
        return result

    def profile_gradient(self, r2: Array, order: int = 0) -> dict[str, Array]:
        s = r2 / self.single_scale() ** 2
        change = self.profile(r2, order) * self._log_derivative(s, order)
        return {"alpha": change, **super().profile_gradient(r2, order)}

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Array]:
        s = self.scaled_distances(X, Z)
        return {"alpha": self.unit_profile(s) * self._log_derivative(s, 0), **super().gradient(X, Z)}

    def sample_frequencies(self, n: int, p: int, rng: np.random.Generator) -> Array:
        # k is the mean of exp(-tau r^2 / 2 l^2) over tau ~ Gamma(a, rate a).
        a = positive(self.alpha, "alpha")
        precision = rng.gamma(a, 1.0 / a, size=(n, 1))
        return rng.standard_normal((n, p)) * np.sqrt(precision) / self.scale(p)
