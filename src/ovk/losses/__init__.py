"""Losses l(y, f) for d outputs, convex in the prediction f and aware of missing outputs.

A missing output (nan in y) has no part in the loss and a zero in the gradient.
"""

from ovk.losses.base import Loss
from ovk.losses.margin import Hinge, Logistic
from ovk.losses.names import as_loss
from ovk.losses.novelty import Novelty
from ovk.losses.regression import EpsilonInsensitive, Huber, Pinball, Squared
from ovk.losses.simplex import SimplexHinge, simplex_code

__all__ = [
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "Novelty",
    "Pinball",
    "SimplexHinge",
    "Squared",
    "as_loss",
    "simplex_code",
]
