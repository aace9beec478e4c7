"""The contract of a loss."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ovk._params import Parameters
from ovk._types import Array


class Loss(Parameters, ABC):
    """A convex loss.

    Shapes: Y and F are (n, d), values (n,), gradients (n, d).
    """

    #: Lipschitz constant of the gradient in f, None where the gradient jumps.
    smoothness: float | None = None
    #: Targets are given by the learner, not by the data (novelty detection).
    unsupervised = False

    @abstractmethod
    def value(self, Y: Array, F: Array) -> Array:
        """Loss of each row."""

    @abstractmethod
    def gradient(self, Y: Array, F: Array) -> Array:
        """Derivative in F."""

    def of_row(self, y: Array, f: Array) -> tuple[float, Array]:
        """Loss and gradient (d,) of a single row, y and f (d,), without gaps."""
        Y, F = y[None], f[None]
        gradient: Array = self.gradient(Y, F)[0]
        return float(self.value(Y, F)[0]), gradient

    def lipschitz(self, d: int) -> float | None:
        """Largest norm that the gradient can have with d outputs, None when it is unbounded."""
        return None

    def variation(self, Y: Array, F: Array, radius: Array) -> Array:
        """How much the gradient can change between F and any point within `radius` (n,) of it."""
        bound = self.lipschitz(F.shape[1])
        steepest = np.full(len(F), np.inf) if self.smoothness is None else self.smoothness * radius
        return np.minimum(steepest, np.inf if bound is None else 2.0 * bound)

    def check(self, Y: Array) -> None:
        """Refuse parameters that make no sense, and targets that the loss does not understand."""


def residuals(Y: Array, F: Array) -> Array:
    """f - y, zero where y is missing."""
    return np.where(np.isnan(Y), 0.0, F - Y)


def change_at_kinks(distance: Array, Y: Array, radius: Array) -> Array:
    """Largest change within `radius` (n,) of a gradient whose entries jump by 1 at kinks `distance` (n, d) away."""
    crossed = (distance <= radius[:, None]) & ~np.isnan(Y)
    result: Array = np.sqrt(crossed.sum(axis=1))
    return result
