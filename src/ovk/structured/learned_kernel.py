"""One kernel of the inputs out of several, with weights that are learned from inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ovk._types import Array
from ovk.batch import MovKL
from ovk.kernels import ScalarKernel, Scaled, as_kernel
from ovk.operators import Identity

#: Rows from which weights are learned at most: there are few weights, and each round costs the cube of the rows.
ROWS = 2000


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
