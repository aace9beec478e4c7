"""Sums of separable terms: each scalar kernel is evaluated once, and equal operators are added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ovk._types import Array, Indices
from ovk.grams import Kronecker
from ovk.grams.kronecker import distinct, proportional
from ovk.kernels import ScalarKernel
from ovk.kernels.base import contract
from ovk.operators import Dense, OutputOperator


class Term(NamedTuple):
    """weight k(x, z) T, one term of an operator-valued kernel.

    Attributes
    ----------
    weight : float >= 0
    kernel : scalar kernel k
    operator : output operator T
    kernel_name, operator_name : nested names of k and T in the parameters of the whole, None for what is no parameter
        of its own, or depends on others too

    Examples
    --------
    >>> from ovk.kernels import Gaussian, Linear
    >>> from ovk.operators import Identity
    >>> [(term.weight, term.kernel) for term in (Gaussian(1.0) * Identity() + Linear() * Identity()).terms()]
    [(1.0, Gaussian(1.0)), (1.0, Linear())]
    """

    weight: float
    kernel: ScalarKernel
    operator: OutputOperator
    kernel_name: str | None = None
    operator_name: str | None = None

    def inside(self, name: str) -> Term:
        """The term where its kernel is the parameter `name` of another."""
        names = [None if own is None else f"{name}__{own}" for own in (self.kernel_name, self.operator_name)]
        return Term(self.weight, self.kernel, self.operator, *names)


class SeparableTerms:
    """sum_os weights_os k_s(x, z) T_o with different scalar kernels k_s and different operators T_o.

    What a sum of separable terms can do: multiples and sums of scalar kernels are taken apart, so that every scalar
    kernel is evaluated once, however often it occurs.
    """

    def __init__(self, terms: Sequence[Term]) -> None:
        flat = [(term.weight * share, part, term.operator) for term in terms for share, part in term.kernel.summands()]
        flat = [term for term in flat if term[0] != 0] or [(0.0, *flat[0][1:])]
        self.scalars, scalar_of = distinct([k for _, k, _ in flat])
        self.operators, operator_of = distinct([T for _, _, T in flat])
        self.weights = np.zeros((len(self.operators), len(self.scalars)))
        np.add.at(self.weights, (operator_of, scalar_of), [weight for weight, _, _ in flat])

    def product_form(self) -> tuple[ScalarKernel, OutputOperator] | None:
        """k and T where the sum is a single product k T, else None.

        Operators can be added once their number of outputs is known.
        """
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
        """The gram; scalar kernels that come with the same operators are added as they are evaluated."""
        groups = proportional(self.weights.T)
        grams = []
        for group in groups:
            total = self.scalars[group[0][0]](X, Z)
            for s, factor in group[1:]:
                # Without a name for the second matrix, numpy adds in its place instead of in a third one.
                total = total + (self.scalars[s](X, Z) if factor == 1.0 else factor * self.scalars[s](X, Z))
            grams.append(total)
        return Kronecker(grams, self.operators, self.weights[:, [group[0][0] for group in groups]])

    def product(self, X: Any, Z: Any, C: Any, since: Indices | None = None) -> Array:
        """sum_j K(x_i, z_j) c_j, (n, d), without the gram where a scalar kernel knows how."""
        if sparse.issparse(C):
            gram = self.gram(X, Z)
            return gram.matmat(C) if since is None else gram.matmat_since(C, since)
        products = [k.product(X, Z, C, since) for k in self.scalars]
        return self._applied(products, lambda T, P: T.apply(P))

    def diagonal_blocks(self, X: Any) -> Array:
        """K(x_i, x_i), (n, d, d)."""
        return self._applied([k.diag(X) for k in self.scalars], lambda T, g: g[:, None, None] * T.dense())

    def pairs(self, X: Any, s: Indices, Z: Any | None = None, t: Indices | None = None) -> Array:
        """K(x_i, z_j)[s_i, t_j], (n, m)."""
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
        """Derivative in x of sum_j K(x, z_j) c_j at each row of X: (n, d, p)."""
        applied = [T.apply(C.reshape(-1, C.shape[-1])).reshape(C.shape) for T in self.operators]
        return np.asarray(
            sum(
                contract(k.slopes(X, Z), X, Z, sum(w * W for w, W in zip(column, applied, strict=True)))
                for k, column in zip(self.scalars, self.weights.T, strict=True)
            )
        )
