"""Dates and times as seconds since 1970, in local time; calendar features; forecast times.

Time zones are ignored on purpose: daily and weekly cycles follow the local clock. Numbers are Unix times.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time
from functools import lru_cache
from typing import Any

import numpy as np

from ovk.base.types import Array

_EPOCH = date(1970, 1, 1).toordinal()
_DAY = 86400.0
_DATE = re.compile(r"(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})")
_UNIX = re.compile(r"-?\d{9,19}(?:\.\d+)?")
_TIME = re.compile(r"(\d{1,2})(?::(\d{2}))?(?::(\d{2}(?:[.,]\d+)?))?\s*([AaPp][Mm])?(?:\s*(?:Z|UTC|[+-]\d{2}:?\d{2}))?")

#: Notations that are read in blocks; what is not a number, such as the time zone, is the same in all cells of a block.
_STAMP = re.compile(
    r"(?:(?P<Y>\d{4})([-/.])(?P<m>\d{1,2})\2(?P<d>\d{1,2})|(?P<a>\d{1,2})([-/.])(?P<b>\d{1,2})\6(?P<y>\d{4}))"
    r"(?:[ T](?P<H>\d{2}):(?P<M>\d{2})(?::(?P<S>\d{2}(?:\.\d{1,9})?))?(?:Z|UTC|[+-]\d{2}:?\d{2})?)?",
    re.ASCII,
)

#: Maximum number of notations in a block, cells that are tried to find the next one, and characters of a cell.
MAX_NOTATIONS, MAX_TRIED, MAX_STAMP = 8, 64, 40

#: Cycles in seconds, and their number of harmonics. The shape of a day is sharper than that of a year.
CYCLES: dict[str, tuple[float, int]] = {"day": (_DAY, 3), "week": (7 * _DAY, 2), "year": (365.2425 * _DAY, 2)}

#: Names of the columns of `calendar_features`.
CALENDAR_NAMES = tuple(
    f"{part} {k} of {cycle}"
    for cycle, (_, most) in CYCLES.items()
    for k in range(1, most + 1)
    for part in ("sin", "cos")
)

MAX_CACHED_CELLS = 100_000  # maximum number of parsed cells in a cache


def day_comes_first(cells: Iterable[Any]) -> tuple[bool, bool]:
    """Whether 1/2/2006 is the first of February, and whether no number above 12 confirms it."""
    pairs = [(int(m[1]), int(m[3])) for m in map(_DATE.match, map(str, cells)) if m and len(m[1]) <= 2]
    day, month = any(first > 12 for first, _ in pairs), any(second > 12 for _, second in pairs)
    return day or not month, bool(pairs) and not (day or month)


@lru_cache(maxsize=10_000)
def _date(text: str, day_first: bool) -> float:
    match = _DATE.fullmatch(text)
    if match:
        a, b, c = int(match[1]), int(match[3]), int(match[4])
        if len(match[1]) > 2:
            year, month, day = a, b, c
        else:
            day, month, year = (a, b, c) if day_first else (b, a, c)
            year += (2000 if year < 70 else 1900) if len(match[4]) <= 2 else 0
    elif text.isdecimal() and len(text) == 8:
        year, month, day = int(text[:4]), int(text[4:6]), int(text[6:])
    else:
        raise ValueError(f"{text!r} is not a date")
    return (date(year, month, day).toordinal() - _EPOCH) * _DAY


@lru_cache(maxsize=MAX_CACHED_CELLS)
def _time_of_day(text: str) -> float:
    match = _TIME.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a time of day")
    hour, minute = int(match[1]), int(match[2] or 0)
    second = float(match[3].replace(",", ".")) if match[3] else 0.0
    if match[4]:
        hour = hour % 12 + (12 if match[4].lower() == "pm" else 0)
    if hour > 24 or minute > 59 or second >= 61:
        raise ValueError(f"{text!r} is not a time of day")
    return 3600.0 * hour + 60.0 * minute + second


def unix_seconds(number: float) -> float:
    """A Unix time, in s, ms, us or ns depending on its size, in seconds.

    Seconds reach 1e11 in the year 5138, milliseconds reached it in March 1973.
    """
    for unit in (1.0, 1e3, 1e6):
        if abs(number) <= 1e11 * unit:
            return number / unit
    return number / 1e9


def instant_seconds(cell: Any, day_first: bool) -> float:
    """Seconds of a date, a time of day, or both in one cell; an error for other cells."""
    if isinstance(cell, datetime):
        return instant_seconds(cell.date(), day_first) + instant_seconds(cell.time(), day_first)
    if isinstance(cell, date):
        return (cell.toordinal() - _EPOCH) * _DAY
    if isinstance(cell, time):
        return 3600.0 * cell.hour + 60.0 * cell.minute + cell.second + 1e-6 * cell.microsecond
    if isinstance(cell, (int, float)) and not isinstance(cell, bool):
        if math.isinf(cell):
            raise ValueError("infinity is not an instant")
        return unix_seconds(float(cell))
    text = str(cell).strip()
    if _UNIX.fullmatch(text):
        return unix_seconds(float(text))
    head, separator, tail = text.partition("T" if "T" in text[:11] else " ")
    if ":" in head:
        return _time_of_day(text)
    seconds = _date(head, day_first)
    return seconds + _time_of_day(tail.strip()) if separator else seconds


def block_seconds(cells: Sequence[str], day_first: bool) -> Array:
    """(n,) seconds of the cells of a block in common notations, as `instant_seconds`; nan for all other cells."""
    seconds = np.full(len(cells), np.nan)
    lengths = np.fromiter(map(len, cells), np.int64, len(cells))
    if not len(cells) or lengths.max() > MAX_STAMP:
        return seconds
    try:
        letters = np.array(cells, dtype=np.bytes_)
    except UnicodeEncodeError:
        return seconds
    # A row for each place, since places are compared and added one by one.
    letters = np.ascontiguousarray(letters.view(np.uint8).reshape(len(cells), -1).T)
    left = np.flatnonzero(lengths)
    for _ in range(MAX_NOTATIONS):
        found = (match for i in left[:MAX_TRIED].tolist() if (match := _STAMP.fullmatch(cells[i])))
        if (match := next(found, None)) is None:
            break
        # Places of the digits of each part; all other letters must be those of the first cell.
        parts = {name: _digit_places(match, name) for name in match.groupdict()}
        numbers = {j for places in parts.values() for j in places}
        fits = lengths[left] == len(match[0])
        block = letters[:, left] if len(left) < len(cells) else letters
        for j, letter in enumerate(match[0].encode()):
            # Below "0", the difference wraps around to more than 9.
            fits &= block[j] - np.uint8(ord("0")) <= 9 if j in numbers else block[j] == letter
        rows = left[fits]
        seconds[rows] = _stamp_seconds(block if fits.all() else block[:, fits], parts, day_first)
        left = left[~fits]
    return seconds


def _digit_places(match: re.Match[str], name: str) -> list[int]:
    return [j for j in range(*match.span(name)) if match[0][j] != "."] if match[name] else []


def _stamp_seconds(letters: Any, parts: dict[str, list[int]], day_first: bool) -> Array:
    """(n,) seconds of (length, n) letters; `parts` has the places of the digits of year, month, and so on."""

    def number(name: str) -> Any:
        value = np.zeros(letters.shape[1], dtype=np.int64)
        for j in parts[name]:
            value = 10 * value + (letters[j] - np.uint8(ord("0")))
        return value

    first, second = ("d", "m") if parts["Y"] else ("a", "b") if day_first else ("b", "a")
    day, month, year, hour, minute = (number(name) for name in (first, second, "Y" if parts["Y"] else "y", "H", "M"))
    # An integer over a power of 10 is rounded once, as the decimal number is.
    rest = number("S") / 10.0 ** max(len(parts["S"]) - 2, 0)
    months = 12 * (year - 1970) + month - 1
    days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + day - 1
    valid = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= _days_in(months))
    valid &= (hour <= 24) & (minute <= 59) & (rest < 61)
    return np.where(valid, days * _DAY + (3600.0 * hour + 60.0 * minute + rest), np.nan)


def calendar_features(seconds: Array) -> Array:
    """Sines and cosines of the time of day, week and year, (n, 14); 0 where seconds are nan."""
    columns = []
    for period, most in CYCLES.values():
        angle = 2 * np.pi * np.mod(seconds, period) / period
        for k in range(1, most + 1):
            columns += [np.sin(k * angle), np.cos(k * angle)]
    return np.asarray(np.nan_to_num(np.column_stack(columns)))


# The times after the end of a series.

INSTANTS_FOR_STEP = 64  # number of last times that determine the step
MIN_MONTH = 27 * 86400  # steps of at least 27 days, in seconds, may be months


def following_instants(instants: Array, steps: int) -> Array:
    """(steps,) times after the last of `instants`, (m,), which are in order, with nan where not known.

    The step is the median of the last steps; a number of months if all times fall on the same day of the month, or all
    on the last one, at the same time of day.
    """
    known = instants[np.isfinite(instants)][-INSTANTS_FOR_STEP:]
    if len(known) < 2:
        raise ValueError(
            "fewer than two of the last rows have a readable time, so the step of the series is unknown: pass a table "
            "with the times to forecast (future=, --inputs)"
        )
    step = float(np.median(np.diff(known)))
    if step <= 0:
        advice = "sort the rows by time"
        raise ValueError(f"the times of the last rows do not increase, so the step of the series is unknown: {advice}")
    ahead = np.arange(1, steps + 1)
    if step >= MIN_MONTH:
        months, days, seconds = _calendar_parts(known)
        apart = int(np.median(np.diff(months)))
        at_end = bool((days + 1 == _days_in(months)).all())
        if (at_end or len(set(days)) == 1) and len(set(seconds)) == 1:
            wanted = months[-1] + apart * ahead
            day = _days_in(wanted) - 1 if at_end else np.minimum(days[-1], _days_in(wanted) - 1)
            starts = wanted.astype("datetime64[M]").astype("datetime64[s]").astype(np.float64)
            return np.asarray(starts + 86400.0 * day + seconds[-1])
    return np.asarray(known[-1] + step * ahead)


def as_instants(times: Any) -> Array | None:
    """(n,) seconds since 1970 of a datetime64 array; None for other arrays."""
    if times is None or times.dtype.kind != "M":
        return None
    return np.asarray(times.astype("datetime64[us]").astype(np.float64) / 1e6)


def as_dates(instants: Array) -> np.ndarray[tuple[int], np.dtype[np.datetime64]]:
    """Seconds since 1970 as datetime64, in seconds, or in milliseconds if there are fractions."""
    whole = np.array_equal(instants, np.round(instants), equal_nan=True)
    unit, parts = ("s", 1.0) if whole else ("ms", 1e3)
    ticks = np.where(np.isfinite(instants), np.round(instants * parts), np.iinfo(np.int64).min)
    return np.asarray(ticks.astype(np.int64).astype(f"datetime64[{unit}]"))


def _calendar_parts(instants: Array) -> tuple[Array, Array, Array]:
    """Months since 1970, days of the month from 0, and seconds of the day."""
    days = np.floor(instants / _DAY)
    dates = days.astype(np.int64).astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    return months.astype(np.int64), (dates - months).astype(np.int64), instants - _DAY * days


def _days_in(months: Array) -> Array:
    start = months.astype(np.int64).astype("datetime64[M]")
    return np.asarray(((start + 1).astype("datetime64[D]") - start.astype("datetime64[D]")).astype(np.int64))
