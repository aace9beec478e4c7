"""Rankings."""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk._validation import Array
from ovk.kernels import Linear, ScalarKernel


class Kendall(ScalarKernel):
    """k(y, z) = (pairs ranked alike - pairs ranked the other way round) / pairs: Kendall's tau of two rankings.

    An output is a row of d ranks or scores; only their order counts. Tied pairs count for nothing, so a ranking with
    ties has a norm below 1.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.structured import Kendall
    >>> Kendall()(np.array([[1, 2, 3]]), np.array([[1, 2, 3], [2, 1, 3], [3, 2, 1]])).round(3)
    array([[ 1.   ,  0.333, -1.   ]])
    """

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        left = orders(X)
        return Linear()(left, None if Z is None else orders(Z))

    def diag(self, X: Any) -> Array:
        return np.asarray((orders(X) ** 2).sum(axis=1))

    def norm_bound(self) -> float:
        return 1.0


def orders(X: Any) -> Array:
    """The sign of the difference of every pair, scaled to norm one where there are no ties: (n, d (d - 1) / 2)."""
    rows = np.asarray(X, dtype=np.float64)
    if rows.shape[1] < 2:
        raise ValueError(f"a ranking needs two things to rank or more, got {rows.shape[1]}")
    a, b = np.triu_indices(rows.shape[1], 1)
    return np.asarray(np.sign(rows[:, a] - rows[:, b]) / np.sqrt(len(a)))
