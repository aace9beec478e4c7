"""ovk: learning functions with vector, curve, graph and other structured outputs, with operator-valued kernels."""

from ovk import curves, features, grams, kernels, operators, ovkernels, solvers
from ovk._version import __version__
from ovk.batch import FunctionalRidge, FunctionalRidgeCV, MovKL, MovKLClassifier, MovKLCV, OVKRidge, OVKRidgeCV
from ovk.evaluation import progressive
from ovk.expansion import Expansion
from ovk.online import OLOK, OLOKClassifier, OnlineMovKL
from ovk.persistence import load, save

__all__ = [
    "OLOK",
    "Expansion",
    "FunctionalRidge",
    "FunctionalRidgeCV",
    "MovKL",
    "MovKLCV",
    "MovKLClassifier",
    "OLOKClassifier",
    "OVKRidge",
    "OVKRidgeCV",
    "OnlineMovKL",
    "__version__",
    "curves",
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
