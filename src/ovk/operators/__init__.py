"""Output operators T: which outputs go together, and how strongly."""

from ovk.operators.base import Dense, Identity, LowRank, MixedEffect, OutputOperator
from ovk.operators.base import Spectrum as Spectrum
from ovk.operators.base import spectrum as spectrum
from ovk.operators.curves import CurveOperator as CurveOperator
from ovk.operators.curves import Integral, Multiplication
from ovk.operators.groups import Cluster, GraphLaplacian, MeanRegularised, TensorProduct, Tree

__all__ = [
    "Cluster",
    "Dense",
    "GraphLaplacian",
    "Identity",
    "Integral",
    "LowRank",
    "MeanRegularised",
    "MixedEffect",
    "Multiplication",
    "OutputOperator",
    "TensorProduct",
    "Tree",
]
