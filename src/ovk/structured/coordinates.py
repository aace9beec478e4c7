"""Outputs as rows of numbers that ridge regression can learn, and the way back to anchors.

Ridge regression into a feature space is linear in the outputs' features, so it is enough to learn the coordinates of
phi(y_i) in some family phi(z_1), ..., phi(z_r) of anchors, whatever their inner products:

    distinct outputs as anchors, coordinates 1 at the own anchor and 0 elsewhere: exact, any kernel;
    the unit vectors, coordinates y: exact for the linear kernel;
    landmarks z_j, coordinates L^-1 k(Z, y) in an orthonormal basis of their span: a sketch (Nystrom), and what an
    operator on the features needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from ovk._state import State
from ovk._types import Array, Outputs
from ovk.features import NystromMap
from ovk.features.nystrom import independent
from ovk.kernels import ScalarKernel
from ovk.structured.outputs import hashable_keys, select_outputs


class Coordinates(State, ABC):
    """Coordinates of outputs."""

    anchors: Outputs

    @abstractmethod
    def transform(self, outputs: Outputs) -> Array:
        """(n, r) numbers to be learned."""

    def to_anchors(self, C: Array) -> Array:
        """Coefficients of the anchors' features, from those of the coordinates; both (m, r). The same by default."""
        return C

    def squared_norms(self, R: Array) -> Array:
        """|sum_j R_ij f_j|^2 of rows of coordinates, (n,); by default for orthonormal f_j."""
        return np.asarray(np.einsum("ij,ij->i", R, R))


@dataclass(frozen=True)
class Distinct(Coordinates, kind="distinct outputs"):
    """Each distinct output is an anchor."""

    kernel: ScalarKernel
    anchors: Outputs

    def transform(self, outputs: Outputs) -> Array:
        numbers = {key: j for j, key in enumerate(hashable_keys(self.anchors))}
        E = np.zeros((len(found := hashable_keys(outputs)), len(numbers)))
        E[np.arange(len(found)), [numbers[key] for key in found]] = 1.0
        return E

    def squared_norms(self, R: Array) -> Array:
        return np.asarray(np.einsum("ij,ij->i", R @ self.kernel(self.anchors), R))


@dataclass(frozen=True)
class Vectors(Coordinates, kind="vectors"):
    """The linear kernel: outputs are their own coordinates, and the unit vectors the anchors."""

    anchors: Array

    def transform(self, outputs: Outputs) -> Array:
        return outputs if isinstance(outputs, np.ndarray) else np.asarray(outputs.toarray())


@dataclass(frozen=True)
class Sketch(Coordinates, kind="sketch"):
    """Orthonormal coordinates in the span of the features of landmarks."""

    features: NystromMap

    @classmethod
    def from_landmarks(cls, kernel: ScalarKernel, landmarks: Outputs) -> Sketch:
        """The coordinates of these landmarks, without those that depend on the others."""
        keep, L = independent(kernel(landmarks))
        return cls(NystromMap(kernel, select_outputs(landmarks, keep), L))

    @property
    def anchors(self) -> Any:
        """The landmarks that were kept."""
        return self.features.points

    def transform(self, outputs: Outputs) -> Array:
        return self.features.transform(outputs)

    def to_anchors(self, C: Array) -> Array:
        return self.features.coefficients(C.T).T
