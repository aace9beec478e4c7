"""Output operators T: which outputs go together, and how strongly."""

from ovk.operators.base import Dense, Identity, LowRank, MixedEffect, OutputOperator, Spectrum
from ovk.operators.curves import CurveOperator, Integral, Multiplication
from ovk.operators.graph import GraphLaplacian
from ovk.operators.groups import Cluster, Tree
from ovk.operators.mean_regularised import MeanRegularised
from ovk.operators.tensor import TensorProduct

__all__ = [
    "Cluster",
    "CurveOperator",
    "Dense",
    "GraphLaplacian",
    "Identity",
    "Integral",
    "LowRank",
    "MeanRegularised",
    "MixedEffect",
    "Multiplication",
    "OutputOperator",
    "Spectrum",
    "TensorProduct",
    "Tree",
]
