"""Published results, run again: ``python -m ovk.reproduce NAME``."""

from ovk.reproduce import drug_retrieval, few_links, jura, label_ranking, label_sets, links, mtr, olok, parkinsons
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
    "mtr",
    "names",
    "olok",
    "parkinsons",
    "reproduction",
    "run",
]
