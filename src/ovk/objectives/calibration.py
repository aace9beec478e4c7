"""Probabilities of classes from scores that were made without looking at the label.

Every class k has a score s_k, the largest of which is predicted. One increasing function for all classes turns scores
into probabilities,

    P_k proportional to 1 / (1 + exp(-(a s_k + b))),    a > 0,

with a and b by maximum likelihood on pairs of a score and whether the class was right (Platt 1999, with his counts: one
row more on either side), where no score has seen its label: rows were left out, or predicted before they were learned.
The class of the largest score stays the most probable one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit

from ovk.base import Array, Indices, State

#: Newton steps at most, the size of a step that ends them, and the smallest slope.
MAX_NEWTON_STEPS, MIN_NEWTON_STEP, MIN_SLOPE = 50, 1e-8, 1e-6
#: Intervals of scores in which streams are counted.
BINS = 200


@dataclass(frozen=True)
class Calibration:
    """a and b."""

    slope: float
    offset: float

    @classmethod
    def fit(cls, scores: Array, labels: Indices, weight: Array | None = None) -> Calibration:
        """From left-out scores (n, K) and the number of the right class of each row, (n,)."""
        own = labels[:, None] == np.arange(scores.shape[1])
        weights = np.broadcast_to(1.0 if weight is None else weight[:, None], own.shape)
        return cls.from_counts(scores.ravel(), np.where(own, weights, 0.0).ravel(), np.where(own, 0.0, weights).ravel())

    @classmethod
    def from_signs(cls, scores: Array, signs: Array, weight: Array, *, per_class: bool) -> Calibration:
        """From left-out scores (m,) and labels (m,), 1 or -1: of one class each against the rest, or of two classes,
        where a score is that of the second and its negative that of the first."""
        right, wrong = weight * (signs > 0), weight * (signs < 0)
        if not per_class:
            scores, right, wrong = (np.concatenate(two) for two in ((scores, -scores), (right, wrong), (wrong, right)))
        return cls.from_counts(scores, right, wrong)

    @classmethod
    def from_counts(cls, scores: Array, right: Array, wrong: Array) -> Calibration:
        """From scores (m,) and how often each was that of the right class, and of a wrong one, (m,)."""
        known = np.isfinite(scores) & (right + wrong > 0)
        s, right, wrong = scores[known], right[known], wrong[known]
        positives, negatives = float(right.sum()), float(wrong.sum())
        if positives == 0 or negatives == 0:
            return cls(1.0, 0.0)
        # Scores that separate the classes must not make the slope infinite.
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
        # Scores that say nothing, or the contrary of the truth, leave the order of the classes as it is.
        return cls(max(float(theta[0]), MIN_SLOPE) / unit, float(theta[1]))

    def probabilities(self, scores: Array) -> Array:
        """(n, K) probabilities of classes with scores (n, K); the rows sum to 1."""
        logs = log_expit(self.slope * scores + self.offset)
        P = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(P / P.sum(axis=1, keepdims=True))


@dataclass
class ScoreCounts(State):
    """How often scores along a stream were those of the right class: (BINS,) sums, in intervals of the score."""

    right: Array  # rows whose score fell there, of the right class
    wrong: Array  # and of the others
    sums: Array  # of the scores

    @classmethod
    def empty(cls) -> ScoreCounts:
        return cls(*np.zeros((3, BINS)))

    def add(self, scores: Array, labels: Indices) -> None:
        """Count scores (n, K), made before their rows were learned, and the right classes (n,)."""
        known = np.isfinite(scores).all(axis=1)
        s = scores[known].ravel()
        of_right = (labels[known][:, None] == np.arange(scores.shape[1])).ravel()
        # From all numbers to (0, 1), finest around zero.
        place = np.minimum((0.5 * BINS * (1.0 + s / (1.0 + np.abs(s)))).astype(np.intp), BINS - 1)
        # New arrays, since copies of a model may share the old ones.
        self.right = self.right + np.bincount(place[of_right], minlength=BINS)
        self.wrong = self.wrong + np.bincount(place[~of_right], minlength=BINS)
        self.sums = self.sums + np.bincount(place, weights=s, minlength=BINS)

    def after_row(self, scores: list[float], number: int) -> ScoreCounts:
        """The counts with the scores of one more row, whose right class has this number."""
        right, wrong, sums = self.right.copy(), self.wrong.copy(), self.sums.copy()
        for k, s in enumerate(scores):
            place = min(int(0.5 * BINS * (1.0 + s / (1.0 + abs(s)))), BINS - 1)
            (right if k == number else wrong)[place] += 1.0
            sums[place] += s
        return ScoreCounts(right, wrong, sums)

    def __add__(self, other: ScoreCounts) -> ScoreCounts:
        return ScoreCounts(self.right + other.right, self.wrong + other.wrong, self.sums + other.sums)

    def calibration(self) -> Calibration:
        """The calibration that the scores counted so far give."""
        count = self.right + self.wrong
        means = np.divide(self.sums, count, out=np.zeros(BINS), where=count > 0)
        return Calibration.from_counts(means, self.right, self.wrong)


def two_sided(scores: Array) -> Array:
    """(n, 2) scores of the first and the second class, from those (n,) that are positive for the second."""
    return np.column_stack([-scores, scores])
