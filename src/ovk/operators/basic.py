"""Operators without structure to exploit, and the one with nothing in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk._params import cached
from ovk._validation import Array
from ovk.operators.base import OutputOperator, Spectrum, checked_symmetric


class Identity(OutputOperator):
    """T = I: outputs that share the kernel and nothing else.

    Examples
    --------
    >>> from ovk.operators import Identity
    >>> Identity(2).dense()
    array([[1., 0.],
           [0., 1.]])
    """

    def __init__(self, output_dim: int | None = None) -> None:
        self.output_dim = output_dim

    def dense(self) -> Array:
        return np.eye(self.dim())

    def apply(self, Y: Array) -> Array:
        return Y

    @cached
    def eigh(self) -> Spectrum:
        return Spectrum(np.ones(self.dim()), np.eye(self.dim()))


class Dense(OutputOperator):
    """T = B, a symmetric positive semi-definite matrix.

    Parameters
    ----------
    B : (d, d) array

    Examples
    --------
    >>> from ovk.operators import Dense
    >>> Dense([[2.0, 1.0], [1.0, 2.0]]).eigh().values
    array([1., 3.])
    """

    def __init__(self, B: Any) -> None:
        self.B = B

    @property
    def output_dim(self) -> int:  # type: ignore[override]
        return len(self._matrix())

    @cached
    def _matrix(self) -> Array:
        return checked_symmetric(self.B, "B")

    def dense(self) -> Array:
        return self._matrix().copy()

    def apply(self, Y: Array) -> Array:
        return Y @ self._matrix()

    def gradient(self) -> dict[str, Array]:
        # Each entry moves with its mirror image, half each, so that T stays symmetric.
        d = self.output_dim
        eye = np.eye(d)
        one = np.einsum("ai,bj->abij", eye, eye)
        return {"B": 0.5 * (one + one.swapaxes(2, 3))}


class LowRank(OutputOperator):
    """T = W W' + diag(diag): a few common factors, and what is each output's own.

    Parameters
    ----------
    W : (d, r) array
    diag : float or (d,) array, >= 0

    Examples
    --------
    >>> from ovk.operators import LowRank
    >>> LowRank([[1.0], [2.0]], diag=0.5).dense()
    array([[1.5, 2. ],
           [2. , 4.5]])
    """

    def __init__(self, W: Any, diag: float | Array = 0.0) -> None:
        self.W = W
        self.diag = diag

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
        diag = np.asarray(self.diag, dtype=np.float64)
        if diag.ndim > 1 or (diag.ndim == 1 and len(diag) != self.output_dim):
            raise ValueError(f"diag must be a number or one for each of the {self.output_dim} outputs")
        if not (np.isfinite(diag).all() and (diag >= 0).all()):
            raise ValueError(f"diag must be finite and >= 0, got {self.diag!r}")
        return np.broadcast_to(diag, (self.output_dim,)).copy()

    def dense(self) -> Array:
        W = self._factor()
        T: Array = W @ W.T
        T[np.diag_indices_from(T)] += self._diagonal()
        return T

    def apply(self, Y: Array) -> Array:
        W = self._factor()
        # The product first: Y may be sparse.
        return np.asarray((Y @ W) @ W.T) + (
            Y * self._diagonal() if isinstance(Y, np.ndarray) else Y.multiply(self._diagonal()).toarray()
        )

    def gradient(self) -> dict[str, Array]:
        W = self._factor()
        eye = np.eye(len(W))
        # d(WW')_ij / dW_ak = delta_ia W_jk + delta_ja W_ik
        one = np.einsum("ai,jk->akij", eye, W)
        diag = np.einsum("ai,aj->aij", eye, eye)
        scalar = np.ndim(self.diag) == 0
        return {"W": one + one.swapaxes(2, 3), "diag": diag.sum(axis=0) if scalar else diag}
