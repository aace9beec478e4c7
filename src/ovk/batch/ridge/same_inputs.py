"""Which rows have the same inputs: a copy left in would give away the one that is left out."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ovk._types import Indices


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
