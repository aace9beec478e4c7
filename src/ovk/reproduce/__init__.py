"""Published results, run again: ``python -m ovk.reproduce NAME``."""

from ovk.reproduce import california_gps, drug_activity, glad, jura, mtr, olok, parkinsons
from ovk.reproduce.registry import Entry, Result, Row, entry, names, reproduction, run

__all__ = [
    "Entry",
    "Result",
    "Row",
    "california_gps",
    "drug_activity",
    "entry",
    "glad",
    "jura",
    "mtr",
    "names",
    "olok",
    "parkinsons",
    "reproduction",
    "run",
]
