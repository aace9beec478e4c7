"""Taylor features of the Gaussian kernel: monomials, weighed by the kernel itself.

With u = (x - centre) / l and v = (z - centre) / l,

    exp(-|u - v|^2 / 2) = exp(-|u|^2 / 2) exp(-|v|^2 / 2) sum_a u^a v^a / a!        (over all multi-indices a)

so the features of degree |a| <= r are products of one-dimensional ones,

    phi_a(x) = prod_j psi_{a_j}(u_j),     psi_k(t) = exp(-t^2 / 2) t^k / sqrt(k!),     sum_k psi_k(t)^2 = 1,

each within [-1, 1]: nothing overflows. A monomial stands once, not once for each order of its factors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import gammainc, gammaln, xlogy

from ovk._params import Registered, check_int, dense_inputs
from ovk._types import Array
from ovk.kernels import Gaussian, ScalarKernel

#: More features than anybody can solve with.
MOST_FEATURES = 100_000


@dataclass(frozen=True)
class TaylorMap(Registered):
    """phi_a(x) = exp(-|u|^2 / 2) u^a / sqrt(a!), |a| <= degree, u = (x - centre) / l, for the Gaussian kernel.

    What it leaves out of the kernel is again a kernel, so the error at two points is at most the geometric mean of
    those at each, which `residual` knows in closed form: the map is good while |u|^2 is well below the degree, and
    the centre belongs in the middle of the inputs.

    Attributes
    ----------
    kernel : Gaussian kernel, or a multiple of one
    degree : int >= 0
        r; there are (p + r)! / (p! r!) features, in order of their degree.
    centre : (p,)

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.features import TaylorMap
    >>> from ovk.kernels import Gaussian
    >>> X = np.array([[0.0, 0.5], [0.3, -0.2]])
    >>> features = TaylorMap.from_kernel(Gaussian(1.0), degree=8, centre=np.zeros(2))
    >>> phi = features.transform(X)
    >>> phi.shape, bool(np.abs(phi @ phi.T - Gaussian(1.0)(X)).max() < 1e-8)
    ((2, 45), True)
    """

    kernel: ScalarKernel
    degree: int
    centre: Any

    @classmethod
    def from_kernel(cls, kernel: ScalarKernel, degree: int, centre: Any) -> Self:
        """The map about `centre`, (p,), such as the mean of some inputs."""
        r = check_int(degree, "degree", least=0)
        point = np.array(centre, dtype=np.float64)
        if point.ndim != 1 or point.size == 0 or not np.isfinite(point).all():
            raise ValueError(f"centre must hold a finite number for each input, got {centre!r}")
        gaussian, _ = _gaussian(kernel)
        gaussian.scale(len(point))
        count = comb(len(point) + r, r)
        if count > MOST_FEATURES:
            raise ValueError(
                f"degree={r} makes {count:,} Taylor features of {len(point)} inputs, at most {MOST_FEATURES:,} are "
                "allowed: lower degree, or use Nystrom features"
            )
        return cls(kernel, r, point)

    @property
    def n_features(self) -> int:
        """m"""
        return comb(len(self.centre) + self.degree, self.degree)

    @cached_property
    def exponents(self) -> npt.NDArray[np.int64]:
        """(m, p) multi-indices of the features."""
        found = np.zeros((1, 0), dtype=np.int64)
        for _ in self.centre:
            found = np.concatenate(
                [
                    np.column_stack([found[rows], np.full(len(rows), k, dtype=np.int64)])
                    for k, rows in self._extensions(found.sum(axis=1))
                ]
            )
        ordered: npt.NDArray[np.int64] = found[self._order(found.sum(axis=1))]
        return ordered

    def transform(self, X: Any) -> Array:
        """Features, (n, m)."""
        u, factor = self._units(X)
        # One input after the other: a product of the first j inputs is shared by all features that begin with it.
        phi, degrees = np.full((1, len(u)), np.sqrt(factor)), np.zeros(1, dtype=np.int64)
        for column in u.T:
            psi = _powers(column, self.degree)
            steps = self._extensions(degrees)
            phi = np.concatenate([phi[rows] * psi[k] for k, rows in steps])
            degrees = np.concatenate([degrees[rows] + k for k, rows in steps])
        return phi[self._order(degrees)].T

    def residual(self, X: Any) -> Array:
        """k(x, x) - |phi(x)|^2, (n,): the chance that a Poisson variable of mean |u|^2 exceeds the degree."""
        u, factor = self._units(X)
        with np.errstate(over="ignore"):
            # Beyond 1e300 the chance is 1 to all digits.
            squares = np.minimum(np.sum(u * u, axis=1), 1e300)
        return np.asarray(factor * gammainc(self.degree + 1.0, squares))

    def _units(self, X: Any) -> tuple[Array, float]:
        """u, (n, p), and the factor before the Gaussian."""
        X = dense_inputs(X, "TaylorMap")
        if X.ndim != 2 or X.shape[1] != len(self.centre):
            raise ValueError(f"this TaylorMap is for inputs (n, {len(self.centre)}), got an array of shape {X.shape}")
        gaussian, factor = _gaussian(self.kernel)
        return (X - self.centre) / gaussian.scale(X.shape[1]), factor

    def _extensions(self, degrees: npt.NDArray[np.int64]) -> list[tuple[int, npt.NDArray[np.int64]]]:
        """For each power k of the next input, the products so far that it may join."""
        return [(k, np.flatnonzero(degrees + k <= self.degree)) for k in range(self.degree + 1)]

    @staticmethod
    def _order(degrees: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.argsort(degrees, kind="stable")


def _powers(t: Array, r: int) -> Array:
    """psi_k(t) for k = 0..r, (r + 1, n), by logarithms: t^k and k! are never formed."""
    k = np.arange(r + 1)[:, None]
    size = np.abs(t)
    with np.errstate(over="ignore"):
        logs = xlogy(k, size) - 0.5 * gammaln(k + 1.0) - 0.5 * size**2
    return np.asarray(np.exp(logs) * np.where((t < 0) & (k % 2 == 1), -1.0, 1.0))


def _gaussian(kernel: ScalarKernel) -> tuple[Gaussian, float]:
    """The Gaussian kernel, and the factor before it."""
    (factor, only), *others = kernel.summands()
    if others or not isinstance(only, Gaussian):
        raise ValueError(
            f"Taylor features are for the Gaussian kernel or a multiple of it, got {kernel!r}: use Nystrom features "
            "for any kernel, or Fourier features for stationary ones"
        )
    return only, factor
