"""The Gaussian kernel."""

from __future__ import annotations

from typing import Self

import numpy as np

from ovk._validation import Array, positive
from ovk.kernels.stationary import Stationary


class Gaussian(Stationary):
    """k(x, z) = exp(-|x - z|^2 / (2 l^2)).

    Parameters
    ----------
    length_scale : float, (p,) array or "median"
        l: one for all inputs or one for each. "median" takes the median distance between training inputs.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Gaussian
    >>> Gaussian(1.0)(np.array([[0.0], [1.0]])).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    def __init__(self, length_scale: float | Array | str = "median") -> None:
        self.length_scale = length_scale

    @classmethod
    def from_mu(cls, mu: float) -> Self:
        """The kernel in the letters of the online-learning papers, exp(-|x - z|^2 / mu).

        >>> Gaussian.from_mu(8.0)
        Gaussian(length_scale=2.0)
        """
        return cls(float(np.sqrt(positive(mu, "mu") / 2.0)))

    def _from_half_distances(self, h: Array) -> None:
        np.exp(h, out=h)

    def profile(self, s: Array, order: int = 0) -> Array:
        return (-0.5) ** order * np.exp(-0.5 * s)

    def sample_frequencies(self, n: int, p: int, rng: np.random.Generator) -> Array:
        return rng.standard_normal((n, p)) / self.scale(p)
