"""Random Fourier features of operator-valued kernels.

A stationary operator-valued kernel is a mean of waves with matrices for amplitudes,

    K(x, z) = E cos(w . (x - z)) A(w),     A(w) = B(w) B(w)'

    decomposable k T:  A = c T                                    (w from k's spectral density, c = k(x, x))
    curl-free:         A = v v',             v = l w              (from -grad grad' phi = E v v' cos(v . u))
    divergence-free:   A = |v|^2 I - v v'                         (rank d - 1: B = |v| times a basis of v's complement)
    entrywise product: A = A_1(w_1) o A_2(w_2),  w = w_1 + w_2
    transformable:     K_ij = E cos(w . (T_i x - T_j z)): each output sees the wave at its own view of the input

and sums are sums. Every function of the features inherits what each wave has: no curl, no divergence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Self

import numpy as np

from ovk._params import Registered, check_int, dense_inputs
from ovk._types import Array
from ovk.features.fourier import draw_frequencies, waves
from ovk.ovkernels import (
    CurlFree,
    Diagonal,
    DivFree,
    Hadamard,
    OperatorKernel,
    Separable,
    Transformable,
    WeightedSum,
    as_operator_kernel,
)


@dataclass(frozen=True)
class FourierTerm(Registered):
    """The waves of one term of a kernel.

    Attributes
    ----------
    kernel : the operator-valued kernel that they stand for
    frequencies : (n, q)
    factors : (n, d, r) amplitudes B(w_j), or (1, d, r) if they do not depend on the frequency

    Examples
    --------
    >>> from ovk.features import OperatorFourierMap
    >>> from ovk.kernels import Gaussian
    >>> from ovk.ovkernels import CurlFree
    >>> (term,) = OperatorFourierMap.from_kernel(CurlFree(Gaussian(1.0)), n=10, p=2, rng=0).terms
    >>> term.frequencies.shape, term.factors.shape
    ((10, 2), (10, 2, 1))
    """

    kernel: OperatorKernel
    frequencies: Array
    factors: Array

    def transform(self, X: Array) -> Array:
        """Features, (N d, 2 n r)."""
        n, (_, d, r) = len(self.frequencies), self.factors.shape
        if isinstance(self.kernel, Transformable):
            seen = [waves(view, self.frequencies) for view in self.kernel.views(X)]
            phi = np.stack(seen, axis=1)
        else:
            phi = waves(X, self.frequencies)[:, None, :]
        # (N, d or 1, 2, n, 1) times (d, 1, n or 1, r)
        phi = phi.reshape(len(X), -1, 2, n, 1) * self.factors.transpose(1, 0, 2)[:, None]
        phi *= 1.0 / np.sqrt(n)
        return phi.reshape(len(X) * d, 2 * n * r)


@dataclass(frozen=True)
class OperatorFourierMap(Registered):
    """Features of an operator-valued kernel from random frequencies: Phi(x) Phi(z)' approximates K(x, z), unbiased.

    Each term of a sum has n frequencies of its own, and with them 2 n r features: r is the rank of T for a
    decomposable kernel, 1 for a curl-free one, d - 1 for a divergence-free one. The error falls like 1 / sqrt(n).

    Attributes
    ----------
    kernel : operator-valued kernel
    terms : tuple of `FourierTerm`, with the frequencies that were drawn

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.features import OperatorFourierMap
    >>> from ovk.kernels import Gaussian
    >>> from ovk.ovkernels import CurlFree, DivFree
    >>> X = np.random.default_rng(0).standard_normal((5, 2))
    >>> K = CurlFree(Gaussian(1.0)) + 0.5 * DivFree(Gaussian(2.0))
    >>> phi = OperatorFourierMap.from_kernel(K, n=5000, p=2, rng=0).transform(X)
    >>> phi.shape, bool(np.abs(phi @ phi.T - K.gram(X).dense()).max() < 0.2)
    ((10, 20000), True)
    """

    kernel: OperatorKernel
    terms: tuple[FourierTerm, ...]

    @classmethod
    def from_kernel(cls, kernel: Any, n: int, p: int, rng: Any = None) -> Self:
        """Draw n frequencies for each term, for inputs (., p); `rng` is a `numpy.random.Generator` or a seed."""
        K = as_operator_kernel(kernel)
        terms = _terms(K, check_int(n, "n"), check_int(p, "p"), np.random.default_rng(rng))
        found = {term.factors.shape[1] for term in terms}
        if len(found) > 1:
            raise ValueError(f"kernels that are combined must have the same number of outputs, got {sorted(found)}")
        return cls(K, tuple(terms))

    @property
    def output_dim(self) -> int:
        """Number of outputs d."""
        return int(self.terms[0].factors.shape[1])

    @property
    def n_features(self) -> int:
        """m, the sum of 2 n r over the terms."""
        return sum(2 * len(term.frequencies) * term.factors.shape[2] for term in self.terms)

    def transform(self, X: Any) -> Array:
        """Features, (N d, m): row i d + q belongs to output q of input i."""
        X = dense_inputs(X, "OperatorFourierMap")
        return np.concatenate([term.transform(X) for term in self.terms], axis=1)


@singledispatch
def _terms(K: OperatorKernel, n: int, p: int, rng: np.random.Generator) -> list[FourierTerm]:
    """Waves of each term of a kernel."""
    raise ValueError(
        f"operator-valued Fourier features are for separable, diagonal, transformable, curl-free and divergence-free "
        f"kernels, their sums and multiples, got {type(K).__name__}: use Nystrom features for others"
    )


@_terms.register
def _(K: Separable, n: int, p: int, rng: np.random.Generator) -> list[FourierTerm]:
    K.output_dim  # refuses what is no operator  # noqa: B018
    mass, W = draw_frequencies(K.scalar, n, p, rng)
    return [FourierTerm(K, W, np.sqrt(mass) * K.operator.eigh().root()[None])]


@_terms.register
def _(K: Diagonal, n: int, p: int, rng: np.random.Generator) -> list[FourierTerm]:
    terms = []
    for q, kernel in enumerate(K.scalars):
        mass, W = draw_frequencies(kernel, n, p, rng)
        only = np.eye(K.output_dim)[None, :, q : q + 1]
        terms.append(FourierTerm(K, W, np.sqrt(mass) * only))
    return terms


@_terms.register
def _(K: CurlFree, n: int, p: int, rng: np.random.Generator) -> list[FourierTerm]:
    W, V = _field(K, n, p, rng)
    return [FourierTerm(K, W, V[:, :, None])]


@_terms.register
def _(K: DivFree, n: int, p: int, rng: np.random.Generator) -> list[FourierTerm]:
    W, V = _field(K, n, p, rng)
    return [FourierTerm(K, W, complement(V))]


def _field(K: CurlFree | DivFree, n: int, p: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Frequencies, and the same in units of the length scale."""
    field = K.resolve(np.zeros((1, p)), p)
    _, W = draw_frequencies(field.kernel, n, p, rng)
    return W, W * field.kernel.single_scale()


@_terms.register
def _(K: Transformable, n: int, p: int, rng: np.random.Generator) -> list[FourierTerm]:
    views = K.views(np.zeros((1, p)))
    mass, W = draw_frequencies(K.scalar, n, views[0].shape[1], rng)
    return [FourierTerm(K, W, np.full((1, len(views), 1), np.sqrt(mass)))]


@_terms.register
def _(K: WeightedSum, n: int, p: int, rng: np.random.Generator) -> list[FourierTerm]:
    return [
        FourierTerm(term.kernel, term.frequencies, np.sqrt(weight) * term.factors)
        for weight, part in K.summands()
        for term in _terms(part, n, p, rng)
    ]


@_terms.register
def _(K: Hadamard, n: int, p: int, rng: np.random.Generator) -> list[FourierTerm]:
    terms = []
    for one in _terms(K.left, n, p, rng):
        for other in _terms(K.right, n, p, rng):
            if isinstance(one.kernel, Transformable) or isinstance(other.kernel, Transformable):
                raise ValueError(
                    "Fourier features of an entrywise product with a transformable kernel are not available: its "
                    "outputs see different inputs; use Nystrom features"
                )
            # (B_1 B_1') o (B_2 B_2'): every column of one times every column of the other.
            factors = one.factors[:, :, :, None] * other.factors[:, :, None, :]
            shape = (*factors.shape[:2], -1)
            terms.append(FourierTerm(K, one.frequencies + other.frequencies, factors.reshape(shape)))
    return terms


def complement(V: Array) -> Array:
    """B, (n, d, d - 1), with B B' = |v|^2 I - v v' for each row v of V, (n, d).

    All but the first column of |v| (I - 2 h h' / |h|^2), the reflection that takes v to the first axis.

    >>> complement(np.array([[0.0, 2.0]]))
    array([[[-2.],
            [ 0.]]])
    """
    d = V.shape[1]
    size = np.linalg.norm(V, axis=1)
    safe = np.where(size > 0, size, 1.0)
    h = V / safe[:, None]
    # Away from the first axis rather than towards it, so that nothing cancels.
    h[:, 0] += np.where(h[:, 0] < 0, -1.0, 1.0)
    reflection = np.eye(d) - (2.0 / np.sum(h * h, axis=1))[:, None, None] * h[:, :, None] * h[:, None, :]
    return np.asarray(size[:, None, None] * reflection[:, :, 1:])
