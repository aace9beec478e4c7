"""Data for examples and tests: generators and a small real data set."""

from __future__ import annotations

from ovk.datasets.economy import load_us_economy
from ovk.datasets.equations import make_burgers, make_navier_stokes
from ovk.datasets.generators import BumpField, make_stream, make_vector_field

__all__ = ["load_us_economy", "make_burgers", "make_navier_stokes", "make_stream", "make_vector_field"]
