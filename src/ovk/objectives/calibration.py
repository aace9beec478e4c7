"""Class probabilities from held-out scores.

Platt calibration: one increasing function for all classes turns the scores s_k into probabilities,

    P_k proportional to 1 / (1 + exp(-(a s_k + b))),    a > 0,

with a and b by maximum likelihood, with Platt's (1999) smoothed counts, on held-out scores: leave-one-out, or predicted
before the row was learned. The class with the largest score remains the most probable one.

Multinomial calibration, for scores of regressions on the codes 1 and -1 (`MultinomialCalibration`):

    P_k proportional to exp(a s_k + c log p_k + b_k),    p_k = (1 + s_k) / 2 clipped to [CLIP, 1 - CLIP].

p_k is the regression's own estimate of P_k. The offsets b_k let rare classes differ from common ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit, log_softmax

from ovk.base import Array, Indices, State

#: Maximum number of Newton steps, minimum size of a step, and minimum slope.
MAX_NEWTON_STEPS, MIN_NEWTON_STEP, MIN_SLOPE = 50, 1e-8, 1e-6
N_BINS = 200  # number of bins of the scores of a stream


@dataclass(frozen=True)
class Calibration:
    slope: float  # a
    offset: float  # b

    @classmethod
    def fit(cls, scores: Array, labels: Indices, weight: Array | None = None) -> Calibration:
        """Calibrate on held-out scores (n, K) and the index of the true class of each row, (n,)."""
        own = labels[:, None] == np.arange(scores.shape[1])
        weights = np.broadcast_to(1.0 if weight is None else weight[:, None], own.shape)
        return cls.from_counts(scores.ravel(), np.where(own, weights, 0.0).ravel(), np.where(own, 0.0, weights).ravel())

    @classmethod
    def from_signs(cls, scores: Array, signs: Array, weight: Array, *, per_class: bool) -> Calibration:
        """Calibrate on held-out scores (m,) and labels (m,), 1 or -1.

        Scores are of one class against the rest (`per_class`), or of the second of two classes.
        """
        right, wrong = weight * (signs > 0), weight * (signs < 0)
        if not per_class:
            scores, right, wrong = (np.concatenate(two) for two in ((scores, -scores), (right, wrong), (wrong, right)))
        return cls.from_counts(scores, right, wrong)

    @classmethod
    def from_counts(cls, scores: Array, right: Array, wrong: Array) -> Calibration:
        """Calibrate on scores (m,) and how often each was that of the true class, and of another one, (m,)."""
        known = np.isfinite(scores) & (right + wrong > 0)
        s, right, wrong = scores[known], right[known], wrong[known]
        positives, negatives = float(right.sum()), float(wrong.sum())
        if positives == 0 or negatives == 0:
            return cls(1.0, 0.0)
        # Otherwise the slope would be infinite for separable classes.
        high, low = (positives + 1.0) / (positives + 2.0), 1.0 / (negatives + 2.0)
        up, down = high * right + low * wrong, (1.0 - high) * right + (1.0 - low) * wrong
        unit = max(float(np.sqrt(np.average(s**2, weights=right + wrong))), 1e-300)
        design = np.column_stack([s / unit, np.ones(len(s))])
        theta = np.array([1.0, np.log(up.sum() / down.sum())])

        def value(at: Array) -> float:
            z = design @ at
            return -float(up @ log_expit(z) + down @ log_expit(-z))

        now = value(theta)
        for _ in range(MAX_NEWTON_STEPS):
            p = expit(design @ theta)
            slope = design.T @ ((up + down) * p - up)
            curve = (design.T * ((up + down) * p * (1.0 - p))) @ design
            step = np.linalg.solve(curve + 1e-9 * (np.trace(curve) + 1e-9) * np.eye(2), slope)
            length = 1.0
            while value(theta - length * step) > now and length > 1e-6:
                length *= 0.5
            theta = theta - length * step
            now = value(theta)
            if np.abs(length * step).max() <= MIN_NEWTON_STEP:
                break
        # A positive slope keeps the order of the classes, even if scores are uninformative or misleading.
        return cls(max(float(theta[0]), MIN_SLOPE) / unit, float(theta[1]))

    def probabilities(self, scores: Array) -> Array:
        """(n, K) probabilities for scores (n, K)."""
        logs = log_expit(self.slope * scores + self.offset)
        P = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(P / P.sum(axis=1, keepdims=True))


CLIP = 0.01  # bounds of the regression's own estimate of a probability
#: Ridges of slopes and offsets in the likelihood: separable classes and classes with few rows require them.
SLOPE_RIDGE, OFFSET_RIDGE = 0.01, 0.5


@dataclass(frozen=True)
class MultinomialCalibration:
    slopes: Array  # (2,) a and c
    offsets: Array  # (K,) b

    @classmethod
    def fit(cls, scores: Array, labels: Indices, weight: Array | None = None) -> MultinomialCalibration:
        """Calibrate on held-out scores (n, K) and the index of the true class of each row, (n,)."""
        K = scores.shape[1]
        weights = np.ones(len(labels)) if weight is None else weight
        # Ridges refer to scores of deviation 1, because scores of a rare class hardly vary.
        centred = scores - np.average(scores, axis=0, weights=weights)
        unit = max(float(np.sqrt(np.average(centred**2, axis=0, weights=weights).mean())), 1e-12)
        units = np.array([unit, 1.0])
        own = _features(scores) / units[:, None, None]
        features = np.concatenate([own, np.broadcast_to(np.eye(K)[:, None], (K, len(labels), K))])
        ridge = np.concatenate([np.full(2, SLOPE_RIDGE), np.full(K, OFFSET_RIDGE)])
        free = np.ones(len(ridge), dtype=bool)
        while True:
            theta = _maximum_likelihood(features[free], labels, weights, ridge[free])
            full = np.zeros(len(ridge))
            full[free] = theta
            # A negative slope would make a larger score less probable.
            if (full[:2] >= 0).all():
                return cls(full[:2] / units, full[2:])
            free[int(full[:2].argmin())] = False

    def log_probabilities(self, scores: Array) -> Array:
        """(n, K) logarithms of the probabilities for scores (n, K)."""
        return np.asarray(log_softmax(np.tensordot(self.slopes, _features(scores), 1) + self.offsets, axis=1))


def _features(scores: Array) -> Array:
    """(2, n, K) s_k and log p_k."""
    return np.stack([scores, np.log(np.clip(0.5 * (1.0 + scores), CLIP, 1.0 - CLIP))])


def _maximum_likelihood(features: Array, labels: Indices, weights: Array, ridge: Array) -> Array:
    """theta of logits sum_f theta_f features_f, (F, n, K), by Newton's method with a ridge (F,) on theta."""
    rows, theta = np.arange(len(labels)), np.zeros(len(ridge))

    def value(at: Array) -> float:
        logs = log_softmax(np.tensordot(at, features, 1), axis=1)
        return float(0.5 * ridge @ at**2 - weights @ logs[rows, labels])

    now = value(theta)
    for _ in range(MAX_NEWTON_STEPS):
        P = np.exp(log_softmax(np.tensordot(theta, features, 1), axis=1))
        mean = (features * P).sum(axis=2)  # (F, n)
        slope = ridge * theta + (mean - features[:, rows, labels]) @ weights
        weighted = features * (P * weights[:, None])
        curve = np.tensordot(weighted, features, ([1, 2], [1, 2])) - (mean * weights) @ mean.T + np.diag(ridge)
        step, length = np.linalg.solve(curve, slope), 1.0
        while value(theta - length * step) > now and length > 1e-6:
            length *= 0.5
        theta = theta - length * step
        now = value(theta)
        if np.abs(length * step).max() <= MIN_NEWTON_STEP:
            break
    return theta


@dataclass
class ScoreCounts(State):
    """Histograms, (N_BINS,), of the scores of a stream."""

    _stored = {"right": "k", "wrong": "k", "sums": "k"}

    right: Array  # counts of scores of the true class
    wrong: Array  # counts of scores of the other classes
    sums: Array  # sums of the scores

    @classmethod
    def empty(cls) -> ScoreCounts:
        return cls(*np.zeros((3, N_BINS)))

    def add(self, scores: Array, labels: Indices) -> None:
        """Count scores (n, K), predicted before their rows were learned, given the true classes (n,)."""
        known = np.isfinite(scores).all(axis=1)
        s = scores[known].ravel()
        of_right = (labels[known][:, None] == np.arange(scores.shape[1])).ravel()
        # Maps all numbers to (0, 1), with the smallest bins near zero.
        place = np.minimum((0.5 * N_BINS * (1.0 + s / (1.0 + np.abs(s)))).astype(np.intp), N_BINS - 1)
        # New arrays, since copies of a model may share the old ones.
        self.right = self.right + np.bincount(place[of_right], minlength=N_BINS)
        self.wrong = self.wrong + np.bincount(place[~of_right], minlength=N_BINS)
        self.sums = self.sums + np.bincount(place, weights=s, minlength=N_BINS)

    def after_row(self, scores: list[float], number: int) -> ScoreCounts:
        """The counts with one more row, whose true class has the index `number`."""
        right, wrong, sums = self.right.copy(), self.wrong.copy(), self.sums.copy()
        for k, s in enumerate(scores):
            place = min(int(0.5 * N_BINS * (1.0 + s / (1.0 + abs(s)))), N_BINS - 1)
            (right if k == number else wrong)[place] += 1.0
            sums[place] += s
        return ScoreCounts(right, wrong, sums)

    def __add__(self, other: ScoreCounts) -> ScoreCounts:
        return ScoreCounts(self.right + other.right, self.wrong + other.wrong, self.sums + other.sums)

    def calibration(self) -> Calibration:
        count = self.right + self.wrong
        means = np.divide(self.sums, count, out=np.zeros(N_BINS), where=count > 0)
        return Calibration.from_counts(means, self.right, self.wrong)


def two_sided(scores: Array) -> Array:
    """(n, 2) scores of both classes, from scores (n,) that are positive for the second."""
    return np.column_stack([-scores, scores])
