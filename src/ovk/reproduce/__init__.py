"""Published results, run again: ``python -m ovk.reproduce NAME``."""

from ovk.reproduce import (
    drug_retrieval,
    few_links,
    french_load,
    jura,
    label_ranking,
    label_sets,
    links,
    mtr,
    olok,
    parkinsons,
    regret_rates,
)
from ovk.reproduce import dream3, jura, mtr, olok, parkinsons
from ovk.reproduce.registry import Entry, Result, Row, entry, names, reproduction, run

__all__ = [
    "Entry",
    "Result",
    "Row",
    "drug_retrieval",
    "entry",
    "few_links",
    "french_load",
    "jura",
    "label_ranking",
    "label_sets",
    "links",
    "dream3",
    "entry",
    "jura",
    "mtr",
    "names",
    "olok",
    "parkinsons",
    "regret_rates",
    "reproduction",
    "run",
]
