"""The interface of an operator-valued kernel K(x, z), and sums of separable terms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from ovk.base import Algebra, Array, Indices, Parameters
from ovk.kernels import NotDifferentiable, ScalarKernel, contract
from ovk.operators import Dense, OutputOperator
from ovk.ovkernels.grams import Gram, Kronecker, distinct, proportional

if TYPE_CHECKING:
    from ovk.ovkernels.separable import Separable


class Term(NamedTuple):
    """weight k(x, z) T, one term of an operator-valued kernel."""

    weight: float
    kernel: ScalarKernel
    operator: OutputOperator
    #: Nested parameter names of kernel and operator; None if they are not parameters, or depend on others.
    kernel_name: str | None = None
    operator_name: str | None = None

    def inside(self, name: str) -> Term:
        """The term of a kernel that is the parameter `name` of another."""
        names = [None if own is None else f"{name}__{own}" for own in (self.kernel_name, self.operator_name)]
        return Term(self.weight, self.kernel, self.operator, *names)


class SeparableTerms:
    """sum_os weights_os k_s(x, z) T_o with distinct scalar kernels k_s, evaluated once each, and operators T_o."""

    def __init__(self, terms: Sequence[Term]) -> None:
        flat = [(term.weight * share, part, term.operator) for term in terms for share, part in term.kernel.summands()]
        flat = [term for term in flat if term[0] != 0] or [(0.0, *flat[0][1:])]
        self.scalars, scalar_of = distinct([k for _, k, _ in flat])
        self.operators, operator_of = distinct([T for _, _, T in flat])
        self.weights = np.zeros((len(self.operators), len(self.scalars)))
        np.add.at(self.weights, (operator_of, scalar_of), [weight for weight, _, _ in flat])

    def product_form(self) -> tuple[ScalarKernel, OutputOperator] | None:
        """k and T if the sum is a single product k T, else None."""
        groups = proportional(self.weights)
        if len(groups) > 1:
            return None
        row = self.weights[groups[0][0][0]]
        shares = [(float(w), k) for w, k in zip(row, self.scalars, strict=True) if w != 0] or [(0.0, self.scalars[0])]
        kernel = sum(k if w == 1.0 else w * k for w, k in shares)
        if len(self.operators) == 1:
            return kernel, self.operators[0]
        if any(T.output_dim is None for T in self.operators):
            return None
        return kernel, Dense(sum(factor * self.operators[o].dense() for o, factor in groups[0]))

    def gram(self, X: Any, Z: Any | None = None) -> Kronecker:
        """The gram; scalar kernels with the same operators are added as they are evaluated."""
        groups = proportional(self.weights.T)
        grams = []
        for group in groups:
            total = self.scalars[group[0][0]](X, Z)
            for s, factor in group[1:]:
                # NumPy reuses the memory of the second matrix as long as it has no name.
                total = total + (self.scalars[s](X, Z) if factor == 1.0 else factor * self.scalars[s](X, Z))
            grams.append(total)
        return Kronecker(grams, self.operators, self.weights[:, [group[0][0] for group in groups]])

    def product(self, X: Any, Z: Any, C: Any, since: Indices | None = None) -> Array:
        if sparse.issparse(C):
            gram = self.gram(X, Z)
            return gram.matmat(C) if since is None else gram.matmul_window(C, since)
        products = [k.product(X, Z, C, since) for k in self.scalars]
        return self._applied(products, lambda T, P: T.apply(P))

    def diagonal_blocks(self, X: Any) -> Array:
        return self._applied([k.diag(X) for k in self.scalars], lambda T, g: g[:, None, None] * T.dense())

    def pairs(self, X: Any, s: Indices, Z: Any | None = None, t: Indices | None = None) -> Array:
        picked = np.ix_(s, s if t is None else t)
        return self._applied([k(X, Z) for k in self.scalars], lambda T, G: G * T.dense()[picked])

    def _applied(self, values: list[Array], apply: Any) -> Array:
        """sum_o apply(T_o, sum_s weights_os values_s)."""
        return np.asarray(
            sum(
                apply(T, sum(v if w == 1.0 else w * v for w, v in zip(row, values, strict=True) if w != 0))
                for T, row in zip(self.operators, self.weights, strict=True)
                if row.any()
            )
            if self.weights.any()
            else 0.0 * apply(self.operators[0], values[0])
        )

    def jacobian(self, X: Any, Z: Any, C: Array) -> Array:
        applied = [T.apply(C.reshape(-1, C.shape[-1])).reshape(C.shape) for T in self.operators]
        return np.asarray(
            sum(
                contract(k.slopes(X, Z), X, Z, sum(w * W for w, W in zip(column, applied, strict=True)))
                for k, column in zip(self.scalars, self.weights.T, strict=True)
            )
        )


class OperatorKernel(Algebra, Parameters, ABC):
    """Base class of operator-valued kernels, positive semi-definite functions K(x, z) with d x d matrices as values.

    A subclass defines `gram` and `output_dim`, and overrides other methods where it has a faster way.

    See Also
    --------
    WeightedSum, Diagonal, Hadamard, Transformable

    Examples
    --------
    >>> from ovk.kernels import Gaussian
    >>> from ovk.operators import MixedEffect
    >>> K = Gaussian(1.0) * MixedEffect(0.5, output_dim=2)
    >>> K([0.0], [1.0]).round(4)
    array([[0.6065, 0.3033],
           [0.3033, 0.6065]])
    """

    @property
    @abstractmethod
    def output_dim(self) -> int | None:
        """Number of outputs d, None if it is not known."""

    @abstractmethod
    def gram(self, X: Any, Z: Any | None = None) -> Gram:
        """K(x_i, z_j) for all i, j. `Z` None means `X`."""

    def product(self, X: Any, Z: Any, C: Any, since: Indices | None = None) -> Array:
        """sum_j K(x_i, z_j) c_j, (n, d), for coefficients C (m, d); some kernels do not form the gram.

        `since`, (n,) and non-decreasing, is the index of the first point of Z that each row uses; None means all.
        """
        gram = self.gram(X, Z)
        return gram.matmat(C) if since is None else gram.matmul_window(C, since)

    def terms(self) -> list[Term] | None:
        """The kernel as a sum of separable terms, weight k(x, z) T; None if it is not such a sum."""
        return None

    def summands(self) -> list[tuple[float, OperatorKernel]]:
        """The kernel as a list of weights and kernels that sum to it."""
        return [(1.0, self)]

    def as_separable(self) -> Separable | None:
        """The kernel as a single product k(x, z) T; None if it is not one."""
        return None

    def resolve(self, X: Any, d: int) -> Self:
        """The kernel for d outputs, with data-dependent parameters computed from X; never changes the kernel."""
        found = self.output_dim
        if found is not None and found != d:
            raise ValueError(f"{type(self).__name__} has {found} outputs but Y has {d}")
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

        C is (m, d), or (n, m, d) with separate coefficients for each row of X.
        """
        raise NotDifferentiable(f"{type(self).__name__} has no closed-form derivative in its input")

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Gram]:
        """Derivative of the gram in every continuous hyper-parameter.

        Keys are the nested names of scikit-learn, followed by an index for the entries of an array:
        ``kernel__length_scale``, ``operator__B[0,1]``.
        """
        return {}

    def gradient_product(self, weights: Array, X: Any) -> tuple[float, dict[str, float]]:
        """The sum of weights * gram(X), with weights (n d, n d), and its derivatives by the names of `gradient`."""
        slopes = {name: float(np.vdot(weights, change.dense())) for name, change in self.gradient(X).items()}
        return float(np.vdot(weights, self.gram(X).dense())), slopes

    def norm_bound(self) -> float | None:
        """sup over x of the largest eigenvalue of K(x, x), or None if it is unbounded or unknown."""
        return None


def by_entry(prefix: str, gradient: dict[str, Array]) -> dict[str, Array]:
    """Derivatives (..., n, m) in an array, split by its entries, which are named ``prefix__name[i,j]``."""
    result: dict[str, Array] = {}
    for name, value in gradient.items():
        shape = value.shape[:-2]
        for index in np.ndindex(shape):
            suffix = "[" + ",".join(map(str, index)) + "]" if shape else ""
            result[f"{prefix}__{name}{suffix}"] = value[index]
    return result
