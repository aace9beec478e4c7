"""Outputs that share a common part."""

from __future__ import annotations

import numpy as np

from ovk._params import cached
from ovk._validation import Array, in_interval
from ovk.operators.base import OutputOperator, Spectrum


class MixedEffect(OutputOperator):
    """T = omega 11' + (1 - omega) I: every output is a common function plus one of its own.

    The norm it gives a function f = (f_1, ..., f_d) is

        [(1 - omega) sum_t |f_t|^2 + omega d sum_t |f_t - mean f|^2] / ((1 - omega) (1 - omega + omega d)),

    so omega = 0 treats outputs apart and omega -> 1 makes them all the same. T has two distinct eigenvalues whatever d,
    hence a solve costs two factorisations.

    Parameters
    ----------
    omega : float in [0, 1]
    output_dim : int, optional
        Number of outputs; found in Y when not given.

    Examples
    --------
    >>> from ovk.operators import MixedEffect
    >>> MixedEffect(0.5, output_dim=3).eigh().distinct
    array([0.5, 2. ])
    """

    def __init__(self, omega: float = 0.5, output_dim: int | None = None) -> None:
        self.omega = omega
        self.output_dim = output_dim

    def _weight(self) -> float:
        return in_interval(self.omega, "omega", 0.0, 1.0)

    def dense(self) -> Array:
        omega, d = self._weight(), self.dim()
        return np.full((d, d), omega) + (1.0 - omega) * np.eye(d)

    def apply(self, Y: Array) -> Array:
        omega = self._weight()
        common = np.asarray(Y.sum(axis=1)).reshape(-1, 1)
        own = Y if isinstance(Y, np.ndarray) else Y.toarray()
        return omega * common + (1.0 - omega) * own

    @cached
    def eigh(self) -> Spectrum:
        omega, d = self._weight(), self.dim()
        values = np.full(d, 1.0 - omega)
        values[-1] = 1.0 - omega + omega * d
        return Spectrum(values, helmert(d))

    def gradient(self) -> dict[str, Array]:
        d = self.dim()
        return {"omega": np.ones((d, d)) - np.eye(d)}


def helmert(d: int) -> Array:
    """Helmert's matrix, (d, d): orthonormal, its last column the constant vector."""
    vectors = np.zeros((d, d))
    for k in range(1, d):
        vectors[:k, k - 1] = 1.0 / np.sqrt(k * (k + 1.0))
        vectors[k, k - 1] = -k / np.sqrt(k * (k + 1.0))
    vectors[:, -1] = 1.0 / np.sqrt(d)
    return vectors
