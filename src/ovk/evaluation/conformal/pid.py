"""Conformal PID control (Angelopoulos, Candes and Tibshirani, 2023).

The radius is a sum of three parts, each of which follows the misses in its own way:

    radius_t = q_t + I_t + g_t
    proportional  q_{t+1} = q_t + rate B_t (miss_t - a),     B_t the largest of the last scores
    integral      I_{t+1} = gain B tan(x_t log(t + 1) / (saturation (t + 1))),     B the largest score,
                  x_t = sum_{s<=t} (miss_s - a)
    derivative    g_t     = the 1 - a quantile of scores one, two, ... seasons ago, a forecast of the next score

The tangent is infinite from x = h(t) = pi/2 saturation (t + 1) / log(t + 1) on: then everything is covered (or nothing,
from -h(t) on), and so

    | mean of miss_1 .. miss_T - a | <= (h(T) + 1) / T          for any scores whatever.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isfinite, isnan, log, pi, tan
from typing import Any

from ovk._params import check_int, positive
from ovk._state import State
from ovk.evaluation.conformal.base import Conformal, ScoreWindow, Tracker
from ovk.intervals.regions import Regions

#: Scores before there is a radius.
FIRST = 10
#: Seasons that a forecast looks back.
SEASONS = 30


@dataclass
class Seasons(State):
    """Scores by their place in the season."""

    length: int
    level: float
    clock: int = 0
    windows: list[ScoreWindow] = field(default_factory=list)

    _state_classes = {"windows": ScoreWindow}

    def __post_init__(self) -> None:
        if not self.windows:
            self.windows = [ScoreWindow(SEASONS) for _ in range(self.length)]

    def forecast(self) -> float:
        """Of the next score's quantile; the largest score of that place while there are few, 0 without any."""
        window = self.windows[self.clock % self.length]
        found = window.quantile(self.level)
        return found if isfinite(found) else window.largest()

    def update(self, score: float) -> None:
        """Add a score, or nan for none."""
        if isfinite(score):
            self.windows[self.clock % self.length].add(score)
        self.clock += 1


@dataclass
class PIDTracker(Tracker, kind="PID"):
    """The state of conformal PID control."""

    miss: float
    rate: float
    gain: float
    saturation: float
    window: int
    season: int | None
    t: int = field(init=False, default=0)
    q: float = field(init=False, default=0.0)
    excess: float = field(init=False, default=0.0)
    largest: float = field(init=False, default=0.0)
    scores: ScoreWindow = field(init=False)
    seasons: Seasons | None = field(init=False, default=None)
    _saved_state = ("t", "q", "excess", "largest", "scores", "seasons")
    _state_classes = {"scores": ScoreWindow, "seasons": Seasons}

    def __post_init__(self) -> None:
        self.scores = ScoreWindow(self.window)
        if self.season is not None:
            self.seasons = Seasons(self.season, 1.0 - self.miss)

    def radius(self) -> float:
        if self.t < FIRST:
            return inf
        forecast = 0.0 if self.seasons is None else self.seasons.forecast()
        return self.q + self._integral() + forecast

    def _integral(self) -> float:
        if self.gain == 0:
            return 0.0
        # Rows before there was a radius count as neither.
        t = self.t - FIRST + 1
        angle = self.excess * log(t + 1.0) / (self.saturation * (t + 1.0))
        if abs(angle) >= pi / 2:
            return inf if angle > 0 else -inf
        return self.gain * self.largest * tan(angle)

    def update(self, score: float, missed: bool | None = None, later: int = 0) -> None:
        if isnan(score):
            self._remember(score)
            return
        missed = score > self.radius() if missed is None else missed
        if self.t < FIRST:
            self._remember(score)
            self.t += 1
            if self.t == FIRST:
                # As few scores as these have no 1 - a quantile beyond their largest.
                start = self.scores.quantile(1.0 - self.miss)
                start = start if isfinite(start) else self.scores.largest()
                self.q = start if self.seasons is None else 0.0
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
        if self.seasons is not None:
            self.seasons.update(score)


@dataclass(eq=False, repr=False)
class ConformalPID(Conformal):
    """Intervals by conformal PID control: the radius itself is moved by every miss, by all misses, and by a forecast.

    It follows shifts of the scores to sizes never seen before, which a quantile of past scores cannot.

    Parameters
    ----------
    coverage, region, memory, bounds : see `Conformal`
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

    Attributes
    ----------
    score_, trackers_ : see `Conformal`; a tracker keeps the parts of the radius and the last scores

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
        return PIDTracker(
            miss,
            positive(self.rate, "rate"),
            positive(self.gain, "gain", zero=True),
            positive(self.saturation, "saturation"),
            check_int(self.window, "window"),
            None if self.season is None else check_int(self.season, "season", least=2),
        )
