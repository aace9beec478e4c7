"""Sums, products and multiples of scalar kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk.base import ATOM, PRODUCT, SUM, Array, Indices, part, positive, rule
from ovk.kernels.base import ScalarKernel, Slope, prefixed


class OfTwo(ScalarKernel, saved=False):
    """A kernel made of two others."""

    def __init__(self, left: ScalarKernel, right: ScalarKernel) -> None:
        self.left = left
        self.right = right

    @staticmethod
    def _named(left: dict[str, Array], right: dict[str, Array]) -> dict[str, Array]:
        """Derivatives in the parameters of both."""
        return {**prefixed("left", left), **prefixed("right", right)}


class Sum(OfTwo):
    """k1(x, z) + k2(x, z), written ``k1 + k2``.

    Examples
    --------
    >>> from ovk.kernels import Gaussian, Linear
    >>> Gaussian(1.0) + Linear()
    Gaussian(1.0) + Linear()
    """

    def _expression(self) -> tuple[str, int]:
        return f"{part(self.left, SUM)} + {part(self.right, PRODUCT)}", SUM

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


class Product(OfTwo):
    """k1(x, z) k2(x, z), written ``k1 * k2``.

    Examples
    --------
    >>> from ovk.kernels import Gaussian, Linear
    >>> Gaussian(1.0) * Linear()
    Gaussian(1.0) * Linear()
    """

    def _expression(self) -> tuple[str, int]:
        return f"{part(self.left, PRODUCT)} * {part(self.right, ATOM)}", PRODUCT

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
        return [_times(slope, right) for slope in self.left.slopes(X, Z)] + [
            _times(slope, left) for slope in self.right.slopes(X, Z)
        ]


class Scaled(ScalarKernel):
    """factor k(x, z), written ``factor * k``.

    Examples
    --------
    >>> from ovk.kernels import Gaussian
    >>> 2.0 * Gaussian(1.0)
    2.0 * Gaussian(1.0)
    """

    def __init__(self, factor: float, kernel: ScalarKernel) -> None:
        self.factor = factor
        self.kernel = kernel

    def _expression(self) -> tuple[str, int]:
        return f"{self.factor!r} * {part(self.kernel, ATOM)}", PRODUCT

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


def _times(slope: Slope, values: Array) -> Slope:
    return Slope(slope.A * values, None if slope.B is None else slope.B * values, slope.metric)


rule("+", ScalarKernel, ScalarKernel)(Sum)
rule("*", ScalarKernel, ScalarKernel)(Product)
rule("*", float, ScalarKernel)(Scaled)
