"""Losses by name."""

from __future__ import annotations

from typing import Any

from ovk.losses.base import Loss
from ovk.losses.margin import Hinge, Logistic
from ovk.losses.novelty import Novelty
from ovk.losses.regression import EpsilonInsensitive, Huber, Pinball, Squared

_NAMES: dict[str, type[Loss]] = {
    "squared": Squared,
    "huber": Huber,
    "epsilon-insensitive": EpsilonInsensitive,
    "pinball": Pinball,
    "logistic": Logistic,
    "hinge": Hinge,
    "novelty": Novelty,
}


def as_loss(loss: Any) -> Loss:
    """Turn what a user may pass as a loss into one: an object or a name.

    >>> as_loss("huber")
    Huber()
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in _NAMES:
        return _NAMES[loss]()
    raise ValueError(f"loss must be one of {sorted(_NAMES)} or a loss of ovk.losses, got {loss!r}")
