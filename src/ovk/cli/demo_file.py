"""The table that ``ovk demo`` leaves behind to try the other commands on."""

from __future__ import annotations

from pathlib import Path

import numpy as np

#: Outputs of the table.
STATIONS = ("north", "south", "east", "west")

#: Readings that are missing, and how many weeks there are.
MISSING, WEEKS = 0.3, 16

#: What to try, with the name of the file in the place of {}.
COMMANDS = (
    f"ovk stream {{}} --time time --targets {','.join(STATIONS)} --lags 1,24 --save model.ovk --report model.html",
    "ovk forecast model.ovk --steps 24 --plot forecast.png",
)


def write_demo_table(path: Path) -> None:
    """Write hourly readings of four stations as CSV: a day and a week in them, the weather, and gaps.

    Parameters
    ----------
    path : the file to write, with a column for the time and one for each station
    """
    rng = np.random.default_rng(0)
    hours = np.arange(24 * 7 * WEEKS)
    day, week = 2 * np.pi * hours / 24, 2 * np.pi * hours / 168
    common = 60 + 12 * np.sin(day - 1.5) + 6 * np.sin(week) + 4 * _slow(rng, len(hours))
    own = np.column_stack([_slow(rng, len(hours)) for _ in STATIONS])
    readings = common[:, None] * [1.0, 0.9, 1.2, 0.7] + 2 * own + rng.standard_normal(own.shape)
    seen = rng.uniform(size=own.shape) >= MISSING
    times = np.datetime64("2024-01-01T00:00") + hours.astype("timedelta64[h]")
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"time,{','.join(STATIONS)}\n")
        for time, values, known in zip(times, readings, seen, strict=True):
            cells = (f"{value:.1f}" if there else "" for value, there in zip(values, known, strict=True))
            file.write(f"{str(time).replace('T', ' ')},{','.join(cells)}\n")


def _slow(rng: np.random.Generator, n: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """(n,) a curve that changes over days, of standard deviation about 1."""
    x = np.zeros(n)
    steps = np.sqrt(1 - 0.99**2) * rng.standard_normal(n)
    for t in range(1, n):
        x[t] = 0.99 * x[t - 1] + steps[t]
    return x
