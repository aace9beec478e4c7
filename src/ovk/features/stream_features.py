"""Which finite features a learner is to use: parameters, made into features when the first rows are there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ovk.base import Array, Parameters, Registered, check_int, equal, positive
from ovk.features.dictionary import Dictionary, Selection, Uniform
from ovk.features.fourier import FourierMap, LinearFourierMap, OperatorFourierMap, TaylorMap
from ovk.kernels import Polynomial
from ovk.ovkernels import OperatorKernel, Separable


@dataclass
class FixedFeatures(Registered):
    """A feature map that does not change.

    Attributes
    ----------
    map : `TaylorMap`, `FourierMap`, `OperatorFourierMap`, ...
    kernel : scalar kernel, or operator-valued kernel for d rows an input
    per : rows an input
    m : number of features
    """

    map: Any
    kernel: Any
    per: int
    m: int

    @property
    def settled(self) -> bool:
        """Whether the features stay as they are: always."""
        return True

    def transform(self, X: Array) -> Array:
        """Features, (n per, m)."""
        phi: Array = self.map.transform(X)
        return np.ascontiguousarray(phi)

    def prior(self, X: Array) -> Array:
        """K(x, x), (n, per, per)."""
        return np.asarray(self.kernel.diagonal_blocks(X))

    def transform_and_grow(self, X: Array, draws: Array, *, split: bool = False) -> Iterator[tuple[slice, Array]]:
        """Yield all rows with their features: a fixed map does not grow."""
        yield slice(0, len(X)), self.transform(X)

    def same(self, other: Any) -> bool:
        """Whether two maps are one."""
        return isinstance(other, FixedFeatures) and self.m == other.m and equal(self.map, other.map)


#: Features of a stream: `per` rows an input, (n per, m), that may grow in number while it goes on.
StreamFeatures = FixedFeatures | Dictionary


class FeaturePlan(Parameters, ABC):
    """Says which features stand in for a kernel."""

    @abstractmethod
    def build(self, kernel: OperatorKernel, p: int, d: int, rng: np.random.Generator) -> StreamFeatures:
        """Make the features for a resolved kernel, inputs (., p) and d outputs; `rng` draws what is random."""

    def keeps_past(self) -> bool:
        """Whether rows must be kept to bring sums up to date when features are added."""
        return False


@dataclass(eq=False, repr=False)
class Nystrom(FeaturePlan):
    """Nystrom features of points chosen along the stream; a row may join before it is predicted.

    Parameters
    ----------
    selection : `KORS`, `Uniform`, `ALD` or `Given`; default ``Uniform(size=100)``
    past : "projected" or "exact"
        What rows seen before a point joined say about its feature: nothing (memory does not grow with the stream), or
        all they would have said, for which their inputs and outputs are kept.
    budget : int, optional
        Most points. When it is reached the dictionary stops growing.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import PKAWV
    >>> from ovk.features import KORS, Nystrom
    >>> from ovk.kernels import Gaussian
    >>> X = np.linspace(0, 6, 300)[:, None]
    >>> model = PKAWV(Gaussian(1.0), alpha=0.1, features=Nystrom(KORS(mu=0.01), budget=50), random_state=0)
    >>> model = model.fit(X, np.sin(X[:, 0]))
    >>> len(model.support_) <= 50
    True
    """

    selection: Selection | None = None
    past: str = "projected"
    budget: int | None = None

    def keeps_past(self) -> bool:
        if self.past not in ("projected", "exact"):
            raise ValueError(f"past must be 'projected' or 'exact', got {self.past!r}")
        return self.past == "exact"

    def build(self, kernel: OperatorKernel, p: int, d: int, rng: np.random.Generator) -> StreamFeatures:
        selection = Uniform(size=100) if self.selection is None else self.selection
        if not isinstance(selection, Selection):
            raise ValueError(f"selection must be KORS, Uniform, ALD or Given, got {selection!r}")
        budget = None if self.budget is None else check_int(self.budget, "budget")
        self.keeps_past()
        scalar = kernel.scalar if isinstance(kernel, Separable) else kernel
        return Dictionary.start(scalar, selection, p, 1 if isinstance(kernel, Separable) else d, budget)


@dataclass(eq=False, repr=False)
class Taylor(FeaturePlan):
    """Taylor features of the Gaussian kernel, (p + degree)! / (p! degree!) of them.

    Parameters
    ----------
    degree : int
    centre : (p,) array, optional
        Point around which the kernel is expanded, the origin by default: inputs should lie around it.

    Examples
    --------
    >>> from ovk import PKAWV
    >>> from ovk.features import Taylor
    >>> from ovk.kernels import Gaussian
    >>> model = PKAWV(Gaussian(1.0), features=Taylor(3)).fit([[0.0, 0.1], [0.5, -0.2]], [1.0, 2.0])
    >>> model.n_features_
    10
    """

    degree: int = 3
    centre: Any = None

    def build(self, kernel: OperatorKernel, p: int, d: int, rng: np.random.Generator) -> StreamFeatures:
        scalar = _scalar(kernel, "Taylor")
        centre = np.zeros(p) if self.centre is None else np.asarray(self.centre, dtype=np.float64)
        if centre.shape != (p,):
            raise ValueError(f"centre must have an entry for each of the {p} inputs, got shape {centre.shape}")
        features = TaylorMap.from_kernel(scalar, self.degree, centre)
        return FixedFeatures(features, scalar, 1, features.n_features)


@dataclass(eq=False, repr=False)
class Fourier(FeaturePlan):
    """Random Fourier features of a stationary kernel: n frequencies, 2 n features.

    Parameters
    ----------
    n : int

    Examples
    --------
    >>> from ovk import PKAWV
    >>> from ovk.features import Fourier
    >>> from ovk.kernels import Gaussian
    >>> PKAWV(Gaussian(1.0), features=Fourier(20), random_state=0).fit([[0.0], [0.5]], [1.0, 2.0]).n_features_
    40
    """

    n: int = 100

    def build(self, kernel: OperatorKernel, p: int, d: int, rng: np.random.Generator) -> StreamFeatures:
        scalar = _scalar(kernel, "Fourier")
        features = FourierMap.from_kernel(scalar, self.n, p, rng)
        return FixedFeatures(features, scalar, 1, features.n_features)


@dataclass(eq=False, repr=False)
class OperatorFourier(FeaturePlan):
    """Operator-valued random Fourier features, also for curl-free and divergence-free kernels.

    Parameters
    ----------
    n : int
        Frequencies for each term of the kernel.

    Examples
    --------
    >>> from ovk import PKAWV
    >>> from ovk.features import OperatorFourier
    >>> from ovk.kernels import Gaussian
    >>> from ovk.ovkernels import CurlFree
    >>> model = PKAWV(CurlFree(Gaussian(1.0)), features=OperatorFourier(30), random_state=0)
    >>> model.fit([[0.0, 1.0], [0.5, 0.0]], [[1.0, 2.0], [0.0, 1.0]]).n_features_
    60
    """

    n: int = 100

    def build(self, kernel: OperatorKernel, p: int, d: int, rng: np.random.Generator) -> StreamFeatures:
        features = OperatorFourierMap.from_kernel(kernel, self.n, p, rng)
        return FixedFeatures(features, kernel, d, features.n_features)


def _scalar(kernel: OperatorKernel, name: str) -> Any:
    if isinstance(kernel, Separable):
        return kernel.scalar
    raise ValueError(
        f"{name} features are for a scalar kernel or a product k * T, got {kernel!r}: use Nystrom or OperatorFourier"
    )


@dataclass(eq=False, repr=False)
class LinearFourier(FeaturePlan):
    """Linear functions and random Fourier features of a stationary kernel k, which stand in for w (1 + <x, z>) + k.

    The features of a sum of kernels are those of its terms beside each other, and the linear ones are the inputs
    themselves, without any error: a trend or a lag costs no waves.

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

    n: int = 50
    weight: float = 10.0

    def build(self, kernel: OperatorKernel, p: int, d: int, rng: np.random.Generator) -> StreamFeatures:
        scalar = _scalar(kernel, "LinearFourier")
        weight = positive(self.weight, "weight")
        n, linear = check_int(self.n, "n", least=0), Polynomial(1, gamma=weight, coef0=weight)
        fourier = FourierMap.from_kernel(scalar, n, p, rng) if n > 0 else None
        both = linear if fourier is None else linear + scalar
        return FixedFeatures(LinearFourierMap(fourier, weight), both, 1, 1 + p + 2 * n)
