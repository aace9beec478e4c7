"""Published results, run again: ``python -m ovk.reproduce NAME``."""

from ovk.reproduce import jura, mtr, olok, parkinsons
from ovk.reproduce.registry import Entry, Result, Row, entry, names, reproduction, run

__all__ = ["Entry", "Result", "Row", "entry", "jura", "mtr", "names", "olok", "parkinsons", "reproduction", "run"]
