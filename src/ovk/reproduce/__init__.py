"""Published results, run again: ``python -m ovk.reproduce NAME``."""

from ovk.reproduce import jura, mtr, parkinsons
from ovk.reproduce.registry import Entry, Result, Row, entry, names, reproduction, run

__all__ = ["Entry", "Result", "Row", "entry", "jura", "mtr", "names", "parkinsons", "reproduction", "run"]
