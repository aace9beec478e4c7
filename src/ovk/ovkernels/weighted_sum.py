"""Sums and multiples of operator-valued kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ovk.base import ATOM, PRODUCT, SUM, Array, Indices, PartsMixin, operand, rule
from ovk.ovkernels.base import OperatorKernel, Separable, SeparableTerms, Term
from ovk.ovkernels.grams import DenseBlocks, Gram


@dataclass(eq=False, repr=False)
class WeightedSum(PartsMixin, OperatorKernel):
    """Weighted sum of operator-valued kernels, sum_k w_k K_k(x, z) with w_k >= 0, written ``K1 + 2.0 * K2``.

    Scalar kernels that occur several times are evaluated once, and separable kernels with the same operator are added:
    ``k1 * T + k2 * T`` costs no more than ``(k1 + k2) * T``.

    Parameters
    ----------
    kernels : sequence of operator-valued kernels
        Their parameters have the names ``kernels[0]__...``, and so on.
    weights : (M,) numbers >= 0, optional
        w_k. By default all are one, and `tune` does not change them.

    See Also
    --------
    Hadamard, Diagonal, ovk.MovKL

    Examples
    --------
    >>> from ovk.kernels import Gaussian, Linear
    >>> from ovk.operators import Identity, MixedEffect
    >>> from ovk.ovkernels import CurlFree, WeightedSum
    >>> WeightedSum([Gaussian(1.0) * Identity(1), Linear() * Identity(1)], [0.5, 2.0])([1.0], [1.0])
    array([[2.5]])
    >>> K = CurlFree(Gaussian(1.0)) + 0.5 * (Linear() * MixedEffect(0.5) + CurlFree(Gaussian(2.0)))
    >>> len(K.kernels), K.weights
    (3, [1.0, 0.5, 0.5])
    """

    _parts_name = "kernels"

    kernels: Sequence[OperatorKernel]
    weights: Any = None

    def _checked(self) -> Array:
        if len(self.kernels) == 0:
            raise ValueError("kernels must have at least one kernel, got none")
        if self.weights is None:
            return np.ones(len(self.kernels))
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.shape != (len(self.kernels),):
            raise ValueError(f"weights must have {len(self.kernels)} entries, one per kernel, got {self.weights!r}")
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise ValueError(f"weights must be non-negative and finite, got {self.weights!r}")
        return weights

    def _expression(self) -> tuple[str, int]:
        # Sums that + and * would not build, such as nested sums and multiples of k * T, are written as calls.
        weights = [1.0] * len(self.kernels) if self.weights is None else self.weights
        if not isinstance(weights, list) or len(weights) != len(self.kernels):
            return super()._expression()
        free = [k for k, kernel in enumerate(self.kernels) if not isinstance(kernel, Separable)]
        nested = any(isinstance(kernel, WeightedSum) for kernel in self.kernels)
        fixed = any(weight != 1.0 and k not in free for k, weight in enumerate(weights))
        if nested or fixed or (len(weights) < 2 if self.weights is None else not free):
            return super()._expression()
        # If all weights are one, write one of them, so that the repr shows that there are weights.
        written = {k for k in free if weights[k] != 1.0} or (set() if self.weights is None else {free[0]})
        parts = [
            f"{weight!r} * {operand(kernel, ATOM)}" if k in written else operand(kernel, PRODUCT)
            for k, (weight, kernel) in enumerate(zip(weights, self.kernels, strict=True))
        ]
        return " + ".join(parts), SUM if len(parts) > 1 else PRODUCT

    @property
    def output_dim(self) -> int | None:
        return next((kernel.output_dim for kernel in self.kernels if kernel.output_dim is not None), None)

    def resolve(self, X: Any, d: int) -> Self:
        kernels = [kernel.resolve(X, d) for kernel in self.kernels]
        if all(new is old for new, old in zip(kernels, self.kernels, strict=True)):
            return self
        return type(self)(kernels, self.weights)

    def summands(self) -> list[tuple[float, OperatorKernel]]:
        pairs = zip(self._checked().tolist(), self.kernels, strict=True)
        return [(weight * share, part) for weight, kernel in pairs for share, part in kernel.summands()]

    def terms(self) -> list[Term] | None:
        found: list[Term] = []
        for k, (weight, kernel) in enumerate(zip(self._checked().tolist(), self.kernels, strict=True)):
            terms = kernel.terms()
            if terms is None:
                return None
            if self.weights is None:
                found += [term.inside(f"kernels[{k}]") for term in terms]
            else:
                found += [Term(weight * term.weight, term.kernel, term.operator) for term in terms]
        return found

    def as_separable(self) -> Separable | None:
        terms = self.terms()
        found = None if terms is None else SeparableTerms(terms).product_form()
        return None if found is None else Separable(*found)

    def _separable_terms(self) -> SeparableTerms | None:
        check_same_outputs([kernel.output_dim for kernel in self.kernels])
        terms = self.terms()
        return None if terms is None else SeparableTerms(terms)

    def _used(self) -> list[tuple[float, OperatorKernel]]:
        """The kernels of positive weight."""
        pairs = zip(self._checked().tolist(), self.kernels, strict=True)
        return [(weight, kernel) for weight, kernel in pairs if weight > 0] or [(0.0, self.kernels[0])]

    def _total(self, values: Callable[[SeparableTerms | OperatorKernel], Array]) -> Array:
        """The weighted sum of some values of the kernels, computed from separable terms if possible."""
        separable = self._separable_terms()
        if separable is not None:
            return values(separable)
        return np.asarray(sum(weight * values(kernel) for weight, kernel in self._used()))

    def gram(self, X: Any, Z: Any | None = None) -> Gram:
        separable = self._separable_terms()
        if separable is not None:
            return separable.gram(X, Z)
        grams = [(weight, kernel.gram(X, Z)) for weight, kernel in self._used()]
        check_same_outputs([gram.output_dim for _, gram in grams])
        return DenseBlocks(np.asarray(sum(weight * gram.dense() for weight, gram in grams)), grams[0][1].output_dim)

    def product(self, X: Any, Z: Any, C: Any, since: Indices | None = None) -> Array:
        return self._total(lambda K: K.product(X, Z, C, since))

    def diagonal_blocks(self, X: Any) -> Array:
        return self._total(lambda K: K.diagonal_blocks(X))

    def pairs(self, X: Any, s: Indices, Z: Any | None = None, t: Indices | None = None) -> Array:
        return self._total(lambda K: K.pairs(X, s, Z, t))

    def jacobian(self, X: Any, Z: Any, C: Array) -> Array:
        return self._total(lambda K: K.jacobian(X, Z, C))

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Gram]:
        found: dict[str, Gram] = {}
        for k, (weight, kernel) in enumerate(zip(self._checked().tolist(), self.kernels, strict=True)):
            if self.weights is not None:
                found[f"weights[{k}]"] = kernel.gram(X, Z)
            for name, change in kernel.gradient(X, Z).items():
                found[f"kernels[{k}]__{name}"] = change if weight == 1.0 else weight * change
        return found

    def gradient_product(self, weights: Array, X: Any) -> tuple[float, dict[str, float]]:
        total, found = 0.0, {}
        for k, (weight, kernel) in enumerate(zip(self._checked().tolist(), self.kernels, strict=True)):
            value, slopes = kernel.gradient_product(weights, X)
            total += weight * value
            if self.weights is not None:
                found[f"weights[{k}]"] = value
            found |= {f"kernels[{k}]__{name}": weight * slope for name, slope in slopes.items()}
        return total, found

    def norm_bound(self) -> float | None:
        bounds = [(weight, kernel.norm_bound()) for weight, kernel in self.summands() if weight > 0]
        known = [weight * bound for weight, bound in bounds if bound is not None]
        return float(sum(known)) if len(known) == len(bounds) else None


def check_same_outputs(found: Sequence[int | None]) -> None:
    """Reject kernels with different numbers of outputs; None is an unknown number."""
    if len({d for d in found if d is not None}) > 1:
        raise ValueError(f"combined kernels must have the same number of outputs, got {list(found)}")


@rule("+", OperatorKernel, OperatorKernel)
def _sum(left: OperatorKernel, right: OperatorKernel) -> WeightedSum:
    pairs = left.summands() + right.summands()
    # Explicit weights, as in 1.0 * K1 + K2, can be tuned even if all are one.
    written = any(isinstance(K, WeightedSum) and K.weights is not None for K in (left, right))
    return WeightedSum([kernel for _, kernel in pairs], [weight for weight, _ in pairs] if written else None)


@rule("*", float, OperatorKernel)
def _multiple(factor: float, K: OperatorKernel) -> WeightedSum:
    pairs = K.summands()
    return WeightedSum([part for _, part in pairs], [factor * weight for weight, _ in pairs])
