"""The contract of an output operator T."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np

from ovk._algebra import Algebra
from ovk._params import Parameters, cached
from ovk._validation import Array, whole


@dataclass(frozen=True)
class Spectrum:
    """T = V diag(t) V', with equal eigenvalues grouped.

    Attributes
    ----------
    values : (d,) eigenvalues in ascending order, exactly equal within a group and never negative
    vectors : (d, d), a column for each eigenvalue
    """

    values: Array
    vectors: Array

    @cached_property
    def groups(self) -> list[slice]:
        """Columns of each distinct eigenvalue."""
        edges = np.flatnonzero(np.diff(self.values)) + 1
        bounds = [0, *edges.tolist(), len(self.values)]
        return [slice(a, b) for a, b in pairwise(bounds)]

    @cached_property
    def distinct(self) -> Array:
        """The distinct eigenvalues."""
        return self.values[[group.start for group in self.groups]]


class OutputOperator(Algebra, Parameters, ABC):
    """A symmetric positive semi-definite operator on the outputs: which of them go together, and how strongly.

    `output_dim` is the number of outputs, None while it is not known (``Identity()`` fits any number): an estimator
    calls `resolve` with the number it finds.
    """

    output_dim: int | None

    @abstractmethod
    def dense(self) -> Array:
        """The matrix T, (d, d)."""

    def apply(self, Y: Array) -> Array:
        """Y T for rows of outputs Y, (n, d)."""
        return Y @ self.dense()

    @cached
    def eigh(self) -> Spectrum:
        """Eigenvalues and eigenvectors, kept until a parameter changes."""
        return spectrum(self.dense(), type(self).__name__)

    def resolve(self, d: int) -> Self:
        """The operator for d outputs; an error when it was made for another number."""
        found = self.output_dim
        if found is None:
            return type(self)(**{**self.get_params(deep=False), "output_dim": d})
        if found != d:
            raise ValueError(f"{type(self).__name__} is an operator on {found} outputs but Y has {d}")
        return self

    def gradient(self) -> dict[str, Array]:
        """Derivative of the matrix in every continuous parameter: shape of the parameter + (d, d)."""
        return {}

    def dim(self) -> int:
        """The number of outputs; an error while it is not known."""
        if self.output_dim is None:
            raise ValueError(
                f"the number of outputs of {type(self).__name__} is not known yet: give output_dim, or fit an "
                "estimator, which finds it in Y"
            )
        return whole(self.output_dim, "output_dim")


def checked_symmetric(matrix: Any, name: str) -> Array:
    """`matrix` as a symmetric float array; an error that says what is wrong otherwise."""
    try:
        M = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a square matrix of numbers, got {type(matrix).__name__}") from error
    if M.ndim != 2 or M.shape[0] != M.shape[1] or M.shape[0] == 0:
        raise ValueError(f"{name} must be a square matrix, got shape {M.shape}")
    if not np.isfinite(M).all():
        raise ValueError(f"{name} must hold finite numbers, got nan or inf")
    gap = np.abs(M - M.T).max()
    if gap > 1e-10 * max(np.abs(M).max(), 1e-300):
        i, j = np.unravel_index(np.abs(M - M.T).argmax(), M.shape)
        raise ValueError(f"{name} must be symmetric, but entries ({i}, {j}) and ({j}, {i}) differ by {gap:.3g}")
    return 0.5 * (M + M.T)


def spectrum(matrix: Array, name: str) -> Spectrum:
    """Eigenvalues and vectors of a symmetric PSD matrix; equal ones (to rounding) made equal, negative ones refused."""
    values, vectors = np.linalg.eigh(matrix)
    largest = max(float(np.abs(values).max()), 1e-300)
    if values[0] < -1e-8 * largest:
        raise ValueError(
            f"{name} must be positive semi-definite, but it has the eigenvalue {values[0]:.6g} "
            f"(the largest is {values[-1]:.6g})"
        )
    rounding = 64.0 * len(values) * np.finfo(float).eps * largest
    values = np.where(values > rounding, values, 0.0)
    start = 0
    for stop in range(1, len(values) + 1):
        if stop == len(values) or values[stop] - values[stop - 1] > rounding:
            values[start:stop] = values[start:stop].mean()
            start = stop
    return Spectrum(values, vectors)
