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
from math import inf, isnan

from ovk._params import check_int, in_interval, positive
from ovk.evaluation.conformal.base import Conformal, ScoreWindow, Tracker


@dataclass
class ACITracker(Tracker, kind="adaptive"):
    """The state of adaptive conformal inference."""

    miss: float
    rate: float
    window: int
    widest: float | None = None
    level: float = field(init=False)
    scores: ScoreWindow = field(init=False)
    _saved_state = ("level", "scores")
    _state_classes = {"scores": ScoreWindow}

    def __post_init__(self) -> None:
        self.level = self.miss
        self.scores = ScoreWindow(self.window)

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

    After T rows the share of misses is within (1 + rate) / (rate T) of what was asked for: on any data if `widest` is
    None, and otherwise unless scores grow by that factor again and again.

    Parameters
    ----------
    coverage, region, memory, bounds : see `Conformal`
    rate : float > 0
        How fast the level moves: larger follows shifts sooner, and lets the width vary more.
    window : int
        Number of last scores whose quantile is taken.
    widest : float >= 1, or None
        Where more than the last scores would be needed, the radius is this many times the largest of them; None for
        infinite intervals, as published.

    Attributes
    ----------
    score_, trackers_ : see `Conformal`; a tracker keeps the level a_t and the last scores

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
        return ACITracker(miss, positive(self.rate, "rate"), check_int(self.window, "window"), widest)
