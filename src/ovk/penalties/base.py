"""The contract of a penalty on a matrix of coefficients or on an operator."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ovk._params import Parameters, positive
from ovk._types import Array


class Penalty(Parameters, ABC):
    """A convex function Omega(C) with a proximal step in closed form."""

    @abstractmethod
    def value(self, C: Array) -> float:
        """Omega(C); inf outside its domain."""

    @abstractmethod
    def prox(self, C: Array, step: float) -> Array:
        """argmin over P of |P - C|^2 / 2 + step Omega(P); never changes C."""


class WeightedPenalty(Penalty, saved=False):
    """A penalty that is proportional to a weight."""

    def __init__(self, weight: float = 1.0) -> None:
        self.weight = weight

    def _weight(self) -> float:
        return positive(self.weight, "weight", zero=True)
