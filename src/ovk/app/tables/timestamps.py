"""Instants out of dates and times of day, in seconds since 1970 by the clock on the wall; their place in the calendar.

Time zones are left out on purpose: what repeats by day and by week does so by the local clock. A number is a Unix time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time
from functools import lru_cache
from typing import Any

import numpy as np

from ovk.base import Array, ParsedColumn, is_missing_cell

_EPOCH = date(1970, 1, 1).toordinal()
_DAY = 86400.0
_DATE = re.compile(r"(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})")
_UNIX = re.compile(r"-?\d{9,19}(?:\.\d+)?")
_TIME = re.compile(r"(\d{1,2})(?::(\d{2}))?(?::(\d{2}(?:[.,]\d+)?))?\s*([AaPp][Mm])?(?:\s*(?:Z|UTC|[+-]\d{2}:?\d{2}))?")

#: Cycles, in seconds, with how many harmonics each is described by. A day has a sharper shape than a year.
CYCLES: dict[str, tuple[float, int]] = {"day": (_DAY, 3), "week": (7 * _DAY, 2), "year": (365.2425 * _DAY, 2)}

#: Names of the inputs that `calendar` makes.
CALENDAR_NAMES = tuple(
    f"{part} {k} of {cycle}"
    for cycle, (_, most) in CYCLES.items()
    for k in range(1, most + 1)
    for part in ("sin", "cos")
)

#: Texts remembered with their meaning: dates and times of day repeat.
REMEMBERED = 100_000


def day_comes_first(cells: Iterable[Any]) -> tuple[bool, bool]:
    """Whether 1/2/2006 is in February, and whether that is only assumed.

    It is, unless a second number is above 12 and no first one; it is assumed where no number is above 12.

    >>> day_comes_first(["1/2/2006", "3/14/2006"]), day_comes_first(["1/2/2006", "16/12/2006"])
    ((False, False), (True, False))
    >>> day_comes_first(["1/2/2006"]), day_comes_first(["2006-02-01"])
    ((True, True), (True, False))
    """
    pairs = [(int(m[1]), int(m[3])) for m in map(_DATE.match, map(str, cells)) if m and len(m[1]) <= 2]
    day, month = any(first > 12 for first, _ in pairs), any(second > 12 for _, second in pairs)
    return day or not month, bool(pairs) and not (day or month)


@lru_cache(maxsize=10_000)
def _date(text: str, day_first: bool) -> float:
    """Seconds at the beginning of a day."""
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


@lru_cache(maxsize=REMEMBERED)
def _time_of_day(text: str) -> float:
    """Seconds since midnight."""
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
    """A Unix time in seconds; it may be given in thousandths, millionths or billionths of them, as its size tells.

    Seconds reach 1e11 in the year 5138, and milliseconds passed it in March 1973: what is larger is in the next unit.

    >>> [unix_seconds(1.7e9 * unit) for unit in (1, 1e3, 1e6, 1e9)]
    [1700000000.0, 1700000000.0, 1700000000.0, 1700000000.0]
    """
    for unit in (1.0, 1e3, 1e6):
        if abs(number) <= 1e11 * unit:
            return number / unit
    return number / 1e9


class TimestampParser(dict[Any, float]):
    """Reads instants, and remembers the cells that it has met: seconds, nan for a missing one, infinity for nonsense.

    Parameters
    ----------
    day_first : whether 1/2/2006 is in February
    """

    def __init__(self, day_first: bool) -> None:
        super().__init__()
        self._day_first = day_first

    def __missing__(self, cell: Any) -> float:
        try:
            seconds = np.nan if is_missing_cell(cell) else self._one(cell)
        except (ValueError, OverflowError):
            seconds = np.inf
        if len(self) >= REMEMBERED:
            self.clear()
        self[cell] = seconds
        return seconds

    def _one(self, cell: Any) -> float:
        """Seconds of a date, of a time of day, or of both in one cell."""
        if isinstance(cell, datetime):
            return self._one(cell.date()) + self._one(cell.time())
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
        seconds = _date(head, self._day_first)
        return seconds + _time_of_day(tail.strip()) if separator else seconds

    def read(self, columns: Sequence[Sequence[Any]]) -> ParsedColumn:
        """Instants of rows: the sum of what their columns say, so that a date and a time may stand apart.

        >>> days, times = ["2/1/1970", "?", "x"], ["00:01:00", "00:02:00", "00:03:00"]
        >>> values, bad = TimestampParser(day_first=True).read([days, times])
        >>> values.ravel(), bad
        (array([86460.,    nan,    nan]), array([False, False,  True]))
        """
        seconds = np.zeros(len(columns[0]))
        bad = np.zeros(len(seconds), dtype=bool)
        for cells in columns:
            found = self._column(cells)
            bad |= np.isinf(found)
            seconds += found
        seconds[bad] = np.nan
        return ParsedColumn(seconds[:, None], bad)

    def _column(self, cells: Sequence[Any]) -> Array:
        try:
            return np.fromiter(map(self.__getitem__, cells), np.float64, len(cells))
        except TypeError:  # lists, as JSON may hold
            return self._column([str(cell) for cell in cells])


def calendar(seconds: Array) -> Array:
    """Sines and cosines of the time of day, week and year, (n, 14); 0 where the instant is not known.

    Parameters
    ----------
    seconds : (n,) since 1970

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.app.tables.timestamps import calendar
    >>> calendar(np.array([0.0, 3 * 3600.0]))[:, :2].round(3)
    array([[0.   , 1.   ],
           [0.707, 0.707]])
    """
    columns = []
    for period, most in CYCLES.values():
        angle = 2 * np.pi * np.mod(seconds, period) / period
        for k in range(1, most + 1):
            columns += [np.sin(k * angle), np.cos(k * angle)]
    values: Array = np.nan_to_num(np.column_stack(columns))
    return values
