"""Separable kernels, K(x, z) = k(x, z) T."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse

from ovk.base import ATOM, PRODUCT, Array, Indices, operand, rule
from ovk.kernels import ScalarKernel, as_kernel, as_ours, contract
from ovk.operators import Dense, Identity, OutputOperator
from ovk.ovkernels.base import OperatorKernel, Term, by_entry
from ovk.ovkernels.grams import Gram, Kronecker


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
        return {
            **{name: Kronecker(change, self.operator) for name, change in inputs.items()},
            **{name: Kronecker(G, Direction(change)) for name, change in outputs.items()},
        }

    def norm_bound(self) -> float | None:
        bound = self.scalar.norm_bound()
        return None if bound is None else bound * float(self.operator.eigh().values[-1])


class Direction(Dense, saved=False):
    """The derivative of an operator: symmetric, but possibly indefinite."""


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
