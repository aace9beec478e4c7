"""Losses of numbers: squared, Huber, epsilon-insensitive and pinball."""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk._params import positive
from ovk._types import Array
from ovk.losses.base import Loss, change_at_kinks, residuals


class Squared(Loss):
    """1/2 |f - y|^2.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.losses import Squared
    >>> Y, F = np.array([[1.0, np.nan]]), np.array([[3.0, 5.0]])
    >>> Squared().value(Y, F), Squared().gradient(Y, F)
    (array([2.]), array([[2., 0.]]))
    """

    smoothness = 1.0

    def value(self, Y: Array, F: Array) -> Array:
        values: Array = 0.5 * np.square(residuals(Y, F)).sum(axis=1)
        return values

    def gradient(self, Y: Array, F: Array) -> Array:
        return residuals(Y, F)

    def of_row(self, y: Array, f: Array) -> tuple[float, Array]:
        residual = f - y
        return 0.5 * float(residual.dot(residual)), residual


class Huber(Loss):
    """Squared near zero, linear beyond `delta`, output by output: outliers pull with bounded force.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.losses import Huber
    >>> Huber(1.0).gradient(np.zeros((1, 2)), np.array([[0.5, 7.0]]))
    array([[0.5, 1. ]])
    """

    smoothness = 1.0

    def __init__(self, delta: float = 1.0) -> None:
        self.delta = delta

    def _delta(self) -> float:
        return positive(self.delta, "delta")

    def value(self, Y: Array, F: Array) -> Array:
        delta, size = self._delta(), np.abs(residuals(Y, F))
        values: Array = (0.5 * np.minimum(size, delta) ** 2 + delta * np.maximum(size - delta, 0.0)).sum(axis=1)
        return values

    def gradient(self, Y: Array, F: Array) -> Array:
        delta = self._delta()
        return np.clip(residuals(Y, F), -delta, delta)

    def lipschitz(self, d: int) -> float:
        return float(self._delta() * np.sqrt(d))

    def check(self, Y: Array) -> None:
        self._delta()


class EpsilonInsensitive(Loss):
    """max(|f - y| - epsilon, 0), output by output, or of the norm of all outputs together (``joint=True``).

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.losses import EpsilonInsensitive
    >>> EpsilonInsensitive(1.0).value(np.zeros((1, 2)), np.array([[3.0, 4.0]]))
    array([5.])
    >>> EpsilonInsensitive(1.0, joint=True).value(np.zeros((1, 2)), np.array([[3.0, 4.0]]))
    array([4.])
    """

    def __init__(self, epsilon: float = 0.1, joint: bool = False) -> None:
        self.epsilon = epsilon
        self.joint = joint

    def _epsilon(self) -> float:
        return positive(self.epsilon, "epsilon", zero=True)

    def value(self, Y: Array, F: Array) -> Array:
        residual = residuals(Y, F)
        size = np.hypot.reduce(residual, axis=1, keepdims=True) if self.joint else np.abs(residual)
        # A missing output has residual 0, and with it no loss.
        values: Array = np.maximum(size - self._epsilon(), 0.0).sum(axis=1)
        return values

    def gradient(self, Y: Array, F: Array) -> Array:
        residual = residuals(Y, F)
        if self.joint:
            size = np.hypot.reduce(residual, axis=1, keepdims=True)
            return np.where(size > self._epsilon(), residual / np.maximum(size, 1e-300), 0.0)
        return np.where(np.abs(residual) > self._epsilon(), np.sign(residual), 0.0)

    def lipschitz(self, d: int) -> float:
        return 1.0 if self.joint else float(np.sqrt(d))

    def variation(self, Y: Array, F: Array, radius: Array) -> Array:
        residual, epsilon = np.abs(residuals(Y, F)), self._epsilon()
        if not self.joint:
            # One kink away the gradient changes by 1; beyond the further one, from outside, its sign turns.
            within = radius[:, None]
            near = (np.abs(residual - epsilon) <= within) & ~np.isnan(Y)
            far = near & (residual > epsilon) & (residual + epsilon <= within)
            result: Array = np.sqrt((near + 3.0 * far).sum(axis=1))
            return result
        size = np.hypot.reduce(residual, axis=1)
        # Inside the ball the gradient is zero; outside, a unit vector that turns by radius / (size - radius) at most.
        outside = size - radius > epsilon
        turn = np.divide(radius, size - radius, out=np.full_like(size, 2.0), where=outside)
        return np.where(size + radius < epsilon, 0.0, np.where(outside, np.minimum(turn, 2.0), 2.0))

    def check(self, Y: Array) -> None:
        self._epsilon()


class Pinball(Loss):
    """Quantile regression: output q estimates the quantile tau_q.

    Parameters
    ----------
    quantiles : float or one in (0, 1) for each output

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.losses import Pinball
    >>> Pinball([0.1, 0.9]).value(np.array([[1.0, 1.0]]), np.array([[0.0, 0.0]]))
    array([1.])
    """

    def __init__(self, quantiles: Any = 0.5) -> None:
        self.quantiles = quantiles

    def _tau(self, d: int) -> Array:
        tau = np.asarray(self.quantiles, dtype=np.float64)
        if tau.ndim > 1 or (tau.ndim == 1 and len(tau) != d) or not ((tau > 0) & (tau < 1)).all():
            raise ValueError(
                f"quantiles must lie in (0, 1), one or one for each of the {d} outputs, got {self.quantiles!r}"
            )
        return np.broadcast_to(tau, (d,))

    def value(self, Y: Array, F: Array) -> Array:
        tau, residual = self._tau(F.shape[1]), -residuals(Y, F)
        values: Array = np.maximum(tau * residual, (tau - 1.0) * residual).sum(axis=1)
        return values

    def gradient(self, Y: Array, F: Array) -> Array:
        tau, residual = self._tau(F.shape[1]), -residuals(Y, F)
        return np.where(residual > 0, -tau, np.where(residual < 0, 1.0 - tau, 0.0))

    def lipschitz(self, d: int) -> float:
        tau = self._tau(d)
        return float(np.linalg.norm(np.maximum(tau, 1.0 - tau)))

    def variation(self, Y: Array, F: Array, radius: Array) -> Array:
        return change_at_kinks(np.abs(residuals(Y, F)), Y, radius)

    def check(self, Y: Array) -> None:
        self._tau(Y.shape[1])
