"""Losses l(y, f) for d outputs, convex in the prediction f and aware of missing outputs.

A missing output (nan in y) has no part in the loss and a zero in the gradient.
"""

from __future__ import annotations

from typing import Any

from ovk.losses.base import Loss
from ovk.losses.classification import Hinge, Logistic, SimplexHinge, simplex_code
from ovk.losses.regression import EpsilonInsensitive, Huber, Novelty, NuHinge, NuInsensitive, Pinball, Squared

__all__ = [
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Novelty",
    "NuHinge",
    "NuInsensitive",
    "Pinball",
    "SimplexHinge",
    "Squared",
    "as_loss",
    "simplex_code",
]

_NAMES: dict[str, type[Loss]] = {
    "squared": Squared,
    "huber": Huber,
    "epsilon-insensitive": EpsilonInsensitive,
    "pinball": Pinball,
    "logistic": Logistic,
    "hinge": Hinge,
    "novelty": Novelty,
    "nu-hinge": NuHinge,
    "nu-insensitive": NuInsensitive,
}


def as_loss(loss: Any) -> Loss:
    """Turn what a user may pass as a loss, an object or a name, into a loss.

    >>> from ovk.losses import as_loss
    >>> as_loss("huber")
    Huber()
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in _NAMES:
        return _NAMES[loss]()
    raise ValueError(f"loss must be one of {sorted(_NAMES)} or a loss of ovk.losses, got {loss!r}")
