"""Data for examples, tests and benchmarks: generators, and loaders of real sets that the user has on disk.

Nothing is downloaded. One small set comes with the package, `load_us_economy`. The other loaders look for files in
the folder given as `data_home` or named by the variable ``OVK_DATA``, check their sha256, and say where to get what is
missing.
"""

from __future__ import annotations

from ovk.datasets._home import DatasetCorrupt, DatasetNotFound, available
from ovk.datasets.advection import make_advection
from ovk.datasets.bci import amplitude_modulation, band_pass, load_bci, make_bci, prepare_bci
from ovk.datasets.burgers import make_burgers
from ovk.datasets.chemistry import load_pharma
from ovk.datasets.darcy import make_darcy
from ovk.datasets.dream3 import load_dream3
from ovk.datasets.economy import load_us_economy
from ovk.datasets.functional import load_canadian_weather, load_gait
from ovk.datasets.gene_network import GeneNetwork, make_gene_network
from ovk.datasets.mtr import load_mtr
from ovk.datasets.multi_output import make_multitask, make_stream
from ovk.datasets.navier_stokes import make_navier_stokes
from ovk.datasets.networks import load_cora, load_dicty, load_yeast_kegg
from ovk.datasets.power import load_french_load, load_household
from ovk.datasets.spatial import load_california_gps, load_glad, load_jura
from ovk.datasets.tabular import load_codrna, load_elec2, load_parkinsons, load_wine
from ovk.datasets.vector_field import BumpField, make_vector_field

__all__ = [
    "BumpField",
    "DatasetCorrupt",
    "DatasetNotFound",
    "GeneNetwork",
    "amplitude_modulation",
    "available",
    "band_pass",
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
    "load_us_economy",
    "load_wine",
    "load_yeast_kegg",
    "make_advection",
    "make_bci",
    "make_burgers",
    "make_darcy",
    "make_gene_network",
    "make_multitask",
    "make_navier_stokes",
    "make_stream",
    "make_vector_field",
    "prepare_bci",
]
