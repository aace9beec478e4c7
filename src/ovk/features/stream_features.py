"""Interfaces of finite features for online learners, and of the parameters that choose them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ovk.base import SIZE, Array, Indices, Parameters, State, equal
from ovk.ovkernels import OperatorKernel


class StreamFeatures(State, ABC):
    """Features phi of a kernel, (n per, m), with `per` rows per input; m may grow along a stream.

    `kernel` is a scalar kernel if per = 1, otherwise operator-valued with a row for each output.
    """

    _stored = {"per": SIZE}

    kernel: Any
    per: int
    #: Whether m is final.
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

    def transform_and_grow(self, X: Array, draws: Array, *, exact: bool = False) -> tuple[Array, Indices]:
        """Features of inputs that may have added some, and their number at each input; see `Dictionary`."""
        return self.transform(X), np.full(len(X), self.m)

    def transform_past(self, X: Array) -> Array:
        """Features of all past rows, (n per, m); X starts with the rows of the previous call."""
        return self.transform(X)

    def same(self, other: Any) -> bool:
        return equal(self, other)


class FeatureSpec(Parameters, ABC, saved=False):
    """Specification of the features that approximate a kernel; `build` computes them from the first rows."""

    @abstractmethod
    def build(self, kernel: OperatorKernel, p: int, d: int, rng: np.random.Generator) -> StreamFeatures:
        """The features for a resolved kernel, inputs (., p) and d outputs; `rng` draws random features."""

    def keeps_past(self) -> bool:
        """Whether rows must be kept to update sums when features are added."""
        return False
