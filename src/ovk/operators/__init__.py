"""Output operators T, which couple the outputs of a kernel."""

from ovk.operators.base import Dense, Identity, LowRank, MixedEffect, OutputOperator, Spectrum, spectrum
from ovk.operators.curves import CurveOperator, Integral, Multiplication
from ovk.operators.groups import Cluster, GraphLaplacian, MeanRegularized, TensorProduct, Tree

__all__ = [
    "Cluster",
    "Dense",
    "GraphLaplacian",
    "Identity",
    "Integral",
    "LowRank",
    "MeanRegularized",
    "MixedEffect",
    "Multiplication",
    "OutputOperator",
    "TensorProduct",
    "Tree",
]
