"""Quantiles of the last scores, brought up to date now and then: intervals for streams of millions of rows.

With m scores in the window, the radius is the ceil((m + 1) coverage)-th smallest of them (infinite if there are fewer).
If the next score is exchangeable with those of the window, it exceeds the radius with probability at most
1 - coverage: split conformal prediction (Vovk, Gammerman and Shafer, 2005) on a window that moves with the stream.

Where the next scores are not like those of the window (a noise that grows, or that comes and goes with the time of
day), the quantile of the level 1 - a is taken, and after each block of n scores that had the same radius, M of which
exceeded it,

    a <- a + rate (n (1 - coverage) - M):

adaptive conformal inference (Gibbs and Candès, 2021), a block at a time. Summed over the stream, the share of misses is
1 - coverage up to |a - a_1| / (rate times the number of scores), as long as a stays within 0 and 1, where it is cut
off: for a = 0 the radius is the largest score of the window, so that bands stay finite.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil, inf
from typing import NamedTuple

import numpy as np

from ovk.base import Array, Registered, State, check_int, in_interval, reads_snapshot
from ovk.evaluation.conformal.base import Conformal, Tracker

#: Parts of the outcomes that the intervals of a report should hold.
LEVELS = (0.5, 0.8, 0.9, 0.95)

#: Level of the intervals that are kept with the last rows, unless another one is asked for.
LEVEL = 0.9

#: Scores before there is a radius for the first time.
FIRST = 8

#: How far the odds of a miss follow those of another level, at most.
MOST = 10.0

#: What each miss takes from the level of the quantile.
RATE = 0.001


@dataclass
class RollingTracker(Tracker, kind="rolling"):
    """The radius of the last refresh, and the scores since the window began."""

    miss: float
    window: int
    step: int
    current: float = inf
    #: Scores so far, and how many are left until the next refresh.
    t: int = 0
    left: int = FIRST
    scores: Array = field(default_factory=lambda: np.empty(0))
    rate: float = 0.0
    #: What the misses so far have added to `miss`: a - (1 - coverage).
    shift: float = 0.0
    #: Scores since the last refresh that had a radius, and how many of them exceeded it.
    tested: int = 0
    missed: int = 0

    def radius(self) -> float:
        return self.current

    def update(self, score: float, missed: bool | None = None, later: int = 0) -> None:
        if missed is not None and not np.isnan(score):
            # It was not the present radius that was given for this score.
            self.missed += int(missed) - int(score > self.current)
        self.radii_then_update(np.array([score]))

    def radii_then_update(self, scores: Array) -> Array:
        radii = np.full(len(scores), self.current)
        seen = np.flatnonzero(~np.isnan(scores))
        # Refreshes fall on fixed scores of the stream, wherever chunks end.
        while len(seen) >= self.left:
            now, seen = np.split(seen, [self.left])
            self._add(scores[now])
            self._follow()
            self.refresh()
            self.left = min(self.t, self.step)
            radii[now[-1] + 1 :] = self.current
        self._add(scores[seen])
        return radii

    def _add(self, scores: Array) -> None:
        if np.isfinite(self.current):
            self.tested += len(scores)
            self.missed += int((scores > self.current).sum())
        self.scores = np.concatenate([self.scores, scores])
        self.t += len(scores)
        self.left -= len(scores)

    def _follow(self) -> None:
        moved = self.shift + self.rate * (self.tested * self.miss - self.missed)
        self.shift = min(max(moved, -self.miss), 1.0 - self.miss)
        self.tested = self.missed = 0

    def refresh(self) -> None:
        """Take the quantile of the scores of the window."""
        self.scores = self.scores[-self.window :]
        m = len(self.scores)
        if _rank(m, self.miss) > m:
            self.current = inf
            return
        k = min(max(_rank(m, self.miss + self.shift), 1), m)
        self.current = float(np.partition(self.scores, k - 1)[k - 1])

    def at(self, miss: float) -> RollingTracker:
        """A tracker with the same scores and another frequency of misses, brought up to date.

        The odds of a miss are changed by the factor that the misses so far have asked for.
        """
        factor = _odds(self.miss + self.shift) / _odds(self.miss)
        odds = _odds(miss) * min(max(factor, 1.0 / MOST), MOST)
        shift = self.shift if miss == self.miss else odds / (1.0 + odds) - miss
        other = replace(self, miss=miss, shift=shift)
        other.refresh()
        return other


def _rank(scores: int, miss: float) -> int:
    return ceil((scores + 1) * (1.0 - miss) - 1e-9)


def rows_needed(level: float) -> int:
    """Known outcomes before intervals of that level have ends.

    >>> rows_needed(0.9), rows_needed(0.9999)
    (9, 9999)
    """
    # The fewest m with _rank(m, 1 - level) <= m.
    return ceil((level - 1e-9) / (1.0 - level))


def _odds(miss: float) -> float:
    clipped = min(max(miss, 1e-9), 1.0 - 1e-9)
    return clipped / (1.0 - clipped)


@dataclass(eq=False, repr=False)
class RollingConformal(Conformal):
    """Intervals by the quantile of the last scores, the same for all rows between two refreshes of it.

    Of all methods it takes the least time, a few per cent of that of a learner, and it can be asked for another
    coverage at any time (`at`). If rows to come are like the last ones, the coverage is right at once; if not, the
    level of the quantile follows the misses, and the coverage is right in the long run. Methods that look at every
    miss, such as `ACI`, notice a change earlier.

    The radius is brought up to date after 8, 16, 32, ... scores, and from `step` scores on every `step` of them. So the
    intervals of the rows in between are made from what was known before the first of them, and chunks of any sizes
    give the same intervals.

    Parameters
    ----------
    coverage, region, memory, bounds : see `Conformal`
    window : int
        Number of last scores whose quantile is taken.
    step : int
        Number of scores between two refreshes of the quantile.
    rate : float in [0, 1]
        How far a miss moves the level of the quantile; 0 takes the quantile of the level `coverage` always.

    Attributes
    ----------
    score_, trackers_ : see `Conformal`; a tracker keeps the radius of the last refresh and the scores of the window

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import RollingConformal
    >>> y = np.random.default_rng(0).standard_normal(5000)
    >>> method = RollingConformal(0.9)
    >>> regions = method.regions_then_learn(np.zeros(5000), y)
    >>> bool(abs(np.nanmean(regions.covered) - 0.9) < 0.01)
    True
    >>> method.at(0.5).regions(np.zeros(1)).upper.round(1)
    array([[0.7]])
    """

    window: int = 2000
    step: int = 256
    rate: float = RATE

    def _tracker(self, miss: float) -> Tracker:
        rate = in_interval(self.rate, "rate", 0.0, 1.0)
        return RollingTracker(miss, check_int(self.window, "window"), check_int(self.step, "step"), rate=rate)

    @reads_snapshot
    def at(self, coverage: float) -> RollingConformal:
        """The same method for another coverage, brought up to date with all rows so far."""
        miss = 1.0 - in_interval(coverage, "coverage", 1e-6, 1 - 1e-6)
        other = self.replace(coverage=coverage)
        if hasattr(self, "trackers_"):
            other.score_ = self.score_
            other.trackers_ = [tracker.at(miss) for tracker in self.trackers_ if isinstance(tracker, RollingTracker)]
        return other

    @reads_snapshot
    def half_widths(self, coverage: float, d: int) -> Array:
        """(d,) half widths of intervals of another coverage by all rows so far, infinite where too few were seen.

        They are those of ``at(coverage)``, in a tenth of the time. For region "each", with d outputs.
        """
        if self.region != "each":
            raise ValueError(f"half widths that are the same for all rows need region 'each', got {self.region!r}")
        miss = 1.0 - in_interval(coverage, "coverage", 1e-6, 1 - 1e-6)
        if not hasattr(self, "trackers_"):
            return np.full(d, inf)
        return np.array([tracker.at(miss).current for tracker in self.trackers_ if isinstance(tracker, RollingTracker)])


class IntervalSummary(NamedTuple):
    """How the intervals of one level did.

    Attributes
    ----------
    level : how often they should have held the outcome
    coverage, tested : (d,) how often they did, over the whole stream, and of how many outcomes
    width : (d,) the median of their widths in the last rows
    """

    level: float
    coverage: Array
    tested: Array
    width: Array

    @property
    def percent(self) -> str:
        """The level in words, such as "97.5%"."""
        return f"{100 * self.level:g}%"


@dataclass
class RecentErrors(State, Registered):
    """Progressive predictions, their intervals and outcomes of the last rows, and the coverage along the whole stream.

    The intervals are those of `RollingConformal`, one for each of the levels 0.5, 0.8, 0.9 and 0.95, and of `level`.
    Along a stream they follow the misses; with a `rate` of 0 they do not, for rows in no order such as a table's.

    Attributes
    ----------
    Y, F : (m, d) outcomes and predictions of the last rows, m <= `size`
    half : (m, d) half widths of their intervals of the level `level`, made before the outcomes were seen
    size : most rows remembered
    intervals : a method for each level
    tested, inside : (levels, d) outcomes of the whole stream that had a finite interval, and those within it
    instants : (m,) when the last rows were, in seconds since 1970; None if no row had a time
    level : the level that tables and plots show

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import RecentErrors
    >>> rng = np.random.default_rng(0)
    >>> recent = RecentErrors.empty(1, size=500)
    >>> for _ in range(20):
    ...     half = recent.update(np.zeros((100, 1)), rng.standard_normal((100, 1)))
    >>> bool(abs(recent.widths(0.9)[0] - 1.645) < 0.2)
    True
    >>> bool(abs(recent.shown.coverage[0] - 0.9) < 0.02)
    True
    """

    Y: Array
    F: Array
    half: Array
    size: int
    intervals: list[RollingConformal]
    tested: Array
    inside: Array
    instants: Array | None = None
    level: float = LEVEL

    @classmethod
    def empty(cls, d: int, size: int = 2000, level: float = LEVEL, rate: float = RATE) -> RecentErrors:
        """A memory for the last `size` rows with d outputs, without any row yet."""
        level = in_interval(level, "level", 1e-6, 1 - 1e-6)
        intervals = [RollingConformal(one, window=size, rate=rate) for one in sorted({*LEVELS, level})]
        Y, F, half = np.empty((3, 0, d))
        tested, inside = np.zeros((2, len(intervals), d))
        return cls(Y, F, half, size, intervals, tested, inside, level=level)

    @property
    def levels(self) -> Array:
        """(levels,) the levels of the intervals."""
        return np.array([method.coverage for method in self.intervals])

    def update(self, F: Array, Y: Array, instants: Array | None = None) -> Array:
        """Test the intervals on the next rows, then remember these; F and Y (n, d), nan where missing.

        `instants` (n,) are their times, if they have any. Returns the half widths (n, d) of the intervals of the level
        `level`, each made from rows before its own.
        """
        # What was not predicted says nothing about intervals.
        predicted = np.where(np.isnan(F), np.nan, Y)
        tested, inside = np.empty((2, len(self.intervals), Y.shape[1]))
        for k, method in enumerate(self.intervals):
            regions = method.regions_then_learn(F, predicted)
            finite = np.isfinite(regions.radius) & np.isfinite(regions.covered)
            tested[k] = finite.sum(axis=0)
            inside[k] = np.where(finite, regions.covered, 0.0).sum(axis=0)
            if method.coverage == self.level:
                half = regions.radius
        if instants is not None or self.instants is not None:
            before, now = (
                np.full(len(rows), np.nan) if known is None else known
                for known, rows in ((self.instants, self.Y), (instants, Y))
            )
            self.instants = np.concatenate([before, now])[-self.size :]
        # Not in place: a fork of this object may still be read.
        self.tested, self.inside = self.tested + tested, self.inside + inside
        self.Y, self.F, self.half = (
            np.concatenate([old, new])[-self.size :] for old, new in ((self.Y, Y), (self.F, F), (self.half, half))
        )
        return half

    def merge(self, other: RecentErrors) -> None:
        """Remember the last rows of both, in turn, and count the outcomes of both; intervals begin with these rows."""
        ages = np.concatenate([np.arange(len(rows), 0, -1) for rows in (self.Y, other.Y)])
        order = np.argsort(-ages, kind="stable")
        pairs = ((self.Y, other.Y), (self.F, other.F), (self.half, other.half))
        Y, F, half = (np.concatenate(pair)[order][-self.size :] for pair in pairs)
        merged = RecentErrors.empty(Y.shape[1], self.size, self.level, self.intervals[0].rate)
        merged.update(F, Y)
        merged.half, merged.tested, merged.inside = half, self.tested + other.tested, self.inside + other.inside
        vars(self).update(vars(merged))

    def widths(self, level: float) -> Array:
        """(d,) half widths of intervals of that level, by all rows so far; infinite where too few were seen."""
        nearest = min(self.intervals, key=lambda method: abs(method.coverage - level))
        return nearest.half_widths(level, self.Y.shape[1])

    @property
    def coverage(self) -> Array:
        """(levels, d) part of the outcomes within their intervals."""
        return self.inside / np.where(self.tested > 0, self.tested, np.nan)

    @property
    def shown(self) -> IntervalSummary:
        """How the intervals of the level `level` did."""
        k = int(np.flatnonzero(self.levels == self.level)[0])
        widths = np.where(np.isfinite(self.half), 2.0 * self.half, np.nan)
        # Not nanmedian: it warns of outputs without any interval.
        known = [column[np.isfinite(column)] for column in widths.T]
        medians = np.array([np.median(column) if len(column) else np.nan for column in known])
        return IntervalSummary(self.level, self.coverage[k], self.tested[k], medians)
