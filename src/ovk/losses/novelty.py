"""The loss of novelty detection."""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk._types import Array
from ovk.losses.base import Loss, change_at_kinks
from ovk.losses.thresholds import ThresholdLoss


class Novelty(ThresholdLoss):
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

    def at(self, Y: Array, theta: Array) -> tuple[Array, Loss]:
        return theta[:, None], self

    def value(self, Y: Array, F: Array) -> Array:
        values: Array = (np.maximum(Y - F, 0.0) - self._nu() * Y).sum(axis=1)
        return values

    def gradient(self, Y: Array, F: Array) -> Array:
        return np.where(F < Y, -1.0, 0.0)

    def threshold_slope(self, theta: float, f: Any, y: Any = 0.0) -> float:
        return float((np.asarray(f) < theta).sum() - np.size(f) * self._nu())

    def check(self, Y: Array) -> None:
        self._nu()

    def lipschitz(self, d: int) -> float:
        return float(np.sqrt(d))

    def variation(self, Y: Array, F: Array, radius: Array) -> Array:
        return change_at_kinks(np.abs(Y - F), Y, radius)
