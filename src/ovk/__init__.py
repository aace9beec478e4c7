"""ovk: learning functions with vector, curve, graph and other structured outputs, with operator-valued kernels."""

from ovk import features, grams, kernels, operators, ovkernels, solvers
from ovk._version import __version__
from ovk.batch import OVKRidge, OVKRidgeCV
from ovk.evaluation import progressive
from ovk.expansion import Expansion
from ovk.online import KAWV, OLOK, PKAWV, OLOKClassifier, PKAWVClassifier
from ovk.persistence import load, save

__all__ = [
    "KAWV",
    "OLOK",
    "PKAWV",
    "Expansion",
    "OLOKClassifier",
    "OVKRidge",
    "OVKRidgeCV",
    "PKAWVClassifier",
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
