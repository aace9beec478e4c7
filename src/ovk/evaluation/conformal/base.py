"""What methods for intervals along a stream have in common.

A tracker keeps a radius for scores s_t that come one at a time, from the scores before: an output is missed if s_t
exceeds the radius, and the tracker moves the radius so that misses become as frequent as they should be, whatever the
scores do.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf, nan
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ovk.base import Array, Mask, Parameters, State, Transactional, check_int, in_interval, reads_snapshot, unnamed
from ovk.intervals import Regions

# Outputs that cannot be below or above some number, such as 0 for a power and 100 for a percentage.
#
# With bounds low <= y <= high, the prediction f is first drawn in to them, c = min(max(f, low), high), and the interval
# of radius r is cut off where no outcome can be:
#
#     [c - r, c + r]  within  [low, high],      scores |y - c|
#
# An outcome within its bounds lies in what is left if and only if |y - c| <= r. So misses are what they were, and with
# them the coverage, and since |y - c| <= |y - f| no score has grown.


class Bounds(NamedTuple):
    """Least and largest values (d,) of the outputs, infinite where there is none."""

    low: Array
    high: Array

    def clipped(self, values: Array) -> Array:
        """The values (n, d), drawn in to the bounds; nan stays."""
        return np.clip(values, self.low, self.high)

    def outside(self, Y: Array) -> Mask:
        """(n, d) where outcomes are that cannot be."""
        return (self.low > Y) | (self.high < Y)


def as_bounds(bounds: Any, d: int) -> Bounds | None:
    """The bounds of d outputs; None where there are none.

    Parameters
    ----------
    bounds : (low, high) for all outputs, or d such pairs; None for what is not bounded

    >>> as_bounds([(0, None), None, (0, 100)], 3)
    Bounds(low=array([  0., -inf,   0.]), high=array([ inf,  inf, 100.]))
    >>> as_bounds((0, None), 2).high
    array([inf, inf])
    """
    if bounds is None:
        return None
    if not isinstance(bounds, (Sequence, np.ndarray)) or isinstance(bounds, str):
        raise ValueError(_refused(bounds, d))
    one = len(bounds) == 2 and all(end is None or isinstance(end, Real) for end in bounds)
    pairs = [bounds] * d if one else list(bounds)
    if len(pairs) != d:
        raise ValueError(_refused(bounds, d))
    ends = [_pair(pair, bounds, d) for pair in pairs]
    return Bounds(*np.array(ends, dtype=np.float64).reshape(d, 2).T)


def _pair(pair: Any, bounds: Any, d: int) -> tuple[float, float]:
    low, high = (None, None) if pair is None else pair if np.ndim(pair) == 1 and len(pair) == 2 else (np.nan, np.nan)
    if not all(end is None or isinstance(end, Real) for end in (low, high)):
        raise ValueError(_refused(bounds, d))
    ends = -np.inf if low is None else float(low), np.inf if high is None else float(high)
    # Not the other way round: nan is refused as well.
    if not ends[0] < ends[1]:
        raise ValueError(_refused(bounds, d))
    return ends


def _refused(bounds: Any, d: int) -> str:
    return (
        f"bounds must be a pair (low, high) with low < high, None for an open end, or one such pair for each of the "
        f"{d} outputs, got {bounds!r}"
    )


# One number for how far the outputs of a row are from their predictions, and the region of all that are no farther.
#
#     box        max_q |r_q| / s_q:     a box that holds all outputs at once
#     ellipsoid  sqrt(r' S^-1 r):       an ellipsoid that holds all outputs at once
#
# s and S are the running root mean squares and second moments of the residuals r before the row, about zero, so that a
# biased forecast is given a larger region. Where some outputs are missing, the others are compared with the region's
# shadow: the sides of the box, or the projection of the ellipsoid, sqrt(r_o' S_oo^-1 r_o).

#: Smallest eigenvalue of a correlation matrix that is left as it is.
DEFINITE = 1e-8
#: Residuals of an output before scores are taken in units of their spread.
MIN_RESIDUALS = 10


@dataclass
class ResidualMoments(State):
    """Second moments of residuals, each over the rows in which both outputs were seen, with fading memory."""

    d: int
    decay: float
    weight: Array = field(init=False)
    squares: Array = field(init=False)

    _saved_state = ("weight", "squares")

    def __post_init__(self) -> None:
        self.weight = np.zeros((self.d, self.d))
        self.squares = np.zeros((self.d, self.d))
        self._known: tuple[Array, Array] | None = None

    def add(self, r: Array, seen: Array) -> None:
        """Add the residuals (d,) of a row."""
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
            return np.ones(self.d)
        s = np.sqrt(np.where(known, squares, 1.0) / np.where(known, weight, 1.0))
        result: Array = np.where(known, s, s[known].mean())
        return result

    def correlation(self) -> tuple[Array, Array]:
        """Scales (d,) and a positive definite matrix (d, d) of correlations about zero.

        Correlations are drawn to 0 as long as there are few rows.
        """
        if self._known is None:
            self._known = self._correlation()
        return self._known

    def _correlation(self) -> tuple[Array, Array]:
        s = self.scales()
        together = self.weight > 0
        C = np.where(together, self.squares / np.where(together, self.weight, 1.0), 0.0) / np.outer(s, s)
        rows = float(np.diagonal(self.weight).max(initial=0.0))
        C *= rows / (rows + self.d)
        np.fill_diagonal(C, 1.0)
        smallest = float(np.linalg.eigvalsh(C)[0])
        if smallest < DEFINITE:
            # Moments over different rows need not be positive together.
            C = (C + (DEFINITE - smallest) * np.eye(self.d)) / (1.0 + DEFINITE - smallest)
        return s, C


@dataclass
class JointScore(State, ABC):
    """From the residuals of a row to a score, and from a radius back to a region, as the rows so far have it.

    Attributes
    ----------
    d : outputs
    decay : what is left of a row's weight in the moments after another row
    """

    d: int
    decay: float

    _saved_state = ("moments",)
    _state_classes = {"moments": ResidualMoments}

    def __post_init__(self) -> None:
        self.moments = ResidualMoments(self.d, self.decay)

    @abstractmethod
    def score(self, r: Array, seen: Array) -> float:
        """How far the residuals (d,) are from 0, nan where none was seen."""

    def half_widths(self, radius: float) -> Array:
        """(d,) half the sides of the box around the region of that radius; 0 for one that holds nothing."""
        with np.errstate(over="ignore"):
            return max(radius, 0.0) * self.moments.scales()

    def ready(self, seen: Array) -> bool:
        """Whether the spread of these outputs is known well enough for scores to mean anything."""
        known = np.diagonal(self.moments.weight)[seen]
        return bool((known >= min(MIN_RESIDUALS, 0.5 / max(1.0 - self.decay, 1e-300))).all())

    def scatter(self) -> Array | None:
        """(d, d) the form of an ellipsoid."""
        return None

    def learn(self, r: Array, seen: Array) -> None:
        """Learn the spread from the residuals (d,) of a row."""
        self.moments.add(r, seen)


class BoxOfAll(JointScore, kind="box"):
    """max_q |r_q| / s_q: a box for all outputs."""

    def score(self, r: Array, seen: Array) -> float:
        with np.errstate(over="ignore"):
            return float(np.max(np.abs(r[seen]) / self.moments.scales()[seen])) if seen.any() else nan


class EllipsoidOfAll(JointScore, kind="ellipsoid"):
    """sqrt(r' S^-1 r): an ellipsoid for all outputs."""

    def score(self, r: Array, seen: Array) -> float:
        if not seen.any():
            return nan
        # In units of each output's own spread: outputs of 1e-200 and of 1e200 are factorised alike.
        s, C = self.moments.correlation()
        with np.errstate(over="ignore"):
            z = r[seen] / s[seen]
            if not np.isfinite(z).all():
                return inf
            return float(np.sqrt(z @ cho_solve(cho_factor(C[np.ix_(seen, seen)], lower=True), z)))

    def scatter(self) -> Array:
        s, C = self.moments.correlation()
        result: Array = np.outer(s, s) * C
        return result


#: Scores of all outputs at once, by the form of their region.
JOINT: dict[str, type[JointScore]] = {"box": BoxOfAll, "ellipsoid": EllipsoidOfAll}


@dataclass
class ScoreWindow(State):
    """The last `size` scores, with any quantile at once.

    >>> window = ScoreWindow(3)
    >>> for score in (5.0, 1.0, 2.0, 3.0):
    ...     window.add(score)
    >>> window.quantile(0.5), window.quantile(0.99), window.largest()
    (2.0, inf, 3.0)
    """

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
        """The least score that at least (n + 1) level of n scores do not exceed; infinite if it takes more than n."""
        k = ceil((len(self.ordered) + 1) * level - 1e-9)
        if k > len(self.ordered):
            return inf
        return self.ordered[max(k, 1) - 1]

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
    bounds : (low, high), or such a pair for each output; None where there is none
        What outputs cannot be below or above, such as ``(0, None)`` for a power. Predictions are drawn in to the
        bounds, and the ends of intervals and boxes are cut off there (and so is the box around an ellipsoid): coverage
        stays as it is. An outcome outside is a miss, with a warning, however wide its region was.

    Attributes
    ----------
    score_, trackers_ : the state, made at the first rows; there is a score for a region of all outputs alone

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import ACI
    >>> y = np.random.default_rng(0).exponential(size=2000)
    >>> regions = ACI(0.9, bounds=(0, None)).regions_then_learn(np.ones(2000), y)
    >>> float(regions.lower.min()), bool(abs(np.mean(regions.covered) - 0.9) < 0.01)
    (0.0, True)
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
        held, R, outside = self._held(regions, Y)
        seen, missed = ~np.isnan(R), held == 0
        score, after = self._started(R.shape[1]), np.broadcast_to(later, len(R)).tolist()
        for t in range(len(R)):
            if score is None:
                for q, tracker in enumerate(self.trackers_):
                    tracker.update(float(np.abs(R[t, q])), bool(missed[t, q]), after[t])
            else:
                _learn_joint(self.trackers_[0], score, R[t], seen[t], bool(missed[t, 0]), after[t])
        return replace(regions, covered=_without(held, outside))

    def with_outcomes(self, regions: Regions, Y: Any) -> Regions:
        """The regions with what they covered of the outputs Y, which may be missing."""
        held, _, outside = self._held(regions, Y)
        return replace(regions, covered=_without(held, outside))

    def _held(self, regions: Regions, Y: Any) -> tuple[Array, Array, Mask | None]:
        """(n, k) whether outcomes were within the radius, nan where missing; residuals; which were out of bounds."""
        F = unnamed(regions.predictions)
        F, Y, R, outside = self._residuals(F, np.reshape(unnamed(Y), F.shape))
        if self.region == "each":
            return np.where(np.isnan(R), np.nan, np.abs(R) <= regions.radius), R, outside
        # A region that holds nothing does not hold its prediction either.
        return regions.contains(Y) * (regions.radius >= 0), R, outside

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
        """Values (n, d) of the outputs, drawn in to their bounds if these have some."""
        bounds = self._checked_bounds(F.shape[1])
        return F if bounds is None else bounds.clipped(F)

    def _checked_bounds(self, d: int) -> Bounds | None:
        return None if self.bounds is None else as_bounds(self.bounds, d)

    def _residuals(self, F: Any, Y: Any) -> tuple[Array, Array, Array, Mask | None]:
        """Predictions, outputs and residuals (n, d), nan where an output is missing; which outputs were out of bounds.

        With bounds, predictions and outputs are drawn in to them.
        """
        F, Y = (np.asarray(A, dtype=np.float64) for A in (F, Y))
        if F.shape != Y.shape or F.ndim not in (1, 2):
            raise ValueError(f"F and Y must have the same shape (n, d) or (n,), got {F.shape} and {Y.shape}")
        if F.ndim == 1:
            F, Y = F[:, None], Y[:, None]
        bounds, outside, seen = self._checked_bounds(F.shape[1]), None, np.isfinite(Y)
        if bounds is not None:
            outside = bounds.outside(Y) & seen
            _tell_outside(outside, Y, bounds)
            F, Y = bounds.clipped(F), np.where(seen, bounds.clipped(Y), Y)
        # A missing prediction of an output that is there is a miss; an output that is not there says nothing.
        with np.errstate(over="ignore", invalid="ignore"):
            R = np.where(np.isnan(F), np.inf, Y - F)
        return F, Y, np.where(seen, R, np.nan), outside

    def _started(self, d: int) -> JointScore | None:
        """The score of all outputs at once, None for an interval for each; the state is made at the first call."""
        if not hasattr(self, "trackers_"):
            miss = 1.0 - in_interval(self.coverage, "coverage", 1e-6, 1 - 1e-6)
            if self.region not in ("each", *JOINT):
                raise ValueError(f"region must be {', '.join(map(repr, ('each', *JOINT)))}, got {self.region!r}")
            decay = 1.0 if self.memory is None else 1.0 - 1.0 / check_int(self.memory, "memory", least=2)
            self.score_: JointScore | None = None if self.region == "each" else JOINT[self.region](d, decay)
            self.trackers_: list[Tracker] = [self._tracker(miss) for _ in range(d if self.region == "each" else 1)]
        known = len(self.trackers_) if self.score_ is None else self.score_.d
        if known != d:
            raise ValueError(f"{type(self).__name__} has seen {known} outputs, got {d}: use a new one")
        return self.score_

    def forget(self) -> Self:
        """Drop the state: the next rows are the first ones."""
        for name in ("score_", "trackers_"):
            self.__dict__.pop(name, None)
        return self


def _tell_outside(outside: Mask, Y: Array, bounds: Bounds) -> None:
    """Say that outcomes were out of bounds."""
    if outside.any():
        (row, q), count = np.argwhere(outside)[0], int(outside.sum())
        warnings.warn(
            f"outcomes outside their bounds: {count}, the first of them {Y[row, q]:g} of output {q}, whose bounds are "
            f"{bounds.low[q]:g} and {bounds.high[q]:g}. They count as missed, so that coverage may fall below what was "
            "asked for: widen the bounds or correct the data",
            RuntimeWarning,
            stacklevel=4,
        )


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
    score.learn(r, seen)
    return found
