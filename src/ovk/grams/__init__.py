"""Grams: operator-valued kernels on samples, with the structure that makes them cheap."""

from ovk.grams.base import Gram
from ovk.grams.blocks import DenseBlocks
from ovk.grams.decouple import ByOutput, Decoupled, Rotated, Stacked, decouple
from ovk.grams.kronecker import Kronecker, KroneckerSum
from ovk.grams.observed import Observed

__all__ = [
    "ByOutput",
    "Decoupled",
    "DenseBlocks",
    "Gram",
    "Kronecker",
    "KroneckerSum",
    "Observed",
    "Rotated",
    "Stacked",
    "decouple",
]
