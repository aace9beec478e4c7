"""Convex penalties with closed-form proximal steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ovk.base import Array, Parameters, positive


class Penalty(Parameters, ABC):
    """A convex function Omega(C) of a matrix."""

    @abstractmethod
    def value(self, C: Array) -> float:
        """Omega(C); inf outside its domain."""

    @abstractmethod
    def prox(self, C: Array, step: float) -> Array:
        """argmin over P of |P - C|^2 / 2 + step Omega(P); never changes C."""

    def polar(self, C: Array) -> float | None:
        """The largest <C, P> over Omega(P) <= 1, for a norm Omega; None for other penalties."""
        return None

    def derivatives(self, C: Array) -> tuple[Array, Array] | None:
        """Gradient (m, d) and second derivatives within rows (m, d, d) at the non-zero entries, if Omega has them."""
        return None


@dataclass(eq=False, repr=False)
class WeightedPenalty(Penalty, saved=False):
    weight: float = 1.0

    def _weight(self) -> float:
        return positive(self.weight, "weight", zero=True)


class L1(WeightedPenalty):
    """L1 penalty, weight * sum of |C_ij|, for few non-zero entries.

    Its proximal step is soft thresholding, sign(c) max(|c| - step weight, 0).

    Parameters
    ----------
    weight : float >= 0
        Factor of the penalty.

    See Also
    --------
    L1L2, Trace

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.objectives import L1
    >>> L1(2.0).value(np.array([[1.0, -3.0]]))
    8.0
    >>> L1(2.0).prox(np.array([[1.0, -3.0]]), step=0.5)
    array([[ 0., -2.]])
    """

    def value(self, C: Array) -> float:
        return self._weight() * float(np.abs(C).sum())

    def prox(self, C: Array, step: float) -> Array:
        # c - clip(c) = sign(c) max(|c| - threshold, 0)
        threshold = step * self._weight()
        return C - np.clip(C, -threshold, threshold)

    def polar(self, C: Array) -> float:
        return _share(float(np.abs(C).max(initial=0.0)), self._weight())

    def derivatives(self, C: Array) -> tuple[Array, Array]:
        return self._weight() * np.sign(C), np.zeros((*C.shape, C.shape[1]))


class L1L2(WeightedPenalty):
    """Group penalty, weight * sum of the Euclidean norms |c_i| of the rows, for few non-zero rows.

    Its proximal step shortens every row by the same amount, c max(1 - step weight / |c|, 0).

    Parameters
    ----------
    weight : float >= 0
        Factor of the penalty.

    See Also
    --------
    L1

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.objectives import L1L2
    >>> L1L2(2.0).value(np.array([[3.0, 4.0], [0.0, 0.0]]))
    10.0
    >>> L1L2(2.0).prox(np.array([[3.0, 4.0], [0.0, 1.0]]), step=1.25)
    array([[1.5, 2. ],
           [0. , 0. ]])
    """

    def value(self, C: Array) -> float:
        return self._weight() * float(np.linalg.norm(C, axis=1).sum())

    def prox(self, C: Array, step: float) -> Array:
        lengths = np.linalg.norm(C, axis=1)
        threshold = step * self._weight()
        # Rows of length zero are divided by the threshold instead.
        shrink = np.maximum(1.0 - threshold / np.maximum(lengths, max(threshold, 1e-300)), 0.0)
        return np.asarray(C * shrink[:, None])

    def polar(self, C: Array) -> float:
        return _share(float(np.linalg.norm(C, axis=1).max(initial=0.0)), self._weight())

    def derivatives(self, C: Array) -> tuple[Array, Array]:
        lengths = np.maximum(np.linalg.norm(C, axis=1, keepdims=True), 1e-300)
        U = C / lengths
        second = np.eye(C.shape[1]) - U[:, :, None] * U[:, None, :]
        return self._weight() * U, self._weight() / lengths[:, :, None] * second


def _share(size: float, weight: float) -> float:
    return size / weight if weight > 0 else float("inf")


# Penalties and constraints on the eigenvalues of a symmetric matrix.

MAX_ROUNDING_ERROR = 1e-10  # negative eigenvalues up to this share of the largest are rounding errors


class PSDCone(Penalty):
    """Constraint to symmetric positive semi-definite matrices: 0 for these, inf for others.

    Its proximal step is the projection.

    See Also
    --------
    Trace, Frobenius

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.objectives import PSDCone
    >>> PSDCone().prox(np.diag([2.0, -1.0]), step=1.0)
    array([[2., 0.],
           [0., 0.]])
    >>> PSDCone().value(np.diag([2.0, -1.0]))
    inf
    """

    def value(self, C: Array) -> float:
        if not np.allclose(C, C.T, rtol=0.0, atol=MAX_ROUNDING_ERROR * float(np.abs(C).max(initial=0.0))):
            return float("inf")
        values = np.linalg.eigvalsh(C)
        smallest = -MAX_ROUNDING_ERROR * max(float(np.abs(values).max()), 1e-300)
        return 0.0 if values[0] >= smallest else float("inf")

    def prox(self, C: Array, step: float) -> Array:
        values, vectors = np.linalg.eigh(0.5 * (C + C.T))
        if values[0] >= 0:
            return np.asarray(0.5 * (C + C.T))
        kept = vectors[:, values > 0]
        return np.asarray((kept * values[values > 0]) @ kept.T)


class Spectral(WeightedPenalty, saved=False):
    """A function of the eigenvalues of a symmetric positive semi-definite matrix, inf for all other matrices."""

    #: Whether small eigenvalues become zero.
    low_rank = False

    def _weight(self) -> float:
        return positive(self.weight, "weight")

    @abstractmethod
    def _omega(self, t: Array) -> Array:
        """Omega of single eigenvalues t >= 0."""

    @abstractmethod
    def gradient(self, C: Array) -> Array:
        """Derivative of Omega in the interior of the cone, (d, d)."""

    @abstractmethod
    def _shrink(self, t: Array, step: float) -> Array:
        """argmin over p >= 0 of (p - t)^2 / 2 + step Omega(p)."""

    @abstractmethod
    def _balance(self, s: Array) -> Array:
        """argmin over t >= 0 of s / t + Omega(t), s >= 0."""

    def value(self, C: Array) -> float:
        outside = PSDCone().value(C)
        return outside if outside > 0 else float(self._omega(np.maximum(np.linalg.eigvalsh(C), 0.0)).sum())

    def prox(self, C: Array, step: float) -> Array:
        values, vectors = np.linalg.eigh(0.5 * (C + C.T))
        return np.asarray((vectors * self._shrink(values, step)) @ vectors.T)

    def balance(self, S: Array) -> Array:
        """argmin over T of <S, T^-1> + Omega(T), for S positive semi-definite: it has the eigenvectors of S."""
        values, vectors = np.linalg.eigh(0.5 * (S + S.T))
        return np.asarray((vectors * self._balance(np.maximum(values, 0.0))) @ vectors.T)


class Trace(Spectral):
    """Trace penalty, weight * tr(T), of positive semi-definite T, for low rank.

    Parameters
    ----------
    weight : float > 0
        Factor of the penalty.

    See Also
    --------
    Frobenius, PSDCone

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.objectives import Trace
    >>> Trace(2.0).value(np.diag([1.0, 3.0]))
    8.0
    >>> Trace(2.0).prox(np.diag([1.0, 3.0]), step=0.5)
    array([[0., 0.],
           [0., 2.]])
    """

    low_rank = True

    def _omega(self, t: Array) -> Array:
        return self._weight() * t

    def gradient(self, C: Array) -> Array:
        return self._weight() * np.eye(len(C))

    def _shrink(self, t: Array, step: float) -> Array:
        return np.maximum(t - step * self._weight(), 0.0)

    def _balance(self, s: Array) -> Array:
        return np.sqrt(s / self._weight())


class Frobenius(Spectral):
    """Squared Frobenius norm, weight * |T|_F^2, of positive semi-definite T.

    Parameters
    ----------
    weight : float > 0
        Factor of the penalty.

    See Also
    --------
    Trace, PSDCone

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.objectives import Frobenius
    >>> Frobenius(2.0).value(np.diag([1.0, 3.0]))
    20.0
    >>> Frobenius(2.0).prox(np.diag([-1.0, 3.0]), step=0.5)
    array([[0., 0.],
           [0., 1.]])
    """

    def _omega(self, t: Array) -> Array:
        return self._weight() * t**2

    def gradient(self, C: Array) -> Array:
        return 2.0 * self._weight() * C

    def _shrink(self, t: Array, step: float) -> Array:
        return np.maximum(t, 0.0) / (1.0 + 2.0 * step * self._weight())

    def _balance(self, s: Array) -> Array:
        return np.cbrt(s / (2.0 * self._weight()))
