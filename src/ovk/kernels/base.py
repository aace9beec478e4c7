"""The contract of a scalar kernel k(x, z)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np

from ovk.base import Algebra, Array, Indices, Parameters


class Slope(NamedTuple):
    """One term of the derivative of a kernel in its first input.

    The gradient is a sum of terms ``metric * (A z + B x)``: radial kernels and kernels of an inner product both have
    this form, and sums and products of kernels keep it.
    """

    A: Array  # (n, m)
    B: Array | None  # (n, m), None for zero
    metric: float | Array  # scalar, (p,) or symmetric (p, p)


class NotDifferentiable(ValueError):
    """The kernel has no derivative of the kind that was asked for."""


class ScalarKernel(Algebra, Parameters, ABC):
    """A positive semi-definite function k(x, z) of two inputs.

    Kernels can be added, multiplied with each other and scaled, and become operator-valued when multiplied by an
    output operator.
    """

    @abstractmethod
    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        """Matrix k(x_i, z_j), (n, m). `Z` None means `X`."""

    @abstractmethod
    def diag(self, X: Any) -> Array:
        """k(x_i, x_i), (n,)."""

    def diagonal_blocks(self, X: Any) -> Array:
        """k(x_i, x_i) as blocks of one output, (n, 1, 1)."""
        return self.diag(X)[:, None, None]

    def product(self, X: Any, Z: Any, W: Array, since: Indices | None = None) -> Array:
        """k(X, Z) W, (n, q), for weights W (m, q); without the matrix where a kernel knows how.

        `since`, (n,) and never decreasing, is the first of the points Z that each row sees; None means all.
        """
        return product_window(self(X, Z), W, since)

    def summands(self) -> list[tuple[float, ScalarKernel]]:
        """The kernel as a sum of weights times kernels, of itself alone if it is no sum."""
        return [(1.0, self)]

    def resolve(self, X: Any) -> Self:
        """The kernel with everything that is learned from the inputs learned, such as ``length_scale="median"``.

        Returns the kernel itself when there is nothing to learn; never changes it.
        """
        params = self.get_params(deep=False)
        inner = {name: value.resolve(X) for name, value in params.items() if isinstance(value, ScalarKernel)}
        if all(inner[name] is params[name] for name in inner):
            return self
        return type(self)(**{**params, **inner})

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Array]:
        """Derivative of the matrix in every continuous hyper-parameter, by its (nested) name.

        A parameter of shape s has a derivative of shape s + (n, m).
        """
        return {}

    def gradient_product(self, weights: Array, X: Any) -> dict[str, Array]:
        """sum_ij weights_ij dk(x_i, x_j) for every hyper-parameter, in its shape: `weights`, (n, n), is symmetric.

        What the gradient of a criterion needs. A kernel with many parameters, such as a length scale for each input,
        computes it without holding a matrix for each of them.
        """
        return {name: np.tensordot(change, weights, axes=2) for name, change in self.gradient(X).items()}

    def slopes(self, X: Any, Z: Any) -> list[Slope]:
        """The derivative in the first input, as terms that can be contracted without forming (n, m, p) numbers."""
        raise NotDifferentiable(
            f"{type(self).__name__} has no closed-form derivative in its input; use a Gaussian, Matern (nu > 1/2), "
            "RationalQuadratic, Polynomial, Linear or Tanimoto kernel where a Jacobian is needed"
        )

    def norm_bound(self) -> float | None:
        """sup over x of k(x, x), or None when it is unbounded or unknown."""
        return None


def prefixed(name: str, gradient: dict[str, Array]) -> dict[str, Array]:
    """Derivatives in the parameters of a part of a kernel, under their names in the whole."""
    return {f"{name}__{key}": value for key, value in gradient.items()}


def product_window(G: Array, W: Array, since: Indices | None) -> Array:
    """G W, where row i of G, (n, m), counts from its column since_i on."""
    if since is None or not len(since):
        return np.asarray(G @ W)
    k = int(since[-1])
    return np.asarray((G[:, :k] * (np.arange(k) >= since[:, None])) @ W[:k] + G[:, k:] @ W[k:])


def contract(slopes: list[Slope], X: Any, Z: Any, W: Array) -> Array:
    """Sum over j of the gradient of k(x_i, z_j) in x_i, times W_j.

    Parameters
    ----------
    X, Z : (n, p) and (m, p) arrays
    W : (m, q) array of weights, or (n, m, q) with weights of its own for each x_i

    Returns
    -------
    (n, q, p) array; entry (i, a, b) is the derivative of sum_j k(x_i, z_j) W_ja in the b-th coordinate of x_i
    """
    X, Z = np.asarray(X, dtype=np.float64), np.asarray(Z, dtype=np.float64)
    if W.ndim == 3:
        return _contract_each(slopes, X, Z, W)
    n, p, q = len(X), X.shape[1], W.shape[1]
    weighted = (W[:, :, None] * Z[:, None, :]).reshape(len(Z), q * p)
    total = np.zeros((n, q, p))
    for A, B, metric in slopes:
        term = (A @ weighted).reshape(n, q, p)
        if B is not None:
            term += (B @ W)[:, :, None] * X[:, None, :]
        total += term @ metric if np.ndim(metric) == 2 else metric * term
    return total


def _contract_each(slopes: list[Slope], X: Array, Z: Array, W: Array) -> Array:
    """`contract` with weights for each x_i: products of small matrices, one for each point."""
    total = np.zeros((len(X), W.shape[2], X.shape[1]))
    for A, B, metric in slopes:
        term = (A[:, :, None] * W).swapaxes(1, 2) @ Z
        if B is not None:
            term += np.einsum("ij,ijq->iq", B, W)[:, :, None] * X[:, None, :]
        total += term @ metric if np.ndim(metric) == 2 else metric * term
    return total
