"""Nystrom features: the kernel seen from a few points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.linalg import lapack, solve_triangular

from ovk._params import Registered
from ovk._singular import SingularSystem
from ovk._types import Array
from ovk.kernels import ScalarKernel
from ovk.ovkernels import OperatorKernel

#: A point whose squared distance to the span of the others is below this part of k(z, z) adds nothing but noise.
DEPENDENT = 1e-8


@dataclass(frozen=True)
class NystromMap(Registered):
    """phi(x) = L^-1 k_D(x), L L' = k(D, D): <phi(x), phi(z)> approximates k(x, z), exactly for x in D.

    Attributes
    ----------
    kernel : scalar kernel
    points : (m, p) the dictionary D
    L : (m, m) lower triangle

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.features import NystromMap
    >>> from ovk.kernels import Gaussian
    >>> X = np.linspace(0.0, 1.0, 5)[:, None]
    >>> features = NystromMap.from_points(Gaussian(1.0), X[:3])
    >>> phi = features.transform(X[:3])
    >>> np.allclose(phi @ phi.T, Gaussian(1.0)(X[:3]))
    True
    """

    kernel: ScalarKernel
    points: Any
    L: Array

    @classmethod
    def from_points(cls, kernel: ScalarKernel, points: Any) -> Self:
        """The map of a dictionary; points that depend on the others (such as duplicates) are left out."""
        keep, L = independent(kernel(points))
        return cls(kernel, points[keep], L)

    def transform(self, X: Any) -> Array:
        """Features, (n, m)."""
        return np.asarray(solve_triangular(self.L, self.kernel(self.points, X), lower=True, check_finite=False).T)

    def coefficients(self, W: Array) -> Array:
        """Expansion coefficients A, (m, q), of the functions phi(x)' W = sum_j k(x, z_j) A_j."""
        return np.asarray(solve_triangular(self.L, W, lower=True, trans="T", check_finite=False))


@dataclass(frozen=True)
class OperatorNystromMap(Registered):
    """The same for an operator-valued kernel: Phi(x) = L^-1 K(D, x), with m d features for each of the d outputs.

    Attributes
    ----------
    kernel : operator-valued kernel
    points : (m, p) the dictionary D
    keep : indices of the pairs (point, output), numbered i d + q, that are independent
    L : lower triangle on those pairs

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.features import OperatorNystromMap
    >>> from ovk.kernels import Gaussian
    >>> from ovk.ovkernels import CurlFree
    >>> X = np.array([[0.0, 0.0], [1.0, 0.5]])
    >>> K = CurlFree(Gaussian(1.0))
    >>> phi = OperatorNystromMap.from_points(K, X).transform(X)
    >>> np.allclose(phi @ phi.T, K.gram(X).dense())
    True
    """

    kernel: OperatorKernel
    points: Any
    keep: Any
    L: Array

    @classmethod
    def from_points(cls, kernel: OperatorKernel, points: Any) -> Self:
        """The map of a dictionary; dependent pairs are left out."""
        keep, L = independent(kernel.gram(points).dense())
        return cls(kernel, points, keep, L)

    @cached_property
    def output_dim(self) -> int:
        """Number of outputs d."""
        return self.kernel.gram(self.points[:1]).output_dim

    def transform(self, X: Any) -> Array:
        """Features, (n d, m'): row i d + q belongs to output q of input i."""
        K = self.kernel.gram(self.points, X).dense()[self.keep]
        return np.asarray(solve_triangular(self.L, K, lower=True, check_finite=False).T)

    def coefficients(self, W: Array) -> Array:
        """Expansion coefficients, (m, d), of the function Phi(x)' W, W (m',)."""
        full = np.zeros(self.points.shape[0] * self.output_dim)
        full[self.keep] = solve_triangular(self.L, W, lower=True, trans="T", check_finite=False)
        return full.reshape(-1, self.output_dim)


def independent(gram: Array) -> tuple[Array, Array]:
    """Rows of a gram that are linearly independent (to `DEPENDENT`), ascending, and their Cholesky factor."""
    largest = float(np.diagonal(gram).max(initial=0.0))
    if not np.isfinite(gram).all():
        raise SingularSystem(
            "the kernel has values at the landmarks that are not finite: scale X, or check the kernel's parameters"
        )
    if largest <= 0:
        raise ValueError("the kernel is zero at every landmark: choose other landmarks or another kernel")
    _, pivots, rank, _ = lapack.dpstrf(np.asfortranarray(gram), tol=DEPENDENT * largest, lower=1)
    keep = np.sort(pivots[:rank] - 1)
    return keep, np.linalg.cholesky(gram[np.ix_(keep, keep)])
