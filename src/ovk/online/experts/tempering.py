"""Probabilities made less or more certain, as the labels so far suggest."""

from __future__ import annotations

import numpy as np

from ovk.base import Array, Indices, State
from ovk.online.experts.mixture import discounted_sums

# Candidate (e, s) replaces the probabilities p of k classes by
#
#     q = (1 - s) p^e / sum(p^e) + s / k.
#
# None of them changes the order of the classes. They are mixed with weights proportional to their prior times their
# discounted likelihood.

EXPONENTS, SHARES = np.array([2.0, 1.0, 0.5, 0.25]), np.array([0.0, 0.02, 0.1, 0.3])
#: Prior weight of the candidate that changes nothing, discount per row, and rows that are processed at once.
PRIOR, DISCOUNT, MAX_ROWS = 0.8, 0.995, 5000
#: Lower bound of probabilities, divided by the number of classes.
MIN_PROBABILITY = 1e-3
_LOG_PRIOR = np.full((4, 4), np.log((1.0 - PRIOR) / 15.0))
_LOG_PRIOR[1, 0] = np.log(PRIOR)


class Tempering(State):
    """Weights of the candidates, from their discounted log likelihoods `sums`."""

    _saved_state = ("sums",)
    _stored = {"sums": "e s"}

    def __init__(self) -> None:
        self.sums = np.zeros(_LOG_PRIOR.shape)

    def predict(self, P: Array) -> Array:
        """(n, k) probabilities from those of the mixture, which stay as they are before the first label."""
        return _mixed(_powers(P), self.sums[None]) if self.sums.any() else P

    def learn(self, P: Array, labels: Indices, weights: Array) -> Array:
        """(n, k) probabilities, each before its label, the number of a class or -1 if missing, is learned."""
        if len(P) > MAX_ROWS:
            parts = [slice(start, start + MAX_ROWS) for start in range(0, len(P), MAX_ROWS)]
            return np.vstack([self.learn(P[some], labels[some], weights[some]) for some in parts])
        Q, n = _powers(P), len(P)
        logs = np.log((1.0 - SHARES) * Q[:, np.arange(n), labels].T[..., None] + SHARES / P.shape[1])
        logs = np.where(labels[:, None, None] < 0, np.nan, weights[:, None, None] * logs).reshape(n, _LOG_PRIOR.size)
        sums = discounted_sums(self.sums.ravel(), logs, DISCOUNT).reshape(-1, *_LOG_PRIOR.shape)
        self.sums = sums[-1]
        return _mixed(Q, sums[:-1])


def _powers(P: Array) -> Array:
    """(e, n, k) normalised powers of probabilities."""
    Q = np.maximum(P, MIN_PROBABILITY / P.shape[1]) ** EXPONENTS[:, None, None]
    found: Array = Q / Q.sum(axis=-1, keepdims=True)
    return found


def _mixed(Q: Array, sums: Array) -> Array:
    """(n, k) mixtures of the candidates with (n, e, s) log likelihoods, or (1, e, s)."""
    weights = np.exp(sums - sums.max(axis=(1, 2), keepdims=True) + _LOG_PRIOR)
    weights /= weights.sum(axis=(1, 2), keepdims=True)
    kept, shrunk = weights @ (1.0 - SHARES), (weights @ SHARES).sum(axis=1)
    found: Array = (kept.T[..., None] * Q).sum(axis=0) + shrunk[:, None] / Q.shape[2]
    return found
