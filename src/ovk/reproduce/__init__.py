"""Published results, run again: ``python -m ovk.reproduce NAME``."""

from ovk.reproduce import drug_retrieval, few_links, jura, label_ranking, label_sets, links, mtr, olok, parkinsons
from ovk.reproduce import french_load, jura, mtr, olok, parkinsons, regret_rates
from ovk.reproduce.registry import Entry, Result, Row, entry, names, reproduction, run

__all__ = [
    "Entry",
    "Result",
    "Row",
    "drug_retrieval",
    "entry",
    "few_links",
    "jura",
    "label_ranking",
    "label_sets",
    "links",
    "entry",
    "french_load",
    "jura",
    "mtr",
    "names",
    "olok",
    "parkinsons",
    "regret_rates",
    "reproduction",
    "run",
]
