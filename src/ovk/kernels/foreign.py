"""Kernels from elsewhere: any function, and scikit-learn's kernel objects."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as sklearn_kernels

from ovk._algebra import Algebra
from ovk._registry import register
from ovk._types import Array
from ovk.kernels.base import ScalarKernel
from ovk.kernels.inner_product import Linear, Polynomial, Tanimoto
from ovk.kernels.laplacian import Laplacian
from ovk.kernels.precomputed import Precomputed
from ovk.kernels.stationary import Gaussian


class Function(ScalarKernel):
    """A kernel given as a Python function of two matrices of inputs.

    Parameters
    ----------
    function : callable
        ``function(X, Z)`` returns the (n, m) matrix of a positive semi-definite kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Function
    >>> Function(lambda X, Z: np.minimum(X, Z.T))(np.array([[1.0], [2.0]]))
    array([[1., 1.],
           [1., 2.]])
    """

    def __init__(self, function: Callable[[Any, Any], Array]) -> None:
        self.function = function

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        other = X if Z is None else Z
        values = np.asarray(self.function(X, other), dtype=np.float64)
        if values.shape != (X.shape[0], other.shape[0]):
            raise ValueError(
                f"the kernel function must return an array of shape {(X.shape[0], other.shape[0])} "
                f"for inputs of {X.shape[0]} and {other.shape[0]} rows, got {values.shape}"
            )
        return values

    def diag(self, X: Any) -> Array:
        return np.array([self(X[i : i + 1])[0, 0] for i in range(X.shape[0])])


class SklearnKernel(ScalarKernel):
    """A kernel object of `sklearn.gaussian_process.kernels`.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from ovk.kernels import SklearnKernel
    >>> SklearnKernel(RBF(1.0))(np.array([[0.0], [1.0]])).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    def __init__(self, kernel: sklearn_kernels.Kernel) -> None:
        self.kernel = kernel

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        return np.asarray(self.kernel(X, Z), dtype=np.float64)

    def diag(self, X: Any) -> Array:
        return np.asarray(self.kernel.diag(X), dtype=np.float64)


# scikit-learn's RBF() * T asks whether T is a kernel, and takes it for a number if it is not: then the product cannot
# be printed. `as_ours` reads what it makes of our objects.
sklearn_kernels.Kernel.register(Algebra)

# So that models with these kernels can be saved: their state is their parameters, like ours.
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
    """Turn what a user may pass as a scalar kernel into one: an object of ours or scikit-learn's, a name, a function.

    Examples
    --------
    >>> from ovk.kernels import as_kernel
    >>> as_kernel("linear")
    Linear()
    """
    kernel = as_ours(kernel)
    if isinstance(kernel, ScalarKernel):
        return kernel
    if isinstance(kernel, sklearn_kernels.Kernel) and not isinstance(kernel, Algebra):
        return SklearnKernel(kernel)
    if isinstance(kernel, str):
        if kernel not in _NAMES:
            raise ValueError(f"kernel must be one of {sorted(_NAMES)} when given by name, got {kernel!r}")
        return _NAMES[kernel]()
    if callable(kernel) and not isinstance(kernel, type):
        return Function(kernel)
    raise ValueError(
        f"kernel must be a kernel of ovk.kernels, of sklearn.gaussian_process.kernels, a name or a function of "
        f"(X, Z), got {kernel!r}"
    )


def as_ours(kernel: Any) -> Any:
    """A sum or product of scikit-learn's that holds one of our kernels or operators, as ours; others as they are."""
    if not isinstance(kernel, (sklearn_kernels.Sum, sklearn_kernels.Product)):
        return kernel
    parts = [as_ours(kernel.k1), as_ours(kernel.k2)]
    if not any(isinstance(part, Algebra) for part in parts):
        return kernel
    left, right = (part if isinstance(part, Algebra) else SklearnKernel(part) for part in parts)
    return left + right if isinstance(kernel, sklearn_kernels.Sum) else left * right
