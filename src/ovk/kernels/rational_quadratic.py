"""The rational quadratic kernel: a mixture of Gaussian kernels of all widths."""

from __future__ import annotations

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

    def profile(self, s: Array, order: int = 0) -> Array:
        # phi^(k) = (-1/2)^k [a (a+1) ... (a+k-1) / a^k] (1 + s / 2a)^(-a-k)
        a = positive(self.alpha, "alpha")
        rising = float(np.prod(a + np.arange(order))) / a**order
        return (-0.5) ** order * rising * (1.0 + s / (2.0 * a)) ** (-a - order)

    def shape_gradient(self, s: Array, order: int = 0) -> dict[str, Array]:
        # d log|phi^(k)| / da, times phi^(k)
        a = positive(self.alpha, "alpha")
        base = 1.0 + s / (2.0 * a)
        constant = float(np.sum(1.0 / (a + np.arange(order)))) - order / a
        relative = constant - np.log(base) + (a + order) * s / (2.0 * a**2 * base)
        return {"alpha": self.profile(s, order) * relative}

    def sample_frequencies(self, n: int, p: int, rng: np.random.Generator) -> Array:
        # k is the mean of exp(-tau r^2 / 2 l^2) over tau ~ Gamma(a, rate a).
        a = positive(self.alpha, "alpha")
        precision = rng.gamma(a, 1.0 / a, size=(n, 1))
        return rng.standard_normal((n, p)) * np.sqrt(precision) / self.scale(p)
