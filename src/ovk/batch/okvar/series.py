"""Conversion of time series from the user to a list of `TimeSeries`.

The user passes one series as an array (n, d), several as a list of such arrays, or all in a long data frame with one
row per time point and the names of the columns with series and time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse

from ovk.base import Array, State, check_inputs, host_inputs, masked_as_nan

#: Time steps are equal if they differ by less than this part.
STEP_TOL = 1e-3


@dataclass(frozen=True, eq=False)
class TimeSeries(State):
    _stored = {"values": "n d nan", "times": "n"}

    values: Array  # (n, d), nan where missing
    times: Array  # (n,), increasing

    def __len__(self) -> int:
        return len(self.values)

    def part(self, start: int, end: int) -> TimeSeries:
        return TimeSeries(self.values[start:end], self.times[start:end])


def read_series(estimator: Any, X: Any, series: Any, times: Any, step: float | None = None) -> list[TimeSeries]:
    """The series that a user passed, with their variables checked by scikit-learn.

    Without `step`, the estimator stores the variables. With it, they must be the stored ones, and points without times
    are one `step` apart.
    """
    rows, lengths, clock = _concatenated(host_inputs(estimator, X), series, times)
    rows = check_inputs(estimator, rows, reset=step is None, dtype=np.float64, ensure_all_finite="allow-nan")
    if np.isinf(rows).any():
        raise ValueError("Input X contains infinity: replace missing values by nan")
    return _as_series(np.asarray(rows), lengths, clock, 1.0 if step is None else step)


def _concatenated(X: Any, series: Any, times: Any) -> tuple[Any, list[int], Array | None]:
    """All series below each other, (n, d), with their lengths and times; only the columns of variables."""
    if sparse.issparse(X):
        raise TypeError("OKVAR does not support sparse series: pass X.toarray()")
    if isinstance(X, (str, bytes, dict)) or not hasattr(X, "__len__") or getattr(X, "ndim", 1) == 0:
        raise ValueError(f"X must be a series (n, d), a list of series, or a data frame, got {type(X).__name__}")
    X = [masked_as_nan(one, "X") for one in X] if isinstance(X, list) else masked_as_nan(X, "X")
    # A list of tables, not one table as a list of rows.
    if isinstance(X, (list, tuple)) and len(X) > 0 and all(np.ndim(part) == 2 for part in X):
        if series is not None:
            raise ValueError("series is only for a single table: omit it with a list of series")
        parts = [np.asarray(part) for part in X]
        widths = {part.shape[1] for part in parts}
        if len(widths) > 1:
            raise ValueError(f"all series must have the same variables, got series with {sorted(widths)} columns")
        lengths = [len(part) for part in parts]
        return np.concatenate(parts), lengths, None if times is None else _times_of_list(times, lengths)
    return _rows_of_table(X, series, times)


def _times_of_list(times: Any, lengths: list[int]) -> Array:
    if isinstance(times, (list, tuple)) and any(np.ndim(part) == 1 for part in times):
        found = [len(part) for part in times]
        if found != lengths:
            raise ValueError(f"times must have an array for each series with its length {lengths}, got {found}")
        return _as_numbers(np.concatenate([np.asarray(part) for part in times]))
    shared = np.asarray(times)
    if shared.ndim != 1 or set(lengths) != {len(shared)}:
        raise ValueError(
            f"times must be one array for all series, or a list with one for each, of lengths {lengths}; got shape "
            f"{shared.shape}"
        )
    return np.tile(_as_numbers(shared), len(lengths))


def _rows_of_table(X: Any, series: Any, times: Any) -> tuple[Any, list[int], Array | None]:
    names = [name for name in (series, times) if isinstance(name, str)]
    columns = getattr(X, "columns", None)
    for name in names:
        if columns is None:
            raise ValueError(f"X must be a data frame to name its column {name!r}, got {type(X).__name__}")
        if name not in list(columns):
            raise ValueError(f"there is no column {name!r} in X: its columns are {', '.join(map(str, columns))}")
    labels = np.asarray(X[series]) if isinstance(series, str) else series
    clock = np.asarray(X[times]) if isinstance(times, str) else times
    rows = X.drop(columns=names) if names and hasattr(X, "iloc") else X.drop(names) if names else X
    n = rows.shape[0] if hasattr(rows, "shape") else len(rows)
    order, lengths = np.arange(n), [n]
    if labels is not None:
        labels = np.asarray(labels)
        if labels.shape != (n,):
            raise ValueError(f"series must have a label for each of the {n} rows, got shape {labels.shape}")
        _, first, numbers = np.unique(labels, return_index=True, return_inverse=True)
        # Series in order of appearance.
        place = np.empty(len(first), dtype=int)
        place[np.argsort(first)] = np.arange(len(first))
        order = np.argsort(place[numbers], kind="stable")
        lengths = np.bincount(place[numbers]).tolist()
        # Data frames keep their column names.
        frame = hasattr(rows, "columns")
        rows = rows.iloc[order] if hasattr(rows, "iloc") else (rows if frame else np.asarray(rows))[order]
    if clock is None:
        return rows, lengths, None
    clock = _as_numbers(np.asarray(clock))
    if clock.shape != (n,):
        raise ValueError(f"times must have an entry for each of the {n} rows, got shape {clock.shape}")
    return rows, lengths, clock[order]


def _as_numbers(times: Any) -> Array:
    if times.dtype.kind == "M":
        times = times.astype("datetime64[ns]").astype(np.int64) / 1e9
    try:
        clock: Array = np.asarray(times, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"times must contain numbers or dates, got dtype {times.dtype}") from error
    if not np.isfinite(clock).all():
        raise ValueError("times must be finite, got NaN or infinity: drop rows without a time")
    return clock


def _as_series(rows: Array, lengths: Sequence[int], times: Array | None, step: float) -> list[TimeSeries]:
    """Checked rows as series with their times; without times, points are one step apart."""
    result = []
    for number, part in enumerate(np.split(np.arange(len(rows)), np.cumsum(lengths)[:-1])):
        clock = step * np.arange(float(len(part))) if times is None else times[part]
        if (np.diff(clock) <= 0).any():
            k = int(np.flatnonzero(np.diff(clock) <= 0)[0])
            raise ValueError(
                f"times must increase within a series, got {clock[k]:g} before {clock[k + 1]:g} in series {number}: "
                "sort the rows, or separate the series (a list, or series=)"
            )
        result.append(TimeSeries(rows[part], clock))
    return result


@dataclass(frozen=True, eq=False)
class Units:
    """Means, scales and time step with which series are standardised."""

    mean: Array  # (d,)
    scale: Array  # (d,) standard deviations
    step: float  # the usual time between two points

    @classmethod
    def from_series(cls, series: Sequence[TimeSeries], names: Sequence[str], standardize: bool) -> Self:
        """The median step in time, and mean and scale of the variables, or 0 and 1 without `standardize`."""
        steps = np.concatenate([np.diff(one.times) for one in series])
        step = float(np.median(steps)) if len(steps) else 1.0
        rows = np.concatenate([one.values for one in series])
        d = rows.shape[1]
        unseen = np.flatnonzero(np.isnan(rows).all(axis=0))
        if len(unseen):
            raise ValueError(f"variable {names[unseen[0]]!r} is never observed: drop it")
        if not standardize:
            return cls(np.zeros(d), np.ones(d), step)
        mean, spread = np.nanmean(rows, axis=0), np.nanstd(rows, axis=0)
        # A constant variable is not scaled.
        return cls(mean, np.where(spread > 1e-12 * np.maximum(np.abs(mean), 1e-300), spread, 1.0), step)

    def standardised(self, series: TimeSeries) -> TimeSeries:
        return TimeSeries((series.values - self.mean) / self.scale, series.times / self.step)

    def original(self, values: Array) -> Array:
        return np.asarray(self.mean + self.scale * values)


def smoothed(series: TimeSeries, width: float) -> TimeSeries:
    """The series after local linear regression in time, with Gaussian weights of this width; gaps are filled.

    A straight line is fitted around every time by weighted least squares, so trends are kept at both ends.
    """
    if width == 0:
        return series
    distance = series.times[None, :] - series.times[:, None]
    weights = np.exp(-0.5 * (distance / width) ** 2)
    result = np.full_like(series.values, np.nan)
    for q in range(series.values.shape[1]):
        seen = ~np.isnan(series.values[:, q])
        w, u, x = weights[:, seen], distance[:, seen], series.values[seen, q]
        s0, s1, s2 = w.sum(axis=1), (w * u).sum(axis=1), (w * u * u).sum(axis=1)
        spread = s0 * s2 - s1 * s1
        # A line needs two near points; with one the weighted mean is used, and with none the value stays missing.
        line = spread > 1e-8 * np.maximum(s0, 1e-300) ** 2 * width**2
        numerator = np.where(line, s2 * (w @ x) - s1 * ((w * u) @ x), w @ x)
        result[:, q] = np.divide(numerator, np.where(line, spread, s0), out=result[:, q].copy(), where=s0 > 1e-6)
    return TimeSeries(result, series.times)


def low_passed(series: TimeSeries, memory: float) -> TimeSeries:
    """The filter  dp/dt = (x - p) / memory,  p(0) = x(0),  exactly for x linear between its points."""
    if memory == 0:
        return series
    x, p = series.values, series.values.copy()
    for k, span in enumerate(np.diff(series.times)):
        p[k + 1] = relaxed(p[k], x[k], x[k + 1], span, memory)
        # After a gap the filter restarts at the observed state.
        p[k + 1] = np.where(np.isnan(p[k + 1]), x[k + 1], p[k + 1])
    return TimeSeries(p, series.times)


def relaxed(p: Array, before: Array, after: Array, span: float, memory: float) -> Array:
    """p at the end of a step of length `span`, for x linear from `before` to `after`."""
    lagging = (after - before) / span * memory
    return np.asarray(after - lagging + (p - before + lagging) * np.exp(-span / memory))
