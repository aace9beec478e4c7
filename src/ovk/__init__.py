"""ovk: learning functions with vector, curve, graph and other structured outputs, with operator-valued kernels."""

from ovk import features, grams, kernels, operators, ovkernels, solvers
from ovk._version import __version__
from ovk.batch import MultiTaskSVC, MultiTaskSVR, OVKRidge, OVKRidgeCV, VectorField
from ovk.evaluation import progressive
from ovk.expansion import Expansion
from ovk.online import OLOK, OLOKClassifier
from ovk.persistence import load, save

__all__ = [
    "OLOK",
    "Expansion",
    "MultiTaskSVC",
    "MultiTaskSVR",
    "OLOKClassifier",
    "OVKRidge",
    "OVKRidgeCV",
    "VectorField",
    "__version__",
    "features",
    "grams",
    "kernels",
    "load",
    "operators",
    "ovkernels",
    "progressive",
    "save",
    "solvers",
]
