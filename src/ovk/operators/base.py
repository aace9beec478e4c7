"""The interface of an output operator T, and basic operators: identity, matrix, low rank, mixed effect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from scipy.linalg import helmert

from ovk.base import Algebra, Array, Parameters, cached, check_int, in_interval
from ovk.curves import Grid


@dataclass(frozen=True)
class Spectrum:
    """T = V diag(t) V', with equal eigenvalues grouped."""

    values: Array  # (d,) ascending, non-negative and exactly equal within a group
    vectors: Array  # (d, d), possibly a `KroneckerMatrix`

    @cached_property
    def groups(self) -> list[slice]:
        """Columns of each distinct eigenvalue."""
        edges = np.flatnonzero(np.diff(self.values)) + 1
        bounds = [0, *edges.tolist(), len(self.values)]
        return [slice(a, b) for a, b in pairwise(bounds)]

    @cached_property
    def distinct(self) -> Array:
        return self.values[[group.start for group in self.groups]]

    def root(self) -> Array:
        """F, (d, rank), with T = F F'."""
        used = self.values > 0
        return self.vectors[:, used] * np.sqrt(self.values[used])


class OutputOperator(Algebra, Parameters, ABC):
    """Base class of output operators, symmetric positive semi-definite matrices T that couple outputs.

    `output_dim` is the number of outputs; None if any number fits (``Identity()``), until an estimator calls `resolve`.

    To define an operator, write a subclass whose ``__init__`` only stores its parameters, with a parameter or property
    `output_dim`, and implement

    - ``dense()``: the matrix T, (d, d);

    and, where they are faster or needed,

    - ``apply(Y)``: the product Y T for rows of outputs, (n, d);
    - ``eigh()``: the eigendecomposition, a `Spectrum`;
    - ``gradient()``: derivatives of T in the parameters by name, (d, d) each, for `ovk.tune`;
    - ``is_diagonal()``: whether the outputs are not coupled.

    See Also
    --------
    Identity, MixedEffect, Dense, GraphLaplacian

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.operators import MixedEffect
    >>> T = MixedEffect(0.5).resolve(3)
    >>> T.apply(np.array([[1.0, 0.0, 0.0]]))
    array([[1. , 0.5, 0.5]])
    """

    output_dim: int | None

    @abstractmethod
    def dense(self) -> Array:
        """The matrix T, (d, d)."""

    def apply(self, Y: Array) -> Array:
        """Y T for rows of outputs Y, (n, d)."""
        return Y @ self.dense()

    def is_diagonal(self) -> bool:
        """Whether outputs are not coupled."""
        T = self.dense()
        return bool((np.diag(np.diagonal(T)) == T).all())

    @cached
    def eigh(self) -> Spectrum:
        """Eigenvalues and eigenvectors, cached until a parameter changes."""
        return spectrum(self.dense(), type(self).__name__)

    def factors(self) -> tuple[Array, Array]:
        """F (d, r) and delta (d,) with T = F F' + diag(delta): shared factors and output-specific variances."""
        found = self.eigh()
        least = found.values[0]
        shared = found.values > least
        return found.vectors[:, shared] * np.sqrt(found.values[shared] - least), np.full(self.dim(), least)

    def evaluation_on(self, grid: Grid, points: Any) -> Any:
        """E, (d, m), with y E the values of T y at other points, for coordinates y of curves on a grid."""
        return self.apply(np.asarray(grid.interpolation(points)).T / grid.roots()).T

    def resolve(self, d: int) -> Self:
        """The operator for d outputs; an error if it has another number of outputs."""
        found = self.output_dim
        if found is None:
            return type(self)(**{**self.get_params(deep=False), "output_dim": d})
        if found != d:
            raise ValueError(f"{type(self).__name__} has {found} outputs but Y has {d}")
        return self

    def gradient(self) -> dict[str, Array]:
        """Derivative of T in every continuous parameter, of the parameter's shape + (d, d)."""
        return {}

    def dim(self) -> int:
        """The number of outputs; an error if it is not known."""
        if self.output_dim is None:
            raise ValueError(f"{type(self).__name__} requires output_dim; estimators take it from Y")
        return check_int(self.output_dim, "output_dim")


@dataclass(eq=False, repr=False)
class Identity(OutputOperator):
    """Identity operator, T = I: outputs are not coupled.

    Parameters
    ----------
    output_dim : int, optional
        Number of outputs; taken from Y by default.

    See Also
    --------
    MixedEffect, Dense

    Examples
    --------
    >>> from ovk.operators import Identity
    >>> Identity(2).dense()
    array([[1., 0.],
           [0., 1.]])
    """

    output_dim: int | None = None

    def dense(self) -> Array:
        return np.eye(self.dim())

    def apply(self, Y: Array) -> Array:
        return Y

    @cached
    def eigh(self) -> Spectrum:
        return Spectrum(np.ones(self.dim()), np.eye(self.dim()))


class MatrixOperator(OutputOperator, saved=False):
    @abstractmethod
    def _matrix(self) -> Array:
        """T, (d, d), cached: do not modify it."""

    def dense(self) -> Array:
        return self._matrix().copy()

    def apply(self, Y: Array) -> Array:
        return Y @ self._matrix()


@dataclass(eq=False, repr=False)
class Dense(MatrixOperator):
    """Operator given by its matrix, T = B.

    Parameters
    ----------
    B : (d, d) array
        Symmetric positive semi-definite matrix.

    See Also
    --------
    LowRank, GraphLaplacian

    Examples
    --------
    >>> from ovk.operators import Dense
    >>> Dense([[2.0, 1.0], [1.0, 2.0]]).eigh().values
    array([1., 3.])
    """

    B: Any

    @property
    def output_dim(self) -> int:  # type: ignore[override]
        return len(self._matrix())

    @cached
    def _matrix(self) -> Array:
        return checked_symmetric(self.B, "B")

    def gradient(self) -> dict[str, Array]:
        # Half of each change goes to the transposed entry, so that T stays symmetric.
        d = self.output_dim
        eye = np.eye(d)
        one = np.einsum("ai,bj->abij", eye, eye)
        return {"B": 0.5 * (one + one.swapaxes(2, 3))}


@dataclass(eq=False, repr=False)
class LowRank(OutputOperator):
    """Low-rank operator, T = W W' + diag(diag): a few shared factors and output-specific variances.

    Parameters
    ----------
    W : (d, r) array
        Loadings of the outputs on the shared factors.
    diag : float or (d,) array, >= 0
        Output-specific variances.

    See Also
    --------
    Dense, MixedEffect

    Examples
    --------
    >>> from ovk.operators import LowRank
    >>> LowRank([[1.0], [2.0]], diag=0.5).dense()
    array([[1.5, 2. ],
           [2. , 4.5]])
    """

    W: Any
    diag: float | Array = 0.0

    @property
    def output_dim(self) -> int:  # type: ignore[override]
        return len(self._factor())

    @cached
    def _factor(self) -> Array:
        W = np.asarray(self.W, dtype=np.float64)
        if W.ndim != 2 or len(W) == 0 or not np.isfinite(W).all():
            raise ValueError(f"W must be a (d, r) matrix of finite numbers, got shape {W.shape}")
        return W

    @cached
    def _diagonal(self) -> Array:
        return one_per_output(self.diag, "diag", self.output_dim)

    def dense(self) -> Array:
        W = self._factor()
        return np.asarray(W @ W.T + np.diag(self._diagonal()))

    def apply(self, Y: Array) -> Array:
        W, diagonal = self._factor(), self._diagonal()
        # Y may be sparse, its product with W is not.
        own = Y * diagonal if isinstance(Y, np.ndarray) else Y.multiply(diagonal).toarray()
        return np.asarray((Y @ W) @ W.T) + own

    def factors(self) -> tuple[Array, Array]:
        return self._factor().copy(), self._diagonal()

    def gradient(self) -> dict[str, Array]:
        W = self._factor()
        eye = np.eye(len(W))
        # d(WW')_ij / dW_ak = delta_ia W_jk + delta_ja W_ik
        one = np.einsum("ai,jk->akij", eye, W)
        diag = np.einsum("ai,aj->aij", eye, eye)
        scalar = np.ndim(self.diag) == 0
        return {"W": one + one.swapaxes(2, 3), "diag": diag.sum(axis=0) if scalar else diag}


class EvenlyCoupled(OutputOperator, saved=False):
    """T = a I + b 11', with two distinct eigenvalues for any d."""

    @abstractmethod
    def _parts(self) -> tuple[float, float]:
        """a and b."""

    def dense(self) -> Array:
        (a, b), d = self._parts(), self.dim()
        return np.full((d, d), b) + a * np.eye(d)

    def apply(self, Y: Array) -> Array:
        a, b = self._parts()
        common = np.asarray(Y.sum(axis=1)).reshape(-1, 1)
        return b * common + a * (Y if isinstance(Y, np.ndarray) else Y.toarray())

    @cached
    def eigh(self) -> Spectrum:
        (a, b), d = self._parts(), self.dim()
        values = np.full(d, a)
        values[-1] = a + b * d
        # The columns of the Helmert matrix, with the constant vector last.
        return Spectrum(values, np.ascontiguousarray(np.roll(helmert(d, full=True), -1, axis=0).T))


@dataclass(eq=False, repr=False)
class MixedEffect(EvenlyCoupled):
    """Mixed-effect operator, T = omega 11' + (1 - omega) I: a shared function plus one per output.

    The squared norm of f = (f_1, ..., f_d) is

        [(1 - omega) sum_t |f_t|^2 + omega d sum_t |f_t - mean f|^2] / ((1 - omega) (1 - omega + omega d)),

    so omega = 0 decouples the outputs and omega -> 1 makes them equal. T has two distinct eigenvalues for any d, so a
    solve costs two factorisations.

    Parameters
    ----------
    omega : float in [0, 1]
        Correlation between outputs.
    output_dim : int, optional
        Number of outputs; taken from Y by default.

    See Also
    --------
    MeanRegularized, Cluster, LowRank

    Examples
    --------
    >>> from ovk.operators import MixedEffect
    >>> MixedEffect(0.5, output_dim=3).eigh().distinct
    array([0.5, 2. ])
    """

    omega: float = 0.5
    output_dim: int | None = None

    def _parts(self) -> tuple[float, float]:
        omega = in_interval(self.omega, "omega", 0.0, 1.0)
        return 1.0 - omega, omega

    def gradient(self) -> dict[str, Array]:
        d = self.dim()
        return {"omega": np.ones((d, d)) - np.eye(d)}


def one_per_output(value: Any, name: str, d: int) -> Array:
    """(d,) non-negative numbers, from one for all outputs or one for each."""
    numbers = np.asarray(value, dtype=np.float64)
    if numbers.shape not in ((), (d,)):
        raise ValueError(f"{name} must be a number or one for each of the {d} outputs, got shape {numbers.shape}")
    if not (np.isfinite(numbers).all() and (numbers >= 0).all()):
        raise ValueError(f"{name} must be non-negative and finite, got {value!r}")
    return np.broadcast_to(numbers, d).copy()


def checked_symmetric(matrix: Any, name: str) -> Array:
    """`matrix` as a symmetric float array."""
    try:
        M = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a square matrix of numbers, got {type(matrix).__name__}") from error
    if M.ndim != 2 or M.shape[0] != M.shape[1] or M.shape[0] == 0:
        raise ValueError(f"{name} must be a square matrix, got shape {M.shape}")
    if not np.isfinite(M).all():
        raise ValueError(f"{name} must be finite, got nan or inf")
    gap = np.abs(M - M.T).max()
    if gap > 1e-10 * max(np.abs(M).max(), 1e-300):
        i, j = np.unravel_index(np.abs(M - M.T).argmax(), M.shape)
        raise ValueError(f"{name} must be symmetric, but entries ({i}, {j}) and ({j}, {i}) differ by {gap:.3g}")
    return 0.5 * (M + M.T)


def spectrum(matrix: Array, name: str) -> Spectrum:
    """Eigenvalues and eigenvectors of a symmetric matrix; raises ValueError unless it is positive semi-definite."""
    values, vectors = np.linalg.eigh(matrix)
    largest = max(float(np.abs(values).max()), 1e-300)
    if values[0] < -1e-8 * largest:
        raise ValueError(
            f"{name} must be positive semi-definite, but it has the eigenvalue {values[0]:.6g} "
            f"(the largest is {values[-1]:.6g})"
        )
    return Spectrum(equalised(values), vectors)


def equalised(values: Array) -> Array:
    """Ascending eigenvalues with rounding errors removed: equal ones made exactly equal, small ones set to zero."""
    rounding = 64.0 * len(values) * np.finfo(float).eps * max(float(np.abs(values).max()), 1e-300)
    values = np.where(values > rounding, values, 0.0)
    start = 0
    for stop in range(1, len(values) + 1):
        if stop == len(values) or values[stop] - values[stop - 1] > rounding:
            values[start:stop] = values[start:stop].mean()
            start = stop
    return values
