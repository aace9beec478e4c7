"""Operator-valued kernels: the interface K(x, z), separable kernels, and expansions f(x) = sum_i K(x, x_i) c_i."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from ovk.base import ATOM, PRODUCT, Algebra, Array, DeviceMatrix, Indices, Parameters, Registered, operand, rule
from ovk.kernels import NotDifferentiableError, ScalarKernel, as_kernel, as_ours, contract
from ovk.operators import Dense, Identity, OutputOperator
from ovk.ovkernels.grams import Gram, Kronecker, distinct, proportional


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
        return self._applied([k.product(X, Z, C, since) for k in self.scalars], lambda T, P: T.apply(P))

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
        if Z is None or t is None:
            Z, t = None, s
        return self.gram(X, Z).entries(np.arange(X.shape[0]), s, np.arange(len(t)), t)

    def jacobian(self, X: Any, Z: Any, C: Array) -> Array:
        """Derivative in x of f(x) = sum_j K(x, z_j) c_j at each row of X: (n, d, p).

        C is (m, d), or (n, m, d) with separate coefficients for each row of X.
        """
        raise NotDifferentiableError(f"{type(self).__name__} has no closed-form derivative in its input")

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


@dataclass(eq=False, repr=False)
class Separable(OperatorKernel):
    """Separable (decomposable) kernel, K(x, z) = k(x, z) T, written ``k * T``."""

    kernel: Any  # k: a scalar kernel, one of scikit-learn, a name or a function
    operator: OutputOperator

    @property
    def output_dim(self) -> int | None:
        self._check_operator()
        return self.operator.output_dim

    def _check_operator(self) -> None:
        if not isinstance(self.operator, OutputOperator):
            raise ValueError(f"operator must be an output operator (ovk.operators), got {self.operator!r}")

    @property
    def scalar(self) -> ScalarKernel:
        """k, converted from a name or a function."""
        return self.kernel if isinstance(self.kernel, ScalarKernel) else as_kernel(self.kernel)

    def resolve(self, X: Any, d: int) -> Self:
        self._check_operator()
        kernel, operator = self.scalar.resolve(X), self.operator.resolve(d)
        if kernel is self.kernel and operator is self.operator:
            return self
        return type(self)(kernel, operator)

    def _expression(self) -> tuple[str, int]:
        if not isinstance(self.kernel, ScalarKernel):
            return super()._expression()
        return f"{operand(self.kernel, PRODUCT)} * {operand(self.operator, ATOM)}", PRODUCT

    def terms(self) -> list[Term]:
        return [Term(1.0, self.scalar, self.operator, "kernel", "operator")]

    def as_separable(self) -> Separable:
        return self

    def gram(self, X: Any, Z: Any | None = None) -> Kronecker:
        return Kronecker(self.scalar(X, Z), self.operator)

    def product(self, X: Any, Z: Any, C: Any, since: Indices | None = None) -> Array:
        if sparse.issparse(C):
            return super().product(X, Z, C, since)
        return self.operator.apply(self.scalar.product(X, Z, C, since))

    def diagonal_blocks(self, X: Any) -> Array:
        return self.scalar.diag(X)[:, None, None] * self.operator.dense()

    def pairs(self, X: Any, s: Indices, Z: Any | None = None, t: Indices | None = None) -> Array:
        return self.scalar(X, Z) * self.operator.dense()[np.ix_(s, s if t is None else t)]

    def jacobian(self, X: Any, Z: Any, C: Array) -> Array:
        W = self.operator.apply(C.reshape(-1, C.shape[-1])).reshape(C.shape)
        return contract(self.scalar.slopes(X, Z), X, Z, W)

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Gram]:
        G = self.scalar(X, Z)
        inputs = by_entry("kernel", self.scalar.gradient(X, Z))
        outputs = by_entry("operator", self.operator.gradient())
        # Derivatives of an operator are symmetric, but possibly indefinite.
        return {
            **{name: Kronecker(change, self.operator) for name, change in inputs.items()},
            **{name: Kronecker(G, Dense(change)) for name, change in outputs.items()},
        }

    def norm_bound(self) -> float | None:
        bound = self.scalar.norm_bound()
        return None if bound is None else bound * float(self.operator.eigh().values[-1])


def as_operator_kernel(kernel: Any) -> OperatorKernel:
    """An operator-valued kernel from a user's kernel; a scalar kernel means uncoupled outputs."""
    if isinstance(kernel, ScalarKernel):
        return Separable(kernel, Identity())
    kernel = kernel if isinstance(kernel, OperatorKernel) else as_ours(kernel)
    if isinstance(kernel, OperatorKernel):
        return kernel
    if isinstance(kernel, OutputOperator):
        raise ValueError(f"kernel must be a kernel, got the operator {kernel!r}: pass k * T with a scalar kernel k")
    return Separable(as_kernel(kernel), Identity())


rule("*", ScalarKernel, OutputOperator)(Separable)


@rule("*", float, Separable)
def _multiple(factor: float, K: Separable) -> Separable:
    return Separable(factor * K.scalar, K.operator)


#: Maximum number of kernel values in memory during prediction (128 MB).
MAX_KERNEL_VALUES = 1 << 24


@dataclass(frozen=True)
class Expansion(Registered):
    """A function in the space of an operator-valued kernel, f(x) = sum_i K(x, x_i) c_i + offset.

    Parameters
    ----------
    kernel : operator-valued kernel
        K.
    support : (m, p) array
        The inputs x_i.
    C : (m, d) array or scipy sparse matrix
        The coefficients c_i.
    offset : (d,) array, optional
        Intercept.

    See Also
    --------
    OperatorKernel, ovk.OVKRidge

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.ovkernels import Expansion
    >>> from ovk.kernels import Linear
    >>> from ovk.operators import Identity
    >>> f = Expansion(Linear() * Identity(1), np.array([[1.0], [2.0]]), np.array([[1.0], [1.0]]))
    >>> f(np.array([[2.0]]))
    array([[6.]])
    >>> f.at(np.array([[2.0], [1.0]]), np.array([0, 0]))
    array([6., 3.])
    >>> f.jacobian(np.array([[2.0]]))
    array([[[3.]]])
    >>> f.norm()
    3.0
    """

    kernel: OperatorKernel
    support: Any
    C: Any
    offset: Array | None = None

    def __post_init__(self) -> None:
        for name in ("support", "C"):
            value = getattr(self, name)
            if isinstance(value, (list, tuple)):
                object.__setattr__(self, name, np.asarray(value, dtype=np.float64))

    def __call__(self, X: Any) -> Array:
        """Values f(x), (n, d), computed in chunks of rows to bound memory."""
        X = np.asarray(X, dtype=np.float64) if isinstance(X, (list, tuple)) else X
        n, (m, d) = X.shape[0], self.C.shape
        values = np.empty((n, d))
        # Moved once, not for every chunk.
        support = X.like(self.support) if isinstance(X, DeviceMatrix) else self.support
        # The product with k T holds only k, and its preparation of the support is shared by all rows of a chunk.
        separable = self.kernel.as_separable() is not None and not sparse.issparse(self.C)
        for rows in row_slices(n, max(m, d) if separable else m * d):
            values[rows] = self.kernel.product(X[rows], support, self.C)
        return values if self.offset is None else values + self.offset

    def at(self, X: Any, outputs: Indices) -> Array:
        """One output of each row, f_q(x_i) with q = outputs_i, (n,), without computing the others."""
        width, value = self._one_output()
        values = np.empty(X.shape[0])
        for rows in row_slices(len(values), width):
            values[rows] = value(X[rows], outputs[rows])
        return values if self.offset is None else values + self.offset[outputs]

    def _one_output(self) -> tuple[int, Callable[[Any, Indices], Array]]:
        """A function that computes f_q(x) of rows x and outputs q, and its memory per row."""
        m, d = self.C.shape
        if sparse.issparse(self.C):
            # Coefficients of pairs of a point and an output: the kernel on pairs.
            C = self.C.tocoo()
            points, inputs = C.coords
            support = self.support[points]
            return C.nnz, lambda X, q: self.kernel.pairs(X, q, support, inputs) @ C.data
        separable = self.kernel.as_separable()
        if separable is not None:
            scalar, A = separable.scalar, separable.operator.apply(self.C).T
            return 2 * m, lambda X, q: np.einsum("ij,ij->i", scalar(X, self.support), A[q])
        return m * d, lambda X, q: self.kernel.gram(X, self.support).matmat(self.C)[np.arange(len(q)), q]

    def jacobian(self, X: Any) -> Array:
        """Derivative of f in its input at each row of X, (n, d, p), in closed form."""
        X, Z, C = (np.asarray(A.toarray() if sparse.issparse(A) else A) for A in (X, self.support, self.C))
        parts = [self.kernel.jacobian(X[rows], Z, C) for rows in row_slices(len(X), len(Z))]
        return np.concatenate(parts) if parts else np.empty((0, C.shape[1], X.shape[1]))

    def norm(self) -> float:
        """The norm |f| in the kernel's space, sqrt(sum_ij <c_i, K(x_i, x_j) c_j>), without the intercept."""
        C = self.C if isinstance(self.C, np.ndarray) else self.C.toarray()
        # Scaled by the largest coefficient, as squares of numbers such as 1e300 would overflow.
        size = float(np.abs(C).max(initial=0.0)) or 1.0
        scaled = C / size
        values = Expansion(self.kernel, self.support, scaled)(self.support)
        return size * float(np.sqrt(max(float(np.vdot(scaled, values)), 0.0)))


def row_slices(n: int, width: int, most: int = MAX_KERNEL_VALUES) -> Iterator[slice]:
    """Slices of the rows 0..n, each with about `most` entries in `width` columns."""
    step = max(32, most // max(width, 1))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))
