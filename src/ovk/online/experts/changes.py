"""When to start another learner beside the present one, and which of the two to believe.

A row of squared error l, where those of late have the mean m, has the log-likelihood ratio

    r = ((1 - 1 / c) l / m - ln c) / 2,        c = VARIANCE_GROWTH,

of Gaussian errors whose variance has grown c-fold. Where the function has become a smaller or an easier one errors need
not grow; but the mean of the labels, of squared errors k with the mean v, then does better than it used to:

    r = (l / m - k / v - ln(v / m)) / 2.

l / m and k / v count as at most `MAX_RATIO`. S <- max(0, S + r) raises an alarm when it exceeds `ALARM_LIMIT`. With
Gaussian errors that do not change, alarms are at least e^ALARM_LIMIT rows apart on average (Page 1954, Lorden 1971).

The change is somewhere after the last row at which S was 0. It is dated to the last row where the fit of two variances,
v for the n errors before and w for the m after, has n ln v + m ln w within `DATE_SLACK` of its minimum: rows before
the change harm a new learner more than missing rows. Where errors have not grown, the date is that last row.

Two learners with the discounted sums a and b of squared errors over n rows have likelihoods of a^(-n/2) and b^(-n/2),
with the variances that are most likely. The second one, which has to prove itself, has the weight

    w = 1 / (1 + ODDS_AGAINST_NEW (b / a)^(n/2)).

Each error has the old learner's usual one added to it. An output that is mostly quiet has errors of no account most of
the time, which do not say who is right when it matters.
"""

from __future__ import annotations

from math import isfinite, isnan, log, nan

import numpy as np

from ovk.base import Array, State
from ovk.online.shared.rows import RowBuffer

#: Growth of the variance that the alarm waits for, and the number of means that an error counts as at most.
VARIANCE_GROWTH, MAX_RATIO = 4.0, 9.0
ALARM_LIMIT = 10.0
#: Errors count by this factor less with every row, in their mean, in the comparison of two learners, and in usual ones.
LEVEL_DISCOUNT, CONTEST_DISCOUNT, USUAL_DISCOUNT = 0.99, 0.99, 0.999
#: Discounted number of rows before errors have a mean.
MIN_LABELS = 30.0
#: Outputs for which Python's own numbers are quicker than arrays.
MAX_OUTPUTS_IN_LISTS = 8
#: Rows kept for a learner that starts where the change was.
MAX_REPLAYED_ROWS = 256
#: Rows before those since the alarm began to rise, which a change is dated with.
ROWS_BEFORE = 40
#: Difference of -2 log-likelihood within which a date is as good as the best.
DATE_SLACK = 4.0
#: Odds against a new learner.
ODDS_AGAINST_NEW = 10.0


class ErrorAlarm(State):
    """Watches the errors of each output.

    Parameters
    ----------
    inputs, outputs : numbers of columns
    watched : number of errors of a row
    """

    _saved_state = ("level", "labels", "sums", "since", "rows", "usual_sums")
    _state_classes = {"rows": RowBuffer}

    def __init__(self, inputs: int, outputs: int, watched: int) -> None:
        #: The last rows: inputs, last labels, labels, labels as they were learned, predictions and weights.
        columns = (inputs, outputs, outputs, outputs, outputs)
        self.rows = RowBuffer((*(np.empty((0, count)) for count in columns), np.empty(0)))
        #: Sums of errors over a long time, which alarms leave as they are, and numbers of labels.
        self.usual_sums = np.zeros((2, watched))
        self.restart(watched)

    def restart(self, watched: int) -> None:
        """Forget the errors so far."""
        #: Of the errors and of those of the mean, side by side.
        self.level, self.labels, self.sums = (np.zeros(2 * watched) for _ in range(3))
        #: Rows since each sum was 0.
        self.since = np.zeros(2 * watched, dtype=np.int64)

    def look(self, losses: Array, means: Array, floor: Array) -> tuple[int, int]:
        """Go through (n, d) squared errors, and those of the mean, nan where unknown, up to the first alarm.

        Returns
        -------
        rows gone through, and rows since the last at which a sum that is now beyond its limit was 0; 0 without an alarm
        """
        both, d = np.hstack([losses, means]), losses.shape[1]
        if len(both) == 1 and d <= MAX_OUTPUTS_IN_LISTS:
            self._look_at_row(both[0].tolist(), 2 * floor.tolist())
            return 1, int(self.since[self.sums > ALARM_LIMIT].max(initial=0))
        levels = running_sums(self.level, both, LEVEL_DISCOUNT)
        labels = running_sums(self.labels, np.where(np.isfinite(both), 1.0, np.nan), LEVEL_DISCOUNT)
        with np.errstate(all="ignore"):
            before = np.maximum(
                np.where(labels[:-1] < MIN_LABELS, np.nan, levels[:-1] / labels[:-1]), np.tile(floor, 2)
            )
            ratios = np.minimum(both / before, MAX_RATIO)
            grown = (1.0 - 1.0 / VARIANCE_GROWTH) * ratios[:, :d] - np.log(VARIANCE_GROWTH)
            useless = ratios[:, :d] - ratios[:, d:] - np.log(before[:, d:] / before[:, :d])
        steps = np.nan_to_num(0.5 * np.hstack([grown, useless]))
        path = self.sums + np.cumsum(steps, axis=0)
        lowest = np.minimum(np.minimum.accumulate(path, axis=0), 0.0)
        sums = path - lowest
        numbers = np.arange(1, len(sums) + 1)[:, None]
        zeros = np.maximum.accumulate(np.where(sums <= 0.0, numbers, -self.since), axis=0)
        alarms = (sums > ALARM_LIMIT).any(axis=1)
        stop = int(alarms.argmax()) + 1 if alarms.any() else len(sums)
        if stop:
            self.level, self.labels, self.sums = levels[stop], labels[stop], sums[stop - 1]
            self.since = stop - zeros[stop - 1]
        return stop, int(self.since[self.sums > ALARM_LIMIT].max(initial=0))

    def _look_at_row(self, both: list[float], floor: list[float]) -> None:
        """The same for one row of few outputs: lists are quicker than small arrays."""
        d, g = len(both) // 2, LEVEL_DISCOUNT
        level, labels, pairs = self.level.tolist(), self.labels.tolist(), range(len(both))
        before = [max(level[j] / labels[j], floor[j]) if labels[j] >= MIN_LABELS else nan for j in pairs]
        ratios = [min(both[j] / before[j], MAX_RATIO) for j in pairs]
        steps = [(1.0 - 1.0 / VARIANCE_GROWTH) * ratio - log(VARIANCE_GROWTH) for ratio in ratios[:d]]
        steps += [ratios[j] - ratios[d + j] - log(before[d + j] / before[j]) for j in range(d)]
        sums = [
            s if isnan(step) else max(0.0, s + 0.5 * step) for s, step in zip(self.sums.tolist(), steps, strict=True)
        ]
        self.sums = np.array(sums)
        self.since = np.where(self.sums > 0.0, self.since + 1, 0)
        known = [isfinite(loss) for loss in both]
        self.level = np.array([g * level[j] + both[j] if known[j] else level[j] for j in pairs])
        self.labels = np.array([g * labels[j] + 1.0 if known[j] else labels[j] for j in pairs])

    def date(self, losses: Array, since: int) -> int:
        """Rows after the change, of the last so many, by the squared errors of the rows kept."""
        grown = self.sums[: losses.shape[1]] > ALARM_LIMIT
        if not grown.any():
            return since
        losses = losses[-since - ROWS_BEFORE :, grown]
        before = len(losses) - since
        counts, sums = (np.cumsum(part, axis=0) for part in (np.isfinite(losses), np.nan_to_num(losses)))
        tiny = np.finfo(float).tiny
        fits = [n * np.log(np.maximum(v, tiny) / np.maximum(n, 1)) for n, v in _both(counts, sums)]
        start = max(before - 1, 0)
        found = (fits[0] + fits[1]).sum(axis=1)[start:-1]
        return len(losses) - 1 - start - int(np.flatnonzero(found <= found.min() + DATE_SLACK)[-1])

    def usual(self) -> Array:
        """(d,) mean squared errors over a long time."""
        total, labels = self.usual_sums
        return np.asarray(total / np.maximum(labels, 1.0))

    def keep(self, losses: Array, *rows: Array) -> None:
        """Keep rows for a learner that may have to start with them, and count their (n, d) errors as usual ones."""
        pair = losses, np.where(np.isfinite(losses), 1.0, np.nan)
        sums = (running_sums(*both, USUAL_DISCOUNT)[-1] for both in zip(self.usual_sums, pair, strict=True))
        self.usual_sums = np.stack(list(sums))
        self.rows.append(*rows)
        self.rows.drop(max(0, len(self.rows) - MAX_REPLAYED_ROWS))


def _both(counts: Array, sums: Array) -> list[tuple[Array, Array]]:
    """Numbers and sums of the errors up to each row, and after it."""
    return [(counts, sums), (counts[-1] - counts, sums[-1] - sums)]


def running_sums(first: Array, values: Array, discount: float) -> Array:
    """(n + 1, d) discounted sums before and after each of (n, d) values; where one is nan the sum stays.

    >>> running_sums(np.array([4.0]), np.array([[1.0], [np.nan], [3.0]]), 0.5).T
    array([[4. , 3. , 3. , 4.5]])
    """
    known = np.isfinite(values)
    fading = discount ** np.cumsum(known, axis=0)
    found = np.empty((len(values) + 1, len(first)))
    found[0] = first
    found[1:] = fading * (first + np.cumsum(np.where(known, values, 0.0) / fading, axis=0))
    return found


class Contest(State):
    """Weights of a new learner beside an old one.

    Parameters
    ----------
    old, new : (n, d) squared errors of the rows that both have predicted so far, nan where unknown
    usual : (d,) errors that are added to each
    """

    _saved_state = ("old", "new", "labels", "usual")

    def __init__(self, old: Array, new: Array, usual: Array) -> None:
        self.usual = usual
        self.old = self.new = self.labels = np.zeros(old.shape[1])
        self.learn(old, new)

    def weight(self) -> Array:
        """(d,) weight of the new learner in the next row."""
        return _weight(self.old, self.new, self.labels)

    def weights(self, old: Array, new: Array) -> Array:
        """(n, d) weights of the new learner in rows, each before the errors of the row itself."""
        return _weight(*self._sums(old, new))[:-1]

    def learn(self, old: Array, new: Array) -> None:
        """Take the errors of further rows into account."""
        self.old, self.new, self.labels = (sums[-1] for sums in self._sums(old, new))

    def _sums(self, old: Array, new: Array) -> list[Array]:
        firsts = self.old, self.new, self.labels
        values = old + self.usual, new + self.usual, np.where(np.isfinite(old), 1.0, np.nan)
        return [running_sums(*pair, CONTEST_DISCOUNT) for pair in zip(firsts, values, strict=True)]

    def ratio(self) -> Array:
        """(d,) errors of the new learner over those of the old one; nan where there are none."""
        with np.errstate(all="ignore"):
            found: Array = self.new / self.old
        return found


def _weight(old: Array, new: Array, labels: Array) -> Array:
    tiny = np.finfo(float).tiny
    odds = np.log(ODDS_AGAINST_NEW) + 0.5 * labels * (np.log(np.maximum(new, tiny)) - np.log(np.maximum(old, tiny)))
    found: Array = 1.0 / (1.0 + np.exp(np.clip(odds, -50.0, 50.0)))
    return found
