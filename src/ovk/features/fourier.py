"""Random Fourier features of stationary kernels.

A stationary kernel is the mean of waves over its spectral density, k(x, z) = c E cos(w . (x - z)), c = k(x, x). Sums,
products and multiples of such kernels have the same form: a sum draws from the density of one of its terms, chosen with
odds c_1 : c_2; a product adds a frequency of each (the density of a product is a convolution).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from math import comb, sqrt
from typing import Any, Self

import numpy as np
from scipy.special import gammainc, gammaln, xlogy

from ovk.base import Array, DeviceMatrix, State, check_int, dense_inputs, is_on_device, positive, returned, to_host
from ovk.features.stream_features import FeatureSpec, StreamFeatures
from ovk.kernels import Gaussian, Laplacian, Polynomial, Product, ScalarKernel, Scaled, Stationary, Sum
from ovk.ovkernels import (
    CurlFree,
    Diagonal,
    DivFree,
    Hadamard,
    OperatorKernel,
    Separable,
    Transformable,
    WeightedSum,
    as_operator_kernel,
)


@dataclass(frozen=True)
class FourierMap(StreamFeatures, kind="Fourier"):
    """phi(x) = sqrt(c / n) [cos(w_1 . x), ..., cos(w_n . x), sin(w_1 . x), ..., sin(w_n . x)], w_j drawn at random.

    <phi(x), phi(z)> is the mean of n independent draws of c cos(w . (x - z)): unbiased, with variance (c^2 + c k(2 (x -
    z)) - 2 k(x - z)^2) / (2 n), k as a function of the difference. The probability of an error above e is at most 2
    exp(-n e^2 / (2 c^2)).
    """

    _stored = {"frequencies": "k p"}

    per = 1

    kernel: ScalarKernel
    frequencies: Array  # (n, p) the draws themselves, so that a saved map is the same map
    mass: float  # c

    @classmethod
    def from_kernel(cls, kernel: ScalarKernel, n: int, p: int, rng: Any = None) -> Self:
        n, p = check_int(n, "n"), check_int(p, "p")
        mass, frequencies = draw_frequencies(kernel, n, p, np.random.default_rng(rng))
        return cls(kernel, frequencies, mass)

    @property
    def m(self) -> int:
        return 2 * len(self.frequencies)

    def transform(self, X: Any) -> Array:
        size = float(np.sqrt(self.mass / max(len(self.frequencies), 1)))
        if is_on_device(X):
            there = DeviceMatrix(X)
            phases, xp = (there @ there.like(self.frequencies.T)).values, there.xp
            return size * xp.concat([xp.cos(phases), xp.sin(phases)], axis=1)  # type: ignore[no-any-return]
        found = size * waves(dense_inputs(to_host(X), "Fourier features"), self.frequencies)
        return returned(found, X)  # type: ignore[no-any-return]


def waves(X: Array, frequencies: Array) -> Array:
    """[cos(X W'), sin(X W')], (N, 2 n)."""
    if X.ndim != 2 or X.shape[1] != frequencies.shape[1]:
        raise ValueError(f"X must have shape (n, {frequencies.shape[1]}), got {X.shape}")
    n = len(frequencies)
    out = np.empty((len(X), 2 * n))
    phases = X @ frequencies.T
    np.cos(phases, out=out[:, :n])
    np.sin(phases, out=out[:, n:])
    return out


def draw_frequencies(kernel: Any, n: int, p: int, rng: np.random.Generator) -> tuple[float, Array]:
    """c and n draws w, (n, p), with k(x, z) = c E cos(w . (x - z))."""
    if isinstance(kernel, Scaled):
        mass, W = draw_frequencies(kernel.kernel, n, p, rng)
        return positive(kernel.factor, "factor", zero=True) * mass, W
    if isinstance(kernel, Sum | Product):
        a, left = draw_frequencies(kernel.left, n, p, rng)
        b, right = draw_frequencies(kernel.right, n, p, rng)
        if isinstance(kernel, Product):
            return a * b, left + right
        return a + b, np.where(rng.random((n, 1)) * (a + b) < a, left, right)
    if isinstance(kernel, Stationary | Laplacian):
        return 1.0, kernel.sample_frequencies(n, p, rng)
    raise ValueError(
        "Fourier features support Gaussian, Matern, Laplacian and RationalQuadratic kernels, their sums, products and "
        f"multiples, got {kernel!r}: use Nystrom features"
    )


@dataclass(frozen=True)
class LinearFourierMap(FourierMap, kind="linear and Fourier"):
    """phi(x) = [sqrt(w), sqrt(w) x, psi(x)], so that <phi(x), phi(z)> approximates w (1 + <x, z>) + k(x, z).

    psi are the Fourier features of k, if there are frequencies; `kernel` is the sum.
    """

    weight: float  # w

    @property
    def m(self) -> int:
        return 1 + int(self.frequencies.shape[1]) + super().m

    def transform(self, X: Any) -> Array:
        psi, root = super().transform(X), sqrt(self.weight)
        return np.hstack([np.full((len(psi), 1), root), root * dense_inputs(X, "Fourier features"), psi])


# Random Fourier features of operator-valued kernels.
#
# A stationary operator-valued kernel is a mean of waves with matrices for amplitudes,
#
#     K(x, z) = E cos(w . (x - z)) A(w),     A(w) = B(w) B(w)'
#
#     decomposable k T:  A = c T                                    (w from k's spectral density, c = k(x, x))
#     curl-free:         A = v v',             v = l w              (from -grad grad' phi = E v v' cos(v . u))
#     divergence-free:   A = |v|^2 I - v v'                         (B = |v| times a basis of v's complement)
#     entrywise product: A = A_1(w_1) o A_2(w_2),  w = w_1 + w_2
#     transformable:     K_ij = E cos(w . (T_i x - T_j z)): each output evaluates the wave at its transformed input
#
# and sums are sums. Functions of the features inherit the properties of each wave: no curl, no divergence.


@dataclass(frozen=True)
class FourierTerm(State):
    _stored = {"frequencies": "k p"}

    kernel: OperatorKernel
    frequencies: Array  # (n, q)
    factors: Array  # (n, d, r) amplitudes B(w_j), or (1, d, r) if they do not depend on the frequency

    def transform(self, X: Array) -> Array:
        """Features, (N d, 2 n r)."""
        n, (_, d, r) = len(self.frequencies), self.factors.shape
        if isinstance(self.kernel, Transformable):
            phi = np.stack([waves(view, self.frequencies) for view in self.kernel.views(X)], axis=1)
        else:
            phi = waves(X, self.frequencies)[:, None, :]
        # (N, d or 1, 2, n, 1) times (d, 1, n or 1, r)
        phi = phi.reshape(len(X), -1, 2, n, 1) * self.factors.transpose(1, 0, 2)[:, None]
        phi *= 1.0 / np.sqrt(n)
        return phi.reshape(len(X) * d, 2 * n * r)


@dataclass(frozen=True)
class OperatorFourierMap(StreamFeatures, kind="operator-valued Fourier"):
    """Random features of an operator-valued kernel: Phi(x) Phi(z)' approximates K(x, z), unbiased.

    Each term of a sum has n frequencies and 2 n r features: r is the rank of T for a decomposable kernel, 1 for a
    curl-free one, d - 1 for a divergence-free one. The error decreases like 1 / sqrt(n).
    """

    _state_classes = {"terms": FourierTerm}

    kernel: OperatorKernel
    terms: tuple[FourierTerm, ...]

    @classmethod
    def from_kernel(cls, kernel: Any, n: int, p: int, rng: Any = None) -> Self:
        """Draw n frequencies for each term, for inputs (., p)."""
        K = as_operator_kernel(kernel)
        terms = _terms(K, check_int(n, "n"), check_int(p, "p"), np.random.default_rng(rng))
        found = {term.factors.shape[1] for term in terms}
        if len(found) > 1:
            raise ValueError(f"combined kernels must have the same number of outputs, got {sorted(found)}")
        return cls(K, tuple(terms))

    @property
    def per(self) -> int:  # type: ignore[override]
        return int(self.terms[0].factors.shape[1])

    @property
    def m(self) -> int:
        return sum(2 * len(term.frequencies) * term.factors.shape[2] for term in self.terms)

    def transform(self, X: Any) -> Array:
        X = dense_inputs(X, "Fourier features")
        return np.concatenate([term.transform(X) for term in self.terms], axis=1)


@singledispatch
def _terms(K: OperatorKernel, n: int, p: int, rng: np.random.Generator) -> list[FourierTerm]:
    raise ValueError(
        "operator-valued Fourier features support separable, diagonal, transformable, curl-free and divergence-free "
        f"kernels, their sums and multiples, got {type(K).__name__}: use Nystrom features"
    )


@_terms.register
def _(K: Separable, n: int, p: int, rng: np.random.Generator) -> list[FourierTerm]:
    K.output_dim  # raises an error for an invalid operator  # noqa: B018
    mass, W = draw_frequencies(K.scalar, n, p, rng)
    return [FourierTerm(K, W, np.sqrt(mass) * K.operator.eigh().root()[None])]


@_terms.register
def _(K: Diagonal, n: int, p: int, rng: np.random.Generator) -> list[FourierTerm]:
    terms = []
    for q, kernel in enumerate(K.scalars):
        mass, W = draw_frequencies(kernel, n, p, rng)
        terms.append(FourierTerm(K, W, np.sqrt(mass) * np.eye(K.output_dim)[None, :, q : q + 1]))
    return terms


@_terms.register
def _(K: CurlFree, n: int, p: int, rng: np.random.Generator) -> list[FourierTerm]:
    W, V = _field(K, n, p, rng)
    return [FourierTerm(K, W, V[:, :, None])]


@_terms.register
def _(K: DivFree, n: int, p: int, rng: np.random.Generator) -> list[FourierTerm]:
    W, V = _field(K, n, p, rng)
    return [FourierTerm(K, W, complement(V))]


def _field(K: CurlFree | DivFree, n: int, p: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Frequencies, and the same multiplied by the length scale."""
    field = K.resolve(np.zeros((1, p)), p)
    _, W = draw_frequencies(field.kernel, n, p, rng)
    return W, W * field.kernel.single_scale()


@_terms.register
def _(K: Transformable, n: int, p: int, rng: np.random.Generator) -> list[FourierTerm]:
    views = K.views(np.zeros((1, p)))
    mass, W = draw_frequencies(K.scalar, n, views[0].shape[1], rng)
    return [FourierTerm(K, W, np.full((1, len(views), 1), np.sqrt(mass)))]


@_terms.register
def _(K: WeightedSum, n: int, p: int, rng: np.random.Generator) -> list[FourierTerm]:
    return [
        FourierTerm(term.kernel, term.frequencies, np.sqrt(weight) * term.factors)
        for weight, part in K.summands()
        for term in _terms(part, n, p, rng)
    ]


@_terms.register
def _(K: Hadamard, n: int, p: int, rng: np.random.Generator) -> list[FourierTerm]:
    terms = []
    for one in _terms(K.left, n, p, rng):
        for other in _terms(K.right, n, p, rng):
            if isinstance(one.kernel, Transformable) or isinstance(other.kernel, Transformable):
                raise ValueError("Fourier features do not support entrywise products with a Transformable kernel")
            # (B_1 B_1') o (B_2 B_2'): every column of one times every column of the other.
            factors = one.factors[:, :, :, None] * other.factors[:, :, None, :]
            terms.append(FourierTerm(K, one.frequencies + other.frequencies, factors.reshape(*factors.shape[:2], -1)))
    return terms


def complement(V: Array) -> Array:
    """B, (n, d, d - 1), with B B' = |v|^2 I - v v' for each row v of V, (n, d).

    All but the first column of |v| (I - 2 h h' / |h|^2), the reflection that takes v to the first axis.
    """
    d, size = V.shape[1], np.linalg.norm(V, axis=1)
    h = V / np.where(size > 0, size, 1.0)[:, None]
    # The sign that avoids cancellation.
    h[:, 0] += np.where(h[:, 0] < 0, -1.0, 1.0)
    reflection = np.eye(d) - (2.0 / np.sum(h * h, axis=1))[:, None, None] * h[:, :, None] * h[:, None, :]
    return np.asarray(size[:, None, None] * reflection[:, :, 1:])


# Taylor features of the Gaussian kernel: monomials times a Gaussian.
#
# With u = (x - centre) / l and v = (z - centre) / l,
#
#     exp(-|u - v|^2 / 2) = exp(-|u|^2 / 2) exp(-|v|^2 / 2) sum_a u^a v^a / a!        (over all multi-indices a)
#
# so the features of degree |a| <= r are products of one-dimensional ones,
#
#     phi_a(x) = prod_j psi_{a_j}(u_j),     psi_k(t) = exp(-t^2 / 2) t^k / sqrt(k!),     sum_k psi_k(t)^2 = 1,
#
# each within [-1, 1], without overflow. Each monomial occurs once.

#: Largest number of Taylor features; systems of this size are already infeasible.
MAX_TAYLOR_FEATURES = 100_000


@dataclass(frozen=True)
class TaylorMap(StreamFeatures, kind="Taylor"):
    """phi_a(x) = exp(-|u|^2 / 2) u^a / sqrt(a!), |a| <= degree, u = (x - centre) / l, for the Gaussian kernel.

    The remainder is a kernel, so the error at two points is at most the geometric mean of those at each, which
    `residual` gives in closed form: the map is accurate while |u|^2 is well below the degree, so the centre should be
    in the middle of the inputs. There are (p + degree)! / (p! degree!) features, in order of their degree.
    """

    _stored = {"centre": "p | None"}

    per = 1

    kernel: ScalarKernel  # Gaussian, or a multiple of one
    degree: int
    centre: Any  # (p,)

    @classmethod
    def from_kernel(cls, kernel: ScalarKernel, degree: int, centre: Any) -> Self:
        """The map about `centre`, (p,), such as the mean of some inputs."""
        r = check_int(degree, "degree", least=0)
        point = np.array(centre, dtype=np.float64)
        if point.ndim != 1 or point.size == 0 or not np.isfinite(point).all():
            raise ValueError(f"centre must be a finite vector, got {centre!r}")
        gaussian, _ = _gaussian(kernel)
        gaussian.scale(len(point))
        count = comb(len(point) + r, r)
        if count > MAX_TAYLOR_FEATURES:
            allowed = f"at most {MAX_TAYLOR_FEATURES:,} Taylor features are supported"
            raise ValueError(f"{allowed}, got {count:,} of {len(point)} inputs with degree={r}: lower the degree")
        return cls(kernel, r, point)

    @property
    def m(self) -> int:
        return comb(len(self.centre) + self.degree, self.degree)

    def transform(self, X: Any) -> Array:
        u, factor = self._units(X)
        # One input after the other: features share the products of the first j inputs.
        phi, degrees = np.full((1, len(u)), np.sqrt(factor)), np.zeros(1, dtype=np.int64)
        for column in u.T:
            psi = _powers(column, self.degree)
            # For each power k of this input, the products that stay within the degree.
            steps = [(k, np.flatnonzero(degrees + k <= self.degree)) for k in range(self.degree + 1)]
            phi = np.concatenate([phi[rows] * psi[k] for k, rows in steps])
            degrees = np.concatenate([degrees[rows] + k for k, rows in steps])
        return np.ascontiguousarray(phi[np.argsort(degrees, kind="stable")].T)

    def residual(self, X: Any) -> Array:
        """k(x, x) - |phi(x)|^2, (n,): the probability that a Poisson variable of mean |u|^2 exceeds the degree."""
        u, factor = self._units(X)
        with np.errstate(over="ignore"):
            # Beyond 1e300 the probability is 1 to all digits.
            squares = np.minimum(np.sum(u * u, axis=1), 1e300)
        return np.asarray(factor * gammainc(self.degree + 1.0, squares))

    def _units(self, X: Any) -> tuple[Array, float]:
        """u, (n, p), and the factor before the Gaussian."""
        X = dense_inputs(X, "TaylorMap")
        if X.ndim != 2 or X.shape[1] != len(self.centre):
            raise ValueError(f"X must have shape (n, {len(self.centre)}), got {X.shape}")
        gaussian, factor = _gaussian(self.kernel)
        return (X - self.centre) / gaussian.scale(X.shape[1]), factor


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
            f"Taylor features support multiples of the Gaussian kernel, got {kernel!r}: use Nystrom features"
        )
    return only, factor


@dataclass(eq=False, repr=False)
class Taylor(FeatureSpec):
    """Taylor features of the Gaussian kernel, (p + degree)! / (p! degree!) of them.

    Parameters
    ----------
    degree : int
        Largest degree of the monomials.
    centre : (p,) array, optional
        Point of the expansion, in the middle of the inputs; the origin by default.

    See Also
    --------
    Fourier, Nystrom, ovk.PKAWV

    Examples
    --------
    >>> from ovk import PKAWV
    >>> from ovk.features import Taylor
    >>> from ovk.kernels import Gaussian
    >>> model = PKAWV(Gaussian(1.0), features=Taylor(3)).fit([[0.0, 0.1], [0.5, -0.2]], [1.0, 2.0])
    >>> model.n_features_
    10
    """

    degree: int = 3
    centre: Any = None

    def build(self, kernel: OperatorKernel, p: int, d: int, rng: np.random.Generator) -> StreamFeatures:
        centre = np.zeros(p) if self.centre is None else np.asarray(self.centre, dtype=np.float64)
        if centre.shape != (p,):
            raise ValueError(f"centre must have shape ({p},), got {centre.shape}")
        return TaylorMap.from_kernel(_scalar(kernel, "Taylor"), self.degree, centre)


@dataclass(eq=False, repr=False)
class Fourier(FeatureSpec):
    """Random Fourier features of a stationary kernel: n frequencies, 2 n features.

    Parameters
    ----------
    n : int
        Number of frequencies.

    See Also
    --------
    LinearFourier, OperatorFourier, Nystrom, ovk.PKAWV

    Examples
    --------
    >>> from ovk import PKAWV
    >>> from ovk.features import Fourier
    >>> from ovk.kernels import Gaussian
    >>> PKAWV(Gaussian(1.0), features=Fourier(20), random_state=0).fit([[0.0], [0.5]], [1.0, 2.0]).n_features_
    40
    """

    n: int = 100

    def build(self, kernel: OperatorKernel, p: int, d: int, rng: np.random.Generator) -> StreamFeatures:
        return FourierMap.from_kernel(_scalar(kernel, "Fourier"), self.n, p, rng)


@dataclass(eq=False, repr=False)
class LinearFourier(FeatureSpec):
    """The inputs and random Fourier features of a stationary kernel k, which approximate w (1 + <x, z>) + k.

    The linear part is exact: a trend or a lag needs no waves.

    Parameters
    ----------
    n : int >= 0
        Number of frequencies: 2 n features in addition to the p + 1 linear ones.
    weight : float > 0
        w; a large weight barely penalises linear functions.

    See Also
    --------
    Fourier, ovk.PKAWV, ovk.AutoStream

    Examples
    --------
    >>> from ovk import PKAWV
    >>> from ovk.features import LinearFourier
    >>> from ovk.kernels import Gaussian
    >>> model = PKAWV(Gaussian(1.0), features=LinearFourier(20), random_state=0).fit([[0.0], [0.5]], [1.0, 2.0])
    >>> model.n_features_
    42
    """

    n: int = 50
    weight: float = 10.0

    def build(self, kernel: OperatorKernel, p: int, d: int, rng: np.random.Generator) -> StreamFeatures:
        scalar = _scalar(kernel, "LinearFourier")
        weight = positive(self.weight, "weight")
        n, linear = check_int(self.n, "n", least=0), Polynomial(1, gamma=weight, coef0=weight)
        if n == 0:
            return LinearFourierMap(linear, np.empty((0, p)), 0.0, weight)
        mass, frequencies = draw_frequencies(scalar, n, p, rng)
        return LinearFourierMap(linear + scalar, frequencies, mass, weight)


@dataclass(eq=False, repr=False)
class OperatorFourier(FeatureSpec):
    """Random Fourier features of operator-valued kernels, including curl-free and divergence-free ones.

    Parameters
    ----------
    n : int
        Number of frequencies for each term of the kernel.

    See Also
    --------
    Fourier, Nystrom, ovk.ovkernels.CurlFree

    Examples
    --------
    >>> from ovk import PKAWV
    >>> from ovk.features import OperatorFourier
    >>> from ovk.kernels import Gaussian
    >>> from ovk.ovkernels import CurlFree
    >>> model = PKAWV(CurlFree(Gaussian(1.0)), features=OperatorFourier(30), random_state=0)
    >>> model.fit([[0.0, 1.0], [0.5, 0.0]], [[1.0, 2.0], [0.0, 1.0]]).n_features_
    60
    """

    n: int = 100

    def build(self, kernel: OperatorKernel, p: int, d: int, rng: np.random.Generator) -> StreamFeatures:
        return OperatorFourierMap.from_kernel(kernel, self.n, p, rng)


def _scalar(kernel: OperatorKernel, name: str) -> Any:
    if isinstance(kernel, Separable):
        return kernel.scalar
    raise ValueError(
        f"{name} features support scalar kernels and products k * T, got {kernel!r}: use Nystrom or OperatorFourier"
    )
