"""The mixture of experts of `AutoStream`, and a second one that starts after an alarm."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import isfinite, isnan, log, nan
from typing import Any

import numpy as np

from ovk.base import Array, Mask, State, one_blas_thread, threads_for
from ovk.online.experts.aggregation import MLPoly
from ovk.online.experts.expert_set import (
    KERNEL_EXPERT,
    MAX_ROWS_KEPT,
    RECENT_MEAN,
    REFIT_ROWS,
    RESIDUAL_FACTOR,
    TRANSITIONS,
    ExpertSet,
    OtherOutputs,
    completed,
    experts_and_windows,
    group_outputs,
)
from ovk.online.experts.logistic import LogisticStacking
from ovk.online.experts.refit import CATCH_UP_ROWS, Refit
from ovk.online.second_order.decaying_ridge import next_limit
from ovk.online.shared.rows import MAX_BURST_ROWS, MAX_DEVIATIONS, LearnedRows, RowBuffer, clip_burst, clip_outliers

# When to start a second learner, and how to weight the two.
#
# A row of squared error l, where recent ones have the mean m, has the log-likelihood ratio
#
#     r = ((1 - 1 / c) l / m - ln c) / 2,        c = VARIANCE_GROWTH,
#
# of Gaussian errors whose variance has grown c-fold. If the function has become simpler, errors need not grow, but the
# mean of the labels, with squared errors k of mean v, then predicts better than before:
#
#     r = (l / m - k / v - ln(v / m)) / 2.
#
# l / m and k / v are clipped to `MAX_RATIO`. S <- max(0, S + r) raises an alarm when it exceeds `ALARM_LIMIT`. With
# Gaussian errors that do not change, alarms are at least e^ALARM_LIMIT rows apart on average (Page 1954, Lorden 1971).
#
# The change happened after the last row at which S was 0. It is dated to the last row where the fit of two variances, v
# for the n errors before and w for the m after, has n ln v + m ln w within `DATE_SLACK` of its minimum: rows from
# before the change harm a new learner more than missing rows. If errors have not grown, the date is the last row at
# which S was 0.
#
# Two learners with discounted sums a and b of squared errors over n rows have maximum likelihoods a^(-n/2) and
# b^(-n/2). The second one has the weight
#
#     w = 1 / (1 + PRIOR_ODDS (b / a)^(n/2)).
#
# The old learner's usual error is added to each, so that tiny errors of a mostly constant output do not decide.

#: Growth of the variance that the alarm detects, and the maximum ratio of an error to the mean error.
VARIANCE_GROWTH, MAX_RATIO = 4.0, 9.0
ALARM_LIMIT = 10.0
#: Discount per row of errors in their recent mean, in the comparison of two learners, and in the usual error.
LEVEL_DISCOUNT, COMPARISON_DISCOUNT, USUAL_DISCOUNT = 0.99, 0.99, 0.999
#: Discounted number of rows before errors have a mean.
MIN_LABELS = 30.0
#: Up to this number of outputs, Python numbers are faster than arrays.
MAX_OUTPUTS_IN_LISTS = 8
#: Rows stored for a learner that starts at the change, and rows before the alarm began to rise that help to date it.
MAX_REPLAYED_ROWS, ROWS_BEFORE = 256, 40
#: Difference of -2 log-likelihood within which a date is as good as the best.
DATE_SLACK = 4.0
PRIOR_ODDS = 10.0


class ErrorAlarm(State):
    _saved_state = ("level", "labels", "sums", "since", "rows", "usual_sums")
    _state_classes = {"rows": RowBuffer}
    _stored = {"level": "k", "labels": "k", "sums": "k", "since": "k", "rows": RowBuffer, "usual_sums": "2 d inf"}

    def __init__(self, inputs: int, outputs: int, *, classes: bool) -> None:
        watched = 1 if classes else outputs
        #: The last rows: inputs, last labels, labels, labels as they were learned, predictions and weights.
        columns = (inputs, outputs, outputs, outputs, outputs)
        self.rows = RowBuffer((*(np.empty((0, count)) for count in columns), np.empty(0)))
        #: Long-term sums of errors and numbers of labels, which an alarm does not reset.
        self.usual_sums = np.zeros((2, watched))
        self.restart(watched)

    def restart(self, watched: int) -> None:
        #: Of the errors, followed by those of the mean.
        self.level, self.labels, self.sums = (np.zeros(2 * watched) for _ in range(3))
        #: Rows since each sum was 0.
        self.since = np.zeros(2 * watched, dtype=np.int64)

    def process(self, losses: Array, means: Array, floor: Array) -> tuple[int, int]:
        """Process (n, d) squared errors, and those of the mean, nan where unknown, up to the first alarm.

        Returns the number of rows processed, and the rows since an excessive sum was last 0; 0 without an alarm.
        """
        both, d = np.hstack([losses, means]), losses.shape[1]
        if len(both) == 1 and d <= MAX_OUTPUTS_IN_LISTS:
            self._process_row(both[0].tolist(), 2 * floor.tolist())
            return 1, int(self.since[self.sums > ALARM_LIMIT].max(initial=0))
        levels = discounted_sums(self.level, both, LEVEL_DISCOUNT)
        labels = discounted_sums(self.labels, np.where(np.isfinite(both), 1.0, np.nan), LEVEL_DISCOUNT)
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

    def _process_row(self, both: list[float], floor: list[float]) -> None:
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
        """The number of rows after the change, at most `since`, from the squared errors of the stored rows."""
        grown = self.sums[: losses.shape[1]] > ALARM_LIMIT
        if not grown.any():
            return since
        losses = losses[-since - ROWS_BEFORE :, grown]
        before = len(losses) - since
        counts, sums = (np.cumsum(part, axis=0) for part in (np.isfinite(losses), np.nan_to_num(losses)))
        tiny = np.finfo(float).tiny
        both = (counts, sums), (counts[-1] - counts, sums[-1] - sums)
        fits = [n * np.log(np.maximum(v, tiny) / np.maximum(n, 1)) for n, v in both]
        start = max(before - 1, 0)
        found = (fits[0] + fits[1]).sum(axis=1)[start:-1]
        return len(losses) - 1 - start - int(np.flatnonzero(found <= found.min() + DATE_SLACK)[-1])

    def store(self, losses: Array, *rows: Array) -> None:
        """Store rows for a new learner, and add their (n, d) errors to the usual ones."""
        pair = losses, np.where(np.isfinite(losses), 1.0, np.nan)
        sums = (discounted_sums(*both, USUAL_DISCOUNT)[-1] for both in zip(self.usual_sums, pair, strict=True))
        self.usual_sums = np.stack(list(sums))
        self.rows.append(*rows)
        self.rows.drop(max(0, len(self.rows) - MAX_REPLAYED_ROWS))


def discounted_sums(first: Array, values: Array, discount: float) -> Array:
    """(n + 1, d) discounted sums before and after each of (n, d) values, which ignore nan."""
    known = np.isfinite(values)
    fading = discount ** np.cumsum(known, axis=0)
    found = np.empty((len(values) + 1, len(first)))
    found[0] = first
    found[1:] = fading * (first + np.cumsum(np.where(known, values, 0.0) / fading, axis=0))
    return found


class ModelComparison(State):
    """Weights of a new learner and an old one, from (n, d) squared errors of both; `usual` (d,) is added to each."""

    _saved_state = ("old", "new", "labels", "usual", "odds")
    _stored = {"old": "d inf", "new": "d inf", "labels": "d", "usual": "d inf", "odds": float}

    def __init__(self, old: Array, new: Array, usual: Array, odds: float = PRIOR_ODDS) -> None:
        self.usual, self.odds = usual, odds
        self.old = self.new = self.labels = np.zeros(old.shape[1])
        self.learn(old, new)

    def weight(self) -> Array:
        return _weight(self.odds, self.old, self.new, self.labels)

    def weights(self, old: Array, new: Array) -> Array:
        """(n, d) weights of the new learner before the errors of each row."""
        return _weight(self.odds, *self._sums(old, new))[:-1]

    def learn(self, old: Array, new: Array) -> None:
        self.old, self.new, self.labels = (sums[-1] for sums in self._sums(old, new))

    def _sums(self, old: Array, new: Array) -> list[Array]:
        firsts = self.old, self.new, self.labels
        values = old + self.usual, new + self.usual, np.where(np.isfinite(old), 1.0, np.nan)
        return [discounted_sums(*pair, COMPARISON_DISCOUNT) for pair in zip(firsts, values, strict=True)]


def _weight(odds: float, old: Array, new: Array, labels: Array) -> Array:
    tiny = np.finfo(float).tiny
    logs = np.log(odds) + 0.5 * labels * (np.log(np.maximum(new, tiny)) - np.log(np.maximum(old, tiny)))
    found: Array = 1.0 / (1.0 + np.exp(np.clip(logs, -50.0, 50.0)))
    return found


#: Rows with labels, and rows with or without labels, that are processed at once.
MAX_LEARNED_ROWS, MAX_ROWS = 128, 4096
#: Rows after which an early mixture is fitted, and the odds against it before the first row.
EARLY_REFIT_ROWS, EARLY_ODDS = (8, 20, 35, 60, 110), 3.0
#: Rows after which a second mixture for numbers is refitted too.
SECOND_REFIT_ROWS = (110, 150)
#: A refit of more rows is split over the following rows.
MAX_ROWS_AT_ONCE = 200
#: Discount per row of the experts' losses.
LOSS_DISCOUNT = 0.999
#: Rows after which a second mixture is compared with the first.
COMPARISON_ROWS = (200, 600, 2_000)
#: Ratios of squared errors below which it replaces the first, before the last comparison and there, and the weight
#: below which it is dropped before the last comparison.
CLEAR_RATIO, BETTER_RATIO, MIN_CANDIDATE_WEIGHT = 0.5, 0.9, 0.01
#: Smaller squared errors, in variances of the outputs, are negligible.
MIN_LOSS = 1e-10
#: Predictions exceed the range of the labels by at most this share of it.
RANGE_MARGIN = 0.1


class ExpertMixture(State):
    """The mixture of all experts.

    It aggregates, in this order: the running mean (until the first fit) or the correction by other outputs, the last
    label, the experts, and the kernel expert from before the last refit. With `classes`, whose labels are 0 or 1, the
    last label and the transitions from it abstain while the last fit does not use the last label. If it is `watched`,
    a second mixture starts when errors grow. Before that an `early` one is refitted more often, and ends after
    200 rows.
    """

    _saved_state = (
        *("classes", "lag", "early", "count", "since", "refit_since", "total", "seen", "last", "low", "high", "reach"),
        *(
            "burst_ends",
            "recent",
            "experts",
            "previous",
            "others",
            "regrets",
            "stacking",
            "alarm",
            "candidate",
            "contest",
        ),
    )
    _state_classes = {
        "recent": LearnedRows,
        "experts": ExpertSet,
        "previous": ExpertSet,
        "stacking": LogisticStacking,
        "others": OtherOutputs,
        "alarm": ErrorAlarm,
        "contest": ModelComparison,
    }
    _stored = {
        "classes lag early": bool,
        "count since refit_since": int,
        "total seen last": "d",
        "low high reach": "d inf",
        "recent": LearnedRows,
        "experts previous": list[ExpertSet],
        "regrets": MLPoly,
    }

    _refit_rows, _comparison_rows = REFIT_ROWS, COMPARISON_ROWS

    def __init__(
        self, inputs: int, outputs: int, *, classes: bool = False, lag: bool = True, watched: bool = True
    ) -> None:
        self.classes, self.lag, self.early, self.count = classes, lag, False, 0
        #: Number of rows before the first that counts towards a refit.
        self.since = 0
        #: Number of rows before the current refit, 0 if there is none.
        self.refit_since = 0
        self.total, self.seen, self.last = np.zeros(outputs), np.zeros(outputs), np.zeros(outputs)
        self.low, self.high = np.full(outputs, np.inf), np.full(outputs, -np.inf)
        #: Inputs, last labels and labels.
        self.recent = LearnedRows.empty(inputs, outputs, outputs)
        #: Experts of each group of outputs, and the kernel experts from before the last refit.
        self.experts: list[ExpertSet] = []
        self.previous: list[ExpertSet] = []
        self.others: OtherOutputs | None = None
        self.reach = np.full(outputs, np.inf)
        #: Number of rows at which a burst of outliers should be over; the experts are then fitted without it.
        self.burst_ends = 0
        slots = len(experts_and_windows(classes=classes)) + 3
        self.regrets = MLPoly(LOSS_DISCOUNT)
        self.regrets.start(slots, outputs)
        self.stacking = LogisticStacking(slots, outputs, discount=LOSS_DISCOUNT) if classes else None
        self.alarm = ErrorAlarm(inputs, outputs, classes=classes) if watched else None
        self.candidate: ExpertMixture | None = None
        self.contest: ModelComparison | None = None
        if watched and (classes or outputs == 1):
            self.candidate = type(self)(inputs, outputs, classes=classes, lag=lag, watched=False)
            self.candidate.early = True
            none = np.empty((0, 1 if classes else outputs))
            self.contest = ModelComparison(none, none, np.zeros(none.shape[1]), EARLY_ODDS)

    #: The current refit, the experts that it has fitted, and how many of the rows since its start they have learned.
    _work: Refit | None = None
    _fitted: ExpertSet | None = None
    _learned = 0

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_work", "_fitted", "_learned")}

    def predict_and_update(self, X: Array, Y: Array, weights: Array | None = None, last: Array | None = None) -> Array:
        """(n, d) predictions of (n, p) rows, each made before its (d,) labels, nan where missing, are learned.

        A row without labels, or of weight 0, is predicted and has no other effect. `last` are the (n, d) last labels
        when each row was predicted, for delayed labels; nan where there was none.
        """
        # There are many matrices, of at most 600 rows.
        with one_blas_thread():
            return self._predict_and_update(X, Y, weights, last)

    def _predict_and_update(self, X: Array, Y: Array, weights: Array | None, last: Array | None) -> Array:
        if weights is not None and not (weights > 0.0).all():
            Y, weights = np.where(weights[:, None] > 0.0, Y, np.nan), np.where(weights > 0.0, weights, 1.0)
        Z, start, known = np.empty(Y.shape), 0, np.isfinite(Y)
        learned: Mask = np.asarray(known.any(axis=1))
        while start < len(X):
            counted = self.count - self.since
            until = min(MAX_LEARNED_ROWS, self._until_refit(counted))
            if self.burst_ends > self.count:
                until = min(until, self.burst_ends - self.count)
            if self._has_early():
                until = min(until, self._early_end() - self.count)
            if self.refit_since:
                until = min(until, self._until_fitted(len(X) - start))
            stop = min(start + MAX_ROWS, len(X), start + _rows_up_to(learned[start:], until))
            outside = self._outside(Y[start:stop])
            if outside.any():
                # A burst may begin at this row.
                stop = start + int(outside.argmax()) + 1
            groups = [(experts, experts.count) for experts in self.experts if len(self.experts) > 1]
            for experts, had in groups:
                own: Mask = np.asarray(known[start:stop, experts.columns].any(axis=1))
                stop = min(stop, start + _rows_up_to(own, self._until_refit(had)))
            rows = slice(start, stop)
            some, before = (None if part is None else part[rows] for part in (weights, last))
            if learned[rows].any():
                Z[rows], kept, shown, means = self._append(X[rows], Y[rows], some, before)
                candidate_Z = None
                if self.candidate is not None:
                    candidate_Z = self.candidate._predict_and_update(X[rows], Y[rows], some, shown)
                if self.refit_since:
                    self._continue_refit()
                after_burst = self.count == self.burst_ends and self._had_burst()
                if after_burst or self.count - self.since in self._schedule():
                    self._refit(at_once=after_burst)
                else:
                    for experts, had in groups:
                        if experts.count > had and experts.count in self._schedule():
                            self._refit_group(experts)
                if self.alarm is not None:
                    Z[rows] = self._combine_with_candidate(
                        X[rows], Y[rows], some, shown, kept, means, Z[rows], candidate_Z
                    )
                    if self._has_early() and self.count >= self._early_end():
                        self.candidate = self.contest = None
            else:
                Z[rows] = self._predict(X[rows])
            start = stop
        return Z

    def _combine_with_candidate(
        self,
        X: Array,
        Y: Array,
        weights: Array | None,
        last: Array,
        kept: Array,
        means: Array,
        own_Z: Array,
        candidate_Z: Array | None,
    ) -> Array:
        """Combine the predictions with those of the candidate, which starts at an alarm and may replace this mixture.

        The two learn independently, and both have already learned all rows. `kept` are the labels as learned, with
        outliers clipped, and `means` predictions of the mean.
        """
        assert self.alarm is not None
        Z, start, learned = np.empty(Y.shape), 0, np.asarray(np.isfinite(Y).any(axis=1))
        while start < len(X):
            labels, numbers, until = kept[start:], np.flatnonzero(learned[start:]), sys.maxsize
            Z[start:] = own_Z[start:]
            if self.candidate is not None and self.contest is not None and candidate_Z is not None:
                old, new = self._losses(labels, own_Z[start:]), self._losses(labels, candidate_Z[start:])
                Z[start:] += self.contest.weights(old, new) * (candidate_Z[start:] - own_Z[start:])
                age = self.candidate.count - len(numbers)
                until = sys.maxsize
                if not self.candidate.early:
                    until = next(rows for rows in self._comparison_rows if rows > age) - age
            losses = self._losses(labels, Z[start:])
            some = numbers[:until]
            by_mean = self._losses(labels, means[start:])
            looked, since = self.alarm.process(losses[some], by_mean[some], self._floor())
            stop = int(numbers[looked - 1]) + 1 if since or looked == until else len(losses)
            if self.contest is not None:
                self.contest.learn(old[:stop], new[:stop])
            some = start + numbers[:looked]
            own = np.ones(looked) if weights is None else weights[some]
            self.alarm.store(losses[numbers[:looked]], X[some], last[some], Y[some], kept[some], Z[some], own)
            start += stop
            won = self.contest is not None and self._replaces_mixture(0 if since else age + looked)
            if won:
                assert self.candidate is not None
                assert candidate_Z is not None
                self._end_refit()
                vars(self).update({**vars(self.candidate), "alarm": self.alarm})
                own_Z = candidate_Z
            if since:
                candidate_Z = np.empty(Y.shape)
                candidate_Z[start:] = self._start_candidate(since)._predict_and_update(
                    X[start:], Y[start:], None if weights is None else weights[start:], last[start:]
                )
        return Z

    def _losses(self, labels: Array, Z: Array) -> Array:
        """(n, d) squared errors, summed over classes."""
        with np.errstate(over="ignore"):
            squares: Array = (labels - Z) ** 2
        return squares.sum(axis=1, keepdims=True) if self.classes else squares

    def _floor(self) -> Array:
        if self.classes:
            return np.array([MIN_LOSS])
        return MIN_LOSS * (self.experts[0].labels.scale ** 2 if self.experts else np.ones(len(self.last)))

    def _start_candidate(self, since: int) -> ExpertMixture:
        assert self.alarm is not None
        rows = self.alarm.rows.arrays
        total, labels = self.alarm.usual_sums
        usual = total / np.maximum(labels, 1.0)
        since = self.alarm.date(self._losses(rows[2], rows[4]), min(since, len(self.alarm.rows)))
        X, last, Y, kept, old, weights = (array[-since:] for array in rows)
        new = type(self)(X.shape[1], Y.shape[1], classes=self.classes, lag=self.lag, watched=False)
        Z = new._predict_and_update(X, Y, None if (weights == 1.0).all() else weights, last)
        self.candidate, self.contest = new, ModelComparison(self._losses(kept, old), self._losses(kept, Z), usual)
        self.alarm.restart(len(self.contest.old))
        return new

    def _replaces_mixture(self, age: int) -> bool:
        """Whether the candidate replaces this mixture after `age` rows. At an alarm (`age` 0), the one with more weight
        is kept. A candidate that is not better at the last comparison is dropped.
        """
        assert self.contest is not None
        weight = self.contest.weight()
        if age == 0:
            return bool((weight > 0.5).all()) and not self._has_early()
        if age not in self._comparison_rows or self._has_early():
            return False
        with np.errstate(all="ignore"):
            ratio = self.contest.new / self.contest.old
        clear = bool((ratio <= CLEAR_RATIO).all())
        better = bool(np.log(ratio).mean() <= np.log(BETTER_RATIO)) if np.isfinite(ratio).all() else False
        won = clear or (age == self._comparison_rows[-1] and better)
        if not won and (
            age == self._comparison_rows[-1]
            or (age == self._comparison_rows[-2] and (weight < MIN_CANDIDATE_WEIGHT).all())
        ):
            self.candidate = self.contest = None
        return won

    def _until_refit(self, counted: int) -> int:
        return next((rows for rows in self._schedule() if rows > counted), sys.maxsize) - counted

    def _early_end(self) -> int:
        return self._refit_rows[:3][-1]

    def _has_early(self) -> bool:
        return self.candidate is not None and self.candidate.early

    def _schedule(self) -> tuple[int, ...]:
        if self.early:
            return EARLY_REFIT_ROWS
        # After an alarm there are few rows, and no early mixture beside the second one.
        second = self.alarm is None and not self.classes
        return (*self._refit_rows[:2], *SECOND_REFIT_ROWS, *self._refit_rows[2:]) if second else self._refit_rows

    def predict(self, X: Array) -> Array:
        with threads_for(len(X)):
            return self._predict(X)

    def _predict(self, X: Array) -> Array:
        Z = self._predict_without_candidate(X)
        if self.candidate is not None and self.contest is not None:
            Z += self.contest.weight() * (self.candidate._predict_without_candidate(X) - Z)
        return Z

    def _predict_without_candidate(self, X: Array) -> Array:
        n = len(X)
        F = self._slots(np.tile(_mean(self.total, self.seen), (n, 1)), np.tile(self.last, (n, 1)))
        last = self._lag_inputs(F[:, 1])
        for slots, experts in self._slots_of_experts():
            F[:, slots, experts.columns] = experts.predict(X, last)
        if self.others is not None:
            F[:, 0] = self.others.predict(F[:, 2 + KERNEL_EXPERT])
        F[:, ~self._active_experts()] = np.nan
        F = self._clip(F, self.low, self.high)
        mixed = self.regrets.predict(F)
        return mixed if self.stacking is None else self.stacking.predict(F, mixed)

    def weights(self) -> dict[str, Array]:
        """(d,) weights of the experts for the next row, by name."""
        own = [name if window is None else f"{name}, window {window}" for name, window in self._experts()]
        share = np.zeros(len(self.last)) if self.contest is None else self.contest.weight() + np.zeros(len(self.last))
        return {**dict(zip(own, (1.0 - share) * self._shares(), strict=True)), "learner since the last alarm": share}

    def effective_window(self) -> Array:
        """(d,) weighted mean of the experts' windows; that of experts that never forget is the number of rows."""
        rows = np.array([max(self.count, 1) if window is None else window for _, window in self._experts()])
        found: Array = np.minimum(rows, max(self.count, 1)) @ self._shares()
        if self.candidate is not None and self.contest is not None:
            found = found + self.contest.weight() * (self.candidate.effective_window() - found)
        return found

    def _shares(self) -> Array:
        """(k, d) weights of the experts in the next prediction, 0 for those that abstain."""
        awake = self._active_experts()[:, None]
        given = np.where(awake, self.regrets.weights_, 0.0)
        # If the remaining weights are all 0, they become equal.
        given = np.where(given.sum(axis=0) > 0.0, given, awake)
        found: Array = given / given.sum(axis=0)
        return found

    def _active_experts(self) -> Mask:
        awake = np.full(len(self.regrets.weights_), bool(self.experts))
        awake[0], awake[-1] = not self.experts or self.others is not None, bool(self.previous)
        awake[1] = self.lag
        if self.lag and self.classes and self.experts and not self.experts[0].choice.lag:
            awake[1] = awake[2 + TRANSITIONS] = False
        return awake

    def _experts(self) -> list[tuple[str, int | None]]:
        within = experts_and_windows(classes=self.classes)
        first, last = ("first mean, then other outputs", None), ("last label", 1)
        return [first, last, *within, ("kernel before the last refit", None)]

    def recode(self, M: Array, constant: Array) -> ExpertMixture:
        """A mixture for the labels y M + c, fitted to the stored rows, with equal weights of the experts."""
        X, last, Y, weights = self.recent.with_weights()
        new = ExpertMixture(X.shape[1], M.shape[1], classes=self.classes, lag=self.lag, watched=not self.early)
        new.early = self.early
        new.count, new.since, new.last = self.count, self.since, self.last @ M + constant
        new.seen, new.total = np.full(M.shape[1], self.seen[0]), self.total @ M + self.seen[0] * constant
        new.low, new.high = np.zeros(M.shape[1]), np.ones(M.shape[1])
        new.recent.append_weighted(weights, X, last @ M + constant, Y @ M + constant)
        if self.experts:
            with one_blas_thread():
                new._refit()
        early = self.candidate if self._has_early() else None
        new.candidate, new.contest = (None, None) if early is None else (early.recode(M, constant), new.contest)
        return new

    def with_inputs(self, count: int) -> ExpertMixture:
        """A mixture with additional inputs, which were 0 so far.

        Experts are fitted to the stored rows. Refits count rows from here, as the units of these inputs are unknown.
        """
        new = self._snapshot()
        new.recent.add_columns(count)
        new.alarm = ErrorAlarm(new.recent.X.shape[1], len(self.last), classes=self.classes)
        new.candidate = new.contest = None
        if self.experts:
            new.since = self.count
            with one_blas_thread():
                new._refit()
            # They have fewer inputs.
            new.previous = []
        return new

    def _append(
        self, X: Array, Y: Array, weights: Array | None, known_last: Array | None
    ) -> tuple[Array, Array, Array, Array]:
        """Learn rows up to the next refit: predictions, labels as learned, last labels and recent means."""
        Y = self._clip_labels(Y)
        known = np.isfinite(Y)
        every = bool(known.all())
        counted = known if weights is None else weights[:, None] * known
        summed = Y if every else np.where(known, Y, 0.0)
        totals = _with_first(self.total, summed if weights is None else weights[:, None] * summed)
        counts, filled = _with_first(self.seen, counted), _with_first(self.last, Y)
        low = _with_first(self.low, Y if every else np.where(known, Y, np.inf))
        high = _with_first(self.high, Y if every else np.where(known, Y, -np.inf))
        np.add.accumulate(totals, out=totals)
        np.add.accumulate(counts, out=counts)
        np.minimum.accumulate(low, out=low)
        np.maximum.accumulate(high, out=high)
        if not every:
            filled = _fill_forward(filled)
        before = filled[:-1] if known_last is None else np.where(np.isnan(known_last), filled[:-1], known_last)
        F = self._slots(_mean(totals[:-1], counts[:-1]), before)
        last = self._lag_inputs(before)
        for slots, experts in self._slots_of_experts():
            F[:, slots, experts.columns] = experts.predict_and_update(X, last, Y, weights)
        if self.others is not None:
            F[:, 0] = self.others.predict_and_update(F[:, 2 + KERNEL_EXPERT], Y, weights)
        F[:, ~self._active_experts()] = np.nan
        F = self._clip(F, low[:-1, None], high[:-1, None])
        if self.experts and not self.classes:
            Z, kept = self._mix_with_limits(F, Y, weights, self.experts[0].labels.scale)
        else:
            Z, kept = self.regrets.predict_then_learn(F, Y, weights), Y
        if self.stacking is not None:
            Z = self.stacking.predict_and_update(F, Z, Y, weights)
        self.total, self.seen, self.last, self.low, self.high = totals[-1], counts[-1], filled[-1], low[-1], high[-1]
        learned = known.any(axis=1)
        self.count += int(learned.sum())
        if learned.all():
            self.recent.append_weighted(weights, X, last, kept)
        else:
            own = None if weights is None else weights[learned]
            self.recent.append_weighted(own, X[learned], last[learned], kept[learned])
        if not self.refit_since:
            self.recent.drop(max(0, len(self.recent) - MAX_ROWS_KEPT))
        return Z, kept, before, F[:, 2 + RECENT_MEAN]

    def _mix_with_limits(self, F: Array, Y: Array, weights: Array | None, scale: Array) -> tuple[Array, Array]:
        """Mixtures of the experts, and labels with clipped residuals, used for the regrets and the next refit."""
        Z, kept = np.empty(Y.shape), np.full(Y.shape, np.nan)
        rows, missing = self.regrets.rows(F, Y), np.asarray(np.isnan(Y).all(axis=1))
        for i, (f, y) in enumerate(zip(rows.F, Y, strict=True)):
            Z[i] = z = rows.mix(f)
            if missing[i]:
                continue
            residual = (y - z) / scale
            clipped = np.minimum(np.maximum(residual, -self.reach), self.reach)
            kept[i] = z + scale * clipped
            # 2 (z - label) (z - f), standardised.
            factor = -2.0 if weights is None else -2.0 * weights[i]
            rows.update((factor * clipped / scale) * (z - f))
            self.reach = next_limit(self.reach, residual, RESIDUAL_FACTOR)
        rows.end()
        return Z, kept

    def _refit(self, *, at_once: bool = True) -> None:
        X, last, Y, weights = self.recent.with_weights()
        self._end_refit()
        before, burst = self.experts, np.full(Y.shape[1], False)
        if before and not self.classes:
            Y, burst = clip_burst(Y, before[0].labels)
            if burst.any():
                # This fit discards what was learned from the burst.
                self.recent.replace(2, Y)
                self.low = np.where(burst, np.fmin.reduce(Y, initial=np.inf), self.low)
                self.high = np.where(burst, np.fmax.reduce(Y, initial=-np.inf), self.high)
        elif not self.classes:
            Y = clip_outliers(Y)
            self.low, self.high = np.fmin.reduce(Y, initial=np.inf), np.fmax.reduce(Y, initial=-np.inf)
            self.recent.replace(2, Y)
            # The regrets so far are in other units and may include outliers.
            self.regrets.start(*self.regrets.weights_.shape)
        groups, choices = group_outputs(Y), [one.choice for one in before]
        one_group = len(before) == len(groups) == 1
        if one_group and not at_once and len(Y) > MAX_ROWS_AT_ONCE and not burst.any():
            self.refit_since = self.count
            return
        rows = X, last, Y, weights
        fits = [ExpertSet.fit(*rows, self.classes, choices, outputs if len(groups) > 1 else None) for outputs in groups]
        self._use([completed(fit) for fit in fits], burst)

    def _use(self, experts: list[ExpertSet], restarted: Mask) -> None:
        """Replace all experts; what was learned about the weights of some outputs, (d,), is discarded."""
        if self.experts:
            # Outputs without labels before this fit had no units.
            self.regrets.restart(restarted | self.experts[0].labels.unknown())
            self.previous = [one.only_kernel() for one in self.experts]
        self.experts = experts
        self._after_refit(experts)

    def _until_fitted(self, following: int) -> int:
        """Run the steps within the budget of the following rows; returns the rows left until the experts are used."""
        since = self.count - self.refit_since
        if self._work is None:
            X, last, Y, weights = self.recent.with_weights()
            n, classes, choices = len(self.recent) - since, self.classes, [one.choice for one in self.experts]
            rows = X[:n], last[:n], Y[:n], None if weights is None else weights[:n]
            self._work = Refit(lambda: ExpertSet.fit(*rows, classes, choices))
        self._work.advance(since + following)
        return sys.maxsize if self._work.experts is None else self._work.last_row - since

    def _continue_refit(self) -> None:
        """Let fitted experts learn the rows since the start of the refit, and use them after the last one."""
        work, since = self._work, self.count - self.refit_since
        if work is None or work.experts is None:
            return
        experts = work.experts._snapshot() if self._fitted is None else self._fitted
        while size := min(CATCH_UP_ROWS, work.to_learn(self._learned, since)):
            first = len(self.recent) - since + self._learned
            some = [array[first : first + size] for array in self.recent.arrays]
            experts.predict_and_update(*some)
            self._learned += size
        self._fitted = experts
        if since == work.last_row:
            self._end_refit()
            self._use([experts], np.full(len(self.last), False))

    def _end_refit(self) -> None:
        self.refit_since = self._learned = 0
        self._work = self._fitted = None

    def _refit_group(self, experts: ExpertSet) -> None:
        """Refit the experts of one group of outputs."""
        X, last, Y, weights = self.recent.with_weights()
        new = completed(ExpertSet.fit(X, last, Y, weights, self.classes, [experts.choice], experts.outputs))
        new.count = experts.count
        own = set(experts.outputs or ())
        # Later entries replace earlier ones of the same outputs.
        older = [one for one in self.previous if one.outputs is None or not own.issuperset(one.outputs)]
        self.previous = [*older, experts.only_kernel()]
        self.experts = [new if one is experts else one for one in self.experts]
        self._after_refit([new])

    def _after_refit(self, new: list[ExpertSet]) -> None:
        """Update the limits of the outputs of new experts, and restart the corrections by other outputs."""
        self.reach, self.others = self.reach.copy(), None
        for experts in new:
            least = np.min([ridge.reach for ridge in experts.ridges], axis=0)
            self.reach[experts.columns] = np.minimum(self.reach[experts.columns], least)
        if len(self.experts) > 1:
            X, last, Y, weights = self.recent.with_weights()
            F = np.empty(Y.shape)
            for experts in self.experts:
                F[:, experts.columns] = experts.loo_predictions(X, last, Y, weights)
            groups = [experts.outputs or [] for experts in self.experts]
            self.others = OtherOutputs(F, Y, weights, self.experts[0].labels, groups, RESIDUAL_FACTOR)

    def _clip_labels(self, Y: Array) -> Array:
        """Clip labels so that each row widens their range by at most its width or `MAX_DEVIATIONS`.

        The effect of one outlier is limited, and a new level is reached in a few rows.
        """
        if not self.experts or self.classes:
            return Y
        if not self._outside(Y).any():
            return Y
        low, high, least = self.low, self.high, MAX_DEVIATIONS * self.experts[0].labels.scale
        clipped = Y.copy()
        for i, y in enumerate(Y):
            clipped[i] = np.clip(y, *_bounds(low, high, least))
            low, high = np.fmin(low, clipped[i]), np.fmax(high, clipped[i])
        if self.burst_ends <= self.count and (clipped[-1] != Y[-1])[np.isfinite(Y[-1])].any():
            self.burst_ends = self.count + int(np.isfinite(Y).any(axis=1).sum()) + 2 * MAX_BURST_ROWS
        return clipped

    def _had_burst(self) -> bool:
        return bool(clip_burst(self.recent.arrays[2], self.experts[0].labels)[1].any())

    def _outside(self, Y: Array) -> Mask:
        """(n,) mask of the rows with labels that a row may not add to the present range."""
        if not self.experts or self.classes:
            return np.full(len(Y), False)
        below, above = _bounds(self.low, self.high, MAX_DEVIATIONS * self.experts[0].labels.scale)
        outside: Mask = np.logical_or.reduce((below > Y) | (above < Y), axis=1)
        return outside

    def _slots(self, means: Array, last: Array) -> Array:
        """(n, k, d) predictions of the mean and of the last label, nan for the other experts."""
        F = np.full((len(last), *self.regrets.weights_.shape), np.nan)
        F[:, 0], F[:, 1] = means, last
        return F

    def _slots_of_experts(self) -> Iterator[tuple[slice, ExpertSet]]:
        yield from ((slice(2, -1), experts) for experts in self.experts)
        yield from ((slice(-1, None), experts) for experts in self.previous)

    def _lag_inputs(self, last: Array) -> Array:
        return last if self.lag else np.full_like(last, np.nan)

    def _clip(self, F: Array, low: Array, high: Array) -> Array:
        if self.classes:
            return np.minimum(np.maximum(F, 0.0), 1.0)
        seen = low <= high
        margin = RANGE_MARGIN * np.where(seen, high, 0.0) - RANGE_MARGIN * np.where(seen, low, 0.0)
        F = np.maximum(F, np.where(seen, low - margin, -np.inf))
        return np.minimum(F, np.where(seen, high + margin, np.inf))


# The class body cannot refer to the class.
ExpertMixture._state_classes = {**ExpertMixture._state_classes, "candidate": ExpertMixture}


def _bounds(low: Array, high: Array, least: Array) -> tuple[Array, Array]:
    """The range of labels, widened on either side by its width or `least`; infinite for outputs without labels."""
    seen = low <= high
    reach = np.maximum(least, np.where(seen, high, 0.0) - np.where(seen, low, 0.0))
    return np.where(seen, low - reach, -np.inf), np.where(seen, high + reach, np.inf)


def _rows_up_to(mask: Mask, number: int) -> int:
    """Number of rows up to the `number`-th True in the mask; one more than its length if there are fewer."""
    return int(np.searchsorted(np.cumsum(mask), number)) + 1


def _with_first(first: Array, rows: Array) -> Array:
    both = np.empty((len(rows) + 1, len(first)))
    both[0], both[1:] = first, rows
    return both


def _mean(total: Array, count: Array) -> Array:
    return total / np.where(count > 0.0, count, 1.0)


def _fill_forward(Y: Array) -> Array:
    rows = np.where(np.isfinite(Y), np.arange(len(Y))[:, None], 0)
    return np.take_along_axis(Y, np.maximum.accumulate(rows, axis=0), axis=0)
