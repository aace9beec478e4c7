"""Published results, run again: ``python -m ovk.reproduce NAME``."""

from ovk.reproduce import dream3, jura, mtr, olok, parkinsons
from ovk.reproduce.registry import Entry, Result, Row, entry, names, reproduction, run

__all__ = [
    "Entry",
    "Result",
    "Row",
    "dream3",
    "entry",
    "jura",
    "mtr",
    "names",
    "olok",
    "parkinsons",
    "reproduction",
    "run",
]
