"""The loss of novelty detection."""

from __future__ import annotations

import numpy as np

from ovk._validation import Array, in_interval
from ovk.losses.base import Loss, apart


class Novelty(Loss):
    """max(0, rho - f) - nu rho: one-class learning, where f < rho says that an input is new (NORMA).

    The threshold rho is learned along with f and takes the place of the target: a fraction nu of the inputs ends up
    below it.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.losses import Novelty
    >>> Novelty(0.1).gradient(np.array([[1.0]]), np.array([[0.5]]))
    array([[-1.]])
    """

    unsupervised = True

    def __init__(self, nu: float = 0.1) -> None:
        self.nu = nu

    def _nu(self) -> float:
        return in_interval(self.nu, "nu", 0.0, 1.0)

    def value(self, Y: Array, F: Array) -> Array:
        values: Array = (np.maximum(Y - F, 0.0) - self._nu() * Y).sum(axis=1)
        return values

    def gradient(self, Y: Array, F: Array) -> Array:
        return np.where(F < Y, -1.0, 0.0)

    def threshold_slope(self, rho: float, f: float) -> float:
        """Derivative in rho."""
        return (1.0 if f < rho else 0.0) - self._nu()

    def check(self, Y: Array) -> None:
        self._nu()

    def lipschitz(self, d: int) -> float:
        return float(np.sqrt(d))

    def variation(self, Y: Array, F: Array, radius: Array) -> Array:
        return apart(np.abs(Y - F), Y, radius)
