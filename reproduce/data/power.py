"""Electric power: one household by the minute, and the regions of France by the day."""

from __future__ import annotations

import gzip
import io
import lzma
from itertools import islice

import numpy as np

from reproduce.data._catalogue import CATALOGUE
from reproduce.data._home import read_files
from reproduce.data._reading import columns, read_table
from reproduce.data._shared import bundle
from reproduce.support import Array, Loaded, PathLike, check_int, track

_BLOCK = 100_000  # lines parsed at a time
_DAYS = ("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche")


def load_household(*, data_home: PathLike | None = None, n_rows: int | None = None, return_X_y: bool = False) -> Loaded:
    """Electric power of one household near Paris, every minute from 2006-12-16 17:24 to 2010-11-26 21:02.

    All 2,075,259 rows take about 5 seconds and 300 MB; `n_rows` decompresses and parses only what it needs.

    Parameters
    ----------
    data_home : path, optional
        Directory of the data sets; default the environment variable ``OVK_DATA``.
    n_rows : int, optional
        Number of rows to read from the beginning; default all.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `target` (n, 7): the measured powers, voltage, intensity and energies, nan in the 25,979 minutes without any
        measurement; `time` (n,) of datetime64[m], without daylight saving time; `data` (n, 4): the same instant as
        elapsed_days, minute_of_day, day_of_week (Monday is 0) and day_of_year (from 1); `feature_names`,
        `target_names`, `DESCR`.

    Examples
    --------
    >>> from reproduce.data import available, load_household
    >>> if available()["household"]:
    ...     house = load_household(n_rows=60)
    ...     assert house.target.shape == (60, 7) and str(house.time[0]) == "2006-12-16T17:24"
    """
    entry = CATALOGUE["household"]
    rows = entry.shape[0] if n_rows is None else min(check_int(n_rows, "n_rows"), entry.shape[0])
    names, target = _minutes(read_files(entry, data_home)[0], rows)
    time = np.datetime64("2006-12-16T17:24") + np.arange(rows)  # the file has every minute, in order
    day = time.astype("datetime64[D]")
    data = np.column_stack(
        [
            np.arange(rows) / (24 * 60),
            (time - day).astype(np.float64),
            (day.astype(np.int64) + 3) % 7,  # day 0, 1970-01-01, was a Thursday
            (day - time.astype("datetime64[Y]")).astype(np.float64) + 1,
        ]
    )
    features = ["elapsed_days", "minute_of_day", "day_of_week", "day_of_year"]
    return bundle(entry.description, data, target, features, names, return_X_y, time=time)


def _minutes(content: bytes, rows: int) -> tuple[list[str], Array]:
    """Names of the measurements, and the first `rows` of them."""
    target = np.empty((rows, 7))
    with io.BufferedReader(lzma.open(io.BytesIO(content))) as lines:
        names = lines.readline().decode("ascii").strip().split(",")[2:]
        for done in track(range(0, rows, _BLOCK), "household"):
            block = target[done : done + _BLOCK]
            block[:] = _numbers(b"".join(islice(lines, len(block))))
    return names, target


def _numbers(lines: bytes) -> Array:
    """The seven numbers of each line; a minute without measurement has six question marks and a blank."""
    filled = lines.replace(b"?", b"nan").replace(b",\r\n", b",nan\r\n")
    return np.loadtxt(io.BytesIO(filled), delimiter=",", comments=None, ndmin=2, usecols=range(2, 9))


def load_french_load(*, data_home: PathLike | None = None, return_X_y: bool = False) -> Loaded:
    """Electric load of the 12 regions of metropolitan France at 20:00, from 2013-01-07 to 2021-04-29.

    Only 2409 of the 3035 days are included: the publisher omitted August, Christmas and the days around bank
    holidays. The inputs are, for every region and for the nation, the load one day (.48) and one week (.336)
    before and the temperature (T_), smoothed (_s95, _s99) and with the extremes of the smoothed one (_min,
    _max); and the calendar, with the day of the week as seven indicators. As published, the inputs BH,
    Summer_break, Christmas_break and WeekEnd are 0 everywhere, and Month repeats Year.

    Parameters
    ----------
    data_home : path, optional
        Directory of the data sets; default the environment variable ``OVK_DATA``.
    return_X_y : bool
        Return (data, target) instead of the Bunch.

    Returns
    -------
    Bunch
        `data` (2409, 132), `target` (2409, 12) in MW, `time` (2409,) of datetime64[s] in local time,
        `national_load` (2409,) which is the sum of the targets and therefore not an input, `national_forecast`
        (2409, 2) the forecasts of the grid operator one day ahead and within the day, `feature_names`,
        `target_names`, `DESCR`.

    Examples
    --------
    >>> from reproduce.data import available, load_french_load
    >>> if available()["french_load"]:
    ...     load = load_french_load()
    ...     assert load.target_names[8] == "Ile_de_Fra" and str(load.time[0]) == "2013-01-07T20:00:00"
    """
    entry = CATALOGUE["french_load"]
    content = gzip.decompress(read_files(entry, data_home)[0])
    header = content[: content.index(b"\n")].decode("ascii").split(",")
    week_day, week_end = header.index("WeekDays"), header.index("WeekEnd")
    names, table = read_table(content, converters={week_day: _DAYS.index, week_end: ("False", "True").index})
    regions, national = names[1:13], ["Load", "Forecast_RTE_dayahead", "Forecast_RTE_intraday"]
    features = [name for name in names if name not in ("Date", "WeekDays", *regions, *national)]
    days = table[:, [week_day]] == np.arange(len(_DAYS))
    return bundle(
        entry.description,
        np.column_stack([columns(names, table, features), days]),
        columns(names, table, regions),
        [*features, *(f"WeekDays={day}" for day in _DAYS)],
        regions,
        return_X_y,
        time=table[:, names.index("Date")].astype(np.int64).astype("datetime64[s]"),
        national_load=table[:, names.index("Load")].copy(),
        national_forecast=columns(names, table, national[1:]),
    )
