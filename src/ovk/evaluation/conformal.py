"""Regions around the predictions of a stream, with a given long-run coverage.

A tracker computes a radius for each score s_t from the scores before it. The output is missed if s_t exceeds the
radius, and the tracker adjusts the radius until misses have the required frequency, for any sequence of scores. The
score of an output is |r|, r its residual; a joint region has one score for all outputs:

    box        max_q |r_q| / s_q:     a box that contains all outputs
    ellipsoid  sqrt(r' S^-1 r):       an ellipsoid that contains all outputs

s and S are the running root mean squares and second moments of the residuals before the row, about zero, so that a
biased forecast gets a larger region. If some outputs are missing, the others are compared with the projection of the
region: the sides of the box, or sqrt(r_o' S_oo^-1 r_o) for the ellipsoid.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from dataclasses import dataclass, field, replace
from math import inf, nan
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ovk.base import (
    SIZE,
    Array,
    Mask,
    Parameters,
    Registered,
    State,
    Transactional,
    check_choice,
    check_int,
    in_interval,
    reads_snapshot,
    unnamed,
)
from ovk.evaluation.scaling_and_drift import ratio
from ovk.intervals import Regions, conformal_rank, shrunk

#: Residuals of an output that its scale must be estimated from before joint scores are learned.
MIN_RESIDUALS = 10


def as_bounds(bounds: Any, d: int) -> tuple[Array, Array]:
    """(d,) lower and upper bounds of the outputs, infinite where there is none.

    `bounds`: (low, high) for all outputs, or d such pairs; None for an open end. With low <= y <= high the prediction f
    is clipped, c = min(max(f, low), high), and so is the interval of radius r:

        [c - r, c + r]  within  [low, high],      scores |y - c|

    An outcome within its bounds lies in the clipped interval if and only if |y - c| <= r, so the coverage does not
    change, and no score increases because |y - c| <= |y - f|.
    """
    try:
        one = len(bounds) == 2 and all(end is None or isinstance(end, Real) for end in bounds)
        pairs = [(None, None) if pair is None else pair for pair in ([bounds] * d if one else bounds)]
        ends = np.array([[-inf if low is None else low, inf if high is None else high] for low, high in pairs])
    except (TypeError, ValueError):
        ends = np.empty(0)
    # The comparison is False for nan.
    if ends.shape == (d, 2) and ends.dtype.kind in "iuf" and (ends[:, 0] < ends[:, 1]).all():
        low, high = ends.astype(np.float64).T
        return low, high
    raise ValueError(
        f"bounds must be a pair (low, high) with low < high, None for an open end, or one such pair for each of the "
        f"{d} outputs, got {bounds!r}"
    )


@dataclass
class JointScore(State):
    """One score for all outputs of a row, from the second moments (d, d) of the residuals so far.

    Moments are over the rows in which both outputs were observed. Each row multiplies the earlier weights by `decay`.
    """

    _stored = {"weight": "d d", "squares": "d d"}

    decay: float
    ellipsoid: bool
    weight: Array
    squares: Array
    _known: tuple[Array, Array] | None = field(default=None, init=False)

    def score(self, r: Array, seen: Array) -> float:
        """The score of the residuals (d,), nan where all are missing."""
        if not seen.any():
            return nan
        with np.errstate(over="ignore"):
            if not self.ellipsoid:
                return float(np.max(np.abs(r[seen]) / self.scales()[seen]))
            # In units of each output's scale, so that outputs of 1e-200 and of 1e200 can be factorised.
            s, C = self.correlation()
            z = r[seen] / s[seen]
            if not np.isfinite(z).all():
                return inf
            return float(np.sqrt(z @ cho_solve(cho_factor(C[np.ix_(seen, seen)], lower=True), z)))

    def learn(self, tracker: Tracker, r: Array, seen: Array, missed: bool | None = None, delay: int = 0) -> float:
        """The score of the residuals (d,) of a row; the tracker and the moments learn from it."""
        found = self.score(r, seen)
        tracker.update(found if self.ready(seen) else nan, missed, delay)
        self.add(r, seen)
        return found

    def half_widths(self, radius: float) -> Array:
        """(d,) half the sides of the box around the region of that radius, 0 for an empty region."""
        with np.errstate(over="ignore"):
            return max(radius, 0.0) * self.scales()

    def scatter(self) -> Array | None:
        """(d, d) covariance that shapes the ellipsoid."""
        if not self.ellipsoid:
            return None
        s, C = self.correlation()
        return np.asarray(np.outer(s, s) * C)

    def ready(self, seen: Array) -> bool:
        """Whether the scales of these outputs are estimated from enough residuals."""
        known = np.diagonal(self.weight)[seen]
        return bool((known >= min(MIN_RESIDUALS, 0.5 / max(1.0 - self.decay, 1e-300))).all())

    def add(self, r: Array, seen: Array) -> None:
        """Add the residuals (d,) of a row to the moments."""
        known = np.where(seen, r, 0.0)
        with np.errstate(over="ignore"):
            outer = np.outer(known, known)
        # An overflowing square would remain in the sums: the row counts as a miss, but not in the moments.
        if np.isfinite(outer).all():
            self.weight = self.decay * self.weight + np.outer(seen, seen)
            self.squares = self.decay * self.squares + outer
            self._known = None

    def scales(self) -> Array:
        """(d,) root mean squares; for an output without residuals the mean of the others, or 1."""
        weight, squares = np.diagonal(self.weight), np.diagonal(self.squares)
        known = (weight > 0) & (squares > 0)
        if not known.any():
            return np.ones(len(weight))
        s = np.sqrt(np.where(known, squares, 1.0) / np.where(known, weight, 1.0))
        return np.asarray(np.where(known, s, s[known].mean()))

    def correlation(self) -> tuple[Array, Array]:
        """Scales (d,), and positive definite correlations (d, d) about zero, shrunk towards 0 when rows are few."""
        if self._known is None:
            s, both_seen = self.scales(), self.weight > 0
            C = np.where(both_seen, self.squares / np.where(both_seen, self.weight, 1.0), 0.0) / np.outer(s, s)
            self._known = s, shrunk(C, float(np.diagonal(self.weight).max(initial=0.0)))
        return self._known


@dataclass
class ScoreWindow(State):
    """The last `size` scores, in the order of the stream and sorted."""

    size: int
    recent: list[float] = field(default_factory=list)
    ordered: list[float] = field(default_factory=list)

    def add(self, score: float) -> None:
        if len(self.recent) == self.size:
            del self.ordered[bisect_left(self.ordered, self.recent.pop(0))]
        self.recent.append(score)
        insort(self.ordered, score)

    def quantile(self, level: float) -> float:
        """The conformal quantile, infinite if it needs more scores than there are."""
        k = conformal_rank(len(self.ordered), level)
        return inf if k > len(self.ordered) else self.ordered[max(k, 1) - 1]

    def finite_quantile(self, level: float) -> float:
        """The conformal quantile, or the largest score while there are too few."""
        found = self.quantile(level)
        return found if found < inf else self.largest()

    def largest(self) -> float:
        """The largest score, 0 if there is none."""
        return self.ordered[-1] if self.ordered else 0.0

    def spread(self) -> float:
        """The difference of the largest and the smallest score, 0 if there is none."""
        return self.ordered[-1] - self.ordered[0] if self.ordered else 0.0


class Tracker(State, ABC):
    """The radius of one sequence of scores."""

    @abstractmethod
    def radius(self) -> float:
        """The radius of the next score: infinite while there are too few scores, negative for an empty region."""

    @abstractmethod
    def update(self, score: float, missed: bool | None = None, delay: int = 0) -> None:
        """Learn from the score, nan for a row without one.

        `missed`: whether it exceeded its radius, if that was not the current one. `delay`: number of rows that were
        predicted between this row and its outcome.
        """

    def radii_then_update(self, scores: Array) -> Array:
        """(n,) the radius of each of the scores (n,), computed from the scores before it; then learn the scores."""
        radii = np.empty(len(scores))
        for t, score in enumerate(scores.tolist()):
            radii[t] = self.radius()
            self.update(score)
        return radii


@dataclass(eq=False, repr=False)
class Conformal(Transactional, Parameters, ABC):
    """Base class of the methods; `ACI` describes the parameters.

    The state is created at the first rows: a tracker for each output, or one tracker and a `JointScore`.
    """

    coverage: float = 0.9
    region: str = "each"
    memory: int | None = None
    bounds: Any = field(default=None, kw_only=True)

    _state_classes = {"score_": JointScore, "trackers_": Tracker}
    _stored = {"score_": JointScore | None, "trackers_": list[Tracker]}

    @abstractmethod
    def _tracker(self, miss: float) -> Tracker:
        """A new tracker for misses with frequency `miss`."""

    def regions_then_learn(self, F: Any, Y: Any) -> Regions:
        """A region for each prediction, computed from earlier rows only; then learn from the outcomes.

        F and Y are predictions and outputs (n, d) or (n,) in the order of the stream, nan where missing.
        """
        with self._transaction() as work:
            return work._learn(F, Y)

    def _learn(self, F: Any, Y: Any) -> Regions:
        F, Y, R, outside = self._residuals(F, Y)
        (n, d), seen = F.shape, ~np.isnan(R)
        score = self._joint_score(d)
        scatter = None
        if score is None:
            # The score |r| does not depend on earlier rows: all rows in one call.
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
                scores[t] = score.learn(tracker, R[t], seen[t])
        covered = np.where(np.isnan(scores), np.nan, (scores <= radius).astype(np.float64))
        return self._regions_around(F, half, radius, _outside_missed(covered, outside), scatter)

    def learn(self, regions: Regions, Y: Any, delay: Any = 0) -> Regions:
        """Learn from outcomes that arrive after other rows were predicted; return the regions with `covered`.

        `regions` (n rows) are those returned by the method `regions` when the rows were predicted, and Y (n, d) or (n,)
        their outcomes, in any order, nan where missing. `delay`, an int or (n,), is the number of rows that were
        predicted between each row and its outcome; `ACI` then takes smaller steps.
        """
        with self._transaction() as work:
            held, R, covered = work._outcomes(regions, Y)
            seen, missed = ~np.isnan(R), held == 0
            score, delays = work._joint_score(R.shape[1]), np.broadcast_to(delay, len(R)).tolist()
            for t in range(len(R)):
                if score is not None:
                    score.learn(work.trackers_[0], R[t], seen[t], bool(missed[t, 0]), delays[t])
                    continue
                for q, tracker in enumerate(work.trackers_):
                    tracker.update(float(np.abs(R[t, q])), bool(missed[t, q]), delays[t])
        return replace(regions, covered=covered)

    def with_outcomes(self, regions: Regions, Y: Any) -> Regions:
        """The regions, with `covered` for the outcomes Y."""
        return replace(regions, covered=self._outcomes(regions, Y)[2])

    def _outcomes(self, regions: Regions, Y: Any) -> tuple[Array, Array, Array]:
        """(n, k) whether outcomes were within the radius, nan where missing; residuals; within radius and bounds."""
        F = unnamed(regions.predictions)
        F, Y, R, outside = self._residuals(F, np.reshape(unnamed(Y), F.shape))
        if self.region == "each":
            held = np.where(np.isnan(R), np.nan, np.abs(R) <= regions.radius)
        else:
            # An empty region does not contain its centre either.
            held = regions.contains(Y) * (regions.radius >= 0)
        return held, R, _outside_missed(held, outside)

    @reads_snapshot
    def regions(self, F: Any) -> Regions:
        """The region around each of the predictions (n, d) or (n,), from all rows so far; nothing is learned."""
        F = np.asarray(F, dtype=np.float64)
        F = self.within_bounds(F.reshape(len(F), -1))
        n, d = F.shape
        score = self._joint_score(d)
        radius = np.array([tracker.radius() for tracker in self.trackers_])
        half = np.maximum(radius, 0.0) if score is None else score.half_widths(float(radius[0]))
        scatter = None if score is None else score.scatter()
        unknown = np.full((n, len(radius)), np.nan)
        shapes = None if scatter is None else np.broadcast_to(scatter, (n, d, d)).copy()
        return self._regions_around(F, half, np.tile(radius, (n, 1)), unknown, shapes)

    def _regions_around(
        self, F: Array, half: Array, radius: Array, covered: Array, scatter: Array | None = None
    ) -> Regions:
        """Regions around the centres F (n, d), clipped to the bounds."""
        half = np.where(np.isnan(F), np.nan, half)
        with np.errstate(over="ignore"):
            return Regions(F, self.within_bounds(F - half), self.within_bounds(F + half), radius, covered, scatter)

    def within_bounds(self, F: Array) -> Array:
        """Values (n, d) of the outputs, clipped to their bounds if there are any."""
        return F if self.bounds is None else np.clip(F, *as_bounds(self.bounds, F.shape[1]))

    def _residuals(self, F: Any, Y: Any) -> tuple[Array, Array, Array, Mask | None]:
        """Predictions and outputs (n, d), clipped to bounds; residuals, nan where missing; outputs out of bounds."""
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
                    f"outcomes outside their bounds: {int(outside.sum())}, the first {Y[row, q]:g} of output {q} with "
                    f"bounds {low[q]:g} and {high[q]:g}. They count as missed, and the coverage may fall below "
                    f"{self.coverage:g}: widen the bounds or correct the data",
                    RuntimeWarning,
                    stacklevel=4,
                )
            F, Y = np.clip(F, low, high), np.where(seen, np.clip(Y, low, high), Y)
        # A missing prediction of an observed output is a miss; a missing output is not counted.
        with np.errstate(over="ignore", invalid="ignore"):
            R = np.where(np.isnan(F), np.inf, Y - F)
        return F, Y, np.where(seen, R, np.nan), outside

    def _joint_score(self, d: int) -> JointScore | None:
        """The joint score, None for region "each"; the first call creates the state."""
        if not hasattr(self, "trackers_"):
            miss = 1.0 - in_interval(self.coverage, "coverage", 1e-6, 1 - 1e-6)
            check_choice(self.region, "region", ("each", "box", "ellipsoid"))
            decay = 1.0 if self.memory is None else 1.0 - 1.0 / check_int(self.memory, "memory", least=2)
            each, moments = self.region == "each", np.zeros((2, d, d))
            self.score_: JointScore | None = None if each else JointScore(decay, self.region == "ellipsoid", *moments)
            self.trackers_: list[Tracker] = [self._tracker(miss) for _ in range(d if each else 1)]
        known = len(self.trackers_) if self.score_ is None else len(self.score_.weight)
        if known != d:
            raise ValueError(f"{type(self).__name__} has learned from {known} outputs, got {d}: use a new one")
        return self.score_


def _outside_missed(covered: Array, outside: Mask | None) -> Array:
    """`covered` (n, k), 0 where an output is out of bounds: any output of the row for a joint region."""
    if outside is None:
        return covered
    out = outside if covered.shape == outside.shape else outside.any(axis=1, keepdims=True)
    return np.where(out, 0.0, covered)


# Rolling quantiles that are refreshed once per block of scores, for streams of millions of rows.
#
# With m scores in the window, the radius is the ceil((m + 1) coverage)-th smallest of them (infinite if there are
# fewer). If the next score is exchangeable with those of the window, it exceeds the radius with probability at most
# 1 - coverage: split conformal prediction (Vovk, Gammerman and Shafer, 2005) on a moving window.
#
# For scores that are not exchangeable (growing or periodic noise) the quantile has the level 1 - a, and after each
# block of n scores with the same radius, M of which exceeded it,
#
#     a <- a + rate (n (1 - coverage) - M):
#
# adaptive conformal inference (Gibbs and Candès, 2021), one block at a time. Over the stream, the share of misses is
# 1 - coverage up to |a - a_1| / (rate times the number of scores), as long as a stays within [0, 1], to which it is
# clipped: for a = 0 the radius is the largest score of the window, so that intervals stay finite.

#: Levels of the intervals in a report.
REPORTED_LEVELS = (0.5, 0.8, 0.9, 0.95)

#: Default level of the intervals that are stored with the last rows.
DEFAULT_LEVEL = 0.9

#: Number of scores at which the first radius is computed.
MIN_SCORES = 8

#: Maximum factor between the odds of a miss at another level and at the tracked one.
MAX_ODDS_RATIO = 10.0

#: Default step of the quantile level at each miss.
DEFAULT_RATE = 0.001


@dataclass
class RollingTracker(Tracker, kind="rolling"):
    _stored = {"step": SIZE, "left": SIZE, "current": "* inf", "scores": "n"}

    miss: float
    window: int
    step: int
    current: float = inf
    #: Number of scores so far, and until the next refresh.
    t: int = 0
    left: int = MIN_SCORES
    scores: Array = field(default_factory=lambda: np.empty(0))
    rate: float = 0.0
    #: a - (1 - coverage), the adaptation to the misses so far.
    shift: float = 0.0
    #: Number of scores with a finite radius since the last refresh, and of those that exceeded it.
    tested: int = 0
    missed: int = 0

    def radius(self) -> float:
        return self.current

    def update(self, score: float, missed: bool | None = None, delay: int = 0) -> None:
        if missed is not None and not np.isnan(score):
            # The score was compared with an earlier radius.
            self.missed += int(missed) - int(score > self.current)
        self.radii_then_update(np.array([score]))

    def radii_then_update(self, scores: Array) -> Array:
        radii = np.full(len(scores), self.current)
        seen = np.flatnonzero(~np.isnan(scores))
        # Refreshes happen at fixed scores of the stream, independent of the chunks.
        while len(seen) >= self.left:
            now, seen = seen[: self.left], seen[self.left :]
            self._add(scores[now])
            self._adapt()
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

    def _adapt(self) -> None:
        moved = self.shift + self.rate * (self.tested * self.miss - self.missed)
        self.shift = min(max(moved, -self.miss), 1.0 - self.miss)
        self.tested = self.missed = 0

    def refresh(self) -> None:
        self.scores = self.scores[-self.window :]
        m = len(self.scores)
        if conformal_rank(m, 1.0 - self.miss) > m:
            self.current = inf
            return
        k = min(max(conformal_rank(m, 1.0 - (self.miss + self.shift)), 1), m)
        self.current = float(np.partition(self.scores, k - 1)[k - 1])

    def at(self, miss: float) -> RollingTracker:
        """A tracker of the same scores for another frequency of misses, with the same adaptation of the odds."""
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
    """Intervals of a stream from a rolling quantile of recent scores, refreshed once per block of scores.

    It is the fastest method, at a few per cent of the time of a learner, and gives intervals for any other coverage at
    any time (`at`). If future rows resemble recent ones, the coverage is correct immediately; otherwise the quantile
    level adapts to the misses, and the coverage is correct in the long run. `ACI` adapts at every row and reacts to
    changes earlier.

    The radius is refreshed after 8, 16, 32, ... scores, and every `step` scores once there are `step` of them. Chunks
    of any sizes give the same intervals.

    Parameters
    ----------
    coverage, region, memory
        As in `ACI`.
    window : int
        Number of recent scores in the quantile.
    step : int
        Number of scores between two refreshes.
    rate : float in [0, 1]
        Step of the quantile level at each miss; 0 always uses the level `coverage`.
    bounds
        As in `ACI`.

    See Also
    --------
    ACI, ConformalPID, StronglyAdaptive, RecentErrors

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import RollingConformal
    >>> y = np.random.default_rng(0).standard_normal(5000)
    >>> method = RollingConformal(0.9)
    >>> regions = method.regions_then_learn(np.zeros(5000), y)
    >>> print(f"{np.nanmean(regions.covered):.2f}")
    0.90
    >>> method.at(0.5).regions(np.zeros(1)).upper.round(1)
    array([[0.7]])
    """

    window: int = 2000
    step: int = 256
    rate: float = DEFAULT_RATE

    def _tracker(self, miss: float) -> Tracker:
        rate = in_interval(self.rate, "rate", 0.0, 1.0)
        return RollingTracker(miss, check_int(self.window, "window"), check_int(self.step, "step"), rate=rate)

    @reads_snapshot
    def at(self, coverage: float) -> RollingConformal:
        """The same method for another coverage, with the state of all rows so far."""
        miss = 1.0 - in_interval(coverage, "coverage", 1e-6, 1 - 1e-6)
        other = self.replace(coverage=coverage)
        if hasattr(self, "trackers_"):
            other.score_ = self.score_
            other.trackers_ = [tracker.at(miss) for tracker in self.trackers_ if isinstance(tracker, RollingTracker)]
        return other

    @reads_snapshot
    def half_widths(self, coverage: float, d: int) -> Array:
        """(d,) half widths of the intervals of ``at(coverage)``, ten times faster; infinite after too few rows."""
        if self.region != "each":
            raise ValueError(f"region must be 'each' for half widths, got {self.region!r}")
        miss = 1.0 - in_interval(coverage, "coverage", 1e-6, 1 - 1e-6)
        if not hasattr(self, "trackers_"):
            return np.full(d, inf)
        return np.array([tracker.at(miss).current for tracker in self.trackers_ if isinstance(tracker, RollingTracker)])


class IntervalSummary(NamedTuple):
    """Intervals of one level, (d,) each: share of covered outcomes, number of outcomes, median width of recent rows."""

    level: float
    coverage: Array
    tested: Array
    width: Array

    @property
    def percent(self) -> str:
        """The level as text, such as "97.5%"."""
        return f"{100 * self.level:g}%"


@dataclass
class RecentErrors(State, Registered):
    """Predictions, intervals and outcomes of the last rows of a stream, and the coverage over all rows.

    The intervals are those of `RollingConformal` at the levels 0.5, 0.8, 0.9, 0.95 and `level`. Create it with `empty`,
    which takes the number of outputs d. For unordered rows, such as those of a table, use ``empty(d, rate=0)``.

    Parameters
    ----------
    Y, F : (m, d) arrays
        Outcomes and predictions of the last m <= `size` rows.
    half : (m, d) array
        Half widths of their intervals at `level`, computed before the outcomes were known.
    size : int
        Maximum number of rows stored.
    intervals : list of RollingConformal
        The method for each level.
    tested, inside : (levels, d) arrays
        Number of outcomes of all rows with a finite interval, and of those inside it.
    instants : (m,) array or None
        Times of the last rows in seconds since 1970; None if no row had a time.
    level : float
        The level shown in tables and plots.

    See Also
    --------
    ovk.plotting.RecentDisplay, ovk.plotting.CalibrationDisplay, ovk.plotting.ResidualDisplay

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import RecentErrors
    >>> rng = np.random.default_rng(0)
    >>> recent = RecentErrors.empty(1, size=500)
    >>> for _ in range(20):
    ...     half = recent.update(np.zeros((100, 1)), rng.standard_normal((100, 1)))
    >>> print(recent.widths(0.9).round(1), recent.shown.coverage.round(1))
    [1.8] [0.9]
    """

    _stored = {"Y F": "n d nan", "half": "n d inf", "tested inside": "* inf", "instants": "n nan | None"}

    Y: Array
    F: Array
    half: Array
    size: int
    intervals: list[RollingConformal]
    tested: Array
    inside: Array
    instants: Array | None = None
    level: float = DEFAULT_LEVEL

    @classmethod
    def empty(cls, d: int, size: int = 2000, level: float = DEFAULT_LEVEL, rate: float = DEFAULT_RATE) -> RecentErrors:
        """An object for d outputs that stores the last `size` rows, without any row yet."""
        level = in_interval(level, "level", 1e-6, 1 - 1e-6)
        intervals = [RollingConformal(one, window=size, rate=rate) for one in sorted({*REPORTED_LEVELS, level})]
        Y, F, half = np.empty((3, 0, d))
        tested, inside = np.zeros((2, len(intervals), d))
        return cls(Y, F, half, size, intervals, tested, inside, level=level)

    @property
    def levels(self) -> Array:
        """(levels,) the levels of the intervals."""
        return np.array([method.coverage for method in self.intervals])

    def update(self, F: Array, Y: Array, instants: Array | None = None) -> Array:
        """Test the intervals on the next rows, then store the rows; F and Y (n, d), nan where missing.

        `instants` (n,) are their times, if known. Returns the half widths (n, d) of the intervals at `level`, each
        computed from earlier rows.
        """
        # Rows without a prediction do not count.
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
            known_times = (self.instants, self.Y), (instants, Y)
            before, now = (np.full(len(rows), np.nan) if known is None else known for known, rows in known_times)
            self.instants = np.concatenate([before, now])[-self.size :]
        # Not in place: a snapshot of this object may still be read.
        self.tested, self.inside = self.tested + tested, self.inside + inside
        pairs = (self.Y, Y), (self.F, F), (self.half, half)
        self.Y, self.F, self.half = (np.concatenate(pair)[-self.size :] for pair in pairs)
        return half

    def merge(self, other: RecentErrors) -> None:
        """Store the last rows of both, alternately, and add the counts; the intervals restart from the stored rows."""
        ages = np.concatenate([np.arange(len(rows), 0, -1) for rows in (self.Y, other.Y)])
        order = np.argsort(-ages, kind="stable")
        pairs = ((self.Y, other.Y), (self.F, other.F), (self.half, other.half))
        Y, F, half = (np.concatenate(pair)[order][-self.size :] for pair in pairs)
        merged = RecentErrors.empty(Y.shape[1], self.size, self.level, self.intervals[0].rate)
        merged.update(F, Y)
        merged.half, merged.tested, merged.inside = half, self.tested + other.tested, self.inside + other.inside
        vars(self).update(vars(merged))

    def widths(self, level: float) -> Array:
        """(d,) half widths of intervals of that level, from all rows so far; infinite after too few rows."""
        nearest = min(self.intervals, key=lambda method: abs(method.coverage - level))
        return nearest.half_widths(level, self.Y.shape[1])

    @property
    def coverage(self) -> Array:
        """(levels, d) share of the outcomes inside their intervals."""
        return ratio(self.inside, self.tested)

    @property
    def shown(self) -> IntervalSummary:
        """Coverage and width of the intervals at `level`."""
        k = int(np.flatnonzero(self.levels == self.level)[0])
        widths = np.where(np.isfinite(self.half), 2.0 * self.half, np.nan)
        # nanmedian would warn about outputs without any interval.
        known = [column[np.isfinite(column)] for column in widths.T]
        medians = np.array([np.median(column) if len(column) else np.nan for column in known])
        return IntervalSummary(self.level, self.coverage[k], self.tested[k], medians)
