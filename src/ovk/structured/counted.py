"""Objects as sparse vectors of counted parts: what kernels of sets, strings and labels are made of."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from ovk._validation import Array
from ovk.structured.outputs import ObjectKernel


def counted(objects: Sequence[Mapping[Hashable, float]], numbers: dict[Hashable, int]) -> sparse.csr_array:
    """(n, parts) counts; `numbers` gives each part its column and grows as parts are met."""
    columns = [numbers.setdefault(part, len(numbers)) for one in objects for part in one]
    values = [float(value) for one in objects for value in one.values()]
    # 32 bits: what scikit-learn's sparse distances take.
    starts = np.concatenate([[0], np.cumsum([len(one) for one in objects])]).astype(np.int32)
    parts = (np.array(values, dtype=np.float64), np.array(columns, dtype=np.int32), starts)
    return sparse.csr_array(parts, shape=(len(objects), len(numbers)))


def pair(
    X: Sequence[Mapping[Hashable, float]], Z: Sequence[Mapping[Hashable, float]] | None
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Both collections over the same columns."""
    numbers: dict[Hashable, int] = {}
    left = counted(X, numbers)
    if Z is None:
        return left, left
    right = counted(Z, numbers)
    left.resize((left.shape[0], len(numbers)))
    return left, right


class CountedKernel(ObjectKernel):
    """k(y, z) = <c(y), c(z)> with c(y) the counted parts of y; with `normalise`, divided by |c(y)| |c(z)|.

    Where a part is counted the same way in every object, the kernel is positive semi-definite by construction.
    """

    normalise: bool

    @abstractmethod
    def parts(self, one: Any) -> Mapping[Hashable, float]:
        """The parts of one object and how much of each it has."""

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        left, right = pair([self.parts(x) for x in X], None if Z is None else [self.parts(z) for z in Z])
        values: Array = np.asarray((left @ right.T).toarray(), dtype=np.float64)
        if not self.normalise:
            return values
        norms = [np.sqrt(np.asarray(side.multiply(side).sum(axis=1)).ravel()) for side in (left, right)]
        scale = np.multiply.outer(norms[0], norms[1])
        return np.asarray(np.divide(values, scale, out=np.zeros_like(values), where=scale > 0))

    def diag(self, X: Any) -> Array:
        squares = np.array([sum(value**2 for value in self.parts(x).values()) for x in X], dtype=np.float64)
        return (squares > 0).astype(np.float64) if self.normalise else squares
