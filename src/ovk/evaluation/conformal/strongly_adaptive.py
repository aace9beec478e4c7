"""Strongly adaptive online conformal prediction (Bhatnagar, Wang, Xiong and Bai, 2023).

At every row t begins an expert that lives for g 2^j rows, 2^j the largest power of 2 that divides t. Each moves its own
radius r by gradients of the quantile (pinball) loss, loss(r, s) = max((1 - a)(s - r), a (r - s)), over the root of
their sum of squares,

    r <- r - D / sqrt(3) grad_t / sqrt(sum grad^2),     grad_t = a - miss_t

and the radius is their mean with weights that grow with what each would have saved since it began (coin betting):

    gain_t  = (loss(radius_t, s_t) - loss(r_t, s_t)) / D        (only if positive, for an expert without weight)
    w_{t+1} = (sum of gains) (1 + sum of w gain) / (rows it has seen + 1)

So on *every* stretch of k rows the loss is at most of the order D sqrt(k log T) above that of the best fixed radius for
that stretch (the authors' constant: 15 D sqrt(k (log T + 1))). D bounds the scores; where one exceeds it, D becomes
twice that score and the experts begin anew from the present radius.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isfinite, isnan

import numpy as np

from ovk._params import check_int
from ovk._types import Array
from ovk.evaluation.conformal.base import Conformal, ScoreWindow, Tracker

#: Scores before there is a radius.
FIRST = 10
#: Gains below this are none.
ROUNDING = 1e-12


@dataclass
class SATracker(Tracker, kind="strongly adaptive"):
    """The state of strongly adaptive online conformal prediction.

    `experts` has a column for each: when it began, its last row, its radius, sum of squared gradients, sum of gains,
    sum of weights times gains, weight.
    """

    miss: float
    lifetime: int
    t: int = field(init=False, default=0)
    D: float = field(init=False, default=0.0)
    restarts: int = field(init=False, default=0)
    start: float = field(init=False, default=0.0)
    experts: Array = field(init=False)
    first: ScoreWindow = field(init=False)
    _saved_state = ("t", "D", "restarts", "start", "experts", "first")
    _state_classes = {"first": ScoreWindow}

    def __post_init__(self) -> None:
        self.experts = np.zeros((7, 0))
        self.first = ScoreWindow(FIRST)

    def radius(self) -> float:
        if len(self.first.recent) < FIRST:
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
        if len(self.first.recent) < FIRST:
            if isfinite(score):
                self.first.add(score)
                if len(self.first.recent) == FIRST:
                    found = self.first.quantile(1.0 - self.miss)
                    self.start = found if isfinite(found) else self.first.largest()
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
        # A copy, as a fork may hold the others.
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
    coverage, region, memory, bounds : see `Conformal`
    lifetime : int
        Rows that the shortest-lived experts live.

    Attributes
    ----------
    score_, trackers_ : see `Conformal`; a tracker keeps the experts, with their radii and weights

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
