"""How large a kernel's space is, seen from given inputs.

With K the (n d, n d) matrix of an operator-valued kernel on n inputs (d = 1 for a scalar one) and lambda_k its
eigenvalues,

    effective dimension   d_eff(alpha) = Tr K (K + alpha I)^-1 = sum_k lambda_k / (lambda_k + alpha)
    log determinant       log det(I + K / alpha) = sum_k log(1 + lambda_k / alpha)

The first counts the directions that a ridge of alpha leaves to the data, the second is what learning them one row at a
time costs; it lies between d_eff(alpha) and d_eff(alpha) (1 + log(1 + lambda_1 / alpha)).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ovk._params import check_int, positive
from ovk._types import Array
from ovk.kernels import ScalarKernel, as_kernel
from ovk.ovkernels import OperatorKernel, Separable
from ovk.solvers import SingularSystem


def effective_dimension(kernel: Any, X: Any, alpha: Any) -> Any:
    """Tr K (K + alpha I)^-1, exactly, from the eigenvalues of the kernel matrix.

    An operator-valued kernel k T costs no more than k; `sketched_effective_dimension` is for rows by the hundred
    thousand.

    Parameters
    ----------
    kernel : scalar or operator-valued kernel
    X : (n, p) inputs
    alpha : float > 0, or an array of them, which costs no more than one

    Returns
    -------
    float, or an array of the shape of `alpha`

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Gaussian
    >>> from ovk.online import effective_dimension
    >>> from ovk.operators import MixedEffect
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> effective_dimension(Gaussian(0.2), X, [0.01, 1.0, 100.0]).round(2)
    array([8.29, 5.08, 0.77])
    >>> round(effective_dimension(Gaussian(0.2) * MixedEffect(0.9, 3), X, 1.0), 2)
    11.65
    """
    return _over(alpha, kernel_eigenvalues(kernel, X), lambda ratio: ratio / (1.0 + ratio))


def log_determinant(kernel: Any, X: Any, alpha: Any) -> Any:
    """log det(I + K / alpha), exactly; arguments and result as for `effective_dimension`.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Gaussian
    >>> from ovk.online import log_determinant
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> round(log_determinant(Gaussian(0.2), X, 1.0), 2)
    14.12
    """
    return _over(alpha, kernel_eigenvalues(kernel, X), np.log1p)


def online_dimension(kernel: Any, X: Any, mu: float) -> float:
    """Sum over the rows of the ridge leverage of each among the rows up to it, for a scalar kernel.

    It depends on the order of the rows, and lies between d_eff(mu) and log det(I + K / mu). With C C' = K + mu I,
    row t has the leverage 1 - mu / C_tt^2.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Gaussian
    >>> from ovk.online import online_dimension
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> round(online_dimension(Gaussian(0.2), X, 1.0), 2)
    13.01
    """
    mu = positive(mu, "mu")
    K = as_kernel(kernel).resolve(X)(X)
    K[np.diag_indices_from(K)] += mu
    try:
        C = np.linalg.cholesky(K)
    except np.linalg.LinAlgError as error:
        raise SingularSystem(f"K + mu I is singular to rounding at mu={mu:g}: raise mu") from error
    return float(np.sum(1.0 - mu / np.diagonal(C) ** 2))


class Bracket(NamedTuple):
    """What a number is known to lie between.

    Examples
    --------
    >>> from ovk.online import Bracket
    >>> Bracket(3.0, 3.2).middle
    3.1
    """

    lower: Any
    upper: Any

    @property
    def middle(self) -> Any:
        """Halfway between."""
        return 0.5 * (self.lower + self.upper)


def sketched_effective_dimension(kernel: Any, X: Any, alpha: Any, rank: int = 500) -> Bracket:
    """Bounds on the effective dimension from `rank` columns of the kernel matrix, in time n rank^2 and memory n rank.

    Pivoted Cholesky gives F F' <= K, and Tr (K - F F') is known. Since t -> t / (t + alpha) is operator monotone and
    its trace subadditive,

        d_eff(F F') <= d_eff(K) <= d_eff(F F') + Tr(K - F F') / alpha

    holds for certain; if the bounds are too far apart, raise `rank`.

    Parameters
    ----------
    kernel, X, alpha : as for `effective_dimension`
    rank : int
        Columns of k for a kernel k T, columns of K for any other; fewer are used if these suffice.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Gaussian
    >>> from ovk.online import effective_dimension, sketched_effective_dimension
    >>> X = np.linspace(0, 1, 100)[:, None]
    >>> found = sketched_effective_dimension(Gaussian(0.2), X, 1.0, rank=8)
    >>> bool(found.lower <= effective_dimension(Gaussian(0.2), X, 1.0) <= found.upper), round(found.middle, 2)
    (True, 5.09)
    """
    rank = check_int(rank, "rank")
    K = _resolved(kernel, X)
    if isinstance(K, Separable):
        F, left = _pivoted(_ScalarColumns(K.scalar, X), rank)
        outputs = K.operator.eigh().values
    else:
        F, left = _pivoted(_PairColumns(K, X) if isinstance(K, OperatorKernel) else _ScalarColumns(K, X), rank)
        outputs = np.ones(1)
    values = np.multiply.outer(np.maximum(np.linalg.eigvalsh(F.T @ F), 0.0), outputs).reshape(-1)
    lower = _over(alpha, values, lambda ratio: ratio / (1.0 + ratio))
    beyond = left * float(outputs.sum()) / np.asarray(alpha, dtype=np.float64)
    return Bracket(lower, lower + (float(beyond) if beyond.ndim == 0 else beyond))


def kernel_eigenvalues(kernel: Any, X: Any) -> Array:
    """Eigenvalues of the kernel matrix, (n d,), ascending; rounding below zero is taken as zero.

    >>> import numpy as np
    >>> from ovk.kernels import Linear
    >>> kernel_eigenvalues(Linear(), np.array([[1.0], [2.0]]))
    array([0., 5.])
    """
    K = _resolved(kernel, X)
    if isinstance(K, ScalarKernel):
        return _checked(_eigenvalues(K(X)))
    gram = K.gram(X)
    parts = gram.rotation()
    if parts is None:
        return _checked(_eigenvalues(gram.dense()))
    copies = [group.stop - group.start for group in parts.groups]
    if len(parts.grams) == 1:
        base = _eigenvalues(parts.grams[0])
        found = [weight * base for weight in parts.weights[:, 0]]
    else:
        found = [_eigenvalues(parts.matrix(q)) for q in range(len(parts))]
    return _checked(np.sort(np.concatenate([np.tile(v, k) for v, k in zip(found, copies, strict=True)])))


def _resolved(kernel: Any, X: Any) -> ScalarKernel | OperatorKernel:
    if isinstance(kernel, OperatorKernel):
        return kernel if kernel.output_dim is None else kernel.resolve(X, kernel.output_dim)
    return as_kernel(kernel).resolve(X)


def _eigenvalues(G: Array) -> Array:
    return np.asarray(np.linalg.eigvalsh(G), dtype=np.float64)


def _checked(values: Array) -> Array:
    if len(values) and values[0] < -1e-7 * max(float(values[-1]), 1e-300):
        raise SingularSystem(
            f"the kernel matrix must be positive semi-definite, but it has the eigenvalue {values[0]:.6g} "
            f"(the largest is {values[-1]:.6g}): check the kernel"
        )
    return np.maximum(values, 0.0)


def _over(alpha: Any, values: Array, f: Any) -> Any:
    """sum_k f(lambda_k / alpha) for each alpha."""
    alphas = np.asarray(alpha, dtype=np.float64)
    if not (np.isfinite(alphas).all() and (alphas > 0).all()):
        raise ValueError(f"alpha must hold finite numbers > 0, got {alpha!r}")
    sums = np.array([np.sum(f(values / a)) for a in alphas.reshape(-1)]).reshape(alphas.shape)
    return float(sums) if alphas.ndim == 0 else sums


class _ScalarColumns:
    """Diagonal and single columns of a scalar kernel's matrix."""

    def __init__(self, kernel: ScalarKernel, X: Any) -> None:
        self.kernel, self.X = kernel, X

    def diagonal(self) -> Array:
        return np.array(self.kernel.diag(self.X), dtype=np.float64)

    def column(self, i: int) -> Array:
        result: Array = self.kernel(self.X, self.X[[i]])[:, 0]
        return result


class _PairColumns:
    """The same for pairs (input, output), numbered i d + q."""

    def __init__(self, K: OperatorKernel, X: Any) -> None:
        blocks = K.diagonal_blocks(X)
        n, d = blocks.shape[:2]
        self.K, self.X = K, X
        self.left: Array = np.einsum("iqq->iq", blocks).reshape(-1).copy()
        self.points, self.outputs = np.repeat(np.arange(n), d), np.tile(np.arange(d), n)

    def diagonal(self) -> Array:
        return self.left

    def column(self, i: int) -> Array:
        X, s = self.X[self.points], self.outputs
        result: Array = self.K.pairs(X, s, X[[i]], s[[i]])[:, 0]
        return result


def _pivoted(columns: _ScalarColumns | _PairColumns, rank: int) -> tuple[Array, float]:
    """F, (N, r), with F F' <= K, and the trace of what is left, by greedy pivots."""
    left = columns.diagonal()
    total = float(left.sum())
    F = np.zeros((len(left), min(rank, len(left))), order="F")
    used = 0
    for k in range(F.shape[1]):
        pivot = int(left.argmax())
        if left[pivot] <= 1e-14 * total:
            break
        F[:, k] = (columns.column(pivot) - F[:, :k] @ F[pivot, :k]) / np.sqrt(left[pivot])
        left -= F[:, k] ** 2
        left[pivot] = 0.0
        np.maximum(left, 0.0, out=left)
        used = k + 1
    return F[:, :used], float(left.sum())
