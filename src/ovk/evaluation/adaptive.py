"""Adaptive conformal inference (Gibbs and Candes, 2021).

The radius is a quantile of the last scores, at a level that adapts to the misses: with miss_t = 1 if row t was missed,

    a_{t+1} = a_t + rate (a - miss_t),     radius_t = the 1 - a_t quantile of the last scores

infinite for a_t <= 0, and an empty region for a_t >= 1. Therefore a_t stays within [-rate, 1 + rate], and

    | mean of miss_1 .. miss_T - a | <= (max(a_1, 1 - a_1) + rate) / (rate T)          for any scores.

Two details differ from the paper. Instead of an infinite radius, `widest` times the largest of the last scores is used.
A score beyond it enters the window at the next row, so m consecutive misses need scores that grow by `widest`^m; the
bound then has 1 + m in place of 1 beside the rate. If L other rows are predicted before the outcome of a row arrives,
its step is

    rate / (1 + 2 rate L),

because L steps are taken before the first of them has an effect: for rate L > pi / 2 the level would oscillate.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from math import exp, inf, isfinite, isnan, log, pi, tan
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

    def update(self, score: float, missed: bool | None = None, delay: int = 0) -> None:
        if isnan(score):
            return
        missed = score > self.radius() if missed is None else missed
        self.level += self.rate / (1.0 + 2.0 * self.rate * delay) * (self.miss - missed)
        self.scores.add(score)


@dataclass(eq=False, repr=False)
class ACI(Conformal):
    """Prediction intervals on streams by adaptive conformal inference: a quantile of recent scores whose level adapts.

    It works with any model and assumes nothing about the data. The region of a row depends only on earlier rows. After
    T rows the share of misses is within (1 + rate) / (rate T) of ``1 - coverage``: for any data if `widest` is None,
    otherwise unless scores repeatedly grow by that factor.

    Parameters
    ----------
    coverage : float in (0, 1)
        Target share of outputs inside their regions.
    region : "each", "box" or "ellipsoid"
        For several outputs, an interval for each with that coverage, or a joint region that contains all outputs: a box
        with sides proportional to the scale of the residuals, or an ellipsoid from their running covariance. If some
        outputs of a row are missing, the others are compared with the projection of the region.
    memory : int or None
        Number of rows over which the scale and the covariance of the residuals decay, for streams that drift; None
        weights all rows equally.
    rate : float > 0
        Step of the level. Larger values adapt to shifts earlier, and the width varies more.
    window : int
        Number of recent scores in the quantile.
    widest : float >= 1 or None
        If the quantile is infinite, the radius is this factor times the largest of the recent scores; None for infinite
        intervals, as in the paper.
    bounds : (low, high), or such a pair for each output, or None
        Bounds of the outputs, such as ``(0, None)`` for a power. Predictions, intervals, boxes and the box around an
        ellipsoid are clipped to them, which does not change the coverage. An outcome outside its bounds counts as
        missed, with a warning.

    See Also
    --------
    ConformalPID, StronglyAdaptive, RollingConformal, WithIntervals

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK, progressive
    >>> from ovk.evaluation import ACI
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 2))
    >>> noise = np.where(np.arange(2000) < 1000, 0.1, 0.5)  # five times larger in the second half
    >>> y = X[:, 0] + noise * rng.standard_normal(2000)
    >>> result = progressive(OLOK(), X, y, intervals=ACI(0.9))
    >>> print(f"{result.intervals.coverage[0]:.2f}")
    0.90
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
# The radius is a sum of three terms:
#
#     radius_t = q_t + I_t + g_t
#     proportional  q_{t+1} = q_t + rate B_t (miss_t - a),     B_t the largest of the last scores
#     integral      I_{t+1} = gain B tan(x_t log(t + 1) / (saturation (t + 1))),     B the largest score,
#                   x_t = sum_{s<=t} (miss_s - a)
#     derivative    g_t     = the 1 - a quantile of scores one, two, ... seasons ago, a forecast of the next score
#
# The tangent is infinite for x >= h(t) = pi/2 saturation (t + 1) / log(t + 1): then everything is covered (nothing for
# x <= -h(t)), and therefore
#
#     | mean of miss_1 .. miss_T - a | <= (h(T) + 1) / T          for any scores.

#: Number of scores at which the first radius is computed, for this method and the next.
MIN_SCORES = 10
#: Number of past seasons in the forecast.
MAX_PAST_SEASONS = 30


@dataclass
class PIDTracker(Tracker, kind="PID"):
    """`seasons`: scores by position in the season, empty without one; `clock`: rows with and without a score."""

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
        # Rows before the first radius do not count.
        t = self.t - MIN_SCORES + 1
        angle = self.excess * log(t + 1.0) / (self.saturation * (t + 1.0))
        if abs(angle) >= pi / 2:
            return inf if angle > 0 else -inf
        return self.gain * self.largest * tan(angle)

    def update(self, score: float, missed: bool | None = None, delay: int = 0) -> None:
        error = 0.0
        if self.t >= MIN_SCORES and not isnan(score):
            error = (score > self.radius() if missed is None else missed) - self.miss
            self.excess += error
        # An infinite score is a miss, but does not enter the quantiles.
        if isfinite(score):
            self.scores.add(score)
            self.largest = max(self.largest, score)
            if self.seasons:
                self._season().add(score)
        self.clock += 1
        if isnan(score):
            return
        self.t += 1
        self.q += self.rate * self.scores.largest() * error
        if self.t == MIN_SCORES and not self.seasons:
            self.q = self.scores.finite_quantile(1.0 - self.miss)


@dataclass(eq=False, repr=False)
class ConformalPID(Conformal):
    """Intervals of a stream by conformal PID control: the radius reacts to each miss, to their sum and to a forecast.

    The radius can exceed all past scores, which a quantile cannot, so it adapts to growing errors.

    Parameters
    ----------
    coverage, region, memory
        As in `ACI`.
    rate : float > 0
        Step of the radius at each miss, relative to the largest of the last `window` scores.
    gain : float >= 0
        Weight of the integral term; 0 gives quantile tracking.
    saturation : float > 0
        Limits the deviation of the miss rate: after T rows it is within
        (pi/2 saturation (T + 1) / log(T + 1) + 1) / T of ``1 - coverage``.
    window : int
        Number of recent scores that set the scale of the steps.
    season : int, optional
        Number of rows in a season, such as 24 for hourly data; adds a forecast from the scores at the same position of
        past seasons.
    bounds
        As in `ACI`.

    See Also
    --------
    ACI, StronglyAdaptive, RollingConformal, WithIntervals

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import ConformalPID
    >>> t = np.arange(3000)
    >>> y = (1 + t / 100) * np.random.default_rng(0).standard_normal(3000)  # growing noise
    >>> regions = ConformalPID(0.9).regions_then_learn(np.zeros(3000), y)
    >>> print(f"{np.nanmean(regions.covered[2000:]):.1f}")
    0.9
    """

    rate: float = 0.05
    gain: float = 1.0
    saturation: float = 1.0
    window: int = 100
    season: int | None = None

    def learn(self, regions: Regions, Y: Any, delay: Any = 0) -> Regions:
        if self.season is not None:
            late = "scores then arrive out of season"
            raise ValueError(f"season must be None with delayed labels, got {self.season}: {late}")
        return super().learn(regions, Y, delay)

    def _tracker(self, miss: float) -> Tracker:
        season = 0 if self.season is None else check_int(self.season, "season", least=2)
        rate, gain = positive(self.rate, "rate"), positive(self.gain, "gain", zero=True)
        scores = ScoreWindow(check_int(self.window, "window"))
        seasons = [ScoreWindow(MAX_PAST_SEASONS) for _ in range(season)]
        return PIDTracker(miss, rate, gain, positive(self.saturation, "saturation"), scores, seasons)


# Strongly adaptive online conformal prediction (Bhatnagar, Wang, Xiong and Bai, 2023).
#
# At every row t an expert starts that is active for g 2^j rows, 2^j the largest power of 2 that divides t. Each updates
# its own radius r by gradients of the quantile (pinball) loss, loss(r, s) = max((1 - a)(s - r), a (r - s)), divided by
# the root of their sum of squares,
#
#     r <- r - D / sqrt(3) grad_t / sqrt(sum grad^2),     grad_t = a - miss_t
#
# and the radius is their mean, with weights that grow with the loss that each would have saved (coin betting):
#
#     gain_t  = (loss(radius_t, s_t) - loss(r_t, s_t)) / D        (only if positive, for an expert without weight)
#     w_{t+1} = (sum of gains) (1 + sum of w gain) / (rows it has seen + 1)
#
# On *every* segment of k rows the loss is then at most of the order D sqrt(k log T) above that of the best fixed radius
# for that segment (the authors' constant: 15 D sqrt(k (log T + 1))). D bounds the scores; if one exceeds it, D becomes
# twice that score and the experts restart from the present radius.

#: Gains below this are rounding errors.
MIN_GAIN = 1e-12


@dataclass
class SATracker(Tracker, kind="strongly adaptive"):
    """Columns of `experts`: first and last row, radius, sums of gradient^2, gain and weight times gain, weight."""

    miss: float
    lifetime: int
    t: int = 0
    D: float = 0.0
    restarts: int = 0
    start: float = 0.0
    experts: Array = field(default_factory=lambda: np.zeros((7, 0)))
    first: ScoreWindow = field(default_factory=lambda: ScoreWindow(MIN_SCORES))
    _state_classes = {"first": ScoreWindow}
    _stored = {"experts": "7 k inf", "start": "* inf"}

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

    def update(self, score: float, missed: bool | None = None, delay: int = 0) -> None:
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
            # Counts like a miss by the largest known score.
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
        i = self.t + 1
        life = self.lifetime * (i & -i)
        r = self.radius() if self.experts.shape[1] else self.start
        new = np.array([[i], [i + life - 1], [r], [0.0], [0.0], [0.0], [0.0]])
        self.experts = np.concatenate([self.experts, new], axis=1)

    def _step(self, score: float) -> None:
        a, played = self.miss, self.radius()
        self.t += 1
        # A copy, since a snapshot may share the array.
        self.experts = self.experts.copy()
        began, last, r, squares, gains, weighed, w = self.experts
        gradient = a - (score > r)
        gain = (_pinball(played, score, a) - _pinball(r, score, a)) / self.D
        # A new expert predicts the mean radius up to rounding, which must not give it weight.
        gain = np.where(np.abs(gain) > MIN_GAIN, gain, 0.0)
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
    """Intervals of a stream by strongly adaptive conformal prediction, a mean of experts with several lifetimes.

    Its radius is nearly as good as the best fixed one on every segment of the stream, without a rate to choose. It
    adapts to abrupt shifts faster than `ACI` and `ConformalPID`, and takes more time per row.

    Parameters
    ----------
    coverage, region, memory
        As in `ACI`.
    lifetime : int
        Number of rows for which the shortest-lived experts are active.
    bounds
        As in `ACI`.

    See Also
    --------
    ACI, ConformalPID, RollingConformal, WithIntervals

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import StronglyAdaptive
    >>> t = np.arange(3000)
    >>> spread = np.where(t // 500 % 2 == 0, 1.0, 10.0)  # alternating low and high noise
    >>> y = spread * np.random.default_rng(0).standard_normal(3000)
    >>> regions = StronglyAdaptive(0.9).regions_then_learn(np.zeros(3000), y)
    >>> print(f"{np.nanmean(regions.covered):.1f}")
    0.9
    """

    lifetime: int = 8

    def _tracker(self, miss: float) -> Tracker:
        return SATracker(miss, check_int(self.lifetime, "lifetime"))


# Gradient steps on the quantile loss, relative to the range B_t of the last scores (max - min), and a correction:
#
#     q_{t+1} = q_t + rate B_t (miss_t - a),     radius_t = q_t + rate B_t c_t.
#
# Error-quantified conformal inference (Wu, Hu, Bao, Xia and Zou, 2025): the distance of the last score from its radius,
# with the logistic function f(u) = 1 / (1 + exp(-u)); u is relative to B here, so that units do not matter:
#
#     c_t = u f'(u),     u = sharpness (s_{t-1} - radius_{t-1}) / B_{t-1}.
#
# The paper adds c_t to q_{t+1} as well. Then miss_t + c_t, not miss_t, has the mean a, and misses are too frequent: the
# c_t of the many scores far below the radius are negative. As in the authors' code, c_t is not added up here.
#
# Conformal optimistic prediction (Hu, Wu, Xia and Zou, 2025) anticipates the next step by the empirical distribution
# F_t of the last scores:
#
#     c_t = -trust (F_t(q_t) - (1 - a)),     trust in [0, 1].
#
# Each of them has |c_t| <= 1. For a constant step size rate B and scores in [0, B], q_t then stays within
# [-2 rate B, (1 + 2 rate) B], because outside of it all or no scores are missed. Therefore
#
#     | mean of miss_1 .. miss_T - a | <= (1 + 4 rate) / (rate T)          for any such scores.


@dataclass
class COPTracker(Tracker, kind="optimistic"):
    miss: float
    rate: float
    sharpness: float
    trust: float
    scores: ScoreWindow
    q: float = 0.0
    distance: float = 0.0
    _state_classes = {"scores": ScoreWindow}

    def radius(self) -> float:
        m = len(self.scores.ordered)
        if m < min(MIN_SCORES, self.scores.size):
            return inf
        below = bisect_right(self.scores.ordered, self.q) / m
        correction = self.distance - self.trust * (below - (1.0 - self.miss))
        return self.q + self.rate * self.scores.spread() * correction

    def update(self, score: float, missed: bool | None = None, delay: int = 0) -> None:
        if isnan(score):
            return
        radius, B = self.radius(), self.scores.spread()
        if radius < inf:
            self.q += self.rate * B * ((score > radius if missed is None else missed) - self.miss)
        # An infinite score is a miss, but does not enter the window.
        if isfinite(score):
            # f' is even, and exp(-|u|) does not overflow.
            u = self.sharpness * (score - radius) / B if B > 0 and radius < inf else 0.0
            self.distance = u * exp(-abs(u)) / (1.0 + exp(-abs(u))) ** 2
            self.scores.add(score)
        if radius == inf and self.radius() < inf:
            self.q = self.scores.finite_quantile(1.0 - self.miss)


@dataclass(eq=False, repr=False)
class COP(Conformal):
    """Intervals of a stream by conformal optimistic prediction, or by error-quantified conformal inference (ECI).

    The radius moves at each miss, and is corrected by the share of recent scores below it (COP), or by the distance of
    the last score from its radius (ECI: ``COP(trust=0, sharpness=1)``). Where errors fall by orders of magnitude, the
    radius follows slowly; `ACI` does not have this problem.

    Parameters
    ----------
    coverage, region, memory
        As in `ACI`.
    rate : float > 0
        Step of the radius at each miss, relative to the range of the last `window` scores.
    window : int
        Number of recent scores that set the scale of the steps and the correction.
    trust : float in [0, 1]
        Weight of the share of recent scores; 0 without sharpness gives quantile tracking.
    sharpness : float >= 0
        Inverse of the distance, relative to that range, at which the last score counts most; 0 ignores it.
    bounds
        As in `ACI`.

    See Also
    --------
    ACI, ConformalPID, StronglyAdaptive, RollingConformal

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import COP
    >>> y = np.random.default_rng(0).standard_normal(3000)
    >>> regions = COP(0.9).regions_then_learn(np.zeros(3000), y)
    >>> print(f"{np.nanmean(regions.covered):.2f}")
    0.90
    """

    rate: float = 0.05
    window: int = 100
    trust: float = 0.5
    sharpness: float = 0.0

    def _tracker(self, miss: float) -> Tracker:
        rate, sharpness = positive(self.rate, "rate"), positive(self.sharpness, "sharpness", zero=True)
        scores = ScoreWindow(check_int(self.window, "window"))
        return COPTracker(miss, rate, sharpness, in_interval(self.trust, "trust", 0.0, 1.0), scores)
