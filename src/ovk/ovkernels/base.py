"""The contract of an operator-valued kernel K(x, z)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ovk._algebra import Algebra
from ovk._params import Parameters
from ovk._types import Array, Indices
from ovk.grams import Gram
from ovk.kernels import NotDifferentiable
from ovk.ovkernels.terms import Term

if TYPE_CHECKING:
    from ovk.ovkernels.separable import Separable


class OperatorKernel(Algebra, Parameters, ABC):
    """A positive semi-definite function K(x, z) of two inputs whose values are d x d matrices.

    A new kernel needs `gram` and `output_dim`; the rest has defaults, which a kernel overrides where it can do better.
    """

    @property
    @abstractmethod
    def output_dim(self) -> int | None:
        """Number of outputs d, None while it is not known."""

    @abstractmethod
    def gram(self, X: Any, Z: Any | None = None) -> Gram:
        """K(x_i, z_j) for all i, j. `Z` None means `X`."""

    def product(self, X: Any, Z: Any, C: Any, since: Indices | None = None) -> Array:
        """sum_j K(x_i, z_j) c_j, (n, d), for coefficients C (m, d); without the gram where a kernel knows how.

        `since`, (n,) and never decreasing, is the first of the points Z that each row sees; None means all.
        """
        gram = self.gram(X, Z)
        return gram.matmat(C) if since is None else gram.matmat_since(C, since)

    def terms(self) -> list[Term] | None:
        """The kernel as a sum of separable terms, weight k(x, z) T; None where it is not such a sum."""
        return None

    def summands(self) -> list[tuple[float, OperatorKernel]]:
        """The kernel as a sum of weights times kernels, of itself alone if it is no sum."""
        return [(1.0, self)]

    def as_separable(self) -> Separable | None:
        """The kernel as a single product k(x, z) T; None where it is not one."""
        return None

    def resolve(self, X: Any, d: int) -> Self:
        """The kernel for d outputs with everything that is learned from the inputs learned; never changes it."""
        found = self.output_dim
        if found is not None and found != d:
            raise ValueError(f"the kernel {type(self).__name__} has {found} outputs but Y has {d}")
        return self

    def __call__(self, x: Any, z: Any) -> Array:
        """The d x d matrix K(x, z) of one pair of inputs."""
        return self.gram(np.atleast_2d(x), np.atleast_2d(z)).dense()

    def diagonal_blocks(self, X: Any) -> Array:
        """K(x_i, x_i), (n, d, d)."""
        return np.stack([self.gram(X[i : i + 1]).dense() for i in range(X.shape[0])])

    def pairs(self, X: Any, s: Indices, Z: Any | None = None, t: Indices | None = None) -> Array:
        """K(x_i, z_j)[s_i, t_j], (n, m): the scalar kernel on pairs of an input and an output."""
        n = X.shape[0]
        if Z is None or t is None:
            Z, t = None, s
        return self.gram(X, Z).entries(np.arange(n), s, np.arange(len(t)), t)

    def jacobian(self, X: Any, Z: Any, C: Array) -> Array:
        """Derivative in x of f(x) = sum_j K(x, z_j) c_j at each row of X: (n, d, p).

        C is (m, d), or (n, m, d) with coefficients of its own for each row of X.
        """
        raise NotDifferentiable(f"{type(self).__name__} has no closed-form derivative in its input")

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Gram]:
        """Derivative of the gram in every continuous hyper-parameter.

        Keys are the nested names of scikit-learn, with an index behind them for the entries of an array:
        ``kernel__length_scale``, ``operator__B[0,1]``.
        """
        return {}

    def gradient_product(self, weights: Array, X: Any) -> tuple[float, dict[str, float]]:
        """The sum of weights * gram(X), with weights (n d, n d), and its derivatives by the names of `gradient`."""
        slopes = {name: float(np.vdot(weights, change.dense())) for name, change in self.gradient(X).items()}
        return float(np.vdot(weights, self.gram(X).dense())), slopes

    def norm_bound(self) -> float | None:
        """sup over x of the largest eigenvalue of K(x, x), or None when it is unbounded or unknown."""
        return None


def by_entry(prefix: str, gradient: dict[str, Array]) -> dict[str, Array]:
    """Derivatives (..., n, m) in arrays, split into those in their entries (n, m), named ``prefix__name[i,j]``."""
    result: dict[str, Array] = {}
    for name, value in gradient.items():
        shape = value.shape[:-2]
        for index in np.ndindex(shape):
            suffix = "[" + ",".join(map(str, index)) + "]" if shape else ""
            result[f"{prefix}__{name}{suffix}"] = value[index]
    return result
