"""Grams: operator-valued kernels on samples, with the structure that makes them cheap."""

from ovk.grams.base import Decoupled, Gram
from ovk.grams.blocks import ByOutput, DenseBlocks, Observed, Stacked
from ovk.grams.kronecker import Kronecker, Rotated

__all__ = ["ByOutput", "Decoupled", "DenseBlocks", "Gram", "Kronecker", "Observed", "Rotated", "Stacked"]
