"""How well learners in service do: errors of the last rows beside the baselines, coverage, and a curve of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ovk._state import State
from ovk._types import Array
from ovk.evaluation import LastValue, RunningMean
from ovk.evaluation.baselines import Baseline

#: Rows over which errors are averaged.
WINDOW = 1000

#: Rows of which the prediction and the outcome are shown.
SHOWN = 30

#: Most points of the curve: when there are as many, every other one goes, and the next ones are twice as far apart.
POINTS = 240

#: Rows before the first point of the curve, and between two points at first.
STEP = 20


class MostFrequent(Baseline):
    """The label that was most frequent before the rows at hand, of labels written as whole numbers from 0 on.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.serving import MostFrequent
    >>> baseline = MostFrequent()
    >>> _ = baseline.predict_then_learn(np.zeros((3, 1)), np.array([[2.0], [2.0], [0.0]]))
    >>> baseline.predict_then_learn(np.zeros((1, 1)), np.array([[1.0]]))
    array([[2.]])
    """

    name = "most frequent"

    def predict_then_learn(self, X: Array, Y: Array) -> Array:
        codes = Y[np.isfinite(Y)].astype(int)
        counts = getattr(self, "counts_", np.zeros(1))
        F = np.full(Y.shape, float(counts.argmax()))
        new = np.bincount(codes, minlength=len(counts)).astype(np.float64)
        new[: len(counts)] += counts
        self.counts_ = new
        return F


class Outcome:
    """Rows with their outcomes, and what a learner had predicted for them.

    Parameters
    ----------
    F : (n, d) predictions; codes of labels for a classifier
    half : (n, d) half widths of the intervals of level 0.9 around them, infinite or nan where there is none
    Y : (n, d) outcomes, nan where unknown
    """

    def __init__(self, F: Array, half: Array, Y: Array) -> None:
        self.F, self.half, self.Y = F, half, Y


@dataclass
class Scores(State):
    """Errors of the last rows, for each learner and each baseline.

    Attributes
    ----------
    outputs : names of the outputs
    labels : whether outputs are labels, whose error is 1 or 0, rather than numbers with squared errors
    losses : by learner, (m, d) errors of the last rows, nan where the outcome is unknown
    inside : (m, d) whether the outcome lay in the champion's interval, nan where that is unknown
    last : (k, 3 d) prediction, half width and outcome of the last rows, of the champion
    curve : (points, 1 + learners * d) rows so far, then the error of each learner in each output
    curve_names : the learners of the curve, in its order
    step : rows between two points of the curve
    rows : rows so far
    baselines : the baselines
    """

    outputs: list[str]
    labels: bool
    losses: dict[str, Array] = field(default_factory=dict)
    inside: Array = field(default_factory=lambda: np.empty((0, 0)))
    last: Array = field(default_factory=lambda: np.empty((0, 0)))
    curve: Array = field(default_factory=lambda: np.empty((0, 0)))
    curve_names: list[str] = field(default_factory=list)
    step: int = STEP
    rows: int = 0
    baselines: list[Any] = field(default_factory=list)

    @classmethod
    def start(cls, outputs: Sequence[str], labels: bool) -> Scores:
        """No rows yet."""
        d = len(outputs)
        empty = np.empty((0, d))
        baselines = [LastValue(), MostFrequent() if labels else RunningMean()]
        return cls(list(outputs), labels, inside=empty, last=np.empty((0, 3 * d)), baselines=baselines)

    def updated(self, outcomes: Mapping[str, Outcome], champion: str) -> Scores:
        """The scores after further rows, of which each learner has predicted the outcomes."""
        new = self._fork()
        Y = outcomes[champion].Y
        d = Y.shape[1]
        predicted = {name: outcome.F for name, outcome in outcomes.items()}
        for baseline in new.baselines:
            predicted[baseline.name] = baseline.predict_then_learn(Y, Y)
        with np.errstate(over="ignore", invalid="ignore"):
            losses = {name: self._loss(F, Y) for name, F in predicted.items()}
        none = np.empty((0, d))
        new.losses = {name: _last(self.losses.get(name, none), loss) for name, loss in losses.items()}
        best = outcomes[champion]
        known = np.isfinite(Y) & np.isfinite(best.half)
        inside = np.where(known, np.abs(Y - best.F) <= best.half, np.nan)
        new.inside = _last(self.inside, inside)
        new.last = np.concatenate([self.last, np.hstack([best.F, best.half, Y])])[-SHOWN:]
        new.rows = self.rows + len(Y)
        new._note(d)
        return new

    def _loss(self, F: Array, Y: Array) -> Array:
        loss: Array = np.where(np.isfinite(Y), (F != Y) if self.labels else (F - Y) ** 2, np.nan)
        return loss

    def _note(self, d: int) -> None:
        """Add a point to the curve, if it is time."""
        names = list(self.losses)
        if names != self.curve_names:
            self.curve, self.curve_names = np.empty((0, 1 + len(names) * d)), names
        reached = self.curve[-1, 0] if len(self.curve) else 0.0
        if self.rows < reached + self.step:
            return
        point = np.concatenate([[self.rows], self._root(np.stack([self.losses[name] for name in names])).ravel()])
        self.curve = np.vstack([self.curve, point])
        if len(self.curve) >= POINTS:
            self.curve, self.step = self.curve[1::2], 2 * self.step

    def error(self, name: str, last: int = WINDOW) -> Array:
        """(d,) root of the mean squared error of the last rows, or for labels the part that is wrong."""
        return self._root(self.losses[name][-last:])

    def _root(self, losses: Array) -> Array:
        """(..., d) root of the mean of losses (..., m, d), or for labels the mean itself; nan where none is known."""
        known = np.isfinite(losses)
        count = known.sum(axis=-2)
        with np.errstate(over="ignore"):
            mean: Array = np.where(known, losses, 0.0).sum(axis=-2) / np.where(count > 0, count, np.nan)
        return mean if self.labels else np.asarray(np.sqrt(mean))

    def coverage(self) -> Array:
        """(d,) part of the last outcomes within the champion's intervals of level 0.9."""
        known = np.isfinite(self.inside).sum(axis=0)
        part: Array = np.nansum(self.inside, axis=0) / np.where(known > 0, known, np.nan)
        return part

    def hints(self, champion: str) -> list[str]:
        """What somebody should look at: errors that rise, a baseline that does better, intervals that miss."""
        found: list[str] = []
        losses = self.losses.get(champion)
        if losses is None or len(losses) < 200:
            return found
        before, now, all_rows = self.error(champion, WINDOW), self.error(champion, len(losses) // 5), {}
        for name in self.losses:
            all_rows[name] = self.error(name)
        for q, output in enumerate(self.outputs):
            if now[q] > 1.5 * before[q]:
                found.append(f"{output}: the error of the last rows is {now[q] / before[q]:.1f} times the usual one")
            better = [b.name for b in self.baselines if all_rows[b.name][q] < all_rows[champion][q]]
            if better:
                found.append(f"{output}: {better[0]} does better than the model")
        for q, part in enumerate(self.coverage()):
            if part < 0.8:
                found.append(f"{self.outputs[q]}: intervals of 90% hold {part:.0%} of the outcomes")
        return found


def _last(old: Array, new: Array) -> Array:
    return np.concatenate([old, new])[-WINDOW:]
