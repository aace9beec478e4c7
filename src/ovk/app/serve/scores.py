"""How well learners in service do: errors of the last rows beside the baselines, coverage, and a curve of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ovk.base import Array, State
from ovk.evaluation import Baseline, LastValue, RunningMean

#: Rows over which errors are averaged.
WINDOW = 1000

#: Rows of which the prediction and the outcome are shown.
SHOWN = 30

#: Most points of the curve: when there are as many, every other one goes, and the next ones are twice as far apart.
POINTS = 240

#: Rows before there are hints, and outcomes before there is one on coverage.
FIRST_HINTS = 200

#: Coverage of intervals of 90% outside of which there is a hint: of 200 outcomes, chance alone does not lead there.
LOWEST, HIGHEST = 0.8, 0.97

#: Rows before the first point of the curve, and between two points at first.
STEP = 20


class MostFrequent(Baseline):
    """The label that was most frequent before the rows at hand, of labels written as whole numbers from 0 on.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.app.serve import MostFrequent
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


class Outcome(NamedTuple):
    """Rows with their outcomes, and what a learner had predicted for them.

    Attributes
    ----------
    F : (n, d) predictions; codes of labels for a classifier
    half : (n, d) half widths of the intervals of level 0.9 that were served before the rows were learned, infinite or
        nan where there were none
    Y : (n, d) outcomes, nan where unknown
    """

    F: Array
    half: Array
    Y: Array


@dataclass
class Scores(State):
    """Errors of the last rows, for each learner and each baseline. Who reads them asks `up_to_date` first.

    Attributes
    ----------
    outputs : names of the outputs
    labels : whether outputs are labels, whose error is 1 or 0, rather than numbers with squared errors
    names : the learners, then the baselines
    baselines : the baselines
    losses : (m, names, d) errors of the last rows, nan where the outcome is unknown
    inside : (m, d) whether the outcome lay in the champion's interval, nan where that is unknown
    last : (k, 3, d) prediction, half width and outcome of the last rows, of the champion
    curve : (points, names, d) errors over the rows before each point
    reached : for each point of the curve, how many rows there were
    step : rows between two points of the curve
    rows : rows so far
    fresh : (k, learners + 3, d) rows put aside: predictions of each learner, then prediction, half width and outcome of
        the champion
    """

    outputs: list[str]
    labels: bool
    names: list[str]
    baselines: list[Any]
    losses: Array
    inside: Array
    last: Array
    curve: Array
    fresh: Array
    reached: list[int] = field(default_factory=list)
    step: int = STEP
    rows: int = 0

    @classmethod
    def start(cls, learners: Sequence[str], outputs: Sequence[str], labels: bool) -> Scores:
        """No rows yet."""
        baselines = [LastValue(), MostFrequent() if labels else RunningMean()]
        names = [*learners, *(baseline.name for baseline in baselines)]
        d = len(outputs)
        none, fresh = np.empty((0, len(names), d)), np.empty((0, len(learners) + 3, d))
        return cls(list(outputs), labels, names, baselines, none, np.empty((0, d)), np.empty((0, 3, d)), none, fresh)

    def updated(self, outcomes: Sequence[Outcome | None], champion: int) -> Scores:
        """The scores after further rows: what each learner had predicted, None if it could not learn them.

        The champion is one of those that could. The rows are put aside, and the scores brought up to date when the next
        point of the curve is due: many requests of few rows do not pay for errors that nobody looks at.
        """
        best = outcomes[champion]
        assert best is not None
        unknown = np.full(best.Y.shape, np.nan)
        predicted = [unknown if outcome is None else outcome.F for outcome in outcomes]
        fresh = np.concatenate([self.fresh, np.stack([*predicted, *best], axis=1)])
        new = self._with(fresh=fresh)
        return new if len(fresh) < min(self.step, WINDOW) else new.up_to_date()

    def up_to_date(self) -> Scores:
        """The scores with the rows that were put aside."""
        if not len(self.fresh):
            return self
        new, last = self._snapshot(), self.fresh[:, -3:]
        best = Outcome(*last.swapaxes(0, 1))
        Y, known = best.Y, np.isfinite(best.Y)
        baselines = [baseline.predict_then_learn(Y, Y) for baseline in new.baselines]
        F = np.concatenate([self.fresh[:, :-3], np.stack(baselines, axis=1)], axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            losses = Y[:, None] != F if self.labels else (F - Y[:, None]) ** 2
            inside = np.abs(Y - best.F) <= best.half
        new.losses = _last(self.losses, np.where(known[:, None], losses, np.nan), WINDOW)
        new.inside = _last(self.inside, np.where(known & np.isfinite(best.half), inside, np.nan), WINDOW)
        new.last = _last(self.last, last, SHOWN)
        new.rows, new.fresh = self.rows + len(Y), self.fresh[:0]
        if new.rows >= (self.reached[-1] if self.reached else 0) + self.step:
            new._add_point()
        return new

    def _add_point(self) -> None:
        """Add a point to the curve."""
        self.curve = np.concatenate([self.curve, self._root(self.losses)[None]])
        self.reached = [*self.reached, self.rows]
        if len(self.curve) >= POINTS:
            self.curve, self.reached, self.step = self.curve[1::2], self.reached[1::2], 2 * self.step

    def error(self, name: str, last: int = WINDOW) -> Array:
        """(d,) root of the mean squared error of the last rows, or for labels the part that is wrong."""
        return self._root(self.losses[-last:, self.names.index(name)])

    def _root(self, losses: Array) -> Array:
        """Root of the mean of losses over the rows, or for labels the mean itself; nan where none is known."""
        known = np.isfinite(losses)
        count = known.sum(axis=0)
        with np.errstate(over="ignore"):
            mean: Array = np.where(known, losses, 0.0).sum(axis=0) / np.where(count > 0, count, np.nan)
        return mean if self.labels else np.asarray(np.sqrt(mean))

    def coverage(self) -> Array:
        """(d,) part of the last outcomes within the champion's intervals of level 0.9."""
        known = np.isfinite(self.inside).sum(axis=0)
        part: Array = np.nansum(self.inside, axis=0) / np.where(known > 0, known, np.nan)
        return part

    def hints(self, champion: str) -> list[str]:
        """What somebody should look at: errors that rise, a baseline that does better, intervals that miss."""
        found: list[str] = []
        if len(self.losses) < FIRST_HINTS:
            return found
        all_rows = {name: self.error(name) for name in self.names}
        before, now = all_rows[champion], self.error(champion, len(self.losses) // 5)
        for q, output in enumerate(self.outputs):
            if now[q] > 1.5 * before[q]:
                found.append(f"{output}: the error of the last rows is {now[q] / before[q]:.1f} times the usual one")
            better = [b.name for b in self.baselines if all_rows[b.name][q] < all_rows[champion][q]]
            if better:
                found.append(f"{output}: {better[0]} does better than the model")
        known = np.isfinite(self.inside).sum(axis=0)
        for q, part in enumerate(self.coverage()):
            if known[q] < FIRST_HINTS or LOWEST <= part <= HIGHEST:
                continue
            fault = "too narrow" if part < LOWEST else "wider than they need to be"
            found.append(f"{self.outputs[q]}: intervals of 90% hold {part:.1%} of the outcomes, they are {fault}")
        return found


def _last(old: Array, new: Array, most: int) -> Array:
    return np.concatenate([old, new])[-most:]
