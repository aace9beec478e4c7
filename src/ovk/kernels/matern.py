"""The Matern family: Sobolev spaces as kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gamma, kv

from ovk._params import positive
from ovk._types import Array
from ovk.kernels.base import NotDifferentiable, Slope
from ovk.kernels.stationary import Stationary

#: Beyond this smoothness the kernel is the Gaussian one to all practical purposes, and its constants overflow.
LARGEST_NU = 100.0
#: Squared distances below this are taken as this where a derivative of a rough kernel is infinite at zero.
TINY = 1e-28


class Matern(Stationary):
    """k(x, z) = 2^(1-nu) / Gamma(nu) r^nu K_nu(r), r = sqrt(2 nu) |x - z| / l.

    nu = 1/2 is exp(-|x - z| / l); larger nu means smoother functions; nu -> infinity is the Gaussian kernel.

    Parameters
    ----------
    nu : float in (0, 100]
        Smoothness. 1/2, 3/2, 5/2, ... are fast; other values need Bessel functions.
    length_scale : float, (p,) array or "median"

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Matern
    >>> Matern(nu=0.5, length_scale=2.0)(np.array([[0.0], [1.0]])).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    def __init__(self, nu: float = 1.5, length_scale: float | Array | str = "median") -> None:
        self.nu = nu
        self.length_scale = length_scale

    def _nu(self) -> float:
        nu = positive(self.nu, "nu")
        if nu > LARGEST_NU:
            raise ValueError(f"nu must be at most {LARGEST_NU:g}, got {self.nu!r}: use a Gaussian kernel instead")
        return nu

    @property
    def rough(self) -> bool:
        return self._nu() < 1.0

    def profile(self, s: Array, order: int = 0) -> Array:
        # With M_a(r) = r^a K_a(r):  (1/r) d/dr M_a = -M_(a-1)  and  s = r^2 / (2 nu),  so
        # phi^(k)(s) = (-nu)^k 2^(1-nu) / Gamma(nu) M_(nu-k)(r).
        nu = self._nu()
        if order >= nu:
            s = np.maximum(s, TINY)
        result: Array = (
            (-nu) ** order * 2.0 ** (1.0 - nu) / gamma(nu) * _scaled_bessel(nu - order, np.sqrt(2.0 * nu * s))
        )
        return result

    def slopes(self, X: Any, Z: Any) -> list[Slope]:
        if self._nu() <= 0.5:
            raise NotDifferentiable(f"a Matern kernel has a Jacobian for nu > 1/2, got nu={self.nu}")
        return super().slopes(X, Z)

    def sample_frequencies(self, n: int, p: int, rng: np.random.Generator) -> Array:
        # The spectral density is a multivariate t with 2 nu degrees of freedom.
        nu = self._nu()
        spread = np.sqrt(2.0 * nu / rng.chisquare(2.0 * nu, size=(n, 1)))
        return rng.standard_normal((n, p)) * spread / self.scale(p)


def _scaled_bessel(a: float, r: Array) -> Array:
    """r^a K_a(r) for any real a; its limit 2^(a-1) Gamma(a) at r = 0 when a > 0."""
    if a < 0:
        return r ** (2.0 * a) * _scaled_bessel(-a, r)
    # Far out the value is zero; a power of r must not overflow on the way there.
    r = np.minimum(r, 800.0)
    if (a - 0.5).is_integer():
        # sqrt(pi/2) e^-r theta_n(r), theta the reverse Bessel polynomials.
        previous, theta = np.ones_like(r), np.ones_like(r)
        for k in range(1, round(a - 0.5) + 1):
            previous, theta = theta, (r + 1.0 if k == 1 else (2 * k - 1) * theta + r**2 * previous)
        return np.asarray(np.sqrt(np.pi / 2.0) * np.exp(-r) * theta)
    if a > 2.0:
        # K_a(r) itself overflows for small r: climb from a smaller order, M_(b+1) = 2 b M_b + r^2 M_(b-1).
        b = a - np.floor(a) + 1.0
        previous, value = _scaled_bessel(b - 1.0, r), _scaled_bessel(b, r)
        while b < a - 0.5:
            previous, value = value, 2.0 * b * value + r**2 * previous
            b += 1.0
        return value
    positive_r = np.maximum(r, 1e-150 if a > 0 else np.sqrt(TINY))
    bessel: Array = positive_r**a * kv(a, positive_r)
    return np.where(r > 1e-150, bessel, 2.0 ** (a - 1.0) * gamma(a)) if a > 0 else bessel
