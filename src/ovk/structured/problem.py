"""Ridge regression into a feature space, as a problem about coordinates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ovk._validation import Array
from ovk.batch import OVKRidge
from ovk.features import NystromMap
from ovk.kernels import ScalarKernel
from ovk.operators import Identity, OutputOperator
from ovk.structured.coordinates import Coordinates
from ovk.structured.graph_penalty import penalised_dual, penalised_primal
from ovk.structured.leave_one_out import exact_path, smoother_path
from ovk.structured.outputs import Outputs, count, take


@dataclass(frozen=True)
class FeatureProblem:
    """Everything but alpha.

    Attributes
    ----------
    kernel : scalar kernel of the inputs
    X : (n, p) inputs, labelled ones first
    coordinates, outputs : of the labelled inputs
    operator : on the coordinates, None for the identity
    penalty : J'J + 2 alpha_graph L (see `graph_penalty`), None without
    landmarks : (m, p) points of Nystrom features, None for the exact solution
    intercept : learn a constant
    chunk_size : rows taken in at a time with landmarks
    """

    kernel: ScalarKernel
    X: Any
    coordinates: Coordinates
    outputs: Outputs
    operator: OutputOperator | None
    penalty: Any
    landmarks: Any
    intercept: bool
    chunk_size: int

    def solve(self, alpha: float) -> tuple[Any, Array, Array | None]:
        """Support (m, p), coefficients of the anchors (m, r), and their intercept (r,)."""
        support, C, b = self._ridge(alpha) if self.penalty is None else self._penalised(alpha)
        to = self.coordinates.to_anchors
        return support, to(C), None if b is None else to(b[None, :])[0]

    def _ridge(self, alpha: float) -> tuple[Any, Array, Array | None]:
        T = Identity(count(self.coordinates.anchors)) if self.operator is None else self.operator
        ridge = OVKRidge(self.kernel * T, alpha, fit_intercept=self.intercept, landmarks=self.landmarks)
        if self.landmarks is None:
            ridge.fit(self.X, self.coordinates.of(self.outputs))
        else:
            ridge.fit(self._chunks())
        C = ridge.dual_coef_
        return ridge.X_fit_, C if self.operator is None else self.operator.apply(C), ridge.intercept_

    def _penalised(self, alpha: float) -> tuple[Any, Array, Array | None]:
        targets = self.coordinates.of(self.outputs)
        if self.landmarks is None:
            return self.X, *penalised_dual(self.kernel(self.X), self.penalty, targets, alpha, self.intercept)
        features = NystromMap.from_points(self.kernel, self.landmarks)
        B, b = penalised_primal(features.transform(self.X), self.penalty, targets, alpha, self.intercept)
        return features.points, features.coefficients(B), b

    def _chunks(self) -> Iterator[tuple[Any, Array]]:
        n = self.X.shape[0]
        for start in range(0, n, self.chunk_size):
            rows = np.arange(start, min(start + self.chunk_size, n))
            yield self.X[rows], self.coordinates.of(take(self.outputs, rows))

    def left_out(self, alphas: Array) -> Array:
        """Mean squared left-out distance in the feature space for each alpha."""
        targets = self.coordinates.of(self.outputs)
        if self.landmarks is None and self.penalty is None:
            spectrum = None if self.operator is None else self.operator.eigh()
            path = exact_path(self.kernel(self.X), targets, spectrum, alphas, self.intercept)
        elif self.operator is not None:
            raise ValueError("a choice of alphas does not go with both landmarks and an operator: give one alpha")
        elif self.intercept:
            raise ValueError(
                "a choice of alphas with fit_intercept=True does not go with landmarks or alpha_graph > 0: give "
                "one alpha"
            )
        else:
            points = self.X if self.landmarks is None else self.landmarks
            Phi = NystromMap.from_points(self.kernel, points).transform(self.X)
            path = smoother_path(Phi, self.penalty, targets, alphas)
        return np.array([float(self.coordinates.squared_norms(R).mean()) for R in path])
