"""Nystrom ridge for a separable kernel k(x, z) T."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ovk._types import Array
from ovk.batch.ridge.landmarks import LandmarkRidge, PairLandmarks
from ovk.features import NystromMap, OperatorNystromMap
from ovk.features.sums import OutputSums
from ovk.operators import OutputOperator
from ovk.operators.base import spectrum
from ovk.ovkernels import OperatorKernel
from ovk.solvers import SolverInfo
from ovk.solvers.cholesky import CholeskyFactor, cholesky_factor
from ovk.solvers.conjugate_gradient import conjugate_gradient
from ovk.solvers.posterior import inner_blocks
from ovk.targets import ridge_and_scales

#: Unknowns up to which a system with missing outputs is factored densely.
DENSE_LIMIT = 4000
#: Relative residual at which the iteration for a larger one stops, and iterations after which it gives up.
TOLERANCE, MOST_ITERATIONS = 1e-12, 5000


@dataclass
class SeparableLandmarks(LandmarkRidge, kind="separable"):
    """Separable kernels k(x, z) T."""

    features: NystromMap
    operator: OutputOperator

    def _kernel(self) -> Any:
        return [self.features.kernel, self.operator]

    def _transform(self, X: Any) -> Array:
        phi = self.features.transform(X)
        return np.column_stack([phi, np.ones(len(phi))])

    def _scaled(self, alpha: float | Array) -> tuple[Array, float, Array]:
        """T~ = S T S, the ridge and the diagonal of S, as for exact ridge regression."""
        ridge, own = ridge_and_scales(alpha)
        scales = np.ones(self.d) if own is None else own
        return self.operator.dense() * np.outer(scales, scales), ridge, scales

    def solve(self, alpha: float | Array, *, intercept: bool) -> tuple[Array, Array | None, SolverInfo]:
        T, ridge, scales = self._scaled(alpha)
        B = self.sums.B() * scales
        if self.sums.own_S is None:
            U, b, info = self._complete(T, ridge, B, intercept)
        else:
            U, b, info = self._with_holes(T, ridge, B, intercept)
        # U are the functions themselves, phi' U = f~(x)'; as an expansion they are k_D(x)' A = k_D(x)' C T~.
        least = 64 * len(T) * np.finfo(float).eps
        C = self.features.coefficients(U @ np.linalg.pinv(T, rcond=least, hermitian=True)) * scales
        return C, b / scales if b is not None else None, info

    def _systems(self, T: Array, ridge: float, intercept: bool) -> Iterator[tuple[Array, Array, CholeskyFactor]]:
        """For each distinct eigenvalue t of T: its eigenvectors, D = diag(sqrt t, and 1 for the intercept) and the
        factor of D S D + ridge I, in which the intercept has no ridge."""
        decomposition, m, S = spectrum(T, "operator"), self.m, self.sums.common.symmetric()
        for t, group in zip(decomposition.distinct, decomposition.groups, strict=True):
            # Where t is 0 only the intercept is left, and any ridge will do.
            D, added = np.full(m + 1, np.sqrt(t)), np.full(m + 1, ridge if t > 0 else 1.0)
            D[m], added[m] = 1.0, 0.0
            D, added = (D, added) if intercept else (D[:m], added[:m])
            if D.any():
                factor = cholesky_factor(partial(_scaled_sums, S[: len(D), : len(D)], D, added), 0.0)
                yield decomposition.vectors[:, group], D[:, None], factor

    def _complete(self, T: Array, ridge: float, B: Array, intercept: bool) -> tuple[Array, Array | None, SolverInfo]:
        m = self.m
        U = np.zeros((m + intercept, len(T)))
        jitter, condition = 0.0, 1.0
        for V, D, factor in self._systems(T, ridge, intercept):
            U += (D * factor.solve(D * (B[: len(D)] @ V))) @ V.T
            jitter, condition = max(jitter, factor.jitter), max(condition, factor.condition)
        info = SolverInfo("Landmarks", condition=condition, jitter=jitter)
        return U[:m], U[m] if intercept else None, info

    def _normal_matrix(self, F: Array, ridge: float, intercept: bool) -> Array:
        """Matrix of the unknowns W (m s of them, row by row), then the intercepts."""
        sums = self.sums.S()
        m, (d, s) = self.m, F.shape
        A = np.einsum("qij,qa,qb->iajb", sums[:, :m, :m], F, F, optimize=True).reshape(m * s, m * s)
        A[np.diag_indices_from(A)] += ridge
        if not intercept:
            return np.asarray(A)
        side = np.einsum("qi,qa->iaq", sums[:, :m, m], F).reshape(m * s, d)
        return np.block([[A, side], [side.T, np.diag(sums[:, m, m])]])

    def _with_holes(self, T: Array, ridge: float, B: Array, intercept: bool) -> tuple[Array, Array | None, SolverInfo]:
        F = spectrum(T, "operator").root()
        m, s = self.m, F.shape[1]
        if s == 0 and not intercept:
            return np.zeros((m, len(F))), None, SolverInfo("Landmarks")
        right = np.concatenate([(B[:m] @ F).reshape(-1), B[m] if intercept else np.empty(0)])
        if len(right) <= DENSE_LIMIT:
            factor = cholesky_factor(lambda: self._normal_matrix(F, ridge, intercept), 0.0)
            solution = factor.solve(right)
            info = SolverInfo("Landmarks", condition=factor.condition, jitter=factor.jitter)
        else:
            solution, info = self._iterate(F, ridge, right, intercept)
        U = solution[: m * s].reshape(m, s) @ F.T
        return U, solution[m * s :] if intercept else None, info

    def _iterate(self, F: Array, ridge: float, right: Array, intercept: bool) -> tuple[Array, SolverInfo]:
        """Conjugate gradient, preconditioned by complete data with each output counted as often as it was seen."""
        sums = self.sums.S()
        m, s = self.m, F.shape[1]
        counts = sums[:, m, m]
        mean = sums[:, :m, :m].sum(axis=0) / counts.sum()
        g, Q = np.linalg.eigh(mean)
        e, R = np.linalg.eigh((F.T * counts) @ F)
        denominator = ridge + np.maximum(g, 0.0)[:, None] * np.maximum(e, 0.0)[None, :]

        def apply(x: Array) -> Array:
            W, b = x[: m * s].reshape(m, s), x[m * s :]
            inside = (sums[:, :m, :m] @ (F @ W.T)[:, :, None])[:, :, 0].T
            if intercept:
                inside += sums[:, :m, m].T * b
            top = (ridge * W + inside @ F).reshape(-1)
            if not intercept:
                return np.asarray(top)
            bottom = np.einsum("qi,iq->q", sums[:, m, :m], W @ F.T) + counts * b
            return np.concatenate([top, bottom])

        def precondition(x: Array) -> Array:
            W = x[: m * s].reshape(m, s)
            top = (Q @ ((Q.T @ W @ R) / denominator) @ R.T).reshape(-1)
            return np.concatenate([top, x[m * s :] / counts]) if intercept else top

        found = conjugate_gradient(apply, right, precondition, None, TOLERANCE, MOST_ITERATIONS)
        info = SolverInfo("Landmarks", iterations=found.iterations, residual=found.residual)
        info.warn_above(TOLERANCE, "raise alpha or use fewer landmarks")
        return found.X, info

    def beyond(self, X: Any) -> Array:
        phi = self.features.transform(X)
        rest = np.maximum(self.features.kernel.diag(X) - (phi**2).sum(axis=1), 0.0)
        return np.asarray(rest[:, None, None] * self.operator.dense())

    def within(self, X: Any, alpha: float | Array, *, intercept: bool) -> Array:
        T, ridge, scales = self._scaled(alpha)
        phi, m = self._transform(X), self.m
        if self.sums.own_S is None:
            inside = np.zeros((len(phi), *T.shape))
            for V, D, factor in self._systems(T, ridge, intercept):
                white = factor.whiten(D * phi[:, : len(D)].T)
                inside += np.einsum("ij,ij->j", white, white)[:, None, None] * (V @ V.T)
        else:
            F = spectrum(T, "operator").root()
            s = F.shape[1]
            if m * s + (len(F) if intercept else 0) > DENSE_LIMIT:
                raise ValueError(
                    f"the posterior covariance with missing outputs needs landmarks times rank of the operator at most "
                    f"{DENSE_LIMIT}, got {m * s}: use fewer landmarks or a low-rank operator"
                )
            factor = cholesky_factor(lambda: self._normal_matrix(F, ridge, intercept), 0.0)
            rows = np.einsum("ni,qa->nqia", phi[:, :m], F).reshape(len(phi), len(F), m * s)
            if intercept:
                rows = np.concatenate([rows, np.broadcast_to(np.eye(len(F)), (len(phi), len(F), len(F)))], axis=2)
            inside = inner_blocks(factor.whiten(rows.reshape(-1, rows.shape[2]).T), len(phi), len(F))
        return np.asarray(ridge * inside / np.outer(scales, scales))


def _scaled_sums(S: Array, D: Array, added: Array) -> Array:
    """D S D with numbers added to its diagonal."""
    return S * np.outer(D, D) + np.diag(added)


def landmark_ridge(kernel: OperatorKernel, points: Any, d: int) -> LandmarkRidge:
    """Empty sums for a resolved kernel and a dictionary of landmarks."""
    separable = kernel.as_separable()
    if separable is not None:
        features = NystromMap.from_points(separable.scalar, points)
        return SeparableLandmarks(features, OutputSums.zeros(len(features.L) + 1, d), separable.operator)
    pairs = OperatorNystromMap.from_points(kernel, points)
    return PairLandmarks(pairs, OutputSums.zeros(len(pairs.L) + 1, d))
