"""Losses of signs: logistic and hinge, one for each output."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ovk._types import Array
from ovk.losses.base import Loss, change_at_kinks


class MarginLoss(Loss, saved=False):
    """Losses of the margin y f, y = -1 or 1."""

    def check(self, Y: Array) -> None:
        wrong = ~(np.isnan(Y) | (np.abs(Y) == 1.0))
        if wrong.any():
            row, output = np.argwhere(wrong)[0]
            raise ValueError(
                f"{type(self).__name__} needs labels -1 and 1, got {Y[row, output]:g} in row {row}, output {output}"
            )

    def lipschitz(self, d: int) -> float:
        return float(np.sqrt(d))


class Logistic(MarginLoss):
    """log(1 + exp(-y f)), labels -1 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.losses import Logistic
    >>> Logistic().gradient(np.array([[1.0]]), np.array([[0.0]]))
    array([[-0.5]])
    """

    smoothness = 0.25

    def value(self, Y: Array, F: Array) -> Array:
        values: Array = np.where(np.isnan(Y), 0.0, np.logaddexp(0.0, -np.nan_to_num(Y) * F)).sum(axis=1)
        return values

    def gradient(self, Y: Array, F: Array) -> Array:
        labels = np.nan_to_num(Y)
        # 1 / (1 + exp(yf)) without overflow
        return -labels * 0.5 * (1.0 - np.tanh(0.5 * labels * F))

    def of_row(self, y: Array, f: Array) -> tuple[float, Array]:
        margin = y * f
        return float(np.add.reduce(np.logaddexp(0.0, -margin))), -0.5 * y * (1.0 - np.tanh(0.5 * margin))


class Hinge(MarginLoss):
    """max(0, 1 - y f), labels -1 and 1: the loss of support vector machines.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.losses import Hinge
    >>> Hinge().gradient(np.array([[1.0, -1.0]]), np.array([[0.5, -2.0]]))
    array([[-1.,  0.]])
    """

    #: Where the loss begins.
    margin: Any = 1.0

    def value(self, Y: Array, F: Array) -> Array:
        values: Array = np.where(np.isnan(Y), 0.0, np.maximum(self.margin - np.nan_to_num(Y) * F, 0.0)).sum(axis=1)
        return values

    def gradient(self, Y: Array, F: Array) -> Array:
        labels = np.nan_to_num(Y)
        return np.where(labels * F < self.margin, -labels, 0.0)

    def of_row(self, y: Array, f: Array) -> tuple[float, Array]:
        lacking = np.maximum(self.margin - y * f, 0.0)
        return float(np.add.reduce(lacking)), np.where(lacking > 0.0, -y, 0.0)

    def variation(self, Y: Array, F: Array, radius: Array) -> Array:
        return change_at_kinks(np.abs(self.margin - Y * F), Y, radius)


# Several classes as the corners of a simplex.


class SimplexHinge(Loss):
    """Multi-class hinge loss with simplex coding: sum over the wrong classes l of max(0, 1/(K-1) + <c_l, f>).

    Targets are rows of `simplex_code(K)`, the corners of a regular simplex in K - 1 dimensions; the predicted class is
    the corner nearest to f.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.losses import SimplexHinge, simplex_code
    >>> code = simplex_code(3)
    >>> SimplexHinge().value(code[:1], code[:1]).round(6)
    array([0.])
    """

    def _wrong(self, Y: Array, F: Array) -> tuple[Array, Array]:
        """1/(K-1) + <c_l, f> of the wrong classes, minus infinity for the right one, and the corners."""
        code = simplex_code(F.shape[1] + 1)
        scores = F @ code.T + 1.0 / F.shape[1]
        right = np.nan_to_num(Y) @ code.T > 1.0 - 1e-6
        return np.where(right, -np.inf, scores), code

    def check(self, Y: Array) -> None:
        code = simplex_code(Y.shape[1] + 1)
        seen = ~np.isnan(Y).any(axis=1)
        nearest = code[(Y[seen] @ code.T).argmax(axis=1)]
        if not np.allclose(Y[seen], nearest, rtol=0.0, atol=1e-6):
            raise ValueError(
                "SimplexHinge needs targets that are rows of simplex_code(K): use a classifier, which codes labels"
            )

    def value(self, Y: Array, F: Array) -> Array:
        scores, _ = self._wrong(Y, F)
        return np.where(np.isnan(Y).any(axis=1), 0.0, np.maximum(scores, 0.0).sum(axis=1))

    def gradient(self, Y: Array, F: Array) -> Array:
        scores, code = self._wrong(Y, F)
        return np.where(np.isnan(Y).any(axis=1, keepdims=True), 0.0, (scores > 0).astype(np.float64) @ code)

    def lipschitz(self, d: int) -> float:
        # A sum of m <= d corners has squared norm m (K - m) / (K - 1) <= m.
        return float(np.sqrt(d))

    def variation(self, Y: Array, F: Array, radius: Array) -> Array:
        scores, _ = self._wrong(Y, F)
        m = (np.abs(scores) <= radius[:, None]).sum(axis=1)
        # Corners that come and go, m in all: |sum of +-c_l|^2 = m - ((sum of +-1)^2 - m) / (K - 1).
        change = np.sqrt(m + (m - m % 2) / F.shape[1])
        return np.where(np.isnan(Y).any(axis=1), 0.0, change)


@lru_cache(maxsize=64)
def simplex_code(classes: int) -> Array:
    """Corners of a regular simplex, (K, K-1): unit vectors with <c_k, c_l> = -1/(K-1).

    >>> simplex_code(2)
    array([[ 1.],
           [-1.]])
    """
    if classes < 2:
        raise ValueError(f"classes must be at least 2, got {classes}")
    code = np.zeros((classes, classes - 1))
    for k in range(classes - 1):
        # Each further axis splits the corner k off from those behind it.
        rest = np.sqrt(max(1.0 - float(np.square(code[k, :k]).sum()), 0.0))
        code[k, k] = rest
        code[k + 1 :, k] = (-1.0 / (classes - 1) - code[k + 1 :, :k] @ code[k, :k]) / rest
    code.setflags(write=False)
    return code
