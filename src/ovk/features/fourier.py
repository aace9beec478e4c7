"""Random Fourier features of stationary kernels.

A stationary kernel is the mean of waves over its spectral density, k(x, z) = c E cos(w . (x - z)), c = k(x, x). Sums,
products and multiples of such kernels are of the same form: a sum draws from the density of one of its terms, chosen
with odds c_1 : c_2, a product adds a frequency of each (the density of a product is a convolution).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from ovk._params import Registered, check_int, dense_inputs, positive
from ovk._types import Array
from ovk.kernels import Product, ScalarKernel, Scaled, Sum


@dataclass(frozen=True)
class FourierMap(Registered):
    """phi(x) = sqrt(c / n) [cos(w_1 . x), ..., cos(w_n . x), sin(w_1 . x), ..., sin(w_n . x)], w_j drawn at random.

    <phi(x), phi(z)> is the mean of n independent draws of c cos(w . (x - z)): unbiased, with variance
    (c^2 + c k(2 (x - z)) - 2 k(x - z)^2) / (2 n), k written as a function of the difference; it is off by more than
    e with a chance of at most 2 exp(-n e^2 / (2 c^2)).

    Attributes
    ----------
    kernel : stationary kernel
    frequencies : (n, p) the draws themselves, so that a saved map is the same map
    mass : c = k(x, x)

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.features import FourierMap
    >>> from ovk.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((5, 2))
    >>> phi = FourierMap.from_kernel(Gaussian(1.0), n=2000, p=2, rng=0).transform(X)
    >>> phi.shape, bool(np.abs(phi @ phi.T - Gaussian(1.0)(X)).max() < 0.1)
    ((5, 4000), True)
    """

    kernel: ScalarKernel
    frequencies: Array
    mass: float

    @classmethod
    def from_kernel(cls, kernel: ScalarKernel, n: int, p: int, rng: Any = None) -> Self:
        """Draw n frequencies for inputs (., p); `rng` is a `numpy.random.Generator` or a seed."""
        n, p = check_int(n, "n"), check_int(p, "p")
        mass, frequencies = draw_frequencies(kernel, n, p, np.random.default_rng(rng))
        return cls(kernel, frequencies, mass)

    @property
    def n_features(self) -> int:
        """m = 2 n"""
        return 2 * len(self.frequencies)

    def transform(self, X: Any) -> Array:
        """Features, (N, 2 n)."""
        size = float(np.sqrt(self.mass / len(self.frequencies)))
        return size * waves(dense_inputs(X, "FourierMap"), self.frequencies)


def waves(X: Array, frequencies: Array) -> Array:
    """[cos(X W'), sin(X W')], (N, 2 n)."""
    if X.ndim != 2 or X.shape[1] != frequencies.shape[1]:
        raise ValueError(f"this map is for inputs (n, {frequencies.shape[1]}), got an array of shape {X.shape}")
    n = len(frequencies)
    out = np.empty((len(X), 2 * n))
    phases = X @ frequencies.T
    np.cos(phases, out=out[:, :n])
    np.sin(phases, out=out[:, n:])
    return out


@runtime_checkable
class _Spectral(Protocol):
    def sample_frequencies(self, n: int, p: int, rng: np.random.Generator) -> Array: ...


def draw_frequencies(kernel: Any, n: int, p: int, rng: np.random.Generator) -> tuple[float, Array]:
    """c and n draws w, (n, p), with k(x, z) = c E cos(w . (x - z)).

    >>> from ovk.kernels import Gaussian, Matern
    >>> c, W = draw_frequencies(2.0 * Gaussian(1.0) + Matern(1.5, 2.0), 100, 3, np.random.default_rng(0))
    >>> c, W.shape
    (3.0, (100, 3))
    """
    if isinstance(kernel, Scaled):
        mass, W = draw_frequencies(kernel.kernel, n, p, rng)
        return positive(kernel.factor, "factor", zero=True) * mass, W
    if isinstance(kernel, Sum | Product):
        a, left = draw_frequencies(kernel.left, n, p, rng)
        b, right = draw_frequencies(kernel.right, n, p, rng)
        if isinstance(kernel, Product):
            return a * b, left + right
        chosen = rng.random((n, 1)) * (a + b) < a
        return a + b, np.where(chosen, left, right)
    if isinstance(kernel, _Spectral):
        return 1.0, kernel.sample_frequencies(n, p, rng)
    raise ValueError(
        f"Fourier features are for stationary kernels (Gaussian, Matern, Laplacian, RationalQuadratic, their sums, "
        f"products and multiples), got {kernel!r}: use Nystrom features for others"
    )


@dataclass(frozen=True)
class LinearFourierMap(Registered):
    """phi(x) = [sqrt(w), sqrt(w) x, psi(x)], so that <phi(x), phi(z)> approximates w (1 + <x, z>) + k(x, z).

    Attributes
    ----------
    fourier : psi, random Fourier features of k, or None for linear functions alone
    weight : w

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.features import LinearFourierMap
    >>> phi = LinearFourierMap(None, 4.0).transform(np.array([[3.0]]))
    >>> phi
    array([[2., 6.]])
    """

    fourier: FourierMap | None
    weight: float

    def transform(self, X: Array) -> Array:
        """Features, (n, 1 + p + 2 waves)."""
        X = dense_inputs(X, "LinearFourierMap")
        root = sqrt(self.weight)
        parts = [np.full((len(X), 1), root), root * X]
        if self.fourier is not None:
            parts.append(self.fourier.transform(X))
        return np.hstack(parts)
