"""The Parkinson rows, split by rows and by patients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Settings
from reproduce.data import load_parkinsons

Array = npt.NDArray[np.float64]

#: Number of the 42 patients that a grouped split holds out.
HELD_OUT = 8


class Split(NamedTuple):
    """Training and test part, standardised by the mean and deviation of the training part."""

    X: Array
    Y: Array
    X_test: Array
    Y_test: Array

    def mse(self, predicted: Array) -> float:
        """Test error relative to the variance of the training outputs; predicting the mean gives about 1."""
        return float(np.mean((self.Y_test - predicted) ** 2))


class Patients(NamedTuple):
    """All rows, with the patient of each."""

    X: Array
    Y: Array
    groups: npt.NDArray[np.int64]

    def shuffled(self, n: int, seed: int = 0) -> Split:
        """`n` training rows and n/4 test rows, regardless of patients."""
        order = np.random.default_rng(seed).permutation(len(self.X))
        return self._split(order[:n], order[n : n + n // 4])

    def grouped(self, n: int, splits: int, seed: int = 0) -> Iterator[Split]:
        """At most `n` training rows of some patients; all rows of `HELD_OUT` other patients for testing."""
        rng = np.random.default_rng(seed)
        for _ in range(splits):
            out = np.isin(self.groups, rng.permutation(np.unique(self.groups))[:HELD_OUT])
            yield self._split(rng.permutation(np.flatnonzero(~out))[:n], np.flatnonzero(out))

    def _split(self, train: npt.NDArray[np.int64], test: npt.NDArray[np.int64]) -> Split:
        def standardised(A: Array) -> tuple[Array, Array]:
            mean, deviation = A[train].mean(axis=0), A[train].std(axis=0)
            return (A[train] - mean) / deviation, (A[test] - mean) / deviation

        (X, X_test), (Y, Y_test) = standardised(self.X), standardised(self.Y)
        return Split(X, Y, X_test, Y_test)


def patients(settings: Settings) -> Patients:
    """The rows; at toy size synthetic ones of the same form. Raises the loader's error if the data are missing."""
    if settings.size == "toy":
        rng = np.random.default_rng(0)
        groups = np.repeat(np.arange(1, 43), 5)
        X = rng.standard_normal((len(groups), 19))
        Y = rng.standard_normal((42, 2))[groups - 1] + X[:, :2]
        return Patients(X, Y, groups)
    bunch = load_parkinsons()
    return Patients(bunch.data, bunch.target, bunch.groups)
