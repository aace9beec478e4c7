"""The instants that follow those of a series, at its own step."""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk.base.types import Array

#: Last instants that tell the step.
REMEMBERED = 64

#: A step above so many seconds may be one of months: 27 days.
MONTHLY = 27 * 86400


def following(instants: Array, steps: int) -> Array:
    """(steps,) the instants after the last of a series, in seconds since 1970.

    The step is the median of the last ones. If all instants fall on the same day of the month, or all on the last one,
    at the same time of day, it is a number of months.

    Parameters
    ----------
    instants : (m,) seconds since 1970 of the last rows, in their order; nan where not known
    steps : how many to make

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.base.dates import as_dates, following
    >>> ends = np.array(["2023-11-30", "2023-12-31", "2024-01-31"], dtype="datetime64[s]").astype(float)
    >>> as_dates(following(ends, 2))
    array(['2024-02-29T00:00:00', '2024-03-31T00:00:00'],
          dtype='datetime64[s]')
    """
    known = instants[np.isfinite(instants)][-REMEMBERED:]
    if len(known) < 2:
        raise ValueError(
            "the time of fewer than two of the last rows could be read, so the step of the series is not known: give "
            "a table with the times to forecast (future=, --inputs)"
        )
    step = float(np.median(np.diff(known)))
    if step <= 0:
        raise ValueError(
            "the times of the last rows do not increase, so the step of the series is not known: sort the rows by time"
        )
    ahead = np.arange(1, steps + 1)
    if step >= MONTHLY:
        months, days, seconds = _calendar_parts(known)
        apart = int(np.median(np.diff(months)))
        at_end = bool((days + 1 == _days_in(months)).all())
        if (at_end or len(set(days)) == 1) and len(set(seconds)) == 1:
            wanted = months[-1] + apart * ahead
            day = _days_in(wanted) - 1 if at_end else np.minimum(days[-1], _days_in(wanted) - 1)
            starts: Array = (wanted.astype("datetime64[M]").astype("datetime64[s]")).astype(np.float64)
            return np.asarray(starts + 86400.0 * day + seconds[-1])
    return np.asarray(known[-1] + step * ahead)


def as_instants(times: Any) -> Array | None:
    """(n,) seconds since 1970 of dates; None of times that are none.

    >>> as_instants(np.array(["1970-01-02"], dtype="datetime64[D]"))
    array([86400.])
    """
    if times is None or times.dtype.kind != "M":
        return None
    seconds: Array = times.astype("datetime64[us]").astype(np.float64) / 1e6
    return seconds


def as_dates(instants: Array) -> np.ndarray[tuple[int], np.dtype[np.datetime64]]:
    """Seconds since 1970 as NumPy's dates, in whole seconds, or milliseconds where there are parts of them."""
    whole = np.array_equal(instants, np.round(instants), equal_nan=True)
    unit, parts = ("s", 1.0) if whole else ("ms", 1e3)
    ticks = np.where(np.isfinite(instants), np.round(instants * parts), np.iinfo(np.int64).min)
    dates: np.ndarray[tuple[int], np.dtype[np.datetime64]] = ticks.astype(np.int64).astype(f"datetime64[{unit}]")
    return dates


def _calendar_parts(instants: Array) -> tuple[Array, Array, Array]:
    """Months since 1970, days of the month from 0 on, and seconds of the day."""
    days = np.floor(instants / 86400.0)
    dates = days.astype(np.int64).astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    return months.astype(np.int64), (dates - months).astype(np.int64), instants - 86400.0 * days


def _days_in(months: Array) -> Array:
    """Number of days of each month since 1970."""
    start = months.astype(np.int64).astype("datetime64[M]")
    found: Array = ((start + 1).astype("datetime64[D]") - start.astype("datetime64[D]")).astype(np.int64)
    return found
