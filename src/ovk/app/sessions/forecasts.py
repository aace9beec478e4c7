"""Rows that nobody has measured yet: inputs made from lags, the calendar and tables of the future."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ovk.app.sessions.predictions import Predictions, RowPredictor
from ovk.app.tables import Batch, Preparation, Records, fill_forward
from ovk.base import Array, State, as_dates, calendar, check_int, following, in_interval, quoted, snapshot_of
from ovk.intervals import conformal_rank

# Forecasts several rows ahead, and their errors, measured while a stream is learned.
#
# A model with lagged outputs goes on by itself when each forecast becomes a lag of those after it. With f the learned
# function, u_t the inputs of row t that are no lags, and y_t its outputs,
#
#     z_{t+h} = f(u_{t+h}, z_{t+h-l} for every lag l),        z_s = y_s for s <= t.
#
# The error e_h = y_{t+h} - z_{t+h} grows with h in a way that one-step errors do not tell. So it is measured: the model
# is kept as it was some rows ago, and makes forecasts from many origins within the rows that it has not learned. The
# interval of step h holds the ceil((m + 1) level)-th smallest |e_h| of the last m, as in split conformal prediction:
# right as far as errors to come are exchangeable with those. Neighbouring forecasts overlap and share their shocks, so
# that m of them are worth fewer independent ones; and the model that makes the next forecast has learned some rows
# more.

#: Rows that a model is kept for: so many at most, and at most one in so many of those it has learned, since an older
#: model would be a worse one.
MAX_ROWS_HELD, ROWS_PER_HELD = 512, 8

#: Once so many rows are learned, forecasts are tested in some of them only: a pause in between lasts one in so many of
#: the rows learned so far, and so many at most.
MIN_ROWS_FOR_PAUSES, ROWS_PER_PAUSED, MAX_PAUSE = 1000, 4, 16384

#: Origins in these rows, and forecasts whose errors are remembered.
MAX_ORIGINS, MAX_FORECASTS_KEPT = 64, 500


def roll_forward(predict: Callable[[Array], Array], lags: Sequence[int], past: Array, X: Array) -> Array:
    """(k, steps, d) forecasts from k origins, each of which becomes a lag of those after it.

    `past` (k, longest lag, d) are the outputs before each origin; the last columns of X (k, steps, p) are for the
    lagged outputs and are not looked at.
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


def horizon_errors(
    predict: Callable[[Array], Array], lags: Sequence[int], past: Array, X: Array, Y: Array, horizon: int, origins: int
) -> Array:
    """(k, horizon, d) errors of forecasts from `origins` places in rows X (m, p), Y (m, d), or from all if fewer.

    nan where the outcome is missing, or beyond the rows. `past` (longest lag, d) are the outputs before the rows.
    """
    m, longest = len(Y), len(past)
    starts = np.arange(0, m, -(-m // origins))
    rows = starts[:, None] + np.arange(horizon)
    inside = rows < m
    rows = np.minimum(rows, m - 1)
    known = fill_forward(np.vstack([past, Y]))
    before = known[starts[:, None] + np.arange(longest)]
    F = roll_forward(predict, lags, before, X[rows])
    return np.where(inside[:, :, None], Y[rows] - F, np.nan)


def quantiles(errors: Array, level: float) -> Array:
    """(horizon, d) half widths of intervals of that level out of errors (k, horizon, d), nan where not known.

    Infinite where there are too few.

    >>> quantiles(np.array([1.0, -3.0, 2.0, np.nan]).reshape(-1, 1, 1), 0.75).ravel()
    array([3.])
    """
    sizes = np.sort(np.abs(errors), axis=0)  # nan last
    count = np.isfinite(sizes).sum(axis=0)
    k = np.array([[conformal_rank(m, level) for m in row] for row in count.tolist()]).reshape(count.shape)
    padded = np.concatenate([sizes, np.full((1, *count.shape), np.inf)])
    found: Array = np.take_along_axis(padded, np.where(k <= count, k - 1, len(sizes))[None], axis=0)[0]
    return found


@dataclass
class HorizonErrors(State):
    """Errors of forecasts 1 to `horizon` rows ahead, made by the model as it was before the rows it is tested on.

    The model is kept for an eighth of the rows that it has learned, so that it is little worse than the one of today,
    for twice the horizon at least and for 512 rows at most. In long streams rows are left out between two such tests,
    which then cost little compared with learning: `pause` rows are to go until the next test begins.

    The `model`, which has `learned` so many rows, is as it was before the rows X (m, p) and Y (m, d); `past` (longest
    lag, d) are the outputs before these. The last `errors` (k, horizon, d) are nan where the outcome is missing.
    """

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
        """Before the first row that is tested, with the model that has learned the warm-up."""
        d = past.shape[1]
        errors, X, Y = np.empty((0, horizon, d)), np.empty((0, p)), np.empty((0, d))
        return cls(horizon, list(lags), learned, past, errors, X, Y, snapshot_of([model])[0])

    @property
    def room(self) -> int:
        """Rows until something happens: a pause ends, or the errors are measured."""
        window = max(min(self.learned // ROWS_PER_HELD, MAX_ROWS_HELD), 2 * self.horizon)
        return self.pause or window - len(self.Y)

    def add(self, X: Array, Y: Array, model: Any, predictor: Callable[[Any], Callable[[Array], Array]]) -> None:
        """Add rows, at most `room` of them, which `model` has learned by now."""
        if self.pause:
            self.pause -= len(Y)
            self._keep(model, Y)
            return
        self.X, self.Y = np.concatenate([self.X, X]), np.concatenate([self.Y, Y])
        if self.room <= 0:
            self.errors = self.measured(predictor)
            self._keep(model, self.Y)
            self.X, self.Y = self.X[:0], self.Y[:0]
            self.pause = min(self.learned // ROWS_PER_PAUSED, MAX_PAUSE) if self.learned >= MIN_ROWS_FOR_PAUSES else 0

    def _keep(self, model: Any, Y: Array) -> None:
        """Keep the model, which has learned the rows with outputs Y after those of `past`."""
        self.past = fill_forward(np.vstack([self.past, Y]))[len(Y) :]
        self.learned += len(Y)
        # As it is now, while the other goes on learning.
        self.model = snapshot_of([model])[0]

    def measured(self, predictor: Callable[[Any], Callable[[Array], Array]]) -> Array:
        """The last errors, those of the rows at hand among them."""
        if not len(self.Y):
            return self.errors
        predict = predictor(self.model)
        new = horizon_errors(predict, self.lags, self.past, self.X, self.Y, self.horizon, MAX_ORIGINS)
        return np.concatenate([self.errors, new])[-MAX_FORECASTS_KEPT:]


class Forecast(NamedTuple):
    """Forecasts F (steps, d) of the rows that follow a table, and the half widths (steps, d) of their intervals.

    Widths are infinite where too few forecasts so far ahead were tested. `instants` (steps,) tell when the rows will
    be, in seconds since 1970; None for a table without times.
    """

    outputs: list[str]
    F: Array
    widths: Array
    instants: Array | None
    level: float | None = None

    @property
    def low(self) -> Array:
        """(steps, d) lower ends of the intervals."""
        return self.F - self.widths

    @property
    def high(self) -> Array:
        """(steps, d) upper ends of the intervals."""
        return self.F + self.widths

    @property
    def dates(self) -> np.ndarray[tuple[int], np.dtype[np.datetime64]] | None:
        """(steps,) when the rows will be; None for a table without times."""
        return None if self.instants is None else as_dates(self.instants)

    def predictions(self) -> Predictions:
        """The same as predictions of rows 1, 2, ..."""
        return Predictions(list(range(1, len(self.F) + 1)), self.F, self.widths, None, self.instants)


def forecast(
    predictor: RowPredictor, steps: int, level: float | None, future: Records | None, errors: Array | None
) -> Forecast:
    """Forecast the rows that follow those that were learned, as `Session.forecast` does.

    `errors` (k, horizon, d) are those of earlier forecasts; None where all steps have the errors of the first one.
    """
    n = check_int(steps, "steps")
    level = in_interval(predictor.recent.level if level is None else level, "level", 1e-6, 1 - 1e-6)
    preparation = predictor.preparation
    X, instants = future_inputs(preparation, n, future)
    lags, d = list(preparation.lags), len(preparation.targets)
    past = preparation.lags_.past_ if lags else np.empty((0, d))
    F = roll_forward(predictor.outputs, lags, past[None], X[None])[0]
    widths = np.full((n, d), np.inf)
    if not lags:
        # Nothing is passed on from row to row: every step is a first one.
        widths[:] = predictor.recent.widths(level)
    elif errors is not None:
        found = quantiles(errors, level)[:n]
        widths[: len(found)] = found
    return Forecast(list(preparation.targets), F, widths, instants, level)


def future_inputs(preparation: Preparation, steps: int, future: Records | None) -> tuple[Array, Array | None]:
    """(steps, p) inputs of the rows to come, those of the lags nan; and (steps,) their instants, if rows have times."""
    batch, names = _rows(future, steps)
    clock = preparation.time_column()
    unknown = [
        source
        for column in preparation.columns_
        for source in column.sources()
        if source not in names and column is not clock
    ]
    if unknown:
        where = "" if future is None else f" in {future.label}"
        raise ValueError(
            f"the model needs {quoted(unknown)}, whose future is not known{where}: give a table of the rows to come "
            "that holds them (future=, --inputs), or learn again without them (features=, --features)"
        )
    if clock is None and not preparation.lags and future is None:
        raise ValueError(
            "the model has neither lags nor calendar inputs, so nothing leads from the last row to the next: learn "
            "again with lags=[1, 2] (--lags 1,2) or a time column (--time), or predict rows whose inputs you know"
        )
    X = np.full((steps, len(preparation.feature_names_)), np.nan)
    instants, end = None, 0
    for column in preparation.columns_:
        known = all(source in names for source in column.sources())
        cells = [batch.columns[names.index(source)] for source in column.sources()] if known else []
        if column is clock:
            instants = clock.instants(cells) if known else following(preparation.instants_, steps)
        start, end = end, end + len(column.names())
        X[:, start:end] = column.encode(cells).values if instants is None or column is not clock else calendar(instants)
    return X, instants


def _rows(future: Records | None, steps: int) -> tuple[Batch, list[str]]:
    """The first rows of the table, and the names of its columns."""
    if future is None:
        return Batch([], [], []), []
    batch = next(future.batches(steps), Batch([], [], []))
    if len(batch.rows) < steps:
        fault = f" ({batch.bad[0][1]})" if batch.bad else ""
        raise ValueError(
            f"{future.label} has {len(batch.rows)} rows that can be read{fault}, but {steps} are to be forecast: ask "
            "for fewer steps, or add rows"
        )
    return batch, list(future.names)
