"""Data of the reproductions: loaders of public data sets from a local directory, and generators of single papers.

Nothing is downloaded. The loaders look for files in the directory `data_home` or ``OVK_DATA``, check their sha256, and
report where to get missing files.
"""

from __future__ import annotations

from reproduce.data._home import DatasetCorrupt, DatasetNotFound, available
from reproduce.data.advection import make_advection
from reproduce.data.bci import load_bci, make_bci
from reproduce.data.chemistry import load_pharma
from reproduce.data.darcy import make_darcy
from reproduce.data.dream3 import load_dream3
from reproduce.data.functional import load_canadian_weather, load_gait
from reproduce.data.gene_network import GeneNetwork, make_gene_network
from reproduce.data.mtr import load_mtr
from reproduce.data.multitask import make_multitask
from reproduce.data.networks import load_cora, load_dicty, load_yeast_kegg
from reproduce.data.power import load_french_load, load_household
from reproduce.data.spatial import load_california_gps, load_glad, load_jura
from reproduce.data.tabular import load_codrna, load_elec2, load_parkinsons, load_wine

__all__ = [
    "DatasetCorrupt",
    "DatasetNotFound",
    "GeneNetwork",
    "available",
    "load_bci",
    "load_california_gps",
    "load_canadian_weather",
    "load_codrna",
    "load_cora",
    "load_dicty",
    "load_dream3",
    "load_elec2",
    "load_french_load",
    "load_gait",
    "load_glad",
    "load_household",
    "load_jura",
    "load_mtr",
    "load_parkinsons",
    "load_pharma",
    "load_wine",
    "load_yeast_kegg",
    "make_advection",
    "make_bci",
    "make_darcy",
    "make_gene_network",
    "make_multitask",
]
