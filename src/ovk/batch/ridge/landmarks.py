"""Ridge regression on Nystrom features: sums over the data, then a small system.

For a separable kernel k T, T = V diag(t) V', and whitened features phi(x), (m,), each rotated output is a scalar ridge

    (S + (alpha / t_q) I) u_q = B v_q,   S = sum w phi phi',   B = sum w phi y'.

Missing outputs break the rotation. With T = F F', rows f_q, and S_q the sum over the points where output q was seen,
the unknown W, (m, s), of f(x) = phi' W F' solves  alpha W + sum_q S_q W f_q f_q' = sum_q B_q f_q'. Other kernels have
features for pairs of a point and an output, and one scalar ridge. Intercepts are further unknowns, not penalised.

Memory is that of the sums, whatever the number of rows; two sets of sums over the same landmarks add up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ovk._params import equal
from ovk._singular import SingularSystem
from ovk._state import State
from ovk._types import Array, Indices
from ovk.features import OperatorNystromMap
from ovk.features.sums import OutputSums
from ovk.solvers import SolverInfo
from ovk.solvers.cholesky import CholeskyFactor, cholesky_factor
from ovk.solvers.posterior import inner_blocks


@dataclass
class LandmarkRidge(State, ABC):
    """Sums over the data for one dictionary of landmarks, and their solution.

    Attributes
    ----------
    features : Nystrom features of the landmarks
    sums : over m + 1 features, the last of which is the constant 1
    """

    _state_classes = {"sums": OutputSums}

    features: Any
    sums: OutputSums

    @property
    def m(self) -> int:
        """Number of features without the constant."""
        return len(self.features.L)

    @property
    def d(self) -> int:
        """Number of outputs."""
        return int(self.sums.common.B.shape[1])

    @abstractmethod
    def _transform(self, X: Any) -> Array:
        """Features and the constant: (n, m + 1), or (n, d, m + 1) where each output has its own."""

    def add(self, X: Any, Y: Array, weight: Array | None) -> None:
        """Add rows with outputs (n, d), nan where missing."""
        self.sums.add(self._finite(X), Y, weight)

    def add_pairs(self, X: Any, task: Indices, y: Array, weight: Array | None) -> None:
        """Add observations in long form: y_i is output task_i at x_i."""
        self.sums.add_pairs(self._finite(X), task, y, weight)

    def _finite(self, X: Any) -> Array:
        """Features and the constant of rows that are to be learned from."""
        phi = self._transform(X)
        bad = ~np.isfinite(phi).all(axis=tuple(range(1, phi.ndim)))
        if bad.any():
            raise SingularSystem(
                f"the kernel between {int(bad.sum())} of {len(phi)} rows and the landmarks is not finite, first at row "
                f"{int(bad.argmax())}: scale X, or check the kernel's parameters"
            )
        return phi

    def add_penalty(self, X: Any, P: Any) -> None:
        """Add tr(F' P F) of the values F at X, (n, d), to what is minimised; P, (n, n), does not see constants."""
        phi = self._transform(X)
        if phi.ndim == 2:
            self.sums.common.S += phi.T @ (P @ phi)
        elif self.sums.own_S is not None:
            self.sums.own_S += np.stack([each.T @ (P @ each) for each in phi.swapaxes(0, 1)])

    def merged(self, other: LandmarkRidge) -> Self:
        """The sums over the rows of both, which must have the same landmarks; these stay as they are."""
        mine, theirs = self.features, other.features
        if self.d != other.d:
            raise ValueError(f"sums to be merged must be of the same outputs, got {self.d} and {other.d} of them")
        same = type(self) is type(other) and equal(self._kernel(), other._kernel())
        if not same or not equal(mine.points, theirs.points):
            raise ValueError(
                "models to be merged must have the same kernel and the same landmarks: give all of them the same "
                "points, landmarks=points, and a kernel with numbers for its length scales"
            )
        return replace(self, sums=self.sums + other.sums)

    def _kernel(self) -> Any:
        """What must be equal, beside the landmarks, where two are merged."""
        return self.features.kernel

    @abstractmethod
    def solve(self, alpha: float | Array, *, intercept: bool) -> tuple[Array, Array | None, SolverInfo]:
        """Expansion coefficients (m, d), intercept and how they were found."""

    @abstractmethod
    def within(self, X: Any, alpha: float | Array, *, intercept: bool) -> Array:
        """Posterior covariance of the part of the function that the landmarks reach, (n, d, d)."""

    @abstractmethod
    def beyond(self, X: Any) -> Array:
        """Prior covariance of the rest, (n, d, d)."""

    def covariance(self, X: Any, alpha: float | Array, *, intercept: bool) -> Array:
        """Posterior covariance at new points, (n, d, d); the prior's where the landmarks do not reach."""
        return self.within(X, alpha, intercept=intercept) + self.beyond(X)

    def left_out(self, X: Any, R: Array, weight: Array | None, alpha: float | Array, *, intercept: bool) -> Array:
        """Residuals (n, d) of rows among those of the sums, each predicted as if its row had not been learned.

        With P_i the posterior covariance at row i within the features, the fitted values move by P_i w_i / alpha for
        each unit by which the row's outputs move, so that the residuals r_i become (I - w_i P_i / alpha)^-1 r_i.

        Parameters
        ----------
        R : (n, d) residuals with all rows learned, nan where an output was not observed
        """
        seen = ~np.isnan(R)
        w = np.ones(len(R)) if weight is None else weight
        moved = (w[:, None] / np.broadcast_to(alpha, (self.d,)))[:, None, :]
        both = seen[:, :, None] & seen[:, None, :]
        H = np.where(both, self.within(X, alpha, intercept=intercept) * moved, 0.0)
        found = np.asarray(np.linalg.solve(np.eye(self.d) - H, np.where(seen, R, 0.0)[:, :, None])[:, :, 0])
        return np.where(seen, found, np.nan)


@dataclass
class PairLandmarks(LandmarkRidge, kind="pairs"):
    """Any kernel: one scalar ridge on the features of pairs of a point and an output.

    A ridge of its own for each output scales its rows, so each output keeps its own sums.
    """

    features: OperatorNystromMap

    def _transform(self, X: Any) -> Array:
        n = X.shape[0]
        phi = self.features.transform(X).reshape(n, self.d, -1)
        return np.concatenate([phi, np.ones((n, self.d, 1))], axis=2)

    def _factor(self, inverse: Array, intercept: bool) -> CholeskyFactor:
        """Factor of I + sum_q S_q / alpha_q, bordered by the intercepts."""
        m, S = self.m, self.sums.S()

        def make() -> Array:
            A: Array = np.tensordot(inverse, S[:, :m, :m], axes=1)
            A[np.diag_indices_from(A)] += 1.0
            if not intercept:
                return A
            side = (S[:, :m, m] * inverse[:, None]).T
            return np.block([[A, side], [side.T, np.diag(S[:, m, m] * inverse)]])

        return cholesky_factor(make, 0.0)

    def _inverse(self, alpha: float | Array) -> Array:
        if isinstance(alpha, float) and alpha == 0:
            raise ValueError("alpha must be > 0 with landmarks and a kernel that is not separable, got 0")
        return 1.0 / np.broadcast_to(alpha, (self.d,))

    def solve(self, alpha: float | Array, *, intercept: bool) -> tuple[Array, Array | None, SolverInfo]:
        inverse = self._inverse(alpha)
        m, B = self.m, self.sums.B()
        right = B[:m] @ inverse
        if intercept:
            right = np.concatenate([right, B[m] * inverse])
        factor = self._factor(inverse, intercept)
        solution = factor.solve(right)
        info = SolverInfo("Landmarks", condition=factor.condition, jitter=factor.jitter)
        return self.features.coefficients(solution[:m]), solution[m:] if intercept else None, info

    def beyond(self, X: Any) -> Array:
        phi = self._transform(X)[:, :, :-1]
        inside = np.einsum("npk,nqk->npq", phi, phi, optimize=True)
        return np.asarray(self.features.kernel.diagonal_blocks(X) - inside)

    def within(self, X: Any, alpha: float | Array, *, intercept: bool) -> Array:
        n, d = X.shape[0], self.d
        phi = self._transform(X)[:, :, :-1]
        if intercept:
            phi = np.concatenate([phi, np.broadcast_to(np.eye(d), (n, d, d))], axis=2)
        white = self._factor(self._inverse(alpha), intercept).whiten(phi.reshape(n * d, -1).T)
        return inner_blocks(white, n, d)
