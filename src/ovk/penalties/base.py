"""The contract of a penalty on a matrix of coefficients or on an operator."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ovk._params import Parameters
from ovk._validation import Array


class Penalty(Parameters, ABC):
    """A convex function Omega(C) with a proximal step in closed form."""

    @abstractmethod
    def value(self, C: Array) -> float:
        """Omega(C); inf outside its domain."""

    @abstractmethod
    def prox(self, C: Array, step: float) -> Array:
        """argmin over P of |P - C|^2 / 2 + step Omega(P); never changes C."""
