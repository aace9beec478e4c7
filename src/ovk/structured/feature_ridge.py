"""Ridge regression into a feature space, in coordinates of the outputs, and its leave-one-out errors in closed form.

The prediction without row i is the one with row i's target replaced by that prediction, so with the smoother S (fitted
values S T) the leave-one-out residual is

    t_i - h_without_i(x_i) = (T - S T)_i / (1 - S_ii),

and its squared norm in the feature space is the error. This holds for fixed landmarks and for the graph penalty (row i
then becomes an unlabelled input). With features Phi of the inputs, the first rows P labelled,
and Phi' N Phi = U e U' for the penalty N beyond alpha, S = (P U) diag(1 / (e + alpha)) (P U)'.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from ovk.base import Array, DeviceMatrix, Outputs, State, check_int
from ovk.batch import MovKL, OVKRidge, choose_landmarks, penalty_matrix
from ovk.features import NystromMap, independent
from ovk.kernels import Gaussian, Linear, ScalarKernel, Scaled, as_kernel
from ovk.operators import Dense, Identity, OutputOperator, Spectrum
from ovk.ovkernels import OperatorKernel, Separable
from ovk.solvers import SeparablePath, eigenpairs
from ovk.structured.outputs import as_outputs, count_outputs, distinct_outputs, hashable_keys, select_outputs

# Outputs as rows of numbers that ridge regression can learn, and the map back to anchors.
#
# Ridge regression into a feature space is linear in the outputs' features, so it suffices to learn the coordinates of
# phi(y_i) with respect to anchors phi(z_1), ..., phi(z_r), whatever their inner products:
#
#     distinct outputs as anchors, coordinates 1 at the output itself and 0 elsewhere: exact, for any kernel;
#     the unit vectors, coordinates y: exact for the linear kernel;
#     landmarks z_j, coordinates L^-1 k(Z, y) in an orthonormal basis of their span: a sketch (Nystrom), required by an
#     operator on the features.


class Coordinates(State, ABC):
    anchors: Outputs

    @abstractmethod
    def transform(self, outputs: Outputs) -> Array:
        """(n, r) coordinates of outputs."""

    def to_anchors(self, C: Array) -> Array:
        """Coefficients of the anchors' features, from those of the coordinates; both (m, r). Equal by default."""
        return C

    def squared_norms(self, R: Array) -> Array:
        """|sum_j R_ij f_j|^2 of rows of coordinates, (n,); by default for orthonormal f_j."""
        return np.asarray(np.einsum("ij,ij->i", R, R))


@dataclass(frozen=True)
class Distinct(Coordinates, kind="distinct outputs"):
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
    """The linear kernel: outputs are their coordinates, and the unit vectors are the anchors."""

    anchors: Array

    def transform(self, outputs: Outputs) -> Array:
        return outputs if isinstance(outputs, np.ndarray) else np.asarray(outputs.toarray())


@dataclass(frozen=True)
class Sketch(Coordinates, kind="sketch"):
    """Orthonormal coordinates in the span of the features of independent landmarks."""

    _state_classes = {"features": NystromMap}

    features: NystromMap

    @classmethod
    def from_landmarks(cls, kernel: ScalarKernel, landmarks: Outputs) -> Sketch:
        keep, L = independent(kernel(landmarks))
        return cls(NystromMap(kernel, select_outputs(landmarks, keep), L))

    @property
    def anchors(self) -> Any:
        return self.features.points

    def transform(self, outputs: Outputs) -> Array:
        return self.features.transform(outputs)

    def to_anchors(self, C: Array) -> Array:
        return self.features.coefficients(C.T).T


@dataclass(frozen=True)
class FeatureSpaceRidge:
    """The regression for any alpha, with an operator on the coordinates (None for the identity).

    X has the labelled inputs first. `graph` holds weights between the inputs X for a graph penalty, or is None; without
    `landmarks`, the points of Nystrom features, the solution is exact.
    """

    kernel: ScalarKernel
    weights: Array | None  # (M,) of the kernels whose sum it is
    X: Any
    coordinates: Coordinates
    outputs: Outputs
    operator: OutputOperator | None
    graph: sparse.csr_array | None
    alpha_graph: float
    landmarks: Any
    intercept: bool
    chunk_size: int

    def solve(self, alpha: float) -> OVKRidge:
        T = Identity(count_outputs(self.coordinates.anchors)) if self.operator is None else self.operator
        ridge = OVKRidge(self.kernel * T, alpha, fit_intercept=self.intercept, landmarks=self.landmarks)
        if self.graph is not None:
            labelled, targets = count_outputs(self.outputs), self.coordinates.transform(self.outputs)
            ridge.set_params(alpha_graph=self.alpha_graph, chunk_size=self.chunk_size)
            more = self.X[labelled:] if labelled < self.X.shape[0] else None
            return ridge.fit(self.X[:labelled], targets, unlabelled=more, graph=self.graph)
        if self.landmarks is None:
            return ridge.fit(_as_given(self.X), self.coordinates.transform(self.outputs))
        return ridge.fit(self._chunks())

    def _chunks(self) -> Iterator[tuple[Any, Array]]:
        n = self.X.shape[0]
        for start in range(0, n, self.chunk_size):
            rows = np.arange(start, min(start + self.chunk_size, n))
            yield _as_given(self.X[rows]), self.coordinates.transform(select_outputs(self.outputs, rows))

    def leave_one_out_errors(self, alphas: Array) -> Array:
        """Mean squared leave-one-out distance in the feature space for each alpha."""
        targets = self.coordinates.transform(self.outputs)
        if self.landmarks is None and self.graph is None:
            d = targets.shape[1]
            spectrum = Spectrum(np.ones(d), np.eye(d)) if self.operator is None else self.operator.eigh()
            constant = np.ones(len(targets)) if self.intercept else None
            X = self.X.double() if isinstance(self.X, DeviceMatrix) else self.X
            path = SeparablePath(eigenpairs(self.kernel(X)), targets, constant).path(spectrum, alphas)
        elif self.operator is not None or self.intercept:
            what = "fit_intercept=True" if self.operator is None else "an operator"
            others = "landmarks or alpha_graph: pass one alpha"
            raise ValueError(f"several alphas and {what} cannot be combined with {others}")
        else:
            points = self.X if self.landmarks is None else self.landmarks
            Phi = NystromMap.from_points(self.kernel, points).transform(self.X)
            P = None if self.graph is None else penalty_matrix(self.graph, self.alpha_graph)
            path = smoother_path(Phi, P, targets, alphas)
        return np.array([float(self.coordinates.squared_norms(R).mean()) for R in path])


def _as_given(X: Any) -> Any:
    """Inputs in a form that an estimator accepts."""
    return X.values if isinstance(X, DeviceMatrix) else X


def smoother_path(Phi: Array, P: sparse.csr_array | None, T: Array, alphas: Array) -> Iterator[Array]:
    """Leave-one-out residuals (n, r) at each alpha, for features Phi (n, m) of all inputs and a graph penalty P."""
    labelled = Phi[: len(T)]
    inside = labelled.T @ labelled
    e, U = np.linalg.eigh(inside if P is None else inside + Phi.T @ (P @ Phi))
    basis = labelled @ U
    inner, squares = basis.T @ T, basis**2
    for alpha in alphas:
        D = 1.0 / (np.maximum(e, 0.0) + alpha)
        yield (T - basis @ (D[:, None] * inner)) / (1.0 - squares @ D)[:, None]


# The parameters of `IOKR`: kernel, operator, alphas and landmarks.

#: Largest number of distinct outputs for which their kernel matrix is computed.
MAX_DISTINCT_OUTPUTS = 10_000
#: Largest number of rows from which kernel weights are learned: each round costs the cube of the rows.
MAX_WEIGHT_ROWS = 2000


def split_kernel(kernel: Any, operator: Any) -> tuple[ScalarKernel, Any]:
    """The scalar kernel, and the operator as passed (None for the identity)."""
    if isinstance(kernel, Separable):
        if operator is not None:
            raise ValueError("operator cannot be combined with a kernel k * T: pass one of them")
        kernel, operator = kernel.scalar, kernel.operator
    elif isinstance(kernel, OperatorKernel):
        name = type(kernel).__name__
        raise ValueError(f"kernel must be a scalar kernel or k * T, got {name}: use OVKRidge for vectors")
    if operator is not None and operator != "covariance" and not isinstance(operator, OutputOperator):
        raise ValueError(f"operator must be an operator of ovk.operators or 'covariance', got {operator!r}")
    trivial = isinstance(operator, Identity) and operator.output_dim is None
    return Gaussian() if kernel is None else as_kernel(kernel), None if trivial else operator


def learned_kernel(
    kernels: Sequence[Any], X: Any, targets: Array, alpha: float, *, intercept: bool, rng: Any
) -> tuple[ScalarKernel, Array | None]:
    """sum_k d_k k_k and d, (M,), by multiple kernel learning (`MovKL`) of the outputs' coordinates, (n, r).

    The coordinates are orthonormal, so that squared distances are those of the feature space.
    """
    if not kernels:
        raise ValueError("kernel must contain at least one kernel, got an empty list")
    resolved = [as_kernel(kernel).resolve(X) for kernel in kernels]
    n = X.shape[0]
    rows = np.arange(n) if n <= MAX_WEIGHT_ROWS else np.sort(rng.choice(n, size=MAX_WEIGHT_ROWS, replace=False))
    model = MovKL([kernel * Identity() for kernel in resolved], alpha, fit_intercept=intercept)
    weights = model.fit(X[rows], targets[rows]).weights_
    terms = [Scaled(float(weight), kernel) for weight, kernel in zip(weights, resolved, strict=True) if weight > 0]
    total: ScalarKernel = reduce(add, terms)
    return total, weights


def coordinates_for(
    kernel: ScalarKernel, outputs: Outputs, landmarks: Any, rng: Any, *, orthonormal: bool
) -> Coordinates:
    """Coordinates for outputs; orthonormal ones if an operator or future outputs require them."""
    if isinstance(kernel, Linear) and landmarks is None and (orthonormal or outputs.shape[1] <= outputs.shape[0]):
        return Vectors(np.eye(outputs.shape[1]))
    if landmarks is not None and not isinstance(landmarks, (int, np.integer)):
        return Sketch.from_landmarks(kernel, as_outputs(landmarks, kernel, "output_landmarks"))
    first = distinct_outputs(outputs)[0]
    wanted = len(first) if landmarks is None else min(check_int(landmarks, "output_landmarks"), len(first))
    if wanted > MAX_DISTINCT_OUTPUTS:
        limit = f"at most {MAX_DISTINCT_OUTPUTS} distinct outputs are supported"
        raise ValueError(f"{limit}, got {wanted}: pass output_landmarks, for example 1000")
    if landmarks is None and not orthonormal:
        return Distinct(kernel, select_outputs(outputs, first))
    chosen = first if wanted == len(first) else np.sort(rng.choice(first, size=wanted, replace=False))
    return Sketch.from_landmarks(kernel, select_outputs(outputs, chosen))


def operator_on(operator: Any, coordinates: Coordinates, outputs: Outputs) -> OutputOperator | None:
    if operator is None:
        return None
    if isinstance(operator, OutputOperator):
        resolved: OutputOperator = clone(operator).resolve(count_outputs(coordinates.anchors))
        return resolved
    T = coordinates.transform(outputs)
    moments = T.T @ T
    return Dense(moments / max(float(np.linalg.norm(moments, 2)), 1e-300))


def landmarks_among(landmarks: Any, X: Any, rng: Any, kernel: ScalarKernel) -> Any:
    return None if landmarks is None else dense(choose_landmarks(landmarks, X, rng, clone(kernel).resolve))


def dense(X: Any) -> Array:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
