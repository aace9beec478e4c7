"""Losses of signs: logistic and hinge, one for each output."""

from __future__ import annotations

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
