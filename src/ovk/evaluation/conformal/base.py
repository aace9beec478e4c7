"""What methods for intervals along a stream have in common.

A tracker keeps a radius for scores s_t that come one at a time, from the scores before: an output is missed if s_t
exceeds the radius, and the tracker moves the radius so that misses become as frequent as they should be, whatever the
scores do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy import nan

from ovk._params import Parameters, Registered
from ovk._validation import Array, in_interval, whole
from ovk.evaluation.conformal.regions import Regions
from ovk.evaluation.conformal.scores import REGIONS, Score


class Tracker(Registered, ABC):
    """The radius of one sequence of scores."""

    @abstractmethod
    def radius(self) -> float:
        """For the next score: infinite while too little is known, below 0 for a region that holds nothing."""

    @abstractmethod
    def update(self, score: float) -> None:
        """Take in the score; nan for a row without one, which moves the clock alone."""


class Conformal(Parameters, ABC):
    """Regions around predictions of a stream, with the coverage that was asked for in the long run.

    Whatever the model, and without any assumption on the data: the regions look at how often they missed. They never
    look ahead: the region of a row depends on the rows before it alone.

    Parameters
    ----------
    coverage : float in (0, 1)
        How often the region should hold the output.
    region : "each", "box" or "ellipsoid"
        For several outputs, an interval for each with that coverage, or one region that holds all outputs at once: a
        box with sides in proportion to the residuals' spread, or an ellipsoid from their running covariance. Where some
        outputs of a row are missing, what counts is whether the others lie in the region's shadow on them.
    memory : int or None
        Rows over which the spread and the covariance of residuals fade, for streams that drift; None weighs all alike.

    Attributes
    ----------
    score_, trackers_ : the state, made at the first rows
    """

    def __init__(self, coverage: float = 0.9, region: str = "each", memory: int | None = None) -> None:
        self.coverage = coverage
        self.region = region
        self.memory = memory

    @abstractmethod
    def _tracker(self, miss: float) -> Tracker:
        """A fresh tracker for misses with frequency `miss`."""

    def regions_then_learn(self, F: Any, Y: Any) -> Regions:
        """A region for each prediction, made before its output is looked at; then learn how far off it was.

        Parameters
        ----------
        F : (n, d) or (n,) predictions, in the order of the stream; nan where there is none
        Y : outputs of the same shape, nan where missing
        """
        F, Y = (np.asarray(A, dtype=np.float64) for A in (F, Y))
        if F.shape != Y.shape or F.ndim not in (1, 2):
            raise ValueError(f"F and Y must have the same shape (n, d) or (n,), got {F.shape} and {Y.shape}")
        F, Y = F.reshape(len(F), -1), Y.reshape(len(Y), -1)
        n, d = F.shape
        with self._all_or_nothing():
            score = self._begin(d)
            radius, half, covered = np.empty((n, score.k)), np.empty((n, d)), np.empty((n, score.k))
            scatter = None if self.region != "ellipsoid" else np.empty((n, d, d))
            for t in range(n):
                radius[t] = [tracker.radius() for tracker in self.trackers_]
                half[t] = _sides(score, radius[t])
                if scatter is not None:
                    scatter[t] = score.scatter()
                covered[t] = self._learn(score, F[t], Y[t], radius[t])
        half = np.where(np.isnan(F), np.nan, half)
        with np.errstate(over="ignore"):
            return Regions(F, F - half, F + half, radius, covered, scatter)

    def regions(self, F: Any) -> Regions:
        """The region around each of these predictions as things are now; nothing is learned."""
        F = np.asarray(F, dtype=np.float64)
        F = F.reshape(len(F), -1)
        n, d = F.shape
        if hasattr(self, "trackers_"):
            score = self._begin(d)
            radius = np.array([tracker.radius() for tracker in self.trackers_])
            half, scatter = _sides(score, radius), score.scatter()
        else:
            radius, half, scatter = np.full(d if self.region == "each" else 1, np.inf), np.full(d, np.inf), None
        half = np.where(np.isnan(F), np.nan, half)
        unknown = np.full((n, len(radius)), np.nan)
        shapes = None if scatter is None else np.broadcast_to(scatter, (n, d, d)).copy()
        with np.errstate(over="ignore"):
            return Regions(F, F - half, F + half, np.tile(radius, (n, 1)), unknown, shapes)

    def _begin(self, d: int) -> Score:
        """The state, made at the first call."""
        if not hasattr(self, "trackers_"):
            miss = 1.0 - in_interval(self.coverage, "coverage", 1e-6, 1 - 1e-6)
            if self.region not in REGIONS:
                raise ValueError(f"region must be {', '.join(map(repr, REGIONS))}, got {self.region!r}")
            decay = 1.0 if self.memory is None else 1.0 - 1.0 / whole(self.memory, "memory", least=2)
            self.score_: Score = REGIONS[self.region](d, decay)
            self.trackers_: list[Tracker] = [self._tracker(miss) for _ in range(self.score_.k)]
        if self.score_.d != d:
            raise ValueError(f"{type(self).__name__} has seen {self.score_.d} outputs, got {d}: use a new one")
        return self.score_

    def _learn(self, score: Score, f: Array, y: Array, radius: Array) -> Array:
        """(k,) whether the row was covered."""
        # A missing prediction of an output that is there is a miss; an output that is not there says nothing.
        seen = np.isfinite(y)
        with np.errstate(over="ignore", invalid="ignore"):
            r = np.where(np.isnan(f), np.inf, y - f)
        found = score.scores(r, seen)
        known = score.ready(seen)
        for tracker, value in zip(self.trackers_, found, strict=True):
            tracker.update(float(value) if known else nan)
        score.learn(r, seen)
        return np.where(np.isnan(found), np.nan, (found <= radius).astype(np.float64))

    def forget(self) -> Self:
        """Begin anew."""
        for name in ("score_", "trackers_"):
            self.__dict__.pop(name, None)
        return self


def _sides(score: Score, radius: Array) -> Array:
    """Half the sides of the box around the region; 0 for one that holds nothing."""
    with np.errstate(over="ignore"):
        return score.half_widths(np.maximum(radius, 0.0))
