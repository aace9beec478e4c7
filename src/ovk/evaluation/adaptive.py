"""Adaptive conformal inference (Gibbs and Candes, 2021).

The radius is a quantile of the last scores, at a level that follows the misses: with miss_t = 1 if row t was missed,

    a_{t+1} = a_t + rate (a - miss_t),     radius_t = the 1 - a_t quantile of the last scores

infinite for a_t <= 0, and a region that holds nothing for a_t >= 1. So a_t stays within [-rate, 1 + rate], and

    | mean of miss_1 .. miss_T - a | <= (max(a_1, 1 - a_1) + rate) / (rate T)          for any scores whatever.

Two things are added to what was published. Where more than the last scores would be needed, the radius is `widest`
times the largest of them: a score beyond it is among them at the next row, so that m such misses in a row take scores
that grow by `widest`^m, and the bound has 1 + m in the place of 1 beside the rate. And where the outcome of a row comes
after L further rows were predicted, its step is

    rate / (1 + 2 rate L),

because the steps of L rows are taken before the first of them shows: with rate L above pi / 2 the level would swing
back and forth for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isfinite, isnan, log, pi, tan
from typing import Any

import numpy as np

from ovk.base import Array, check_int, in_interval, positive
from ovk.evaluation.conformal import Conformal, ScoreWindow, Tracker
from ovk.intervals import Regions


@dataclass
class ACITracker(Tracker, kind="adaptive"):
    miss: float
    rate: float
    widest: float | None
    level: float
    scores: ScoreWindow
    _state_classes = {"scores": ScoreWindow}

    def radius(self) -> float:
        if self.level >= 1:
            return -1.0
        radius = inf if self.level <= 0 else self.scores.quantile(1.0 - self.level)
        if radius < inf or self.widest is None or self.scores.quantile(1.0 - self.miss) == inf:
            return radius
        return self.widest * self.scores.largest()

    def update(self, score: float, missed: bool | None = None, later: int = 0) -> None:
        if isnan(score):
            return
        missed = score > self.radius() if missed is None else missed
        self.level += self.rate / (1.0 + 2.0 * self.rate * later) * (self.miss - missed)
        self.scores.add(score)


@dataclass(eq=False, repr=False)
class ACI(Conformal):
    """Intervals by adaptive conformal inference: a quantile of recent scores, its level moved by every hit and miss.

    Whatever the model, and without any assumption on the data: the region of a row depends on the rows before it alone.
    After T rows the share of misses is within (1 + rate) / (rate T) of what was asked for: on any data if `widest` is
    None, and otherwise unless scores grow by that factor again and again.

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
        What outputs cannot be below or above, such as ``(0, None)`` for a power. Predictions are clipped to the
        bounds, and the ends of intervals and boxes are cut off there (and so is the box around an ellipsoid): coverage
        stays as it is. An outcome outside is a miss, with a warning, however wide its region was.
    rate : float > 0
        How fast the level moves: larger follows shifts sooner, and lets the width vary more.
    window : int
        Number of last scores whose quantile is taken.
    widest : float >= 1, or None
        Where more than the last scores would be needed, the radius is this many times the largest of them; None for
        infinite intervals, as published.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK, progressive
    >>> from ovk.evaluation import ACI
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 2))
    >>> noise = np.where(np.arange(2000) < 1000, 0.1, 0.5)  # five times as much from the middle on
    >>> y = X[:, 0] + noise * rng.standard_normal(2000)
    >>> result = progressive(OLOK(), X, y, intervals=ACI(0.9))
    >>> bool(abs(result.intervals.coverage[0] - 0.9) < 0.01)
    True
    """

    rate: float = 0.02
    window: int = 500
    widest: float | None = 2.0

    def _tracker(self, miss: float) -> Tracker:
        widest = None if self.widest is None else in_interval(self.widest, "widest", 1.0, inf)
        scores = ScoreWindow(check_int(self.window, "window"))
        return ACITracker(miss, positive(self.rate, "rate"), widest, miss, scores)


# Conformal PID control (Angelopoulos, Candes and Tibshirani, 2023).
#
# The radius is a sum of three parts, each of which follows the misses in its own way:
#
#     radius_t = q_t + I_t + g_t
#     proportional  q_{t+1} = q_t + rate B_t (miss_t - a),     B_t the largest of the last scores
#     integral      I_{t+1} = gain B tan(x_t log(t + 1) / (saturation (t + 1))),     B the largest score,
#                   x_t = sum_{s<=t} (miss_s - a)
#     derivative    g_t     = the 1 - a quantile of scores one, two, ... seasons ago, a forecast of the next score
#
# The tangent is infinite from x = h(t) = pi/2 saturation (t + 1) / log(t + 1) on: then everything is covered (or
# nothing, from -h(t) on), and so
#
#     | mean of miss_1 .. miss_T - a | <= (h(T) + 1) / T          for any scores whatever.

#: Scores before there is a radius, of this method and of the next.
MIN_SCORES = 10
#: Seasons that a forecast looks back.
SEASONS = 30


@dataclass
class PIDTracker(Tracker, kind="PID"):
    """`seasons` are scores by their place in the season, none without; `clock` counts rows with and without a score."""

    miss: float
    rate: float
    gain: float
    saturation: float
    scores: ScoreWindow
    seasons: list[ScoreWindow]
    clock: int = 0
    t: int = 0
    q: float = 0.0
    excess: float = 0.0
    largest: float = 0.0
    _state_classes = {"scores": ScoreWindow, "seasons": ScoreWindow}

    def radius(self) -> float:
        if self.t < MIN_SCORES:
            return inf
        forecast = self._season().finite_quantile(1.0 - self.miss) if self.seasons else 0.0
        return self.q + self._integral() + forecast

    def _season(self) -> ScoreWindow:
        return self.seasons[self.clock % len(self.seasons)]

    def _integral(self) -> float:
        if self.gain == 0:
            return 0.0
        # Rows before there was a radius count as neither.
        t = self.t - MIN_SCORES + 1
        angle = self.excess * log(t + 1.0) / (self.saturation * (t + 1.0))
        if abs(angle) >= pi / 2:
            return inf if angle > 0 else -inf
        return self.gain * self.largest * tan(angle)

    def update(self, score: float, missed: bool | None = None, later: int = 0) -> None:
        if isnan(score):
            self._remember(score)
            return
        missed = score > self.radius() if missed is None else missed
        if self.t < MIN_SCORES:
            self._remember(score)
            self.t += 1
            if self.t == MIN_SCORES:
                self.q = 0.0 if self.seasons else self.scores.finite_quantile(1.0 - self.miss)
            return
        error = missed - self.miss
        self.excess += error
        self._remember(score)
        self.q += self.rate * self.scores.largest() * error
        self.t += 1

    def _remember(self, score: float) -> None:
        # An infinite score is a miss, but no measure of scale.
        if isfinite(score):
            self.scores.add(score)
            self.largest = max(self.largest, score)
            if self.seasons:
                self._season().add(score)
        self.clock += 1


@dataclass(eq=False, repr=False)
class ConformalPID(Conformal):
    """Intervals by conformal PID control: the radius itself is moved by every miss, by all misses, and by a forecast.

    It follows shifts of the scores to sizes never seen before, which a quantile of past scores cannot.

    Parameters
    ----------
    coverage, region, memory, bounds : see `ACI`
    rate : float > 0
        Step of the radius at each miss, as part of the largest of the last `window` scores.
    gain : float >= 0
        Weight of the integral part; with 0 it is quantile tracking alone.
    saturation : float > 0
        How far the misses may be off before the integral part insists: the mean of misses after T rows is within
        (pi/2 saturation (T + 1) / log(T + 1) + 1) / T of what was asked for. Smaller is stricter.
    window : int
        Number of last scores that say how large they are.
    season : int, optional
        Rows in a season, such as 24 for hours of the day; the radius then begins from scores at the same place of the
        seasons before.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import ConformalPID
    >>> t = np.arange(3000)
    >>> y = (1 + t / 100) * np.random.default_rng(0).standard_normal(3000)  # ever more noise
    >>> regions = ConformalPID(0.9).regions_then_learn(np.zeros(3000), y)
    >>> bool(abs(np.nanmean(regions.covered[2000:]) - 0.9) < 0.02)
    True
    """

    rate: float = 0.05
    gain: float = 1.0
    saturation: float = 1.0
    window: int = 100
    season: int | None = None

    def _learn_late(self, regions: Regions, Y: Any, later: Any) -> Regions:
        if self.season is not None:
            raise ValueError(
                f"season must be None where labels come late, got {self.season}: the next score to come is not that of "
                "the next row"
            )
        return super()._learn_late(regions, Y, later)

    def _tracker(self, miss: float) -> Tracker:
        season = 0 if self.season is None else check_int(self.season, "season", least=2)
        return PIDTracker(
            miss,
            positive(self.rate, "rate"),
            positive(self.gain, "gain", zero=True),
            positive(self.saturation, "saturation"),
            ScoreWindow(check_int(self.window, "window")),
            [ScoreWindow(SEASONS) for _ in range(season)],
        )


# Strongly adaptive online conformal prediction (Bhatnagar, Wang, Xiong and Bai, 2023).
#
# At every row t begins an expert that lives for g 2^j rows, 2^j the largest power of 2 that divides t. Each moves its
# own radius r by gradients of the quantile (pinball) loss, loss(r, s) = max((1 - a)(s - r), a (r - s)), over the root
# of their sum of squares,
#
#     r <- r - D / sqrt(3) grad_t / sqrt(sum grad^2),     grad_t = a - miss_t
#
# and the radius is their mean with weights that grow with what each would have saved since it began (coin betting):
#
#     gain_t  = (loss(radius_t, s_t) - loss(r_t, s_t)) / D        (only if positive, for an expert without weight)
#     w_{t+1} = (sum of gains) (1 + sum of w gain) / (rows it has seen + 1)
#
# So on *every* stretch of k rows the loss is at most of the order D sqrt(k log T) above that of the best fixed radius
# for that stretch (the authors' constant: 15 D sqrt(k (log T + 1))). D bounds the scores; where one exceeds it, D
# becomes twice that score and the experts begin anew from the present radius.

#: Gains below this are none.
ROUNDING = 1e-12


@dataclass
class SATracker(Tracker, kind="strongly adaptive"):
    """`experts` has a column for each: when it began, its last row, its radius, sum of squared gradients, sum of gains,
    sum of weights times gains, weight.
    """

    miss: float
    lifetime: int
    t: int = 0
    D: float = 0.0
    restarts: int = 0
    start: float = 0.0
    experts: Array = field(default_factory=lambda: np.zeros((7, 0)))
    first: ScoreWindow = field(default_factory=lambda: ScoreWindow(MIN_SCORES))
    _state_classes = {"first": ScoreWindow}

    def radius(self) -> float:
        if len(self.first.recent) < MIN_SCORES:
            return inf
        began, _, r, _, _, _, w = self.experts
        if len(began) == 0:
            return self.start
        # Prior: an expert's weight falls with when it began, 1 / (i^2 (1 + log2 i)).
        prior = 1.0 / (began**2 * (1.0 + np.floor(np.log2(began))))
        weights = prior * np.maximum(w, 0.0)
        if weights.sum() <= 0:
            weights = prior
        return float(weights @ r / weights.sum())

    def update(self, score: float, missed: bool | None = None, later: int = 0) -> None:
        if isnan(score):
            return
        if len(self.first.recent) < MIN_SCORES:
            if isfinite(score):
                self.first.add(score)
                if len(self.first.recent) == MIN_SCORES:
                    self.start = self.first.finite_quantile(1.0 - self.miss)
                    self._restart(self.first.largest())
            return
        if not isfinite(score):
            # A miss like one of the largest size known.
            score = self.D
        if score > self.D:
            self.start = self.radius()
            self._restart(2.0 * score)
            self.restarts += 1
        if self.D > 0:
            self._step(score)

    def _restart(self, D: float) -> None:
        self.D, self.t = D, 0
        self.experts = np.zeros((7, 0))
        self._add_expert()

    def _add_expert(self) -> None:
        """Add the expert that begins at the next row."""
        i = self.t + 1
        life = self.lifetime * (i & -i)
        r = self.radius() if self.experts.shape[1] else self.start
        new = np.array([[i], [i + life - 1], [r], [0.0], [0.0], [0.0], [0.0]])
        self.experts = np.concatenate([self.experts, new], axis=1)

    def _step(self, score: float) -> None:
        a, played = self.miss, self.radius()
        self.t += 1
        # A copy, as a snapshot may hold the others.
        self.experts = self.experts.copy()
        began, last, r, squares, gains, weighed, w = self.experts
        gradient = a - (score > r)
        gain = (_pinball(played, score, a) - _pinball(r, score, a)) / self.D
        # A new expert plays what was played, to rounding: a weight made of rounding must not decide anything.
        gain = np.where(np.abs(gain) > ROUNDING, gain, 0.0)
        gain = np.where(w > 0, gain, np.maximum(gain, 0.0))
        gains += gain
        weighed += w * gain
        w[...] = gains * (1.0 + weighed) / (self.t - began + 2.0)
        squares += gradient**2
        r -= self.D / np.sqrt(3.0) * gradient / np.sqrt(squares)
        self.experts = self.experts[:, last > self.t]
        self._add_expert()


def _pinball(r: Array | float, s: float, a: float) -> Array:
    return np.maximum((1.0 - a) * (s - r), a * (r - s))


@dataclass(eq=False, repr=False)
class StronglyAdaptive(Conformal):
    """Intervals by strongly adaptive online conformal prediction: many rates at once, each weighed by how well it does.

    Its radius is nearly as good as the best fixed one on every stretch of the stream, however short, without a rate to
    choose. Of the three methods it follows abrupt shifts fastest, and takes the most time for a row.

    Parameters
    ----------
    coverage, region, memory, bounds : see `ACI`
    lifetime : int
        Rows that the shortest-lived experts live.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import StronglyAdaptive
    >>> t = np.arange(3000)
    >>> spread = np.where(t // 500 % 2 == 0, 1.0, 10.0)  # calm and rough weather in turn
    >>> y = spread * np.random.default_rng(0).standard_normal(3000)
    >>> regions = StronglyAdaptive(0.9).regions_then_learn(np.zeros(3000), y)
    >>> bool(abs(np.nanmean(regions.covered) - 0.9) < 0.03)
    True
    """

    lifetime: int = 8

    def _tracker(self, miss: float) -> Tracker:
        return SATracker(miss, check_int(self.lifetime, "lifetime"))
