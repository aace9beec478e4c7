"""Sets of points through the mean of their features."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse

from ovk._types import Array
from ovk.kernels import Gaussian, ScalarKernel, as_kernel
from ovk.structured.outputs import ObjectKernel, as_outputs, takes_objects


class MeanMap(ObjectKernel):
    """k(y, z) = mean over a in y and b in z of k0(a, b): the inner product of the sets' mean features.

    An empty set has the mean 0 and is alike to nothing.

    Parameters
    ----------
    kernel : scalar kernel k0 of the elements, default ``Gaussian()``
        Of vectors (an output is then a (size, p) array) or of objects such as `Delta` (an output is a list).

    Examples
    --------
    >>> from ovk.structured import Delta, MeanMap
    >>> MeanMap(Delta())([["a", "b"]], [["a"], ["a", "b"], ["c"]])
    array([[0.5, 0.5, 0. ]])
    """

    def __init__(self, kernel: Any = None) -> None:
        self.kernel = kernel

    def _kernel(self) -> ScalarKernel:
        return Gaussian() if self.kernel is None else as_kernel(self.kernel)

    def resolve(self, X: Any) -> Self:
        kernel = self._kernel()
        elements, _ = _stacked(X, kernel)
        resolved = kernel.resolve(elements)
        return self if resolved is self.kernel else type(self)(resolved)

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        kernel = self._kernel()
        x, means = _stacked(X, kernel)
        if Z is None:
            return np.asarray(means @ (means @ kernel(x)).T)
        z, others = _stacked(Z, kernel)
        if not (means.shape[1] and others.shape[1]):
            return np.zeros((means.shape[0], others.shape[0]))
        return np.asarray(others @ (means @ kernel(x, z)).T).T

    def diag(self, X: Any) -> Array:
        return np.array([float(self([x])[0, 0]) if len(x) else 0.0 for x in X])

    def norm_bound(self) -> float | None:
        return self._kernel().norm_bound()


def _stacked(sets: Any, kernel: ScalarKernel) -> tuple[Any, sparse.csr_array]:
    """All elements one after the other, and the matrix (sets, elements) that takes means."""
    sizes = np.array([len(one) for one in sets], dtype=np.intp)
    weights = np.repeat(1.0 / np.maximum(sizes, 1), sizes)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    means = sparse.csr_array((weights, np.arange(len(weights)), starts), shape=(len(sizes), len(weights)))
    if takes_objects(kernel):
        return [element for one in sets for element in one], means
    rows = [np.asarray(one, dtype=np.float64).reshape(len(one), -1) for one in sets if len(one)]
    return as_outputs(np.concatenate(rows) if rows else np.zeros((0, 1)), kernel, "the elements of a set"), means
