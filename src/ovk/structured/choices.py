"""Reading the parameters of `IOKR`: kernel, operator, alphas and landmarks, in all the forms that a user may pass."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from ovk._params import check_int, positive
from ovk._types import Array, Outputs
from ovk.batch import MovKL
from ovk.batch.ridge.landmark_points import choose_landmarks
from ovk.kernels import Gaussian, Linear, ScalarKernel, Scaled, as_kernel
from ovk.operators import Dense, Identity, OutputOperator
from ovk.ovkernels import OperatorKernel, Separable
from ovk.structured.coordinates import Coordinates, Distinct, Sketch, Vectors
from ovk.structured.outputs import as_outputs, count_outputs, distinct_outputs, select_outputs

#: Distinct outputs above which a square matrix of them is not made unasked.
MANY_OUTPUTS = 10_000
#: Rows from which weights of kernels are learned at most: they are few, and each round costs the cube of the rows.
ROWS = 2000


def check_alphas(alpha: Any) -> Array:
    """(alphas,) the alphas to choose from, a single one included, after a check that all are numbers > 0."""
    alphas = np.atleast_1d(np.asarray(alpha))
    if alphas.ndim != 1 or alphas.size == 0 or alphas.dtype.kind not in "iuf":
        raise ValueError(f"alpha must be a number > 0, or a sequence of them to choose from, got {alpha!r}")
    return np.array([positive(float(one), "alpha") for one in alphas])


def split_kernel(kernel: Any, operator: Any) -> tuple[ScalarKernel, Any]:
    """The scalar kernel, and what is known of the operator (None for the identity)."""
    if isinstance(kernel, Separable):
        if operator is not None:
            raise ValueError("give the operator in the kernel k * T or as operator=, not both")
        kernel, operator = kernel.scalar, kernel.operator
    elif isinstance(kernel, OperatorKernel):
        raise ValueError(
            f"kernel must be a scalar kernel or k * T, got {type(kernel).__name__}: the features of outputs have no "
            "coordinates that it could be about; use OVKRidge for vectors"
        )
    if operator is not None and operator != "covariance" and not isinstance(operator, OutputOperator):
        raise ValueError(f"operator must be an operator of ovk.operators or 'covariance', got {operator!r}")
    trivial = isinstance(operator, Identity) and operator.output_dim is None
    return Gaussian() if kernel is None else as_kernel(kernel), None if trivial else operator


def learned_kernel(
    kernels: Sequence[Any], X: Any, targets: Array, alpha: float, *, intercept: bool, rng: Any
) -> tuple[ScalarKernel, Array]:
    """sum_k d_k k_k and d, (M,), by multiple kernel learning (`MovKL`) of the outputs' coordinates, (n, r).

    The coordinates are in an orthonormal basis, so that squared distances are those of the feature space.
    """
    if not kernels:
        raise ValueError("kernel must hold at least one kernel, got an empty list")
    resolved = [as_kernel(kernel).resolve(X) for kernel in kernels]
    n = X.shape[0]
    rows = np.arange(n) if n <= ROWS else np.sort(rng.choice(n, size=ROWS, replace=False))
    model = MovKL([kernel * Identity() for kernel in resolved], alpha, fit_intercept=intercept)
    weights = model.fit(X[rows], targets[rows]).weights_
    terms = [Scaled(float(weight), kernel) for weight, kernel in zip(weights, resolved, strict=True) if weight > 0]
    total: ScalarKernel = reduce(add, terms)
    return total, weights


def coordinates_for(
    kernel: ScalarKernel, outputs: Outputs, landmarks: Any, rng: Any, *, orthonormal: bool
) -> Coordinates:
    """Coordinates for outputs; orthonormal ones where an operator, or outputs to come, need them."""
    if isinstance(kernel, Linear) and landmarks is None and (orthonormal or outputs.shape[1] <= outputs.shape[0]):
        return Vectors(np.eye(outputs.shape[1]))
    if landmarks is not None and not isinstance(landmarks, (int, np.integer)):
        return Sketch.from_landmarks(kernel, as_outputs(landmarks, kernel, "output_landmarks"))
    first = distinct_outputs(outputs)[0]
    wanted = len(first) if landmarks is None else min(check_int(landmarks, "output_landmarks"), len(first))
    if wanted > MANY_OUTPUTS:
        raise ValueError(
            f"there are {wanted} distinct outputs, and their kernel matrix would not fit: give output_landmarks=m, a "
            "few hundred or thousand"
        )
    if landmarks is None and not orthonormal:
        return Distinct(kernel, select_outputs(outputs, first))
    chosen = first if wanted == len(first) else np.sort(rng.choice(first, size=wanted, replace=False))
    return Sketch.from_landmarks(kernel, select_outputs(outputs, chosen))


def operator_on(operator: Any, coordinates: Coordinates, outputs: Outputs) -> OutputOperator | None:
    """The operator on the coordinates, None for the identity."""
    if operator is None:
        return None
    if isinstance(operator, OutputOperator):
        resolved: OutputOperator = clone(operator).resolve(count_outputs(coordinates.anchors))
        return resolved
    T = coordinates.transform(outputs)
    moments = T.T @ T
    return Dense(moments / max(float(np.linalg.norm(moments, 2)), 1e-300))


def landmarks_among(landmarks: Any, X: Any, rng: Any, kernel: ScalarKernel) -> Any:
    """Points of the inputs' Nystrom features, None without."""
    return None if landmarks is None else dense(choose_landmarks(landmarks, X, rng, clone(kernel).resolve))


def dense(X: Any) -> Array:
    """Inputs as a plain array."""
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
