"""Rows that nobody has measured yet: inputs made from lags, the calendar and tables of the future."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ovk._params import check_int, in_interval
from ovk._types import Array
from ovk.sessions.horizons import quantiles, roll_forward
from ovk.sessions.predictions import Predictions, RowPredictor
from ovk.streams import Batch, Preparation, Records
from ovk.streams.instants import calendar
from ovk.streams.steps import as_dates, following
from ovk.streams.tables import quoted


class Forecast(NamedTuple):
    """Forecasts of the rows that follow a table.

    Attributes
    ----------
    outputs : names of the outputs
    F : (steps, d) forecasts
    widths : (steps, d) half widths of their intervals; infinite where too few forecasts so far ahead were tested
    instants : (steps,) when the rows will be, in seconds since 1970; None for a table without times
    level : of the intervals; None if it is not known

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from ovk.sessions import Settings, learn
    >>> from ovk.streams import open_records
    >>> days = np.datetime64("2023-01-01") + np.arange(500)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "t.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("day,y\\n" + "".join(f"{day},{(i % 7) ** 2}\\n" for i, day in enumerate(days)))
    ...     with open_records(path) as records:
    ...         session = learn(records, Settings(["y"], time=["day"], lags=[1, 7]))
    >>> forecast = session.forecast(7)
    >>> print(forecast.dates[0], forecast.F.shape, np.abs(forecast.F[:, 0] - np.roll(np.arange(7) ** 2, -3)).max() < 3)
    2024-05-15T00:00:00 (7, 1) True
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
    """Forecast the rows that follow those that were learned.

    Parameters
    ----------
    predictor : what predicts rows, as it is after the last one
    steps, level, future : as in `Session.forecast`
    errors : (k, horizon, d) errors of earlier forecasts; None where all steps have the errors of the first one
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
    clock = preparation.clock()
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
