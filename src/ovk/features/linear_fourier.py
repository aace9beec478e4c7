"""Linear functions beside random waves: what most streams need first, and what they need then.

The features of a sum of kernels are the features of its terms beside each other. Those of the linear kernel are the
inputs themselves, without any error, so that a trend or a lag costs no waves.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from ovk._params import Registered
from ovk._validation import Array, dense_inputs, positive, whole
from ovk.features.fourier import FourierMap
from ovk.features.plans import FeaturePlan, FixedFeatures, StreamFeatures
from ovk.kernels import Polynomial
from ovk.ovkernels import OperatorKernel, Separable


@dataclass(frozen=True)
class LinearFourierMap(Registered):
    """phi(x) = [sqrt(w), sqrt(w) x, psi(x)], so that <phi(x), phi(z)> approximates w (1 + <x, z>) + k(x, z).

    Attributes
    ----------
    fourier : psi, random Fourier features of k, or None for linear functions alone
    weight : w

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.features import LinearFourierMap
    >>> phi = LinearFourierMap(None, 4.0).transform(np.array([[3.0]]))
    >>> phi
    array([[2., 6.]])
    """

    fourier: FourierMap | None
    weight: float

    def transform(self, X: Array) -> Array:
        """Features, (n, 1 + p + 2 waves)."""
        X = dense_inputs(X, "LinearFourierMap")
        root = sqrt(self.weight)
        parts = [np.full((len(X), 1), root), root * X]
        if self.fourier is not None:
            parts.append(self.fourier.transform(X))
        return np.hstack(parts)


class LinearFourier(FeaturePlan):
    """Linear functions and random Fourier features of a stationary kernel k, which stand in for w (1 + <x, z>) + k.

    Parameters
    ----------
    n : int >= 0
        Frequencies: 2 n features beside the p + 1 linear ones.
    weight : float > 0
        w: with a large one, linear functions are hardly penalised.

    Examples
    --------
    >>> from ovk import PKAWV
    >>> from ovk.features import LinearFourier
    >>> from ovk.kernels import Gaussian
    >>> model = PKAWV(Gaussian(1.0), features=LinearFourier(20), random_state=0).fit([[0.0], [0.5]], [1.0, 2.0])
    >>> model.n_features_
    42
    """

    def __init__(self, n: int = 50, weight: float = 10.0) -> None:
        self.n = n
        self.weight = weight

    def begin(self, kernel: OperatorKernel, p: int, d: int, rng: np.random.Generator) -> StreamFeatures:
        if not isinstance(kernel, Separable):
            raise ValueError(
                f"LinearFourier features are for a scalar kernel or a product k * T, got {kernel!r}: use Nystrom"
            )
        weight = positive(self.weight, "weight")
        n, linear = whole(self.n, "n", least=0), Polynomial(1, gamma=weight, coef0=weight)
        fourier = FourierMap.from_kernel(kernel.scalar, n, p, rng) if n > 0 else None
        both = linear if fourier is None else linear + kernel.scalar
        return FixedFeatures(LinearFourierMap(fourier, weight), both, 1, 1 + p + 2 * n)
