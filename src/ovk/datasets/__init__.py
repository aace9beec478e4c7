"""Data for examples and tests: generators, and a small real data set that comes with the package."""

from __future__ import annotations

from ovk.datasets.bci import amplitude_modulation, band_pass, make_bci, prepare_bci
from ovk.datasets.economy import load_us_economy
from ovk.datasets.multi_output import make_multitask, make_stream
from ovk.datasets.operators import make_burgers, make_navier_stokes
from ovk.datasets.vector_field import BumpField, make_vector_field

__all__ = [
    "BumpField",
    "amplitude_modulation",
    "band_pass",
    "load_us_economy",
    "make_bci",
    "make_burgers",
    "make_multitask",
    "make_navier_stokes",
    "make_stream",
    "make_vector_field",
    "prepare_bci",
]
