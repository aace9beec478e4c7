"""Operator-valued kernels with one scalar kernel per output, entrywise products, and transformed inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ovk.base import AND, PRODUCT, Array, Indices, PartsMixin, dense_inputs, operand, rule
from ovk.kernels import NotDifferentiableError, ScalarKernel, as_kernel, contract
from ovk.operators import Dense
from ovk.ovkernels.base import OperatorKernel, SeparableTerms, Term, by_entry
from ovk.ovkernels.grams import DenseBlocks, Gram, Kronecker, distinct
from ovk.ovkernels.weighted_sum import check_same_outputs


@dataclass(eq=False, repr=False)
class Diagonal(PartsMixin, OperatorKernel):
    """Diagonal kernel, K(x, z) = diag(k_1(x, z), ..., k_d(x, z)): a separate scalar kernel for each output.

    Parameters
    ----------
    kernels : sequence of d scalar kernels
        k_1, ..., k_d.

    See Also
    --------
    WeightedSum, Transformable

    Examples
    --------
    >>> from ovk.kernels import Gaussian, Linear
    >>> from ovk.ovkernels import Diagonal
    >>> Diagonal([Gaussian(1.0), Linear()])([1.0], [2.0]).round(4)
    array([[0.6065, 0.    ],
           [0.    , 2.    ]])
    """

    _parts_name = "kernels"

    kernels: Sequence[Any]

    @property
    def output_dim(self) -> int:
        return len(self.kernels)

    @property
    def scalars(self) -> list[ScalarKernel]:
        """The scalar kernels, converted from names and functions."""
        if len(self.kernels) == 0:
            raise ValueError("kernels must have at least one kernel, got none")
        return [as_kernel(kernel) for kernel in self.kernels]

    def resolve(self, X: Any, d: int) -> Self:
        super().resolve(X, d)
        return type(self)([kernel.resolve(X) for kernel in self.scalars])

    def terms(self) -> list[Term]:
        only = [Dense(np.diag(row)) for row in np.eye(self.output_dim)]
        return [Term(1.0, k, only[q], f"kernels[{q}]") for q, k in enumerate(self.scalars)]

    def _separable_terms(self) -> SeparableTerms:
        """Each distinct kernel with the outputs that use it."""
        found, numbers = distinct(self.scalars)
        outputs = [Dense(np.diag((numbers == k).astype(np.float64))) for k in range(len(found))]
        return SeparableTerms([Term(1.0, k, T) for k, T in zip(found, outputs, strict=True)])

    def gram(self, X: Any, Z: Any | None = None) -> Gram:
        return self._separable_terms().gram(X, Z)

    def product(self, X: Any, Z: Any, C: Any, since: Indices | None = None) -> Array:
        return self._separable_terms().product(X, Z, C, since)

    def diagonal_blocks(self, X: Any) -> Array:
        return self._separable_terms().diagonal_blocks(X)

    def pairs(self, X: Any, s: Indices, Z: Any | None = None, t: Indices | None = None) -> Array:
        t = s if t is None else t
        values = np.zeros((len(s), len(t)))
        for q, kernel in enumerate(self.scalars):
            rows, columns = np.flatnonzero(s == q), np.flatnonzero(t == q)
            if len(rows) and len(columns):
                values[np.ix_(rows, columns)] = kernel(X[rows], None if Z is None else Z[columns])
        return values

    def jacobian(self, X: Any, Z: Any, C: Array) -> Array:
        parts = [contract(kernel.slopes(X, Z), X, Z, C[..., q : q + 1])[:, 0] for q, kernel in enumerate(self.scalars)]
        return np.stack(parts, axis=1)

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Gram]:
        result: dict[str, Gram] = {}
        for q, kernel in enumerate(self.scalars):
            for name, change in by_entry(f"kernels[{q}]", kernel.gradient(X, Z)).items():
                result[name] = Kronecker(change, Dense(np.diag(np.eye(self.output_dim)[q])))
        return result

    def norm_bound(self) -> float | None:
        bounds = [kernel.norm_bound() for kernel in self.scalars]
        known = [bound for bound in bounds if bound is not None]
        return max(known) if len(known) == len(bounds) else None


@dataclass(eq=False, repr=False)
class Hadamard(OperatorKernel):
    """Entrywise product of two operator-valued kernels, K1(x, z) o K2(x, z), written ``K1 & K2``.

    It is positive semi-definite by Schur's product theorem.

    Parameters
    ----------
    left : operator-valued kernel
        K1.
    right : operator-valued kernel
        K2.

    See Also
    --------
    WeightedSum, Transformable

    Examples
    --------
    >>> from ovk.kernels import Gaussian
    >>> from ovk.operators import MixedEffect
    >>> from ovk.ovkernels import Transformable
    >>> K = Gaussian(1.0) * MixedEffect(0.5, output_dim=2) & Transformable(Gaussian(1.0))
    >>> K([0.0, 0.0], [0.0, 1.0]).round(4)
    array([[0.6065, 0.1839],
           [0.3033, 0.3679]])
    """

    left: OperatorKernel
    right: OperatorKernel

    def _expression(self) -> tuple[str, int]:
        # Python needs no parentheses around a sum here, but readers do.
        left = operand(self.left, AND) if isinstance(self.left, Hadamard) else operand(self.left, PRODUCT)
        return f"{left} & {operand(self.right, PRODUCT)}", AND

    @property
    def output_dim(self) -> int | None:
        d = self.left.output_dim
        return self.right.output_dim if d is None else d

    def resolve(self, X: Any, d: int) -> Self:
        left, right = self.left.resolve(X, d), self.right.resolve(X, d)
        return self if left is self.left and right is self.right else type(self)(left, right)

    def terms(self) -> list[Term] | None:
        left, right = self.left.terms(), self.right.terms()
        # Operators can be multiplied only if their number of outputs is known.
        if left is None or right is None or any(term.operator.output_dim is None for term in left + right):
            return None
        return [
            Term(a.weight * b.weight, a.kernel * b.kernel, Dense(a.operator.dense() * b.operator.dense()))
            for a in left
            for b in right
        ]

    def gram(self, X: Any, Z: Any | None = None) -> Gram:
        left, right = self.left.gram(X, Z), self.right.gram(X, Z)
        check_same_outputs([left.output_dim, right.output_dim])
        return _hadamard(left, right)

    def diagonal_blocks(self, X: Any) -> Array:
        return self.left.diagonal_blocks(X) * self.right.diagonal_blocks(X)

    def pairs(self, X: Any, s: Indices, Z: Any | None = None, t: Indices | None = None) -> Array:
        return self.left.pairs(X, s, Z, t) * self.right.pairs(X, s, Z, t)

    def jacobian(self, X: Any, Z: Any, C: Array) -> Array:
        # Entry (q, p) of d(K1 o K2) is dK1_qp K2_qp + K1_qp dK2_qp: for output q of f, the derivative of one factor
        # with the coefficients K_qp c_p of the other at each point.
        X = np.asarray(X, dtype=np.float64)
        d = C.shape[-1]
        total = np.zeros((len(X), d, X.shape[1]))
        for one, other in ((self.left, self.right), (self.right, self.left)):
            blocks = other.gram(X, Z).dense().reshape(len(X), d, -1, d)
            for q in range(d):
                total[:, q] += one.jacobian(X, Z, blocks[:, q] * C)[:, q]
        return total

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Gram]:
        left, right = self.left.gram(X, Z), self.right.gram(X, Z)
        return {
            **{f"left__{name}": _hadamard(change, right) for name, change in self.left.gradient(X, Z).items()},
            **{f"right__{name}": _hadamard(left, change) for name, change in self.right.gradient(X, Z).items()},
        }

    def norm_bound(self) -> float | None:
        # |A o B| <= max_i A_ii |B| <= |A| |B| for positive semi-definite matrices.
        left, right = self.left.norm_bound(), self.right.norm_bound()
        return None if left is None or right is None else left * right


def _hadamard(left: Gram, right: Gram) -> Gram:
    a, b = left.terms(), right.terms()
    if a is None or b is None:
        return DenseBlocks(left.dense() * right.dense(), left.output_dim)
    products = [(G * H, Dense(S.dense() * T.dense())) for G, S in a for H, T in b]
    return Kronecker([G for G, _ in products], [T for _, T in products])


rule("&", OperatorKernel, OperatorKernel)(Hadamard)


#: A function of (n, p) rows, or a matrix to multiply them by.
Transform = Callable[[Array], Array] | Array


@dataclass(eq=False, repr=False)
class Transformable(OperatorKernel):
    """Kernel with one transform of the inputs per output, K(x, z)_ij = k(T_i(x), T_j(z)).

    Parameters
    ----------
    kernel : scalar kernel
        k.
    transforms : sequence of d transforms, optional
        Each is a (q, p) matrix A, which maps x to A x, or a function from (n, p) inputs to (n, q). By default the
        coordinates, T_i(x) = x_i, with one output per input.

    See Also
    --------
    Diagonal, Hadamard

    Examples
    --------
    >>> from ovk.kernels import Gaussian
    >>> from ovk.ovkernels import Transformable
    >>> Transformable(Gaussian(1.0))([0.0, 1.0], [0.0, 2.0]).round(4)
    array([[1.    , 0.1353],
           [0.6065, 0.6065]])
    """

    kernel: Any
    transforms: Sequence[Transform] | None = None

    @property
    def output_dim(self) -> int | None:
        return None if self.transforms is None else len(self.transforms)

    @property
    def scalar(self) -> ScalarKernel:
        """k, converted from a name or a function."""
        return as_kernel(self.kernel)

    def resolve(self, X: Any, d: int) -> Self:
        super().resolve(X, d)
        if self.transforms is None and X.shape[1] != d:
            raise ValueError(
                f"Transformable without transforms has one output per input, but X has {X.shape[1]} features and Y has "
                f"{d} outputs: pass transforms"
            )
        kernel = self.scalar.resolve(np.concatenate(self.views(X)))
        return self if kernel is self.kernel else type(self)(kernel, self.transforms)

    def views(self, X: Any) -> list[Array]:
        """T_i(x) of every row, (n, q), for each output i."""
        X = dense_inputs(X, "Transformable")
        if self.transforms is None:
            return [X[:, i : i + 1] for i in range(X.shape[1])]
        return [self._view(i, transform, X) for i, transform in enumerate(self.transforms)]

    @staticmethod
    def _view(i: int, transform: Transform, X: Array) -> Array:
        if callable(transform):
            seen = np.asarray(transform(X), dtype=np.float64)
            if seen.ndim != 2 or len(seen) != len(X):
                raise ValueError(f"transforms[{i}] must map (n, p) inputs to (n, q), got {seen.shape} for {X.shape}")
            return seen
        A = np.atleast_2d(np.asarray(transform, dtype=np.float64))
        if A.shape[1] != X.shape[1]:
            raise ValueError(f"transforms[{i}] must have {X.shape[1]} columns, one for each input, got {A.shape[1]}")
        return X @ A.T

    def _stack(self, X: Any) -> Array:
        """T_i(x_l), (n d, q), with the row l d + i."""
        stacked = np.stack(self.views(X), axis=1)
        return stacked.reshape(-1, stacked.shape[2])

    def _gram(self, values: Array, X: Any) -> Gram:
        return DenseBlocks(values, X.shape[1] if self.transforms is None else len(self.transforms))

    def gram(self, X: Any, Z: Any | None = None) -> Gram:
        return self._gram(self.scalar(self._stack(X), None if Z is None else self._stack(Z)), X)

    def diagonal_blocks(self, X: Any) -> Array:
        stacked = np.stack(self.views(X), axis=1)
        n, d, _ = stacked.shape
        return np.array([self.scalar(one) for one in stacked]).reshape(n, d, d)

    def pairs(self, X: Any, s: Indices, Z: Any | None = None, t: Indices | None = None) -> Array:
        return self.scalar(self._own(X, s), None if Z is None or t is None else self._own(Z, t))

    def _own(self, X: Any, s: Indices) -> Array:
        """T_i(x_l) with i = s_l, (n, q)."""
        return np.stack(self.views(X), axis=1)[np.arange(len(s)), s]

    def jacobian(self, X: Any, Z: Any, C: Array) -> Array:
        X = np.asarray(X, dtype=np.float64)
        support, weights = self._stack(Z), np.asarray(C).reshape(*C.shape[:-2], -1, 1)
        parts = []
        for i, view in enumerate(self.views(X)):
            inner = contract(self.scalar.slopes(view, support), view, support, weights)[:, 0]
            parts.append(inner @ self._matrix(i, X.shape[1]))
        return np.stack(parts, axis=1)

    def _matrix(self, i: int, p: int) -> Array:
        if self.transforms is None:
            return np.eye(p)[i : i + 1]
        transform = self.transforms[i]
        if callable(transform):
            raise NotDifferentiableError(
                f"transforms[{i}] is a function without a known derivative: pass a matrix to compute Jacobians"
            )
        return np.atleast_2d(np.asarray(transform, dtype=np.float64))

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Gram]:
        changes = self.scalar.gradient(self._stack(X), None if Z is None else self._stack(Z))
        return {name: self._gram(change, X) for name, change in by_entry("kernel", changes).items()}

    def norm_bound(self) -> float | None:
        # |K(x, x)| <= trace
        bound, d = self.scalar.norm_bound(), self.output_dim
        return None if bound is None or d is None else d * bound
