"""Published results, run again: ``python -m ovk.reproduce NAME``."""

from ovk.reproduce import french_load, jura, label_streams, mtr, olok, parkinsons, regret_rates
from ovk.reproduce.registry import Entry, Result, Row, entry, names, reproduction, run

__all__ = [
    "Entry",
    "Result",
    "Row",
    "entry",
    "french_load",
    "jura",
    "label_streams",
    "mtr",
    "names",
    "olok",
    "parkinsons",
    "regret_rates",
    "reproduction",
    "run",
]
