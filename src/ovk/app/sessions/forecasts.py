"""Forecasts of future rows from lags, dates and tables of future inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from ovk.app.sessions.predictions import Predictions, RowPredictor
from ovk.app.tables import Batch, Preparation, Records, fill_forward
from ovk.base import (
    COUNT,
    Array,
    Indices,
    State,
    as_dates,
    calendar_features,
    check_int,
    following_instants,
    in_interval,
    quoted,
    snapshot_of,
)
from ovk.intervals import masses, upper_quantile

# Forecasts several rows ahead are recursive: each forecast becomes a lag of the following ones. With f the learned
# function, u_t the inputs of row t that are not lags, and y_t its outputs,
#
#     z_{t+h} = f(u_{t+h}, z_{t+h-l} for every lag l),        z_s = y_s for s <= t.
#
# The error e_h = y_{t+h} - z_{t+h} grows with h in a way that one-step errors do not predict, so it is measured: an
# older copy of the model makes forecasts from many origins within the rows that it has not learned. The half width of
# step h is the ceil((m + 1) level)-th smallest |e_h| of the last m, as in split conformal prediction, valid if future
# errors are exchangeable with these. This is approximate: neighbouring forecasts overlap and are correlated, so their
# effective sample size is below m, and the model that makes the next forecast has learned from more rows.

#: A copy of the model is tested on at most this many rows, and on at most one per this number of learned rows,
#: since an older model would be worse.
MAX_TEST_ROWS, LEARNED_ROWS_PER_TEST_ROW = 512, 8

#: From this many learned rows on, there are pauses between tests: one row per this many learned rows, up to a maximum.
MIN_ROWS_FOR_PAUSES, LEARNED_ROWS_PER_PAUSED_ROW, MAX_PAUSE = 1000, 4, 16384

#: Maximum number of origins per test, and of forecasts whose errors are kept.
MAX_ORIGINS, MAX_FORECASTS_KEPT = 64, 500


def recursive_forecast(predict: Callable[[Array], Array], lags: Sequence[int], past: Array, X: Array) -> Array:
    """(k, steps, d) forecasts from k origins.

    `past` (k, longest lag, d) are the outputs before each origin; the last columns of X (k, steps, p) are reserved for
    the lagged outputs.
    """
    k, steps, p = X.shape
    longest, d = past.shape[1:]
    path = np.concatenate([past, np.empty((k, steps, d))], axis=1)
    for h in range(steps):
        x = X[:, h].copy()
        if lags:
            x[:, p - d * len(lags) :] = np.hstack([path[:, longest + h - lag] for lag in lags])
        path[:, longest + h] = predict(x)
    return path[:, longest:]


# The model is combined with three forecasts that need no inputs: the last value, the value one season earlier, and
# exponential smoothing with a damped trend and additive seasonality (Holt, Winters; Gardner and McKenzie, 1985),
#
#     e_t = y_t - (l + phi b + s_t),     l <- l + phi b + u e_t,     b <- phi b + v e_t,     s_t <- s_t + w (1 - u) e_t,
#     forecast h steps ahead:  l + (phi + ... + phi^h) b + s_{t+h},
#
# with (u, v, w) of least mean |e_t| on a grid. Forecast c has the same weight for all steps of an output,
#
#     w_c ~ (mean |e| of c over all steps)^-m,     m = max(8, (number of tested forecasts) / horizon),
#
# the likelihood of m independent errors with a Laplace distribution of that scale: the effective sample size of
# overlapping forecasts is about the number of disjoint ones. With many tests the best forecast has all the weight.
# Weights sum to 1, so the error of the combination is the same combination of the errors.

#: Damping of the trend, and grid of (u, v / u, w).
DAMPING = 0.95
SMOOTHING = np.array([(u, v * u, w) for u in (0.1, 0.4, 0.8) for v in (0.02, 0.2) for w in (0.1, 0.4)]).T

#: Number of forecasts that are combined, and outputs before an origin that they use: seasons, and minimum rows.
FORECASTS, SEASONS_SEEN, ROWS_SEEN = 4, 6, 120

#: Minimum exponent of the weights.
MIN_EXPONENT = 8


def season_of(past: Array, lags: Sequence[int]) -> int:
    """The lag above 1 that repeats best, 1 if there is none: of least mean |y_t - y_{t-l}| / sqrt(l).

    Differences of a random walk grow like sqrt(l), so that this score favours no lag there.
    """
    scale = np.nanmean(np.abs(np.diff(past, axis=0)), axis=0, keepdims=True) if len(past) > 1 else 1.0
    steps = past / np.where(np.isfinite(scale) & (scale > 0), scale, 1.0)
    errors = {lag: np.nanmean(np.abs(steps[lag:] - steps[:-lag])) / lag**0.5 for lag in lags if 1 < lag < len(past) / 2}
    return min(errors, key=lambda lag: float(np.nan_to_num(errors[lag], nan=np.inf)), default=1)


def rows_seen(lags: Sequence[int]) -> int:
    """Number of outputs before an origin that forecasts need."""
    return max(SEASONS_SEEN * max(lags, default=1), ROWS_SEEN)


def simple_forecasts(past: Array, steps: int, season: int) -> Array:
    """(3, k, steps, d) last values, seasonal values and damped trends after the outputs `past` (k, m, d)."""
    k, m, d = past.shape
    ahead = np.arange(steps)
    last = np.broadcast_to(past[:, -1:], (k, steps, d))
    return np.stack([last, past[:, m - season + ahead % season], damped_trend(past, steps, season)])


def damped_trend(past: Array, steps: int, season: int) -> Array:
    """(k, steps, d) exponential smoothing with a damped trend and a season after the outputs `past` (k, m, d)."""
    m = past.shape[1]
    u, v, w = SMOOTHING[:, :, None, None]
    middle = past[:, :season].mean(axis=1)
    trend = (past[:, season : 2 * season].mean(axis=1) - middle) / season if m >= 2 * season else np.zeros_like(middle)
    time = np.arange(season)[:, None, None] - 0.5 * (season - 1)
    # The constant of a season of one row is in the level.
    start = past[:, :season].swapaxes(0, 1) - middle - time * trend if season > 1 else np.zeros((1, *middle.shape))
    seasonal = np.repeat(start[:, None], len(u), axis=1)
    level, slope, cost = middle + time[-1] * trend + 0.0 * u, trend + 0.0 * u, 0.0
    for t in range(season, m):
        slope = DAMPING * slope
        error = past[:, t] - level - slope - seasonal[t % season]
        cost = cost + np.abs(error)
        level, slope = level + slope + u * error, slope + v * error
        if season > 1:
            seasonal[t % season] += w * (1.0 - u) * error
    best = np.argmin(np.broadcast_to(cost, level.shape), axis=0)[None]
    level, slope = (np.take_along_axis(one, best, axis=0)[0] for one in (level, slope))
    waves = np.take_along_axis(seasonal, best[None], axis=1)[:, 0]
    growth = np.cumsum(DAMPING ** np.arange(1, steps + 1))
    path = [level + growth[h] * slope + waves[(m + h) % season] for h in range(steps)]
    return np.stack(path, axis=1)


def horizon_errors(
    predict: Callable[[Array], Array], lags: Sequence[int], past: Array, X: Array, Y: Array, horizon: int, origins: int
) -> Array:
    """(4, k, horizon, d) errors of the model and of simple forecasts from up to `origins` rows of X (m, p), Y (m, d).

    nan where the outcome is missing or after the last row. `past` (at least longest lag, d) are the outputs before the
    rows.
    """
    m, longest = len(Y), max(lags, default=0)
    starts = np.arange(0, m, -(-m // origins))
    rows = starts[:, None] + np.arange(horizon)
    inside = rows < m
    rows = np.minimum(rows, m - 1)
    known = fill_forward(np.vstack([past, Y]))
    before = known[starts[:, None] + np.arange(len(past))]
    F = recursive_forecast(predict, lags, before[:, len(past) - longest :], X[rows])
    simple = simple_forecasts(before, horizon, season_of(past, lags))
    return np.where(inside[:, :, None], Y[rows] - np.concatenate([F[None], simple]), np.nan)


def forecast_weights(errors: Array) -> Array:
    """(c, d) weights of c forecasts with errors (c, k, horizon, d): 1 for the first if none was tested."""
    seen = np.isfinite(errors)
    count = seen.sum(axis=(1, 2))
    means = np.where(seen, np.abs(errors), 0.0).sum(axis=(1, 2)) / np.maximum(count, 1)
    # A forecast that was not always possible has no weight.
    tested = (count == count.max(axis=0)) & (count > 0)
    tested[0] |= ~tested.any(axis=0)
    independent = max(MIN_EXPONENT, errors.shape[1] / errors.shape[2])
    logs = np.where(tested, -independent * np.log(np.maximum(means, 1e-300)), -np.inf)
    weights = np.exp(logs - logs.max(axis=0))
    return np.asarray(weights / weights.sum(axis=0))


def forecast_widths(errors: Array, level: float) -> Array:
    """(horizon, d) half widths of intervals from errors (k, horizon, d), nan where missing.

    Conformal quantiles, times the ratio of the quantiles of Student's t with (number of errors) / h degrees of freedom
    and of the normal: this is the effective sample size of overlapping errors h rows ahead.
    """
    count = np.isfinite(errors).sum(axis=0)
    disjoint = np.maximum(count / np.arange(1, errors.shape[1] + 1)[:, None], 1.0)
    p = 0.5 + 0.5 * level
    return np.asarray(conformal_widths(errors, level) * stats.t.ppf(p, disjoint) / stats.norm.ppf(p))


class TestedForecasts(NamedTuple):
    """Errors (c, k, horizon, d) of the forecasts that are combined, and the last outputs (m, d)."""

    errors: Array
    past: Array


def conformal_widths(errors: Array, level: float, groups: Indices | None = None) -> Array:
    """(...) half widths of intervals of that level from errors (k, ...), nan where missing; infinite if too few.

    `groups` (k,) are the groups of the errors, each of which has the same weight.
    """

    def width(one: Array) -> Array:
        known = np.isfinite(one)
        return upper_quantile(np.where(known, np.abs(one), np.inf), masses(known, groups), level)

    return np.apply_along_axis(width, 0, errors) if len(errors) else np.full(errors.shape[1:], np.inf)


@dataclass
class HorizonErrors(State):
    """Errors of forecasts 1 to `horizon` rows ahead, by a copy of the model that has not learned the rows of the test.

    A copy is tested on an eighth of the rows that it has learned, but on at least twice the horizon and at most 512
    rows. In long streams there are pauses between tests, which then cost little compared with learning: the next test
    begins after `pause` more rows.

    The `model`, which has learned `learned` rows, is a copy from before the rows X (m, p) and Y (m, d); `past` (longest
    lag or more, d) are the outputs before these. The last `errors` (4, k, horizon, d) of the model and of simple
    forecasts are nan where the outcome is missing.
    """

    _stored = {"pause": COUNT}

    horizon: int
    lags: list[int]
    learned: int
    past: Array
    errors: Array
    X: Array
    Y: Array
    model: Any = field(repr=False)
    pause: int = 0

    @classmethod
    def start(cls, horizon: int, lags: Sequence[int], past: Array, model: Any, learned: int, p: int) -> HorizonErrors:
        d = past.shape[1]
        errors, X, Y = np.empty((FORECASTS, 0, horizon, d)), np.empty((0, p)), np.empty((0, d))
        return cls(horizon, list(lags), learned, past, errors, X, Y, snapshot_of([model])[0])

    @property
    def room(self) -> int:
        """Rows until the pause ends, or until the errors are measured."""
        window = max(min(self.learned // LEARNED_ROWS_PER_TEST_ROW, MAX_TEST_ROWS), 2 * self.horizon)
        return self.pause or window - len(self.Y)

    def add(self, X: Array, Y: Array, model: Any, predictor: Callable[[Any], Callable[[Array], Array]]) -> None:
        """Add at most `room` rows, which `model` has just learned."""
        if self.pause:
            self.pause -= len(Y)
            self._keep(model, Y)
            return
        self.X, self.Y = np.concatenate([self.X, X]), np.concatenate([self.Y, Y])
        if self.room <= 0:
            self.errors = self.measured(predictor)
            self._keep(model, self.Y)
            self.X, self.Y = self.X[:0], self.Y[:0]
            long = self.learned >= MIN_ROWS_FOR_PAUSES
            self.pause = min(self.learned // LEARNED_ROWS_PER_PAUSED_ROW, MAX_PAUSE) if long else 0

    def _keep(self, model: Any, Y: Array) -> None:
        """Copy the model, which has learned the rows with outputs Y that follow `past`."""
        self.past = self.outputs(Y)
        self.learned += len(Y)
        self.model = snapshot_of([model])[0]

    def measured(self, predictor: Callable[[Any], Callable[[Array], Array]]) -> Array:
        """The last errors, including those on the current rows."""
        if not len(self.Y):
            return self.errors
        predict = predictor(self.model)
        new = horizon_errors(predict, self.lags, self.past, self.X, self.Y, self.horizon, MAX_ORIGINS)
        return np.concatenate([self.errors, new], axis=1)[:, -MAX_FORECASTS_KEPT:]

    def outputs(self, Y: Array) -> Array:
        """The last outputs before the row after those with outputs Y, which follow `past`."""
        return fill_forward(np.vstack([self.past, Y]))[-rows_seen(self.lags) :]


class Forecast(NamedTuple):
    """Forecasts F (steps, d) of the rows that follow a table, and the half widths (steps, d) of their intervals.

    Widths are infinite where too few forecasts were tested. `instants` (steps,) are the times of the rows in seconds
    since 1970; None for a table without times.
    """

    outputs: list[str]
    F: Array
    widths: Array
    instants: Array | None
    level: float | None = None

    @property
    def lower(self) -> Array:
        """(steps, d) lower ends of the intervals."""
        return self.F - self.widths

    @property
    def upper(self) -> Array:
        """(steps, d) upper ends of the intervals."""
        return self.F + self.widths

    @property
    def dates(self) -> np.ndarray[tuple[int], np.dtype[np.datetime64]] | None:
        """(steps,) times of the rows; None for a table without times."""
        return None if self.instants is None else as_dates(self.instants)

    def predictions(self) -> Predictions:
        return Predictions(list(range(1, len(self.F) + 1)), self.F, self.widths, None, self.instants)


def forecast(
    predictor: RowPredictor, steps: int, level: float | None, future: Records | None, tested: TestedForecasts | None
) -> Forecast:
    """Forecast the rows after those that were learned, with weights and widths from the errors of `tested` ones."""
    n = check_int(steps, "steps")
    level = in_interval(predictor.recent.level if level is None else level, "level", 1e-6, 1 - 1e-6)
    preparation = predictor.preparation
    X, instants = future_inputs(preparation, n, future)
    lags, d = list(preparation.lags), len(preparation.targets)
    past = preparation.lags_.past_ if lags else np.empty((0, d))
    F = recursive_forecast(predictor.outputs, lags, past[None], X[None])[0]
    widths = np.full((n, d), np.inf)
    if not lags:
        # Forecasts do not depend on each other: all steps have the errors of the first.
        widths[:] = predictor.recent.widths(level)
    elif tested is not None:
        simple = simple_forecasts(tested.past[None], n, season_of(tested.past, lags))[:, 0]
        weights = forecast_weights(tested.errors)
        each = np.stack([F, *simple])
        F = np.where(weights[:, None] > 0, weights[:, None] * each, 0.0).sum(axis=0)
        # A forecast that was not possible has no weight and no errors.
        combined = np.where(weights[:, None, None] > 0, weights[:, None, None] * tested.errors, 0.0).sum(axis=0)
        found = forecast_widths(combined[:, :n], level)
        widths[: len(found)] = found
    return Forecast(list(preparation.targets), F, widths, instants, level)


def future_inputs(preparation: Preparation, steps: int, future: Records | None) -> tuple[Array, Array | None]:
    """(steps, p) inputs of the next rows, nan for lags; and (steps,) their times, if rows have times."""
    batch, names = Batch([], [], []), list[str]()
    if future is not None:
        batch, names = next(future.batches(steps), batch), list(future.names)
        if (found := len(batch.rows)) < steps:
            fault = f" ({batch.bad[0][1]})" if batch.bad else ""
            raise ValueError(f"{future.label} has {found} readable rows{fault}; {steps} steps need as many rows")
    clock = preparation.time_column()
    needed = [source for column in preparation.columns_ if column is not clock for source in column.sources()]
    if unknown := [source for source in needed if source not in names]:
        where = "" if future is None else f" in {future.label}"
        raise ValueError(
            f"the inputs {quoted(unknown)} of the next rows are unknown{where}: pass a table that contains them "
            "(future=, --inputs), or learn without them (features=, --features)"
        )
    if clock is None and not preparation.lags and future is None:
        raise ValueError(
            "the model has neither lags nor dates as inputs: learn with lags=[1, 2] (--lags 1,2) or a time column "
            "(--time), or predict rows with known inputs"
        )
    X = np.full((steps, len(preparation.feature_names_)), np.nan)
    instants, end = None, 0
    for column in preparation.columns_:
        known = all(source in names for source in column.sources())
        cells = [batch.columns[names.index(source)] for source in column.sources()] if known else []
        if column is clock:
            instants = clock.instants(cells) if known else following_instants(preparation.instants_, steps)
            values = calendar_features(instants)
        else:
            values = column.encode(cells).values
        start, end = end, end + len(column.names())
        X[:, start:end] = values
    return X, instants
