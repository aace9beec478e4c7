"""Stacking of classifiers: logistic regression on the logits of the experts and of their mixture.

A mixture of probabilities is never more certain than its experts. A logistic regression on their logits can be, and can
weigh them against each other; it starts as the mixture itself. `MLPoly` decides which of the two is better, so stacking
costs little where it does not help.
"""

from __future__ import annotations

import numpy as np

from ovk._state import State
from ovk._types import Array
from ovk.online.experts.aggregation import MLPoly
from ovk.online.experts.logistic import OnlineLogistic, logit


class LogisticStacking(State):
    """Probabilities of each output from those of the experts and of their mixture.

    Parameters
    ----------
    experts, outputs : numbers of experts and of outputs
    discount : in (0, 1]; a row that lies t rows back counts discount^t
    alpha : ridge parameter of the logistic regressions, towards the mixture
    """

    _saved_state = ("vote", "stacked")
    _state_classes = {"stacked": OnlineLogistic}

    def __init__(self, experts: int, outputs: int, *, discount: float = 0.999, alpha: float = 3.0) -> None:
        self.vote = MLPoly(discount)
        self.vote.start(2, outputs)
        weights = np.eye(experts + 1, 1)
        self.stacked = [OnlineLogistic(weights, alpha, discount=discount) for _ in range(outputs)]

    def predict(self, F: Array, mixed: Array) -> Array:
        """(n, d) probabilities from the (n, k, d) of the experts, nan where one abstains, and the (n, d) mixture."""
        logits = _logits(F, mixed)
        stacked = [model.predict(logits[..., j])[:, 0] for j, model in enumerate(self.stacked)]
        return self.vote.predict(np.stack([mixed, np.stack(stacked, axis=1)], axis=1))

    def predict_and_update(self, F: Array, mixed: Array, Y: Array, weights: Array | None = None) -> Array:
        """(n, d) probabilities, each made before its own labels are learned; nan is a missing label."""
        logits = _logits(F, mixed)
        stacked = [
            model.predict_and_update(logits[..., j], Y[:, j : j + 1], weights)[:, 0]
            for j, model in enumerate(self.stacked)
        ]
        return self.vote.predict_then_learn(np.stack([mixed, np.stack(stacked, axis=1)], axis=1), Y, weights)


def _logits(F: Array, mixed: Array) -> Array:
    """(n, k + 1, d) logits of the mixture and of the experts; one who abstains says what the mixture does."""
    known = np.where(np.isfinite(F), F, mixed[:, None])
    return logit(np.concatenate([mixed[:, None], known], axis=1))
