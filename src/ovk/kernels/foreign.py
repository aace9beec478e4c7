"""Kernels from Python functions, scikit-learn's kernel objects and precomputed matrices."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.gaussian_process import kernels as sklearn_kernels

from ovk.base import Algebra, Array, Indices, register
from ovk.kernels.base import Linear, Polynomial, ScalarKernel, Tanimoto
from ovk.kernels.stationary import Gaussian, Laplacian


@dataclass(eq=False, repr=False)
class Precomputed(ScalarKernel):
    """Kernel given by its matrix, k(i, j) = matrix[i, j].

    - ``Precomputed(matrix)``: the matrix covers all objects, training and test, and `X` is a column of their indices.
    - ``Precomputed()``: as in scikit-learn, `X` is the kernel matrix, (n, n) in `fit` and (m, n), new by training
      objects, in `predict`. k(x, x) of a new object is then unknown, and `return_std` is not supported.

    Parameters
    ----------
    matrix : (N, N) array, optional
        The kernel between all objects.

    See Also
    --------
    Function

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Precomputed
    >>> k = Precomputed(np.array([[2.0, 1.0], [1.0, 3.0]]))
    >>> k(np.array([[1], [0]]), np.array([[0]]))
    array([[1.],
           [2.]])
    """

    matrix: Array | None = None

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        if self.matrix is not None:
            rows = self._indices(X)
            columns = rows if Z is None else self._indices(Z)
            return np.ascontiguousarray(np.asarray(self.matrix, dtype=np.float64)[np.ix_(rows, columns)])
        gram = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
        count = gram.shape[0] if Z is None else Z.shape[0]
        if gram.ndim != 2 or gram.shape[1] != count:
            raise ValueError(
                f"X must be a kernel matrix with {count} columns, one per training object, got shape {gram.shape}; "
                "or use Precomputed(matrix) and pass indices"
            )
        return gram

    def _indices(self, X: Any) -> Indices:
        matrix = np.asarray(self.matrix)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"matrix must be square, got shape {matrix.shape}")
        wrong = "with Precomputed(matrix) an input is the index of an object: X must have one column"
        return object_indices(X.toarray() if sparse.issparse(X) else X, len(matrix), wrong, "the rows of the matrix")

    def diag(self, X: Any) -> Array:
        if self.matrix is None:
            if X.shape[0] != X.shape[1]:
                raise ValueError("k(x, x) of new objects is unknown: use Precomputed(matrix) with indices")
            return np.array(np.diagonal(X), dtype=np.float64)
        indices = self._indices(X)
        return np.asarray(np.asarray(self.matrix, dtype=np.float64)[indices, indices])

    def norm_bound(self) -> float | None:
        return None if self.matrix is None else float(np.max(np.diagonal(self.matrix)))


def object_indices(X: Any, count: int, wrong_shape: str, which: str) -> Indices:
    """(n,) indices below `count`, from a list or a single column; the other arguments complete the errors."""
    numbers: Array = np.asarray(X, dtype=np.float64)
    rows = numbers.reshape(len(numbers), math.prod(numbers.shape[1:]))
    if rows.shape[1] != 1:
        raise ValueError(f"{wrong_shape}, got {rows.shape[1]}")
    column = rows[:, 0]
    # nan fails as well.
    if not ((column >= 0) & (column < count) & (column == np.floor(column))).all():
        raise ValueError(f"objects must be integers from 0 to {count - 1}, the indices of {which}")
    return column.astype(np.intp)


@dataclass(eq=False, repr=False)
class Function(ScalarKernel):
    """Kernel computed by a Python function of two matrices of inputs.

    Parameters
    ----------
    function : callable
        ``function(X, Z)`` returns the (n, m) matrix of a positive semi-definite kernel.

    See Also
    --------
    Precomputed

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Function
    >>> Function(lambda X, Z: np.minimum(X, Z.T))(np.array([[1.0], [2.0]]))
    array([[1., 1.],
           [1., 2.]])
    """

    function: Callable[[Any, Any], Array]

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        other = X if Z is None else Z
        values = np.asarray(self.function(X, other), dtype=np.float64)
        if values.shape != (X.shape[0], other.shape[0]):
            raise ValueError(
                f"function must return an array of shape {(X.shape[0], other.shape[0])} for inputs of {X.shape[0]} "
                f"and {other.shape[0]} rows, got {values.shape}"
            )
        return values

    def diag(self, X: Any) -> Array:
        return np.array([self(X[i : i + 1])[0, 0] for i in range(X.shape[0])])


@dataclass(eq=False, repr=False)
class SklearnKernel(ScalarKernel):
    """A kernel object of `sklearn.gaussian_process.kernels`."""

    kernel: sklearn_kernels.Kernel

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        return np.asarray(self.kernel(X, Z), dtype=np.float64)

    def diag(self, X: Any) -> Array:
        return np.asarray(self.kernel.diag(X), dtype=np.float64)


# scikit-learn's RBF() * T treats T as a number unless it is a kernel. `as_ours` converts the products it makes.
sklearn_kernels.Kernel.register(Algebra)

# Models with these kernels can be saved.
for _, _cls in inspect.getmembers(sklearn_kernels, inspect.isclass):
    if issubclass(_cls, sklearn_kernels.Kernel) and not inspect.isabstract(_cls):
        register(_cls)

_NAMES: dict[str, type[ScalarKernel]] = {
    "gaussian": Gaussian,
    "rbf": Gaussian,
    "laplacian": Laplacian,
    "linear": Linear,
    "polynomial": Polynomial,
    "tanimoto": Tanimoto,
    "precomputed": Precomputed,
}


def as_kernel(kernel: Any) -> ScalarKernel:
    """A scalar kernel from a kernel of ovk or scikit-learn, a name or a function."""
    kernel = as_ours(kernel)
    if isinstance(kernel, ScalarKernel):
        return kernel
    if isinstance(kernel, sklearn_kernels.Kernel) and not isinstance(kernel, Algebra):
        return SklearnKernel(kernel)
    if isinstance(kernel, str):
        if kernel not in _NAMES:
            raise ValueError(f"kernel must be one of {sorted(_NAMES)} or a kernel object, got {kernel!r}")
        return _NAMES[kernel]()
    if callable(kernel) and not isinstance(kernel, type):
        return Function(kernel)
    raise ValueError(
        f"kernel must be a kernel of ovk.kernels, of sklearn.gaussian_process.kernels, a name or a function of "
        f"(X, Z), got {kernel!r}"
    )


def as_ours(kernel: Any) -> Any:
    """Convert a scikit-learn sum or product that contains a kernel or operator of ovk; others are unchanged."""
    if not isinstance(kernel, (sklearn_kernels.Sum, sklearn_kernels.Product)):
        return kernel
    parts = [as_ours(kernel.k1), as_ours(kernel.k2)]
    if not any(isinstance(part, Algebra) for part in parts):
        return kernel
    left, right = (part if isinstance(part, Algebra) else SklearnKernel(part) for part in parts)
    return left + right if isinstance(kernel, sklearn_kernels.Sum) else left * right
