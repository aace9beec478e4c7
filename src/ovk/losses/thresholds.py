"""Losses with a number of their own that is learned along with f: the threshold of novelty detection, the margin of
nu-classification, the tube of nu-regression (NORMA)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from ovk._params import in_interval, positive
from ovk._types import Array
from ovk.losses.base import Loss, change_at_kinks, residuals
from ovk.losses.margin import Hinge
from ovk.losses.regression import EpsilonInsensitive


class ThresholdLoss(Loss, saved=False):
    """A convex loss of f and a threshold theta. A learner takes gradient steps in both.

    The loss counts theta with the weight nu, so that theta settles where a share nu of the outputs lies on its wrong
    side.
    """

    #: Theta is not let below this.
    lowest = -np.inf

    nu: float

    def _nu(self) -> float:
        return in_interval(self.nu, "nu", 0.0, 1.0)

    def start(self) -> float:
        """Theta before the first step."""
        return 0.0

    @abstractmethod
    def at(self, Y: Array, theta: Array) -> tuple[Array, Loss]:
        """The targets and the loss of rows with thresholds theta, (n,)."""

    @abstractmethod
    def threshold_slope(self, theta: float, f: Any, y: Any = 0.0) -> float:
        """Derivative in theta, of one row."""


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


class NuHinge(ThresholdLoss, Hinge):
    """max(0, rho - y f) - nu rho, labels -1 and 1: the margin rho is learned, and a share nu of the rows falls short
    of it.

    Parameters
    ----------
    nu : float in [0, 1]
    margin : float
        Where rho starts.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.losses import NuHinge
    >>> loss = NuHinge(0.2, margin=0.5)
    >>> loss.value(np.array([[1.0]]), np.array([[0.2]])).round(3), loss.threshold_slope(0.5, 0.2, 1.0)
    (array([0.2]), 0.8)
    """

    def __init__(self, nu: float = 0.1, margin: Any = 1.0) -> None:
        self.nu = nu
        self.margin = margin

    def start(self) -> float:
        return float(self.margin)

    def at(self, Y: Array, theta: Array) -> tuple[Array, Loss]:
        return Y, NuHinge(self.nu, theta[:, None])

    def value(self, Y: Array, F: Array) -> Array:
        values: Array = super().value(Y, F) - np.where(np.isnan(Y), 0.0, self._nu() * self.margin).sum(axis=1)
        return values

    def of_row(self, y: Array, f: Array) -> tuple[float, Array]:
        value, gradient = super().of_row(y, f)
        return value - self._nu() * float(np.sum(np.broadcast_to(self.margin, y.shape))), gradient

    def threshold_slope(self, theta: float, f: Any, y: Any = 0.0) -> float:
        seen = ~np.isnan(y)
        return float((((np.nan_to_num(y) * f < theta) - self._nu()) * seen).sum())

    def check(self, Y: Array) -> None:
        self._nu()
        super().check(Y)


class NuInsensitive(ThresholdLoss, EpsilonInsensitive):
    """max(|f - y| - epsilon, 0) + nu epsilon: the tube's half width epsilon is learned, and a share nu of the outputs
    lies outside it.

    Parameters
    ----------
    nu : float in [0, 1]
    epsilon : float >= 0
        Where the half width starts.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.losses import NuInsensitive
    >>> loss = NuInsensitive(0.2, epsilon=1.0)
    >>> loss.value(np.array([[0.0]]), np.array([[3.0]])), loss.threshold_slope(1.0, 3.0)
    (array([2.2]), -0.8)
    """

    joint = False
    lowest = 0.0

    def __init__(self, nu: float = 0.1, epsilon: Any = 0.1) -> None:
        self.nu = nu
        self.epsilon = epsilon

    def start(self) -> float:
        return positive(self.epsilon, "epsilon", zero=True)

    def _epsilon(self) -> Any:
        return self.epsilon

    def at(self, Y: Array, theta: Array) -> tuple[Array, Loss]:
        return Y, NuInsensitive(self.nu, theta[:, None])

    def value(self, Y: Array, F: Array) -> Array:
        widths = np.where(np.isnan(Y), 0.0, self._nu() * self.epsilon).sum(axis=1)
        values: Array = super().value(Y, F) + widths
        return values

    def threshold_slope(self, theta: float, f: Any, y: Any = 0.0) -> float:
        outside = np.abs(residuals(np.asarray(y), np.asarray(f))) > theta
        return float(((self._nu() - outside) * ~np.isnan(y)).sum())

    def check(self, Y: Array) -> None:
        self._nu()
        self.start()
