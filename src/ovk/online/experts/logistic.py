"""Online logistic regression by Newton steps, and stacking of classifiers with it."""

from __future__ import annotations

from collections.abc import Generator
from math import exp

import numpy as np

from ovk.base import Array, State
from ovk.online.experts.aggregation import MLPoly

#: Logits are clipped to this size.
MAX_LOGIT = 12.0
#: Newton steps of a fit of many rows.
NEWTON_STEPS = 12


class OnlineLogistic(State):
    """Logistic regression of each output (the indicator of a class); alpha |w - w_0|^2 penalises the weights (m, d).

    With p = 1 / (1 + exp(-w'x)), h = p (1 - p) and P the inverse of the ridge plus the discounted sum of h x x', a row
    of weight v = 1 changes

        P <- (P - h P x x'P / (1 + h x'P x)) / g,        w <- w + P x (y - p);

    in general v h replaces h, and v (y - p) replaces y - p.
    """

    _saved_state = ("alpha", "discount", "weights", "inverse")
    _stored = {"alpha": float, "discount": float, "weights": "m d", "inverse": "d m m"}

    def __init__(self, weights: Array, alpha: float, *, discount: float = 1.0) -> None:
        self.weights, self.alpha, self.discount = np.array(weights, dtype=float), float(alpha), float(discount)
        m, d = weights.shape
        self.inverse = np.repeat(np.eye(m)[None] / self.alpha, d, axis=0)

    def predict(self, X: Array) -> Array:
        return sigmoid(X @ self.weights)

    def predict_and_update(self, X: Array, Y: Array, weights: Array | None = None) -> Array:
        """(n, d) probabilities, each before its (d,) labels, nan where missing, are learned."""
        Z = np.empty(Y.shape)
        most = X.shape[1] / self.alpha
        losses = [1.0] * len(X) if weights is None else weights.tolist()
        # Copies, as snapshots share these arrays.
        self.weights, self.inverse = self.weights.copy(), self.inverse.copy()
        grown, part = 1.0 / self.discount, np.empty(self.inverse.shape[1:])
        for j in range(Y.shape[1]):
            w, P = self.weights[:, j].copy(), self.inverse[j]
            trace = float(P.trace())
            for i, (x, y, v) in enumerate(zip(X, Y[:, j].tolist(), losses, strict=True)):
                p = 1.0 / (1.0 + exp(-min(max(float(w.dot(x)), -MAX_LOGIT), MAX_LOGIT)))
                Z[i, j] = p
                if y != y:
                    continue
                Px = P.dot(x)
                h = v * p * (1.0 - p)
                shrunk = 1.0 + h * float(x.dot(Px))
                P -= np.multiply.outer((h / shrunk) * Px, Px, out=part)
                trace -= h / shrunk * float(Px.dot(Px))
                w += (v * (y - p) / shrunk) * Px
                # Without informative rows, forgetting would let P grow without bound.
                if self.discount < 1.0 and trace < most:
                    P *= grown
                    trace *= grown
            self.weights[:, j] = w
        return Z

    def replay(self, X: Array, Y: Array, weights: Array | None = None) -> Generator[float, None, None]:
        """Fit all rows, discounted and weighted, starting from the present weights; yields multiplications."""
        ages = self.discount ** np.arange(len(X) - 1.0, -1.0, -1.0)
        if weights is not None:
            ages *= weights
        start = self.weights
        self.weights, self.inverse = start.copy(), self.inverse.copy()
        ridge = self.alpha * np.eye(X.shape[1])
        for j, y in enumerate(Y.T):
            known = np.isfinite(y)
            x, t, age = X[known], y[known], ages[known]
            w = start[:, j]
            H = ridge
            for _ in range(NEWTON_STEPS):
                p = sigmoid(x @ w)
                H = ridge + (x.T * (age * np.maximum(p * (1.0 - p), 1e-4))) @ x
                step = np.linalg.solve(H, x.T @ (age * (t - p)) - self.alpha * (w - start[:, j]))
                w = w + step * min(1.0, MAX_LOGIT / max(float(np.abs(x @ step).max(initial=0.0)), 1e-12))
            self.weights[:, j], self.inverse[j] = w, np.linalg.inv(H)
            yield NEWTON_STEPS * x.size * (x.shape[1] + 10.0)


def sigmoid(logits: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-np.clip(logits, -MAX_LOGIT, MAX_LOGIT)))


def logit(p: Array) -> Array:
    p = np.clip(p, 1e-3, 1.0 - 1e-3)
    return np.log(p / (1.0 - p))


class LogisticStacking(State):
    """Logistic regression on the logits of the experts and of their mixture, from which it starts.

    A mixture of probabilities is never more certain than its experts; a logistic regression on their logits can be.
    `MLPoly` mixes the two, so stacking costs little where it does not help.
    """

    _saved_state = ("vote", "stacked")
    _state_classes = {"stacked": OnlineLogistic}
    _stored = {"vote": MLPoly, "stacked": list[OnlineLogistic]}

    def __init__(self, experts: int, outputs: int, *, discount: float = 0.999, alpha: float = 3.0) -> None:
        self.vote = MLPoly(discount)
        self.vote.start(2, outputs)
        weights = np.eye(experts + 1, 1)
        self.stacked = [OnlineLogistic(weights, alpha, discount=discount) for _ in range(outputs)]

    def predict(self, F: Array, mixed: Array) -> Array:
        """(n, d) probabilities from those of the experts, (n, k, d), nan where one abstains, and the mixture (n, d)."""
        logits = _logits(F, mixed)
        stacked = [model.predict(logits[..., j])[:, 0] for j, model in enumerate(self.stacked)]
        return self.vote.predict(np.stack([mixed, np.stack(stacked, axis=1)], axis=1))

    def predict_and_update(self, F: Array, mixed: Array, Y: Array, weights: Array | None = None) -> Array:
        logits = _logits(F, mixed)
        stacked = [
            model.predict_and_update(logits[..., j], Y[:, j : j + 1], weights)[:, 0]
            for j, model in enumerate(self.stacked)
        ]
        return self.vote.predict_then_learn(np.stack([mixed, np.stack(stacked, axis=1)], axis=1), Y, weights)


def _logits(F: Array, mixed: Array) -> Array:
    """(n, k + 1, d) logits of the mixture and of the experts, those of the mixture where an expert abstains."""
    known = np.where(np.isfinite(F), F, mixed[:, None])
    return logit(np.concatenate([mixed[:, None], known], axis=1))
