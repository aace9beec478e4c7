"""Ridge regression on Nystrom features: sums over the data, then a small system.

For a separable kernel k T, T = V diag(t) V', and whitened features phi(x), (m,), each rotated output is a scalar ridge

    (S + (alpha / t_q) I) u_q = B v_q,   S = sum w phi phi',   B = sum w phi y'.

Missing outputs break the rotation. With T = F F', rows f_q, and S_q the sum over the points with output q observed,
the unknown W, (m, s), of f(x) = phi' W F' solves  alpha W + sum_q S_q W f_q f_q' = sum_q B_q f_q'. Other kernels have
features for pairs of a point and an output, and one scalar ridge. Intercepts are additional, unpenalised unknowns.

Memory does not depend on the number of rows; sums over the same landmarks can be added.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from scipy import sparse

from ovk.base import (
    Array,
    DeviceMatrix,
    SingularSystemError,
    State,
    Targets,
    check_int,
    equal,
    ridge_and_scales,
    to_host,
)
from ovk.batch.ridge.ridge_system import as_generator, new_generator
from ovk.features import NystromMap, OperatorNystromMap, OutputSums, as_rpcholesky
from ovk.operators import OutputOperator, spectrum
from ovk.ovkernels import OperatorKernel
from ovk.solvers import (
    CholeskyFactor,
    LeaveOneOut,
    SolverInfo,
    cholesky_factor,
    conjugate_gradient,
    inner_blocks,
    residuals_of_smoother,
)

#: Coefficients (m, d) of the expansion, intercept (d,) or None, and solver info.
Coefficients = tuple[Array, Array | None, SolverInfo]


@dataclass
class LandmarkRidge(State, ABC):
    """Sums over the data for one set of landmarks, and their solution."""

    _state_classes = {"sums": OutputSums}

    features: Any  # Nystrom features of the landmarks
    sums: OutputSums  # over m + 1 features, of which the last is the constant 1

    @property
    def m(self) -> int:
        """Number of features, not counting the constant."""
        return len(self.features.L)

    @property
    def d(self) -> int:
        return int(self.sums.common.B.shape[1])

    @abstractmethod
    def _transform(self, X: Any) -> Any:
        """Features and the constant: (n, m + 1), or (n, d, m + 1) if each output has its own."""

    def add(self, X: Any, targets: Targets) -> None:
        phi = self._transform(X)
        on_device = isinstance(phi, DeviceMatrix)
        bad = ~(phi.finite_rows() if on_device else np.isfinite(phi).all(axis=tuple(range(1, phi.ndim))))
        if bad.any():
            raise SingularSystemError(
                f"kernel values of rows and landmarks must be finite; {int(bad.sum())} of {len(phi)} rows have nan or "
                f"inf, the first is row {int(bad.argmax())}: scale X, or check the parameters of the kernel"
            )
        if targets.task is None:
            self.sums.add(phi, targets.Y, targets.weight)
        else:
            self.sums.add_pairs(phi, targets.task, targets.Y[:, 0], targets.weight)

    def add_penalty(self, X: Any, P: Any) -> None:
        """Add tr(F' P F) of the values F at X, (n, d), to the objective; P, (n, n), is zero on constants."""
        phi = self._transform(X)
        if phi.ndim == 2:
            self.sums.common.S += phi.T @ (P @ phi)
        elif self.sums.own_S is not None:
            self.sums.own_S += np.stack([each.T @ (P @ each) for each in phi.swapaxes(0, 1)])

    def merged(self, other: LandmarkRidge) -> Self:
        """The sums over the rows of both, which must have the same landmarks."""
        mine, theirs = self.features, other.features
        if self.d != other.d:
            raise ValueError(f"models to merge must have the same number of outputs, got {self.d} and {other.d}")
        operators = [getattr(sums, "operator", None) for sums in (self, other)]
        pairs = [(mine.kernel, theirs.kernel), (mine.points, theirs.points), operators]
        if not all(equal(one, two) for one, two in pairs):
            raise ValueError(
                "models to merge must have the same kernel and the same landmarks: set landmarks=points with the same "
                "points, and a kernel with fixed length scales"
            )
        return replace(self, sums=self.sums + other.sums)

    @abstractmethod
    def solve(self, alpha: float | Array, *, intercept: bool) -> Coefficients:
        """Solve for the sums."""

    @abstractmethod
    def posterior_covariance(self, X: Any, alpha: float | Array, *, intercept: bool) -> Array:
        """Posterior covariance within the span of the landmarks, (n, d, d)."""

    @abstractmethod
    def residual_covariance(self, X: Any) -> Array:
        """Prior covariance outside the span of the landmarks, (n, d, d)."""

    def left_out(self, X: Any, R: Array, weight: Array | None, alpha: float | Array, *, intercept: bool) -> Array:
        """Leave-one-out residuals (n, d) of rows that are part of the sums, from their residuals R (n, d).

        With P_i the posterior covariance at row i within the features, the fitted values change by P_i w_i / alpha per
        unit of change in the row's outputs.
        """
        w = np.ones(len(R)) if weight is None else weight
        moved = (w[:, None] / np.broadcast_to(alpha, (self.d,)))[:, None, :]
        return residuals_of_smoother(R, self.posterior_covariance(X, alpha, intercept=intercept) * moved)


class LandmarkLeaveOneOut(LeaveOneOut):
    """Leave-one-out residuals and variances of training rows, and the function f of the landmarks at new inputs.

    For new points `cross` and `prior` are the inputs themselves. The functions without a row are not known.
    """

    def __init__(self, sums: LandmarkRidge, f: Callable[[Any], Array], alpha: Any, left_out: Array, *, intercept: bool):
        self.residuals, self.variances = left_out
        super().__init__(alpha, sums.d, len(self.residuals), None)
        self._sums, self._f, self._intercept = sums, f, intercept

    @staticmethod
    def of_rows(
        sums: LandmarkRidge, X: Any, R: Array, weight: Array | None, alpha: float | Array, *, intercept: bool
    ) -> Array:
        """(2, n, d) leave-one-out residuals of rows that are part of the sums, and their variances.

        With residuals R and the smoother's diagonal h they are R / (1 - h) and alpha / (w (1 - h)), plus the prior
        variance outside the span of the landmarks. Complete rows of coupled outputs are left out as a whole, others
        one output at a time.
        """
        w = np.ones((len(R), 1)) if weight is None else weight[:, None]
        inside = np.einsum("nqq->nq", sums.posterior_covariance(X, alpha, intercept=intercept))
        rest = np.maximum(1.0 - inside * w / alpha, 1e-12)
        outside = np.maximum(np.einsum("nqq->nq", sums.residual_covariance(X)), 0.0)
        residuals, complete = R / rest, ~np.isnan(R).any(axis=1)
        if complete.any():
            own = None if weight is None else weight[complete]
            residuals[complete] = sums.left_out(X[complete], R[complete], own, alpha, intercept=intercept)
        return np.stack([residuals, np.where(np.isnan(R), np.nan, alpha / (w * rest) + outside)])

    def predict(self, cross: Any) -> Array:
        return self._f(cross)

    def variance(self, cross: Any, prior: Any) -> Array:
        found = self._sums.posterior_covariance(cross, self.alpha, intercept=self._intercept)
        return np.asarray(np.maximum(np.einsum("nqq->nq", found + self._sums.residual_covariance(cross)), 0.0))

    def predict_without(self, cross: Any) -> Array:
        raise ValueError(
            "jackknife+ and cv+ require all training rows: use method='jackknife', or fit without landmarks"
        )

    def variance_without(self, cross: Any, prior: Any) -> Array:
        return self.predict_without(cross)


@dataclass
class PairLandmarks(LandmarkRidge, kind="pairs"):
    """Any kernel: one scalar ridge on the features of pairs of a point and an output.

    An alpha for each output scales its rows, so each output has its own sums.
    """

    _state_classes = {"features": OperatorNystromMap}

    features: OperatorNystromMap

    def _transform(self, X: Any) -> Array:
        n = X.shape[0]
        return np.concatenate([self.features.transform(X).reshape(n, self.d, -1), np.ones((n, self.d, 1))], axis=2)

    def _factor(self, inverse: Array, intercept: bool) -> CholeskyFactor:
        """Factor of I + sum_q S_q / alpha_q, with a border for the intercepts."""
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
            raise ValueError("alpha must be positive with landmarks and a kernel that is not separable, got 0")
        return 1.0 / np.broadcast_to(alpha, (self.d,))

    def solve(self, alpha: float | Array, *, intercept: bool) -> Coefficients:
        inverse = self._inverse(alpha)
        m, B = self.m, self.sums.B()
        right = B[:m] @ inverse
        if intercept:
            right = np.concatenate([right, B[m] * inverse])
        factor = self._factor(inverse, intercept)
        solution = factor.solve(right)
        info = SolverInfo("Landmarks", condition=factor.condition, jitter=factor.jitter)
        return self.features.coefficients(solution[:m]), solution[m:] if intercept else None, info

    def residual_covariance(self, X: Any) -> Array:
        phi = self._transform(X)[:, :, :-1]
        return np.asarray(self.features.kernel.diagonal_blocks(X) - np.einsum("npk,nqk->npq", phi, phi, optimize=True))

    def posterior_covariance(self, X: Any, alpha: float | Array, *, intercept: bool) -> Array:
        n, d = X.shape[0], self.d
        phi = self._transform(X)[:, :, :-1]
        if intercept:
            phi = np.concatenate([phi, np.broadcast_to(np.eye(d), (n, d, d))], axis=2)
        return inner_blocks(self._factor(self._inverse(alpha), intercept).whiten(phi.reshape(n * d, -1).T), n, d)


#: Rows that determine length scales before landmarks are chosen.
MAX_RESOLVING_ROWS = 2000


def choose_landmarks(landmarks: Any, X: Any, random_state: Any, resolved: Callable[[Any], Any]) -> Any:
    """The landmarks (m, p): given points, or rows of X drawn uniformly or with the kernel `resolved(rows)`."""
    selection = as_rpcholesky(landmarks)
    if selection is not None:
        rows = X[:: max(1, X.shape[0] // MAX_RESOLVING_ROWS)]
        return selection.points(resolved(rows), X, new_generator(random_state))
    if isinstance(landmarks, (int, np.integer)) and not isinstance(landmarks, bool):
        m = min(check_int(landmarks, "landmarks"), X.shape[0])
        chosen = to_host(X[np.sort(as_generator(random_state).choice(X.shape[0], size=m, replace=False))])
        return chosen if sparse.issparse(chosen) else np.array(chosen, dtype=np.float64)
    try:
        points = np.asarray(to_host(landmarks), dtype=np.float64)
    except (TypeError, ValueError):
        points = np.asarray(landmarks, dtype=object)
    if points.dtype == object or points.ndim != 2 or points.shape[1] != X.shape[1] or len(points) == 0:
        raise ValueError(
            f"landmarks must be an integer, 'rpcholesky' or points with {X.shape[1]} features, got "
            + (f"shape {points.shape}" if points.ndim else repr(landmarks))
        )
    if not np.isfinite(points).all():
        raise ValueError("landmarks must be finite, got nan or inf")
    return points


def rows_to_choose_from(landmarks: Any, parts: Iterator[tuple[Any, Targets]]) -> tuple[list[tuple[Any, Targets]], Any]:
    """The first chunks, enough to choose landmarks from, and their inputs."""
    selection = as_rpcholesky(landmarks)
    count = landmarks if selection is None else selection.size
    wanted = 10 * count if isinstance(count, (int, np.integer)) else 1
    head: list[tuple[Any, Targets]] = []
    for part in parts:
        head.append(part)
        if sum(X.shape[0] for X, _ in head) >= wanted:
            break
    if not head:
        raise ValueError("the iterator of chunks must contain at least one chunk, got none")
    first = [to_host(X) for X, _ in head]
    return head, sparse.vstack(first, format="csr") if sparse.issparse(first[0]) else np.concatenate(first)


#: Maximum number of unknowns of a system with missing outputs that is factored densely.
MAX_DENSE_UNKNOWNS = 4000
#: Relative residual at which the iteration for larger systems stops, and its maximum number of steps.
RESIDUAL_TOLERANCE, MAX_ITERATIONS = 1e-12, 5000


@dataclass
class SeparableLandmarks(LandmarkRidge, kind="separable"):
    _state_classes = {"features": NystromMap}

    features: NystromMap
    operator: OutputOperator

    def _transform(self, X: Any) -> Any:
        phi: Any = self.features.transform(X)
        if isinstance(phi, DeviceMatrix):
            return phi.with_ones()
        return np.column_stack([phi, np.ones(len(phi))])

    def _scaled(self, alpha: float | Array) -> tuple[Array, float, Array]:
        """T~ = S T S, the ridge and the diagonal of S, as for exact ridge regression."""
        ridge, own = ridge_and_scales(alpha)
        scales = np.ones(self.d) if own is None else own
        return self.operator.dense() * np.outer(scales, scales), ridge, scales

    def solve(self, alpha: float | Array, *, intercept: bool) -> Coefficients:
        T, ridge, scales = self._scaled(alpha)
        B = self.sums.B() * scales
        solve = self._solve_complete if self.sums.own_S is None else self._solve_with_gaps
        U, b, info = solve(T, ridge, B, intercept)
        # U are the functions themselves, phi' U = f~(x)'; as an expansion they are k_D(x)' A = k_D(x)' C T~.
        least = 64 * len(T) * np.finfo(float).eps
        C = self.features.coefficients(U @ np.linalg.pinv(T, rcond=least, hermitian=True)) * scales
        return C, b / scales if b is not None else None, info

    def _systems(self, T: Array, ridge: float, intercept: bool) -> Iterator[tuple[Array, Array, CholeskyFactor]]:
        """For each distinct eigenvalue t of T: eigenvectors, D = diag(sqrt t, ..., 1), factor of D S D + ridge I.

        The last entry of D belongs to the intercept, which has no ridge.
        """
        decomposition, m, S = spectrum(T, "operator"), self.m, self.sums.common.symmetric()
        for t, group in zip(decomposition.distinct, decomposition.groups, strict=True):
            # If t is 0 the intercept is the only unknown, and any ridge gives the same result.
            D, added = np.full(m + 1, np.sqrt(t)), np.full(m + 1, ridge if t > 0 else 1.0)
            D[m], added[m] = 1.0, 0.0
            D, added = (D, added) if intercept else (D[:m], added[:m])
            if D.any():
                factor = cholesky_factor(partial(_scaled_sums, S[: len(D), : len(D)], D, added), 0.0)
                yield decomposition.vectors[:, group], D[:, None], factor

    def _solve_complete(self, T: Array, ridge: float, B: Array, intercept: bool) -> Coefficients:
        m = self.m
        U = np.zeros((m + intercept, len(T)))
        jitter, condition = 0.0, 1.0
        for V, D, factor in self._systems(T, ridge, intercept):
            U += (D * factor.solve(D * (B[: len(D)] @ V))) @ V.T
            jitter, condition = max(jitter, factor.jitter), max(condition, factor.condition)
        return U[:m], U[m] if intercept else None, SolverInfo("Landmarks", condition=condition, jitter=jitter)

    def _normal_matrix(self, F: Array, ridge: float, intercept: bool) -> Array:
        """Matrix of the m s unknowns W, row by row, then the intercepts."""
        sums = self.sums.S()
        m, (d, s) = self.m, F.shape
        A = np.einsum("qij,qa,qb->iajb", sums[:, :m, :m], F, F, optimize=True).reshape(m * s, m * s)
        A[np.diag_indices_from(A)] += ridge
        if not intercept:
            return np.asarray(A)
        side = np.einsum("qi,qa->iaq", sums[:, :m, m], F).reshape(m * s, d)
        return np.block([[A, side], [side.T, np.diag(sums[:, m, m])]])

    def _solve_with_gaps(self, T: Array, ridge: float, B: Array, intercept: bool) -> Coefficients:
        F = spectrum(T, "operator").root()
        m, s = self.m, F.shape[1]
        if s == 0 and not intercept:
            return np.zeros((m, len(F))), None, SolverInfo("Landmarks")
        right = np.concatenate([(B[:m] @ F).reshape(-1), B[m] if intercept else np.empty(0)])
        if len(right) <= MAX_DENSE_UNKNOWNS:
            factor = cholesky_factor(lambda: self._normal_matrix(F, ridge, intercept), 0.0)
            solution = factor.solve(right)
            info = SolverInfo("Landmarks", condition=factor.condition, jitter=factor.jitter)
        else:
            solution, info = self._iterate(F, ridge, right, intercept)
        return solution[: m * s].reshape(m, s) @ F.T, solution[m * s :] if intercept else None, info

    def _iterate(self, F: Array, ridge: float, right: Array, intercept: bool) -> tuple[Array, SolverInfo]:
        """Conjugate gradient, preconditioned by complete data with each output weighted by its number of values."""
        sums = self.sums.S()
        m, s = self.m, F.shape[1]
        counts = sums[:, m, m]
        g, Q = np.linalg.eigh(sums[:, :m, :m].sum(axis=0) / counts.sum())
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

        found = conjugate_gradient(apply, right, precondition, None, RESIDUAL_TOLERANCE, MAX_ITERATIONS)
        info = SolverInfo("Landmarks", iterations=found.iterations, residual=found.residual)
        info.warn_above(RESIDUAL_TOLERANCE, "increase alpha, or use fewer landmarks")
        return found.X, info

    def residual_covariance(self, X: Any) -> Array:
        phi = self.features.transform(X)
        rest = np.maximum(self.features.kernel.diag(X) - (phi**2).sum(axis=1), 0.0)
        return np.asarray(rest[:, None, None] * self.operator.dense())

    def posterior_covariance(self, X: Any, alpha: float | Array, *, intercept: bool) -> Array:
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
            if m * s + (len(F) if intercept else 0) > MAX_DENSE_UNKNOWNS:
                raise ValueError(
                    "landmarks times rank of the operator must be at most "
                    f"{MAX_DENSE_UNKNOWNS} for the posterior covariance with missing outputs, got {m * s}: use fewer "
                    "landmarks, or an operator of lower rank"
                )
            factor = cholesky_factor(lambda: self._normal_matrix(F, ridge, intercept), 0.0)
            rows = np.einsum("ni,qa->nqia", phi[:, :m], F).reshape(len(phi), len(F), m * s)
            if intercept:
                rows = np.concatenate([rows, np.broadcast_to(np.eye(len(F)), (len(phi), len(F), len(F)))], axis=2)
            inside = inner_blocks(factor.whiten(rows.reshape(-1, rows.shape[2]).T), len(phi), len(F))
        return np.asarray(ridge * inside / np.outer(scales, scales))


def _scaled_sums(S: Array, D: Array, added: Array) -> Array:
    return S * np.outer(D, D) + np.diag(added)


def landmark_ridge(kernel: OperatorKernel, points: Any, d: int) -> LandmarkRidge:
    """Empty sums for a resolved kernel and landmarks."""
    separable = kernel.as_separable()
    if separable is not None:
        features = NystromMap.from_points(separable.scalar, points)
        return SeparableLandmarks(features, OutputSums.zeros(len(features.L) + 1, d), separable.operator)
    pairs = OperatorNystromMap.from_points(kernel, points)
    return PairLandmarks(pairs, OutputSums.zeros(len(pairs.L) + 1, d))
