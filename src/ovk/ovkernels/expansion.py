"""Kernel expansions, f(x) = sum_i K(x, x_i) c_i + intercept: the models of most estimators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ovk.base import Array, DeviceMatrix, Indices, Registered
from ovk.ovkernels.base import OperatorKernel

#: Maximum number of kernel values in memory during prediction (128 MB).
MAX_KERNEL_VALUES = 1 << 24


@dataclass(frozen=True)
class Expansion(Registered):
    """A function in the space of an operator-valued kernel, f(x) = sum_i K(x, x_i) c_i + offset.

    Parameters
    ----------
    kernel : operator-valued kernel
        K.
    support : (m, p) array
        The inputs x_i.
    C : (m, d) array or scipy sparse matrix
        The coefficients c_i.
    offset : (d,) array, optional
        Intercept.

    See Also
    --------
    OperatorKernel, ovk.OVKRidge

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.ovkernels import Expansion
    >>> from ovk.kernels import Linear
    >>> from ovk.operators import Identity
    >>> f = Expansion(Linear() * Identity(1), np.array([[1.0], [2.0]]), np.array([[1.0], [1.0]]))
    >>> f(np.array([[2.0]]))
    array([[6.]])
    >>> f.at(np.array([[2.0], [1.0]]), np.array([0, 0]))
    array([6., 3.])
    >>> f.jacobian(np.array([[2.0]]))
    array([[[3.]]])
    >>> f.norm()
    3.0
    """

    kernel: OperatorKernel
    support: Any
    C: Any
    offset: Array | None = None

    def __post_init__(self) -> None:
        for name in ("support", "C"):
            value = getattr(self, name)
            if isinstance(value, (list, tuple)):
                object.__setattr__(self, name, np.asarray(value, dtype=np.float64))

    def __call__(self, X: Any) -> Array:
        """Values f(x), (n, d), computed in chunks of rows to bound memory."""
        X = np.asarray(X, dtype=np.float64) if isinstance(X, (list, tuple)) else X
        n, (m, d) = X.shape[0], self.C.shape
        values = np.empty((n, d))
        # Moved once, not for every chunk.
        support = X.like(self.support) if isinstance(X, DeviceMatrix) else self.support
        # The product with k T holds only k, and its preparation of the support is shared by all rows of a chunk.
        separable = self.kernel.as_separable() is not None and not sparse.issparse(self.C)
        for rows in row_slices(n, max(m, d) if separable else m * d):
            values[rows] = self.kernel.product(X[rows], support, self.C)
        return values if self.offset is None else values + self.offset

    def at(self, X: Any, outputs: Indices) -> Array:
        """One output of each row, f_q(x_i) with q = outputs_i, (n,), without computing the others."""
        width, value = self._one_output()
        values = np.empty(X.shape[0])
        for rows in row_slices(len(values), width):
            values[rows] = value(X[rows], outputs[rows])
        return values if self.offset is None else values + self.offset[outputs]

    def _one_output(self) -> tuple[int, Callable[[Any, Indices], Array]]:
        """A function that computes f_q(x) of rows x and outputs q, and its memory per row."""
        m, d = self.C.shape
        if sparse.issparse(self.C):
            # Coefficients of pairs of a point and an output: the kernel on pairs.
            C = self.C.tocoo()
            points, inputs = C.coords
            support = self.support[points]
            return C.nnz, lambda X, q: self.kernel.pairs(X, q, support, inputs) @ C.data
        separable = self.kernel.as_separable()
        if separable is not None:
            scalar, A = separable.scalar, separable.operator.apply(self.C).T
            return 2 * m, lambda X, q: np.einsum("ij,ij->i", scalar(X, self.support), A[q])
        return m * d, lambda X, q: self.kernel.gram(X, self.support).matmat(self.C)[np.arange(len(q)), q]

    def jacobian(self, X: Any) -> Array:
        """Derivative of f in its input at each row of X, (n, d, p), in closed form."""
        X, Z, C = (np.asarray(A.toarray() if sparse.issparse(A) else A) for A in (X, self.support, self.C))
        parts = [self.kernel.jacobian(X[rows], Z, C) for rows in row_slices(len(X), len(Z))]
        return np.concatenate(parts) if parts else np.empty((0, C.shape[1], X.shape[1]))

    def norm(self) -> float:
        """The norm |f| in the kernel's space, sqrt(sum_ij <c_i, K(x_i, x_j) c_j>), without the intercept."""
        C = self.C if isinstance(self.C, np.ndarray) else self.C.toarray()
        # Scaled by the largest coefficient, as squares of numbers such as 1e300 would overflow.
        size = float(np.abs(C).max(initial=0.0)) or 1.0
        scaled = C / size
        values = Expansion(self.kernel, self.support, scaled)(self.support)
        return size * float(np.sqrt(max(float(np.vdot(scaled, values)), 0.0)))


def row_slices(n: int, width: int, most: int = MAX_KERNEL_VALUES) -> Iterator[slice]:
    """Slices of the rows 0..n, each with about `most` entries in `width` columns."""
    step = max(32, most // max(width, 1))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))
