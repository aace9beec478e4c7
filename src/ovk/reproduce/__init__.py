"""Published results, run again: ``python -m ovk.reproduce NAME``."""

from ovk.reproduce import (
    dream3,
    drug_retrieval,
    few_links,
    french_load,
    jura,
    label_ranking,
    label_sets,
    label_streams,
    links,
    movkl,
    mtr,
    olok,
    parkinsons,
    regret_rates,
)
from ovk.reproduce.registry import Entry, Result, Row, entry, names, reproduction, run

__all__ = [
    "Entry",
    "Result",
    "Row",
    "dream3",
    "drug_retrieval",
    "entry",
    "few_links",
    "french_load",
    "jura",
    "label_ranking",
    "label_sets",
    "label_streams",
    "links",
    "movkl",
    "mtr",
    "names",
    "olok",
    "parkinsons",
    "regret_rates",
    "reproduction",
    "run",
]
