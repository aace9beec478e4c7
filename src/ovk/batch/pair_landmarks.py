"""Nystrom ridge for any kernel: one scalar ridge on pairs of a point and an output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ovk._validation import Array, Indices
from ovk.batch.landmark_sums import LandmarkRidge
from ovk.features import OperatorNystromMap
from ovk.solvers import SolverInfo
from ovk.solvers.cholesky import Triangle, triangle


@dataclass
class PairLandmarks(LandmarkRidge):
    """Sums for any kernel: one scalar ridge on the features of pairs of a point and an output.

    A ridge of its own for each output scales its rows, so each output keeps its own sums.

    Attributes
    ----------
    S : (d, m + 1, m + 1) sum of w phi phi'; the last feature is the constant 1
    B : (d, m + 1) sum of w phi y
    """

    features: OperatorNystromMap
    S: Array
    B: Array

    @classmethod
    def empty(cls, features: OperatorNystromMap, d: int) -> Self:
        """No data yet."""
        m = len(features.L)
        return cls(features, np.zeros((d, m + 1, m + 1)), np.zeros((d, m + 1)))

    def add(self, X: Any, Y: Array, weight: Array | None) -> None:
        phi = self._features(X)
        for q in range(len(self.S)):
            rows = ~np.isnan(Y[:, q])
            self._add(q, phi[rows, q], Y[rows, q], None if weight is None else weight[rows])

    def add_pairs(self, X: Any, task: Indices, y: Array, weight: Array | None) -> None:
        phi = self._features(X)
        for q in np.unique(task):
            rows = task == q
            self._add(int(q), phi[rows, q], y[rows], None if weight is None else weight[rows])

    def _features(self, X: Any) -> Array:
        """(n, d, m + 1)"""
        n, d = X.shape[0], len(self.S)
        phi = self.features.transform(X).reshape(n, d, -1)
        return np.concatenate([phi, np.ones((n, d, 1))], axis=2)

    def _add(self, q: int, phi: Array, y: Array, weight: Array | None) -> None:
        weighted = phi if weight is None else phi * weight[:, None]
        self.S[q] += weighted.T @ phi
        self.B[q] += weighted.T @ y

    def _factor(self, inverse: Array, intercept: bool) -> Triangle:
        """Factor of I + sum_q S_q / alpha_q, bordered by the intercepts."""
        m = self.S.shape[1] - 1

        def make() -> Array:
            A: Array = np.tensordot(inverse, self.S[:, :m, :m], axes=1)
            A[np.diag_indices_from(A)] += 1.0
            if not intercept:
                return A
            side = (self.S[:, :m, m] * inverse[:, None]).T
            return np.block([[A, side], [side.T, np.diag(self.S[:, m, m] * inverse)]])

        return triangle(make, 0.0)

    def _inverse(self, alpha: float | Array) -> Array:
        if isinstance(alpha, float) and alpha == 0:
            raise ValueError("alpha must be > 0 with landmarks and a kernel that is not separable, got 0")
        return 1.0 / np.broadcast_to(alpha, (len(self.S),))

    def solve(self, alpha: float | Array, *, intercept: bool) -> tuple[Array, Array | None, SolverInfo]:
        inverse = self._inverse(alpha)
        m = self.S.shape[1] - 1
        right = inverse @ self.B[:, :m]
        if intercept:
            right = np.concatenate([right, self.B[:, m] * inverse])
        factor = self._factor(inverse, intercept)
        solution = factor.solve(right)
        info = SolverInfo("Landmarks", condition=factor.condition, jitter=factor.jitter)
        return self.features.coefficients(solution[:m]), solution[m:] if intercept else None, info

    def covariance(self, X: Any, alpha: float | Array, *, intercept: bool) -> Array:
        n, d = X.shape[0], len(self.S)
        phi = self._features(X)[:, :, :-1]
        beyond = self.features.kernel.diagonal_blocks(X) - np.einsum("npk,nqk->npq", phi, phi, optimize=True)
        if intercept:
            phi = np.concatenate([phi, np.broadcast_to(np.eye(d), (n, d, d))], axis=2)
        white = self._factor(self._inverse(alpha), intercept).whiten(phi.reshape(n * d, -1).T).reshape(-1, n, d)
        total: Array = np.einsum("knp,knq->npq", white, white, optimize=True) + beyond
        return total
