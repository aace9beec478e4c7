"""The interface of a scalar kernel k(x, z), the algebra of kernels, and kernels of the inner product <x, z>."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from ovk.base import (
    ATOM,
    PRODUCT,
    SUM,
    Algebra,
    Array,
    DeviceMatrix,
    Indices,
    Parameters,
    check_int,
    operand,
    paired,
    positive,
    rule,
)
from ovk.kernels.tiles import products, square_norms


class Slope(NamedTuple):
    """One term of the derivative of a kernel in its first input, ``metric * (A z + B x)``.

    Radial kernels, kernels of an inner product, and their sums and products are sums of such terms.
    """

    A: Array  # (n, m)
    B: Array | None  # (n, m), None for zero
    metric: float | Array  # scalar, (p,) or symmetric (p, p)


class NotDifferentiableError(ValueError):
    """The kernel has no closed-form derivative in its input.

    See Also
    --------
    ScalarKernel.slopes

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Laplacian, NotDifferentiableError
    >>> try:
    ...     Laplacian(1.0).slopes(np.zeros((1, 2)), np.ones((1, 2)))
    ... except NotDifferentiableError as error:
    ...     print(str(error)[:55])
    Laplacian has no closed-form derivative in its input; u
    """


class ScalarKernel(Algebra, Parameters, ABC):
    """Base class of scalar kernels, positive semi-definite functions k(x, z) of two inputs.

    Kernels can be added, multiplied and scaled; a kernel times an output operator is an operator-valued kernel.

    To define a kernel, write a subclass whose ``__init__`` only stores its parameters, and implement

    - ``__call__(X, Z=None)``: the matrix k(x_i, z_j), (n, m); `Z` None means `X`;
    - ``diag(X)``: the values k(x_i, x_i), (n,);

    and, where they are needed,

    - ``gradient(X, Z=None)``: derivatives in the parameters by name, (n, m) each, for `ovk.tune`;
    - ``slopes(X, Z)``: the derivative in the first input, for Jacobians;
    - ``norm_bound()``: the supremum of k(x, x), for bounds of online learners;
    - ``resolve(X)``: the kernel with parameters that depend on the data.

    See Also
    --------
    Gaussian, Linear, Function

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Gaussian, Linear
    >>> k = Gaussian(1.0) + 0.5 * Linear()
    >>> k(np.array([[1.0], [2.0]])).round(4)
    array([[1.5   , 1.6065],
           [1.6065, 3.    ]])
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
        """k(X, Z) W, (n, q), for weights W (m, q); stationary kernels do not form k(X, Z).

        `since`, (n,) and non-decreasing, is the index of the first point of Z that each row uses; None means all.
        """
        return product_window(self(X, Z), W, since)

    def summands(self) -> list[tuple[float, ScalarKernel]]:
        """The kernel as a list of weights and kernels that sum to it."""
        return [(1.0, self)]

    def resolve(self, X: Any) -> Self:
        """The kernel with data-dependent parameters, such as ``length_scale="median"``, computed from X.

        Returns the kernel itself if it has none, and never changes it.
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
        """sum_ij weights_ij dk(x_i, x_j) for every hyper-parameter, in its shape; `weights`, (n, n), is symmetric.

        Kernels with many parameters, such as a length scale per input, do not form a matrix for each of them.
        """
        return {name: np.tensordot(change, weights, axes=2) for name, change in self.gradient(X).items()}

    def slopes(self, X: Any, Z: Any) -> list[Slope]:
        """The derivative in the first input, as terms that are contracted without forming an (n, m, p) array."""
        raise NotDifferentiableError(
            f"{type(self).__name__} has no closed-form derivative in its input; use a Gaussian, Matern (nu > 1/2), "
            "RationalQuadratic, Polynomial, Linear or Tanimoto kernel where a Jacobian is needed"
        )

    def norm_bound(self) -> float | None:
        """sup over x of k(x, x), or None if it is unbounded or unknown."""
        return None

    def runs_on_devices(self) -> bool:
        """Whether the kernel can be evaluated at inputs on a device."""
        return False


def prefixed(name: str, gradient: dict[str, Array]) -> dict[str, Array]:
    """Derivatives in the parameters of a nested kernel, by their nested names."""
    return {f"{name}__{key}": value for key, value in gradient.items()}


def product_window(G: Array, W: Array, since: Indices | None) -> Array:
    """G W, where row i of G, (n, m), is zero before column since_i."""
    if since is None or not len(since):
        # Also for a matrix on a device.
        return np.asarray(G @ W)
    k = int(since[-1])
    return np.asarray((G[:, :k] * (np.arange(k) >= since[:, None])) @ W[:k] + G[:, k:] @ W[k:])


def contract(slopes: list[Slope], X: Any, Z: Any, W: Array) -> Array:
    """(n, q, p) derivatives of sum_j k(x_i, z_j) W_ja in the b-th coordinate of x_i, at the entry (i, a, b).

    The weights W are (m, q), or (n, m, q) with separate weights for each x_i.
    """
    X, Z = np.asarray(X, dtype=np.float64), np.asarray(Z, dtype=np.float64)
    shape = (len(X), W.shape[-1], X.shape[1])
    each = W.ndim == 3
    weighted: Any = None if each else (W[:, :, None] * Z[:, None, :]).reshape(len(Z), -1)
    total = np.zeros(shape)
    for A, B, metric in slopes:
        term = (A[:, :, None] * W).swapaxes(1, 2) @ Z if each else (A @ weighted).reshape(shape)
        if B is not None:
            term += (np.einsum("ij,ijq->iq", B, W) if each else B @ W)[:, :, None] * X[:, None, :]
        total += term @ metric if np.ndim(metric) == 2 else metric * term
    return total


# Sums, products and multiples.


@dataclass(eq=False, repr=False)
class BinaryKernel(ScalarKernel, saved=False):
    left: ScalarKernel
    right: ScalarKernel

    def runs_on_devices(self) -> bool:
        return self.left.runs_on_devices() and self.right.runs_on_devices()

    @staticmethod
    def _named(left: dict[str, Array], right: dict[str, Array]) -> dict[str, Array]:
        return {**prefixed("left", left), **prefixed("right", right)}


class Sum(BinaryKernel):
    """k1(x, z) + k2(x, z), written ``k1 + k2``."""

    def _expression(self) -> tuple[str, int]:
        return f"{operand(self.left, SUM)} + {operand(self.right, PRODUCT)}", SUM

    def summands(self) -> list[tuple[float, ScalarKernel]]:
        return self.left.summands() + self.right.summands()

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        total = self.left(X, Z)
        return total + self.right(X, Z)

    def product(self, X: Any, Z: Any, W: Array, since: Indices | None = None) -> Array:
        return self.left.product(X, Z, W, since) + self.right.product(X, Z, W, since)

    def diag(self, X: Any) -> Array:
        return self.left.diag(X) + self.right.diag(X)

    def norm_bound(self) -> float | None:
        left, right = self.left.norm_bound(), self.right.norm_bound()
        return None if left is None or right is None else left + right

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Array]:
        return self._named(self.left.gradient(X, Z), self.right.gradient(X, Z))

    def gradient_product(self, weights: Array, X: Any) -> dict[str, Array]:
        return self._named(self.left.gradient_product(weights, X), self.right.gradient_product(weights, X))

    def slopes(self, X: Any, Z: Any) -> list[Slope]:
        return self.left.slopes(X, Z) + self.right.slopes(X, Z)


class Product(BinaryKernel):
    """k1(x, z) k2(x, z), written ``k1 * k2``."""

    def _expression(self) -> tuple[str, int]:
        return f"{operand(self.left, PRODUCT)} * {operand(self.right, ATOM)}", PRODUCT

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        return self.left(X, Z) * self.right(X, Z)

    def diag(self, X: Any) -> Array:
        return self.left.diag(X) * self.right.diag(X)

    def norm_bound(self) -> float | None:
        left, right = self.left.norm_bound(), self.right.norm_bound()
        return None if left is None or right is None else left * right

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Array]:
        left, right = self.left(X, Z), self.right(X, Z)
        return self._named(
            {name: change * right for name, change in self.left.gradient(X, Z).items()},
            {name: change * left for name, change in self.right.gradient(X, Z).items()},
        )

    def gradient_product(self, weights: Array, X: Any) -> dict[str, Array]:
        return self._named(
            self.left.gradient_product(weights * self.right(X), X),
            self.right.gradient_product(weights * self.left(X), X),
        )

    def slopes(self, X: Any, Z: Any) -> list[Slope]:
        left, right = self.left(X, Z), self.right(X, Z)
        pairs = [(slope, right) for slope in self.left.slopes(X, Z)] + [(s, left) for s in self.right.slopes(X, Z)]
        return [Slope(A * value, None if B is None else B * value, metric) for (A, B, metric), value in pairs]


@dataclass(eq=False, repr=False)
class Scaled(ScalarKernel):
    """factor k(x, z), written ``factor * k``."""

    factor: float
    kernel: ScalarKernel

    def _expression(self) -> tuple[str, int]:
        return f"{self.factor!r} * {operand(self.kernel, ATOM)}", PRODUCT

    def runs_on_devices(self) -> bool:
        return self.kernel.runs_on_devices()

    def _factor(self) -> float:
        return positive(self.factor, "factor", zero=True)

    def summands(self) -> list[tuple[float, ScalarKernel]]:
        return [(self._factor() * weight, kernel) for weight, kernel in self.kernel.summands()]

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        return self._factor() * self.kernel(X, Z)

    def product(self, X: Any, Z: Any, W: Array, since: Indices | None = None) -> Array:
        return self._factor() * self.kernel.product(X, Z, W, since)

    def diag(self, X: Any) -> Array:
        return self._factor() * self.kernel.diag(X)

    def norm_bound(self) -> float | None:
        bound = self.kernel.norm_bound()
        return None if bound is None else self._factor() * bound

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Array]:
        inner = prefixed("kernel", self.kernel.gradient(X, Z))
        return {"factor": self.kernel(X, Z), **{k: self._factor() * v for k, v in inner.items()}}

    def gradient_product(self, weights: Array, X: Any) -> dict[str, Array]:
        inner = prefixed("kernel", self.kernel.gradient_product(self._factor() * weights, X))
        return {"factor": np.tensordot(weights, self.kernel(X), axes=2), **inner}

    def slopes(self, X: Any, Z: Any) -> list[Slope]:
        return [Slope(A, B, self._factor() * metric) for A, B, metric in self.kernel.slopes(X, Z)]


class TransformedKernel(ScalarKernel, saved=False):
    """k(phi(x), phi(z)): a kernel of coordinates phi of the inputs."""

    kernel: ScalarKernel

    @abstractmethod
    def coordinates(self, X: Any) -> Array:
        """phi(x) of every input, (n, q)."""

    def _pair(self, X: Any, Z: Any | None) -> tuple[Array, Array | None]:
        return self.coordinates(X), None if Z is None else self.coordinates(Z)

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        return self.kernel(*self._pair(X, Z))

    def product(self, X: Any, Z: Any, W: Array, since: Indices | None = None) -> Array:
        return self.kernel.product(*self._pair(X, Z), W, since)

    def diag(self, X: Any) -> Array:
        return self.kernel.diag(self.coordinates(X))

    def resolve(self, X: Any) -> Self:
        inner = self.kernel.resolve(self.coordinates(X))
        return self if inner is self.kernel else self.replace(kernel=inner)

    def norm_bound(self) -> float | None:
        return self.kernel.norm_bound()

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Array]:
        return prefixed("kernel", self.kernel.gradient(*self._pair(X, Z)))

    def gradient_product(self, weights: Array, X: Any) -> dict[str, Array]:
        return prefixed("kernel", self.kernel.gradient_product(weights, self.coordinates(X)))

    def _mapped_slopes(self, M: Array, X: Any, Z: Any) -> list[Slope]:
        """Slopes for phi(x) = M'x: M D (A M'z + B M'x), with D the inner kernel's metric."""
        inner = self.kernel.slopes(*self._pair(X, Z))
        return [Slope(A, B, (M @ D if np.ndim(D) == 2 else M * D) @ M.T) for A, B, D in inner]


@dataclass(eq=False, repr=False)
class Mapped(TransformedKernel):
    """k(M'x, M'z): a kernel in another metric of the inputs, such as that of `ovk.GradientMetric`."""

    kernel: ScalarKernel
    components: Any  # M, (p, q)

    def _map(self, p: int) -> Array:
        M = np.asarray(self.components, dtype=np.float64)
        if M.ndim != 2 or M.shape[1] == 0 or not np.isfinite(M).all():
            raise ValueError(f"components must be a finite matrix with at least one column, got shape {M.shape}")
        if len(M) != p:
            raise ValueError(f"components must have {p} rows, one for each input, got {len(M)}")
        return M

    def runs_on_devices(self) -> bool:
        return self.kernel.runs_on_devices()

    def coordinates(self, X: Any) -> Any:
        M = self._map(X.shape[1])
        return X @ X.like(M) if isinstance(X, DeviceMatrix) else np.asarray(X @ M)

    def slopes(self, X: Any, Z: Any) -> list[Slope]:
        return self._mapped_slopes(self._map(X.shape[1]), X, Z)


rule("+", ScalarKernel, ScalarKernel)(Sum)
rule("*", ScalarKernel, ScalarKernel)(Product)
rule("*", float, ScalarKernel)(Scaled)


# Kernels of the inner product, and the constant kernel.


@dataclass(eq=False, repr=False)
class Polynomial(ScalarKernel):
    """Polynomial kernel, k(x, z) = (gamma <x, z> + coef0)^degree.

    Parameters
    ----------
    degree : int >= 1
        Degree of the polynomial.
    gamma : float > 0
        Factor of the inner product.
    coef0 : float >= 0
        Constant added to it.

    See Also
    --------
    Linear

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Polynomial
    >>> Polynomial(degree=2)(np.array([[1.0], [2.0]]))
    array([[ 4.,  9.],
           [ 9., 25.]])
    """

    degree: int = 2
    gamma: float = 1.0
    coef0: float = 1.0

    def _checked(self) -> tuple[int, float, float]:
        return check_int(self.degree, "degree"), positive(self.gamma, "gamma"), positive(self.coef0, "coef0", zero=True)

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        degree, gamma, coef0 = self._checked()
        return (gamma * products(X, Z) + coef0) ** degree

    def diag(self, X: Any) -> Array:
        degree, gamma, coef0 = self._checked()
        return (gamma * square_norms(X) + coef0) ** degree

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Array]:
        degree, gamma, coef0 = self._checked()
        inner = products(X, Z)
        outer = degree * (gamma * inner + coef0) ** (degree - 1)
        return {"gamma": outer * inner, "coef0": outer}

    def runs_on_devices(self) -> bool:
        return True

    def slopes(self, X: Any, Z: Any) -> list[Slope]:
        degree, gamma, coef0 = self._checked()
        return [Slope(degree * gamma * (gamma * products(X, Z) + coef0) ** (degree - 1), None, 1.0)]


class Linear(ScalarKernel):
    """Linear kernel, k(x, z) = <x, z>.

    See Also
    --------
    Polynomial, Intercept

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Linear
    >>> Linear()(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[11.]])
    """

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        return products(X, Z)

    def diag(self, X: Any) -> Array:
        return square_norms(X)

    def runs_on_devices(self) -> bool:
        return True

    def slopes(self, X: Any, Z: Any) -> list[Slope]:
        return [Slope(np.ones((len(X), len(Z))), None, 1.0)]


class Tanimoto(ScalarKernel):
    """Tanimoto kernel of fingerprints, k(x, z) = <x, z> / (|x|^2 + |z|^2 - <x, z>).

    For binary vectors this is the size of the intersection over the size of the union (Jaccard index). Inputs may also
    be counts or other real vectors, dense or scipy sparse. k(0, 0) = 1.

    See Also
    --------
    Linear

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Tanimoto
    >>> Tanimoto()(np.array([[1, 1, 0], [0, 1, 1]])).round(4)
    array([[1.    , 0.3333],
           [0.3333, 1.    ]])
    """

    def _parts(self, X: Any, Z: Any | None) -> tuple[Array, Array]:
        inner, norms = products(X, Z), square_norms(X)
        return inner, norms[:, None] + (norms if Z is None else square_norms(Z)) - inner

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        inner, union = self._parts(X, Z)
        # The union is zero only if both vectors are.
        return np.divide(inner, union, out=np.ones_like(inner), where=union > 0)

    def diag(self, X: Any) -> Array:
        return np.ones(X.shape[0])

    def norm_bound(self) -> float:
        return 1.0

    def slopes(self, X: Any, Z: Any) -> list[Slope]:
        # d/dx <x,z>/u = z/u - <x,z> (2x - z)/u^2
        inner, union = self._parts(X, Z)
        safe = np.where(union > 0, union, 1.0)
        return [Slope(1.0 / safe + inner / safe**2, -2.0 * inner / safe**2, 1.0)]


@dataclass(eq=False, repr=False)
class Intercept(ScalarKernel):
    """Constant kernel k(x, z) = v, which adds a penalised intercept.

    The larger v, the weaker the penalty. In ``(Gaussian() + Intercept(100.0)) * T`` the operator T also couples the
    intercepts of the outputs.

    Parameters
    ----------
    variance : float > 0
        v, the prior variance of the constant.

    See Also
    --------
    Linear

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Intercept
    >>> Intercept(3.0)(np.zeros((2, 1)))
    array([[3., 3.],
           [3., 3.]])
    """

    variance: float = 1.0

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        value, on_device = positive(self.variance, "variance"), paired(X, Z)
        if on_device is None:
            return np.full((X.shape[0], (X if Z is None else Z).shape[0]), value)
        x, z = on_device
        full = x.xp.full((len(x), len(z)), value, dtype=x.values.dtype, device=x.values.device)
        return DeviceMatrix(full)  # type: ignore[return-value]

    def diag(self, X: Any) -> Array:
        return np.full(X.shape[0], positive(self.variance, "variance"))

    def runs_on_devices(self) -> bool:
        return True

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Array]:
        return {"variance": np.ones((X.shape[0], (X if Z is None else Z).shape[0]))}

    def slopes(self, X: Any, Z: Any) -> list[Slope]:
        return []

    def norm_bound(self) -> float:
        return positive(self.variance, "variance")
