"""Kernels of sets."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import manhattan_distances

from ovk._validation import Array
from ovk.structured.counted import pair
from ovk.structured.outputs import ObjectKernel


class Jaccard(ObjectKernel):
    """k(y, z) = |y and z| / |y or z| of two sets; of counted or weighted sets, sum of minima / sum of maxima.

    Two empty sets are alike: k = 1. For sets written as rows of 0 and 1, `ovk.kernels.Tanimoto` is the same kernel.

    Examples
    --------
    >>> from ovk.structured import Jaccard
    >>> Jaccard()([{"a", "b"}], [{"b", "c"}, {"a", "b"}, set()]).round(3)
    array([[0.333, 1.   , 0.   ]])
    >>> Jaccard()([{"a": 2, "b": 1}], [{"a": 1, "c": 1}])
    array([[0.25]])
    """

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        left, right = pair([_weights(x) for x in X], None if Z is None else [_weights(z) for z in Z])
        sizes = [np.asarray(side.sum(axis=1)).ravel() for side in (left, right)]
        total = np.add.outer(sizes[0], sizes[1])
        if all((side.data == 1.0).all() for side in (left, right)):
            common = np.asarray((left @ right.T).toarray(), dtype=np.float64)
        else:
            # min(a, b) = (a + b - |a - b|) / 2
            common = 0.5 * (total - manhattan_distances(left, right)) if left.shape[1] else np.zeros_like(total)
        union = total - common
        return np.asarray(np.divide(common, union, out=np.ones_like(union), where=union > 0))

    def diag(self, X: Any) -> Array:
        return np.ones(len(X))

    def norm_bound(self) -> float:
        return 1.0


def _weights(one: Any) -> Mapping[Hashable, float]:
    if isinstance(one, str):
        raise ValueError(f"an output of Jaccard() must be a set (or a mapping to weights), got the string {one!r}")
    if not isinstance(one, Mapping):
        return dict.fromkeys(one, 1.0)
    for part, weight in one.items():
        if not (np.isfinite(weight) and weight >= 0):
            raise ValueError(f"weights of a set must be finite and >= 0, got {weight!r} for {part!r}")
    return one
