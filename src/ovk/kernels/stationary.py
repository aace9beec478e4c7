"""Stationary kernels: functions of a scaled distance, k(x, z) = phi(|x - z|^2 / l^2), and the Laplacian kernel."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist, pdist
from scipy.special import gamma, kv

from ovk.base import (
    Array,
    DeviceMatrix,
    Indices,
    dense_inputs,
    namespace,
    paired,
    positive,
    squared_distances,
    sum_over_inputs,
    to_host,
)
from ovk.kernels.base import NotDifferentiableError, ScalarKernel, Slope
from ovk.kernels.tiles import over_rows, radial, radial_product


class LengthScaled(ScalarKernel, saved=False):
    """A function of distances in units of a length scale, with k(x, x) = 1."""

    #: The distance, as `scipy.spatial.distance` names it.
    metric = "euclidean"

    length_scale: float | Array | str

    def scale(self, p: int | None = None) -> float | Array:
        """The length scale, checked: a number, or one for each of the p inputs."""
        value = self.length_scale
        if type(value) is float and 0.0 < value < np.inf:
            return value
        if self._is_median():
            raise ValueError(
                f"length_scale='median' of {type(self).__name__} is learned from training inputs: fit an estimator, or "
                "use the result of kernel.resolve(X)"
            )
        scales = np.asarray(value)
        if scales.dtype.kind not in "iuf" or scales.ndim > 1 or scales.size == 0:
            raise ValueError(f"length_scale must be a positive number, one per input, or 'median', got {value!r}")
        scales = scales.astype(np.float64)
        if not (np.isfinite(scales).all() and (scales > 0).all()):
            raise ValueError(f"length_scale must be positive and finite, got {value!r}")
        if scales.ndim == 0:
            return float(scales)
        if p is not None and len(scales) != p:
            raise ValueError(f"length_scale must have {p} entries, one for each input, got {len(scales)}")
        return scales

    def single_scale(self) -> float:
        """The length scale; an error if there are several."""
        scale = self.scale()
        if isinstance(scale, np.ndarray):
            raise ValueError(
                f"length_scale of {type(self).__name__} must be a single number here, got {len(scale)} numbers"
            )
        return scale

    def _is_median(self) -> bool:
        return isinstance(self.length_scale, str) and self.length_scale == "median"

    def resolve(self, X: Any) -> Self:
        if not self._is_median():
            return self
        return type(self)(**{**self.get_params(deep=False), "length_scale": median_distance(X, self.metric)})

    def diag(self, X: Any) -> Array:
        self.scale(X.shape[1])
        return np.ones(X.shape[0])

    def norm_bound(self) -> float:
        return 1.0

    @abstractmethod
    def sample_frequencies(self, n: int, p: int, rng: np.random.Generator) -> Array:
        """n draws, (n, p), from the kernel's spectral density: k(x, z) = E cos(w . (x - z))."""


class Stationary(LengthScaled):
    """Base of the radial kernels. A subclass defines the profile phi and its derivatives.

    The derivative in the length scale is d phi(s) / dl = -(2 s / l) phi'(s) with s = |x - z|^2 / l^2.
    """

    @property
    def rough(self) -> bool:
        """Whether phi(s) has an infinite slope at s = 0: distances near zero must be exact."""
        return False

    @abstractmethod
    def profile(self, s: Array, order: int = 0) -> Array:
        """Derivative of the given order of phi, at s = |x - z|^2 / l^2."""

    def _from_half_distances(self, h: Array) -> None:
        """Replace h = -|x - z|^2 / (2 l^2), at most 1e-11 above 0, by the kernel's values, in place."""
        _to_squares(h)
        h[...] = self.profile(h)

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        scale, on_device = self.scale(X.shape[1]), paired(X, Z)
        if on_device is not None:
            values = self.profile(squared_distances(*on_device, scale, exact=self.rough))
            return DeviceMatrix(values)  # type: ignore[return-value]
        return radial(X, Z, scale, self._from_half_distances, rough=self.rough)

    def runs_on_devices(self) -> bool:
        return True

    def product(self, X: Any, Z: Any, W: Array, since: Indices | None = None) -> Array:
        if sparse.issparse(X) or sparse.issparse(Z) or isinstance(X, DeviceMatrix):
            return super().product(X, Z, W, since)
        X, Z = np.asarray(X, dtype=np.float64), np.asarray(Z, dtype=np.float64)
        return radial_product(X, Z, self.scale(X.shape[1]), self._from_half_distances, W, since, rough=self.rough)

    def scaled_distances(self, X: Any, Z: Any | None = None) -> Array:
        """|x - z|^2 / l^2, (n, m)."""
        return radial(X, Z, self.scale(X.shape[1]), _to_squares, rough=self.rough)

    def shape_gradient(self, s: Array, order: int = 0) -> dict[str, Array]:
        """Derivative of `profile` in the parameters other than the length scale."""
        return {}

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Array]:
        s = self.scaled_distances(X, Z)
        scale = self.scale(X.shape[1])
        first = self.profile(s, 1)
        others = self.shape_gradient(s)
        if not isinstance(scale, np.ndarray):
            return {**others, "length_scale": -(2.0 / scale) * s * first}
        X = np.asarray(X, dtype=np.float64)
        Z = X if Z is None else np.asarray(Z, dtype=np.float64)
        difference = X.T[:, :, None] - Z.T[:, None, :]
        return {**others, "length_scale": -2.0 * difference**2 / scale[:, None, None] ** 3 * first}

    def gradient_product(self, weights: Array, X: Any) -> dict[str, Array]:
        scale = self.scale(X.shape[1])
        if not isinstance(scale, np.ndarray):
            return super().gradient_product(weights, X)
        s = self.scaled_distances(X)
        W = weights * self.profile(s, 1)
        X = dense_inputs(X, "the derivative in several length scales")
        X = X - X.mean(axis=0)
        # sum_ij W_ij (x_i - x_j)^2 = 2 sum_i x_i^2 sum_j W_ij - 2 x'Wx for each input
        spread = 2.0 * (W.sum(axis=1) @ X**2 - np.einsum("ia,ia->a", X, W @ X))
        others = {name: np.tensordot(change, weights, axes=2) for name, change in self.shape_gradient(s).items()}
        return {**others, "length_scale": -2.0 * spread / scale**3}

    def slopes(self, X: Any, Z: Any) -> list[Slope]:
        # grad_x phi(|x - z|^2 / l^2) = 2 phi' (x - z) / l^2
        first = 2.0 * self.profile(self.scaled_distances(X, Z), 1)
        return [Slope(-first, first, 1.0 / np.square(self.scale(X.shape[1])))]


def _to_squares(h: Array) -> None:
    np.minimum(h, 0.0, out=h)
    h *= -2.0


@dataclass(eq=False, repr=False)
class Gaussian(Stationary):
    """Gaussian kernel, k(x, z) = exp(-|x - z|^2 / (2 l^2)).

    Parameters
    ----------
    length_scale : float, (p,) array or "median"
        l, for all inputs or for each; "median" is the median distance between training inputs.

    See Also
    --------
    Matern, RationalQuadratic, Laplacian

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Gaussian
    >>> Gaussian(1.0)(np.array([[0.0], [1.0]])).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    length_scale: float | Array | str = "median"

    @classmethod
    def from_mu(cls, mu: float) -> Self:
        """The kernel exp(-|x - z|^2 / mu), as in papers on online learning.

        >>> Gaussian.from_mu(8.0)
        Gaussian(2.0)
        """
        return cls(float(np.sqrt(positive(mu, "mu") / 2.0)))

    def _from_half_distances(self, h: Array) -> None:
        np.exp(h, out=h)

    def profile(self, s: Array, order: int = 0) -> Array:
        values: Array = namespace(s).exp(-0.5 * s)
        return values if order == 0 else (-0.5) ** order * values

    def sample_frequencies(self, n: int, p: int, rng: np.random.Generator) -> Array:
        return rng.standard_normal((n, p)) / self.scale(p)


@dataclass(eq=False, repr=False)
class RationalQuadratic(Stationary):
    """Rational quadratic kernel, k(x, z) = (1 + |x - z|^2 / (2 a l^2))^(-a).

    Parameters
    ----------
    alpha : float > 0
        a: small values mix many widths, large values approach the Gaussian kernel.
    length_scale : float, (p,) array or "median"
        l, for all inputs or for each; "median" is the median distance between training inputs.

    See Also
    --------
    Gaussian, Matern

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import RationalQuadratic
    >>> RationalQuadratic(alpha=1.0, length_scale=1.0)(np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.3333],
           [0.3333, 1.    ]])
    """

    alpha: float = 1.0
    length_scale: float | Array | str = "median"

    def profile(self, s: Array, order: int = 0) -> Array:
        # phi^(k) = (-1/2)^k [a (a+1) ... (a+k-1) / a^k] (1 + s / 2a)^(-a-k)
        a = positive(self.alpha, "alpha")
        rising = float(np.prod(a + np.arange(order))) / a**order
        return (-0.5) ** order * rising * (1.0 + s / (2.0 * a)) ** (-a - order)

    def shape_gradient(self, s: Array, order: int = 0) -> dict[str, Array]:
        # d log|phi^(k)| / da, times phi^(k)
        a = positive(self.alpha, "alpha")
        base = 1.0 + s / (2.0 * a)
        constant = float(np.sum(1.0 / (a + np.arange(order)))) - order / a
        relative = constant - np.log(base) + (a + order) * s / (2.0 * a**2 * base)
        return {"alpha": self.profile(s, order) * relative}

    def sample_frequencies(self, n: int, p: int, rng: np.random.Generator) -> Array:
        # k is the mean of exp(-tau r^2 / 2 l^2) over tau ~ Gamma(a, rate a).
        a = positive(self.alpha, "alpha")
        precision = rng.gamma(a, 1.0 / a, size=(n, 1))
        return rng.standard_normal((n, p)) * np.sqrt(precision) / self.scale(p)


#: Maximum number of rows among which duplicates are removed, and between which distances are computed.
MAX_DEDUPLICATED_ROWS, MAX_SAMPLED_ROWS = 20_000, 1000


def spread_rows(X: Any) -> Array:
    """At most a thousand rows, evenly spread over the sorted distinct rows of X.

    The result does not depend on duplicates and on the order of rows (beyond 20,000 rows it does).
    """

    def some(n: int) -> Any:
        return np.unique(np.linspace(0, n - 1, min(n, MAX_SAMPLED_ROWS)).round().astype(int))

    if X.shape[0] > MAX_DEDUPLICATED_ROWS:
        X = X[some(X.shape[0])]
    dense = X.toarray() if sparse.issparse(X) else np.asarray(to_host(X), dtype=np.float64)
    rows = np.unique(dense, axis=0)
    return np.asarray(rows[some(len(rows))])


def median_distance(X: Any, metric: str = "euclidean") -> float:
    """Median distance between distinct rows, in a metric of `scipy.spatial.distance.pdist`; 1 if all rows are equal."""
    rows = spread_rows(X)
    # Squares of very large or very small numbers would overflow or underflow.
    unit = float(np.abs(rows).max(initial=0.0))
    unit = 1.0 if 1e-100 < unit < 1e100 or unit == 0.0 else unit
    distances = pdist(rows / unit, metric)
    return float(np.median(distances)) * unit if distances.size else 1.0


@dataclass(eq=False, repr=False)
class Laplacian(LengthScaled):
    """Laplacian kernel of the L1 distance, k(x, z) = exp(-|x - z|_1 / l).

    The same as scikit-learn's `laplacian_kernel` with gamma = 1/l. For the Euclidean distance use ``Matern(nu=0.5)``.

    Parameters
    ----------
    length_scale : float or "median"
        l; "median" is the median L1 distance between training inputs.

    See Also
    --------
    Matern, Gaussian

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Laplacian
    >>> Laplacian(2.0)(np.array([[0.0, 0.0], [1.0, 1.0]])).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    metric = "cityblock"

    length_scale: float | str = "median"

    def _distances(self, X: Any, Z: Any | None) -> Array:
        X = dense_inputs(X, "Laplacian")
        Z = X if Z is None else dense_inputs(Z, "Laplacian")
        out = np.empty((len(X), len(Z)))

        def work(start: int, stop: int) -> None:
            cdist(X[start:stop], Z, "cityblock", out=out[start:stop])

        over_rows(work, len(X), len(Z))
        return out

    def runs_on_devices(self) -> bool:
        return True

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        scale, on_device = self.single_scale(), paired(X, Z)
        if on_device is not None:
            x, z = on_device
            total = sum_over_inputs(x.xp, x.values, z.values, x.xp.abs)
            return DeviceMatrix(x.xp.exp(total * (-1.0 / scale)))  # type: ignore[return-value]
        values = self._distances(X, Z)
        values *= -1.0 / scale
        return np.exp(values, out=values)

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Array]:
        ratio = self._distances(X, Z) / self.single_scale()
        return {"length_scale": np.exp(-ratio) * ratio / self.single_scale()}

    def sample_frequencies(self, n: int, p: int, rng: np.random.Generator) -> Array:
        return rng.standard_cauchy((n, p)) / self.single_scale()


# The Matern family: kernels of Sobolev spaces.

#: For larger nu the kernel is practically Gaussian, and its constants overflow.
MAX_NU = 100.0
#: Lower bound of squared distances where the derivative of a rough kernel is infinite at zero.
MIN_SQUARED_DISTANCE = 1e-28


@dataclass(eq=False, repr=False)
class Matern(Stationary):
    """Matern kernel, k(x, z) = 2^(1-nu) / Gamma(nu) r^nu K_nu(r) with r = sqrt(2 nu) |x - z| / l.

    Larger nu gives smoother functions: nu = 1/2 is exp(-|x - z| / l), and nu -> infinity is the Gaussian kernel.

    Parameters
    ----------
    nu : float in (0, 100]
        Smoothness. 1/2, 3/2, 5/2, ... are fast; other values need Bessel functions.
    length_scale : float, (p,) array or "median"
        l, for all inputs or for each; "median" is the median distance between training inputs.

    See Also
    --------
    Gaussian, Laplacian

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Matern
    >>> Matern(nu=0.5, length_scale=2.0)(np.array([[0.0], [1.0]])).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    nu: float = 1.5
    length_scale: float | Array | str = "median"

    def _nu(self) -> float:
        nu = positive(self.nu, "nu")
        if nu > MAX_NU:
            raise ValueError(f"nu must be at most {MAX_NU:g}, got {self.nu!r}: use a Gaussian kernel instead")
        return nu

    @property
    def rough(self) -> bool:
        return self._nu() < 1.0

    def profile(self, s: Array, order: int = 0) -> Array:
        # With M_a(r) = r^a K_a(r):  (1/r) d/dr M_a = -M_(a-1)  and  s = r^2 / (2 nu),  so
        # phi^(k)(s) = (-nu)^k 2^(1-nu) / Gamma(nu) M_(nu-k)(r).
        nu = self._nu()
        if order >= nu:
            s = np.maximum(s, MIN_SQUARED_DISTANCE)
        factor = (-nu) ** order * 2.0 ** (1.0 - nu) / float(gamma(nu))
        result: Array = factor * _scaled_bessel(nu - order, namespace(s).sqrt(2.0 * nu * s))
        return result

    def runs_on_devices(self) -> bool:
        # Other values need Bessel functions.
        return (self._nu() - 0.5).is_integer()

    def slopes(self, X: Any, Z: Any) -> list[Slope]:
        if self._nu() <= 0.5:
            raise NotDifferentiableError(f"nu must be greater than 1/2 for a Jacobian, got {self.nu}")
        return super().slopes(X, Z)

    def sample_frequencies(self, n: int, p: int, rng: np.random.Generator) -> Array:
        # The spectral density is a multivariate t with 2 nu degrees of freedom.
        nu = self._nu()
        spread = np.sqrt(2.0 * nu / rng.chisquare(2.0 * nu, size=(n, 1)))
        return rng.standard_normal((n, p)) * spread / self.scale(p)


def _scaled_bessel(a: float, r: Array) -> Array:
    """r^a K_a(r) for any real a; its limit 2^(a-1) Gamma(a) at r = 0 when a > 0."""
    if a < 0:
        return r ** (2.0 * a) * _scaled_bessel(-a, r)
    xp = namespace(r)
    # For large r the value is zero, but the powers of r below would overflow.
    r = np.minimum(r, 800.0) if xp is np else xp.clip(r, None, 800.0)
    if (a - 0.5).is_integer():
        # sqrt(pi/2) e^-r theta_n(r), theta the reverse Bessel polynomials.
        previous: Any = 1.0
        theta: Any = 1.0
        for k in range(1, round(a - 0.5) + 1):
            previous, theta = theta, (r + 1.0 if k == 1 else (2 * k - 1) * theta + r**2 * previous)
        return float(np.sqrt(np.pi / 2.0)) * xp.exp(-r) * theta  # type: ignore[no-any-return]
    if a > 2.0:
        # K_a(r) overflows for small r: use the recurrence M_(b+1) = 2 b M_b + r^2 M_(b-1) from a smaller order.
        b = a - np.floor(a) + 1.0
        previous, value = _scaled_bessel(b - 1.0, r), _scaled_bessel(b, r)
        while b < a - 0.5:
            previous, value = value, 2.0 * b * value + r**2 * previous
            b += 1.0
        return value
    positive_r = np.maximum(r, 1e-150 if a > 0 else np.sqrt(MIN_SQUARED_DISTANCE))
    bessel: Array = positive_r**a * kv(a, positive_r)
    return np.where(r > 1e-150, bessel, 2.0 ** (a - 1.0) * gamma(a)) if a > 0 else bessel
