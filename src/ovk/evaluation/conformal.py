"""Regions around the predictions of a stream, with the coverage that was asked for in the long run.

A tracker keeps a radius for scores s_t that come one at a time, from the scores before: an output is missed if s_t
exceeds the radius, and the tracker moves the radius so that misses become as frequent as they should be, whatever the
scores do. The score of an output is |r|, r its residual; a region of all outputs has one score for all of them:

    box        max_q |r_q| / s_q:     a box that holds all outputs at once
    ellipsoid  sqrt(r' S^-1 r):       an ellipsoid that holds all outputs at once

s and S are the running root mean squares and second moments of the residuals before the row, about zero, so that a
biased forecast is given a larger region. Where some outputs are missing, the others are compared with the region's
shadow: the sides of the box, or the projection of the ellipsoid, sqrt(r_o' S_oo^-1 r_o).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, nan
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ovk.base import (
    Array,
    Mask,
    Parameters,
    Registered,
    State,
    Transactional,
    check_int,
    in_interval,
    reads_snapshot,
    unnamed,
)
from ovk.intervals import Regions, conformal_rank, shrunk

#: Residuals of an output before scores are taken in units of their spread.
MIN_RESIDUALS = 10


def as_bounds(bounds: Any, d: int) -> tuple[Array, Array]:
    """(d,) least and largest values of the outputs, infinite where there is none.

    With bounds low <= y <= high, the prediction f is first clipped to them, c = min(max(f, low), high), and the
    interval of radius r is cut off where no outcome can be:

        [c - r, c + r]  within  [low, high],      scores |y - c|

    An outcome within its bounds lies in what is left if and only if |y - c| <= r. So misses are what they were, and
    with them the coverage, and since |y - c| <= |y - f| no score has grown. `bounds`: (low, high) for all outputs, or d
    such pairs; None for what is not bounded.
    """
    listed = isinstance(bounds, (Sequence, np.ndarray)) and not isinstance(bounds, str)
    one = listed and len(bounds) == 2 and all(end is None or isinstance(end, Real) for end in bounds)
    pairs: list[Any] = [bounds] * d if one else list(bounds) if listed else []
    pairs = [(None, None) if pair is None else pair for pair in pairs]
    fits = len(pairs) == d and all(np.ndim(pair) == 1 and len(pair) == 2 for pair in pairs)
    if fits and all(end is None or isinstance(end, Real) for pair in pairs for end in pair):
        low = np.array([-inf if pair[0] is None else float(pair[0]) for pair in pairs])
        high = np.array([inf if pair[1] is None else float(pair[1]) for pair in pairs])
        # nan is refused as well.
        if (low < high).all():
            return low, high
    raise ValueError(
        f"bounds must be a pair (low, high) with low < high, None for an open end, or one such pair for each of the "
        f"{d} outputs, got {bounds!r}"
    )


@dataclass
class JointScore(State):
    """One score for all outputs of a row, and from a radius back to a region, as the rows so far have it.

    Moments are over the rows in which both outputs were seen; of a row's weight `decay` is left after another row.
    """

    decay: float
    ellipsoid: bool
    weight: Array
    squares: Array
    _known: tuple[Array, Array] | None = field(default=None, init=False)

    def score(self, r: Array, seen: Array) -> float:
        """How far the residuals (d,) are from 0, nan where none was seen."""
        if not seen.any():
            return nan
        with np.errstate(over="ignore"):
            if not self.ellipsoid:
                return float(np.max(np.abs(r[seen]) / self.scales()[seen]))
            # In units of each output's own spread: outputs of 1e-200 and of 1e200 are factorised alike.
            s, C = self.correlation()
            z = r[seen] / s[seen]
            if not np.isfinite(z).all():
                return inf
            return float(np.sqrt(z @ cho_solve(cho_factor(C[np.ix_(seen, seen)], lower=True), z)))

    def half_widths(self, radius: float) -> Array:
        """(d,) half the sides of the box around the region of that radius; 0 for one that holds nothing."""
        with np.errstate(over="ignore"):
            return max(radius, 0.0) * self.scales()

    def scatter(self) -> Array | None:
        """(d, d) the form of an ellipsoid."""
        if not self.ellipsoid:
            return None
        s, C = self.correlation()
        result: Array = np.outer(s, s) * C
        return result

    def ready(self, seen: Array) -> bool:
        """Whether the spread of these outputs is known well enough for scores to mean anything."""
        known = np.diagonal(self.weight)[seen]
        return bool((known >= min(MIN_RESIDUALS, 0.5 / max(1.0 - self.decay, 1e-300))).all())

    def add(self, r: Array, seen: Array) -> None:
        """Learn the spread from the residuals (d,) of a row."""
        known = np.where(seen, r, 0.0)
        with np.errstate(over="ignore"):
            outer = np.outer(known, known)
        # A square beyond the largest number would stay for ever: such a row is a miss, and no measure of spread.
        if np.isfinite(outer).all():
            self.weight = self.decay * self.weight + np.outer(seen, seen)
            self.squares = self.decay * self.squares + outer
            self._known = None

    def scales(self) -> Array:
        """(d,) root mean squares; the mean of the others', or 1, for an output without any."""
        weight, squares = np.diagonal(self.weight), np.diagonal(self.squares)
        known = (weight > 0) & (squares > 0)
        if not known.any():
            return np.ones(len(weight))
        s = np.sqrt(np.where(known, squares, 1.0) / np.where(known, weight, 1.0))
        result: Array = np.where(known, s, s[known].mean())
        return result

    def correlation(self) -> tuple[Array, Array]:
        """Scales (d,), and correlations (d, d) about zero, positive definite and drawn to 0 when rows are few."""
        if self._known is None:
            s, together = self.scales(), self.weight > 0
            C = np.where(together, self.squares / np.where(together, self.weight, 1.0), 0.0) / np.outer(s, s)
            self._known = s, shrunk(C, float(np.diagonal(self.weight).max(initial=0.0)))
        return self._known


@dataclass
class ScoreWindow(State):
    """The last `size` scores, with any quantile at once."""

    size: int
    recent: list[float] = field(default_factory=list)
    ordered: list[float] = field(default_factory=list)

    def add(self, score: float) -> None:
        """Add a score; the oldest goes."""
        if len(self.recent) == self.size:
            del self.ordered[bisect_left(self.ordered, self.recent.pop(0))]
        self.recent.append(score)
        insort(self.ordered, score)

    def quantile(self, level: float) -> float:
        """The conformal quantile, infinite if it takes more scores than there are."""
        k = conformal_rank(len(self.ordered), level)
        return inf if k > len(self.ordered) else self.ordered[max(k, 1) - 1]

    def finite_quantile(self, level: float) -> float:
        """The conformal quantile, or the largest score while there are too few."""
        found = self.quantile(level)
        return found if found < inf else self.largest()

    def largest(self) -> float:
        """The largest score, 0 if there is none."""
        return self.ordered[-1] if self.ordered else 0.0


class Tracker(State, ABC):
    """The radius of one sequence of scores."""

    @abstractmethod
    def radius(self) -> float:
        """For the next score: infinite while too little is known, below 0 for a region that holds nothing."""

    @abstractmethod
    def update(self, score: float, missed: bool | None = None, later: int = 0) -> None:
        """Learn from the score; nan for a row without one, which moves the clock alone.

        `missed` tells whether it exceeded the radius that was given for it, where that was not the present one, and
        `later` how many rows were given theirs in between.
        """

    def radii_then_update(self, scores: Array) -> Array:
        """(n,) the radius for each of the scores (n,), from those before it; all of them are learned."""
        radii = np.empty(len(scores))
        for t, score in enumerate(scores.tolist()):
            radii[t] = self.radius()
            self.update(score)
        return radii


@dataclass(eq=False, repr=False)
class Conformal(Transactional, Parameters, ABC):
    """Regions around predictions of a stream, with the coverage that was asked for in the long run.

    Whatever the model, and without any assumption on the data: the regions look at how often they missed. They never
    look ahead: the region of a row depends on the rows before it alone. `ACI` describes the parameters. The state is
    made at the first rows: a tracker for each output, or for a region of all outputs one, and its score.
    """

    coverage: float = 0.9
    region: str = "each"
    memory: int | None = None
    bounds: Any = field(default=None, kw_only=True)

    _state_classes = {"score_": JointScore, "trackers_": Tracker}

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
        with self._transaction() as work:
            return work._learn(F, Y)

    def _learn(self, F: Any, Y: Any) -> Regions:
        F, Y, R, outside = self._residuals(F, Y)
        (n, d), seen = F.shape, ~np.isnan(R)
        score = self._started(d)
        scatter = None
        if score is None:
            # The score of an output is |r|, whatever came before: all rows at once.
            scores = np.abs(R)
            columns = zip(self.trackers_, scores.T, strict=True)
            radius = np.column_stack([tracker.radii_then_update(column) for tracker, column in columns])
            half = np.maximum(radius, 0.0)
        else:
            scores, radius, half = np.empty((n, 1)), np.empty((n, 1)), np.empty((n, d))
            scatter = np.empty((n, d, d)) if self.region == "ellipsoid" else None
            (tracker,) = self.trackers_
            for t in range(n):
                radius[t] = tracker.radius()
                half[t] = score.half_widths(float(radius[t, 0]))
                if scatter is not None:
                    scatter[t] = score.scatter()
                scores[t] = _learn_joint(tracker, score, R[t], seen[t])
        covered = np.where(np.isnan(scores), np.nan, (scores <= radius).astype(np.float64))
        return self._regions_around(F, half, radius, _without(covered, outside), scatter)

    def learn(self, regions: Regions, Y: Any, later: Any = 0) -> Regions:
        """Learn how far off predictions were, from outputs that came after others had been predicted.

        What is scored is the region that was given. So `regions` and `learn` in turn are `regions_then_learn`, and with
        other rows in between they are the same with labels that come late, in any order.

        Parameters
        ----------
        regions : what `regions` returned for these rows, when they were predicted
        Y : (n, d) or (n,) their outputs, nan where missing
        later : int or (n,)
            How many rows were predicted after each of these, before its output came. `ACI` takes smaller steps then.

        Returns
        -------
        The regions, with `covered`
        """
        with self._transaction() as work:
            return work._learn_late(regions, Y, later)

    def _learn_late(self, regions: Regions, Y: Any, later: Any) -> Regions:
        held, R, covered = self._held(regions, Y)
        seen, missed = ~np.isnan(R), held == 0
        score, after = self._started(R.shape[1]), np.broadcast_to(later, len(R)).tolist()
        for t in range(len(R)):
            if score is None:
                for q, tracker in enumerate(self.trackers_):
                    tracker.update(float(np.abs(R[t, q])), bool(missed[t, q]), after[t])
            else:
                _learn_joint(self.trackers_[0], score, R[t], seen[t], bool(missed[t, 0]), after[t])
        return replace(regions, covered=covered)

    def with_outcomes(self, regions: Regions, Y: Any) -> Regions:
        """The regions with what they covered of the outputs Y, which may be missing."""
        return replace(regions, covered=self._held(regions, Y)[2])

    def _held(self, regions: Regions, Y: Any) -> tuple[Array, Array, Array]:
        """(n, k) whether outcomes were within the radius, nan where missing; residuals; `held` and within bounds."""
        F = unnamed(regions.predictions)
        F, Y, R, outside = self._residuals(F, np.reshape(unnamed(Y), F.shape))
        if self.region == "each":
            held = np.where(np.isnan(R), np.nan, np.abs(R) <= regions.radius)
        else:
            # A region that holds nothing does not hold its prediction either.
            held = regions.contains(Y) * (regions.radius >= 0)
        return held, R, _without(held, outside)

    @reads_snapshot
    def regions(self, F: Any) -> Regions:
        """The region around each of these predictions as things are now; nothing is learned."""
        F = np.asarray(F, dtype=np.float64)
        F = self.within_bounds(F.reshape(len(F), -1))
        n, d = F.shape
        score = self._started(d)
        radius = np.array([tracker.radius() for tracker in self.trackers_])
        half = np.maximum(radius, 0.0) if score is None else score.half_widths(float(radius[0]))
        scatter = None if score is None else score.scatter()
        unknown = np.full((n, len(radius)), np.nan)
        shapes = None if scatter is None else np.broadcast_to(scatter, (n, d, d)).copy()
        return self._regions_around(F, half, np.tile(radius, (n, 1)), unknown, shapes)

    def _regions_around(
        self, F: Array, half: Array, radius: Array, covered: Array, scatter: Array | None = None
    ) -> Regions:
        """Regions around the centres F (n, d), whose ends are cut off at the bounds."""
        half = np.where(np.isnan(F), np.nan, half)
        with np.errstate(over="ignore"):
            return Regions(F, self.within_bounds(F - half), self.within_bounds(F + half), radius, covered, scatter)

    def within_bounds(self, F: Array) -> Array:
        """Values (n, d) of the outputs, clipped to their bounds if these have some."""
        return F if self.bounds is None else np.clip(F, *as_bounds(self.bounds, F.shape[1]))

    def _residuals(self, F: Any, Y: Any) -> tuple[Array, Array, Array, Mask | None]:
        """Predictions and outputs (n, d), clipped to bounds; residuals, nan where missing; those out of bounds."""
        F, Y = (np.asarray(A, dtype=np.float64) for A in (F, Y))
        if F.shape != Y.shape or F.ndim not in (1, 2):
            raise ValueError(f"F and Y must have the same shape (n, d) or (n,), got {F.shape} and {Y.shape}")
        if F.ndim == 1:
            F, Y = F[:, None], Y[:, None]
        outside, seen = None, np.isfinite(Y)
        if self.bounds is not None:
            low, high = as_bounds(self.bounds, F.shape[1])
            outside = ((low > Y) | (high < Y)) & seen
            if outside.any():
                row, q = np.argwhere(outside)[0]
                warnings.warn(
                    f"outcomes outside their bounds: {int(outside.sum())}, the first of them {Y[row, q]:g} of output "
                    f"{q}, whose bounds are {low[q]:g} and {high[q]:g}. They count as missed, so that coverage may "
                    "fall below what was asked for: widen the bounds or correct the data",
                    RuntimeWarning,
                    stacklevel=4,
                )
            F, Y = np.clip(F, low, high), np.where(seen, np.clip(Y, low, high), Y)
        # A missing prediction of an output that is there is a miss; an output that is not there says nothing.
        with np.errstate(over="ignore", invalid="ignore"):
            R = np.where(np.isnan(F), np.inf, Y - F)
        return F, Y, np.where(seen, R, np.nan), outside

    def _started(self, d: int) -> JointScore | None:
        """The score of all outputs at once, None for an interval for each; the state is made at the first call."""
        if not hasattr(self, "trackers_"):
            miss = 1.0 - in_interval(self.coverage, "coverage", 1e-6, 1 - 1e-6)
            if self.region not in ("each", "box", "ellipsoid"):
                raise ValueError(f"region must be 'each', 'box', 'ellipsoid', got {self.region!r}")
            decay = 1.0 if self.memory is None else 1.0 - 1.0 / check_int(self.memory, "memory", least=2)
            joint = (
                None if self.region == "each" else JointScore(decay, self.region == "ellipsoid", *np.zeros((2, d, d)))
            )
            self.score_: JointScore | None = joint
            self.trackers_: list[Tracker] = [self._tracker(miss) for _ in range(d if self.region == "each" else 1)]
        known = len(self.trackers_) if self.score_ is None else len(self.score_.weight)
        if known != d:
            raise ValueError(f"{type(self).__name__} has seen {known} outputs, got {d}: use a new one")
        return self.score_


def _without(covered: Array, outside: Mask | None) -> Array:
    """(n, k) what was covered, less what was out of bounds: any output of a row, where there is one region for all."""
    if outside is None:
        return covered
    out = outside if covered.shape == outside.shape else outside.any(axis=1, keepdims=True)
    result: Array = np.where(out, 0.0, covered)
    return result


def _learn_joint(
    tracker: Tracker, score: JointScore, r: Array, seen: Array, missed: bool | None = None, later: int = 0
) -> float:
    """The score of the residuals (d,) of a row, which the tracker and the moments behind the score learn."""
    found = score.score(r, seen)
    tracker.update(found if score.ready(seen) else nan, missed, later)
    score.add(r, seen)
    return found


# Quantiles of the last scores, brought up to date now and then: intervals for streams of millions of rows.
#
# With m scores in the window, the radius is the ceil((m + 1) coverage)-th smallest of them (infinite if there are
# fewer). If the next score is exchangeable with those of the window, it exceeds the radius with probability at most
# 1 - coverage: split conformal prediction (Vovk, Gammerman and Shafer, 2005) on a window that moves with the stream.
#
# Where the next scores are not like those of the window (a noise that grows, or that comes and goes with the time of
# day), the quantile of the level 1 - a is taken, and after each block of n scores that had the same radius, M of which
# exceeded it,
#
#     a <- a + rate (n (1 - coverage) - M):
#
# adaptive conformal inference (Gibbs and Candès, 2021), a block at a time. Summed over the stream, the share of misses
# is 1 - coverage up to |a - a_1| / (rate times the number of scores), as long as a stays within 0 and 1, where it is
# cut off: for a = 0 the radius is the largest score of the window, so that bands stay finite.

#: Parts of the outcomes that the intervals of a report should hold.
LEVELS = (0.5, 0.8, 0.9, 0.95)

#: Level of the intervals that are kept with the last rows, unless another one is asked for.
LEVEL = 0.9

#: Scores before there is a radius for the first time.
MIN_SCORES = 8

#: How far the odds of a miss follow those of another level, at most.
MAX_ODDS_RATIO = 10.0

#: What each miss takes from the level of the quantile.
RATE = 0.001


@dataclass
class RollingTracker(Tracker, kind="rolling"):
    miss: float
    window: int
    step: int
    current: float = inf
    #: Scores so far, and how many are left until the next refresh.
    t: int = 0
    left: int = MIN_SCORES
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
        if conformal_rank(m, 1.0 - self.miss) > m:
            self.current = inf
            return
        k = min(max(conformal_rank(m, 1.0 - (self.miss + self.shift)), 1), m)
        self.current = float(np.partition(self.scores, k - 1)[k - 1])

    def at(self, miss: float) -> RollingTracker:
        """The same scores with another frequency of misses, whose odds change as the misses so far have asked for."""
        factor = _odds(self.miss + self.shift) / _odds(self.miss)
        odds = _odds(miss) * min(max(factor, 1.0 / MAX_ODDS_RATIO), MAX_ODDS_RATIO)
        shift = self.shift if miss == self.miss else odds / (1.0 + odds) - miss
        other = replace(self, miss=miss, shift=shift)
        other.refresh()
        return other


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
    coverage, region, memory, bounds : see `ACI`
    window : int
        Number of last scores whose quantile is taken.
    step : int
        Number of scores between two refreshes of the quantile.
    rate : float in [0, 1]
        How far a miss moves the level of the quantile; 0 takes the quantile of the level `coverage` always.

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
    """How the intervals of one level did, (d,): share and number of outcomes, median of the widths in the last rows."""

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
        # Not in place: a snapshot of this object may still be read.
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
