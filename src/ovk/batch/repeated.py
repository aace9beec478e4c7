"""Rows with the same inputs: left out together, and taken together."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ovk._validation import Array, Indices
from ovk.batch.targets import Targets


def check_two_inputs(targets: Targets, groups: Indices) -> None:
    """An intercept that is not penalised can only be learned from what is left in."""
    for q in range(targets.d):
        seen = targets.task == q if targets.task is not None else ~np.isnan(targets.Y[:, q])
        if len(np.unique(groups[seen])) == 1:
            raise ValueError(
                "with fit_intercept=True leave-one-out needs each output at 2 different inputs or more, but output "
                f"{q} has only 1 sample, or samples of the same inputs"
            )


def same_inputs(X: Any) -> Indices:
    """For each row the number of its group of rows with the same inputs, groups in order of appearance."""
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        X.sum_duplicates()
        bounds = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        keys = [(X.indices[a:b].tobytes(), X.data[a:b].tobytes()) for a, b in bounds]
    else:
        # + 0.0 makes -0.0 the zero that it is.
        keys = [row.tobytes() for row in np.ascontiguousarray(X) + 0.0]
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.intp)


def merged(X: Any, targets: Targets, groups: Indices) -> tuple[Any, Targets, npt.NDArray[np.float64]]:
    """Rows with the same inputs as one row with their mean output and total weight.

    sum_i w_i |y_i - f|^2 = W |mean - f|^2 + sum_i w_i |y_i - mean|^2: the last term, (d,), does not depend on f.
    """
    n = int(groups.max()) + 1 if len(groups) else 0
    if n == len(groups):
        return X, targets, np.zeros(targets.d)
    weight = np.ones(len(groups)) if targets.weight is None else targets.weight
    total: Array = np.bincount(groups, weights=weight, minlength=n).astype(np.float64)
    member = sparse.csr_array((weight, (groups, np.arange(len(groups)))), shape=(n, len(groups)))
    mean = (member @ targets.Y) / total[:, None]
    within = weight @ (targets.Y - mean[groups]) ** 2
    _, first = np.unique(groups, return_index=True)
    return X[first], Targets(mean, targets.d, targets.single, None, total), within
