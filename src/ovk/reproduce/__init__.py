"""Published results, run again: ``python -m ovk.reproduce NAME``."""

from ovk.reproduce import jura, movkl, mtr, olok, parkinsons, weather
from ovk.reproduce.registry import Entry, Result, Row, entry, names, reproduction, run

__all__ = [
    "Entry",
    "Result",
    "Row",
    "entry",
    "jura",
    "movkl",
    "mtr",
    "names",
    "olok",
    "parkinsons",
    "reproduction",
    "run",
    "weather",
]
