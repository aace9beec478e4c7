"""Labels that are alike or not."""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk._validation import Array
from ovk.structured.outputs import ObjectKernel, keys


class Delta(ObjectKernel):
    """k(y, z) = 1 if y = z, else 0, for labels of any kind.

    Regression into its feature space is kernel ridge classification, one against the rest.

    Examples
    --------
    >>> from ovk.structured import Delta
    >>> Delta()(["cat", "dog"], ["dog", "cat", "dog"])
    array([[0., 1., 0.],
           [1., 0., 1.]])
    """

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        numbers: dict[Any, int] = {}
        x = np.array([numbers.setdefault(key, len(numbers)) for key in keys(X)], dtype=np.intp)
        z = x if Z is None else np.array([numbers.setdefault(key, len(numbers)) for key in keys(Z)], dtype=np.intp)
        return np.asarray(np.equal.outer(x, z), dtype=np.float64)

    def diag(self, X: Any) -> Array:
        return np.ones(len(X))

    def norm_bound(self) -> float:
        return 1.0
