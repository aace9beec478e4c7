"""What online learners need of finite features, and of the parameters that say which features to use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from ovk.base import Array, Parameters, State, equal
from ovk.ovkernels import OperatorKernel


class StreamFeatures(State, ABC):
    """Features phi of a kernel: `per` rows an input, (n per, m), that may grow in number along a stream.

    `kernel` is a scalar kernel for per = 1, and operator-valued for a row for each output.
    """

    kernel: Any
    per: int
    #: Whether the features stay as they are.
    settled: bool = True

    @property
    @abstractmethod
    def m(self) -> int: ...

    @abstractmethod
    def transform(self, X: Any) -> Array:
        """Features, (n per, m); row i d + q belongs to output q of input i."""

    def prior(self, X: Array) -> Array:
        """K(x, x), (n, per, per)."""
        return np.asarray(self.kernel.diagonal_blocks(X))

    def transform_and_grow(self, X: Array, draws: Array, *, split: bool = False) -> Iterator[tuple[slice, Array]]:
        """Slices of rows with their features, which inputs of the slice may have added to; see `Dictionary`."""
        yield slice(0, len(X)), self.transform(X)

    def same(self, other: Any) -> bool:
        return equal(self, other)


class FeaturePlan(Parameters, ABC, saved=False):
    """Which features stand in for a kernel; they are made when the first rows are there."""

    @abstractmethod
    def build(self, kernel: OperatorKernel, p: int, d: int, rng: np.random.Generator) -> StreamFeatures:
        """The features for a resolved kernel, inputs (., p) and d outputs; `rng` draws what is random."""

    def keeps_past(self) -> bool:
        """Whether rows must be kept to bring sums up to date when features are added."""
        return False
