"""ovk: learning functions with vector, curve, graph and other structured outputs, with operator-valued kernels."""

from ovk import features, grams, kernels, operators, ovkernels, solvers, structured
from ovk._version import __version__
from ovk.batch import OVKRidge, OVKRidgeCV
from ovk.evaluation import progressive
from ovk.expansion import Expansion
from ovk.online import KAWV, OLOK, PKAWV, OLOKClassifier
from ovk.persistence import load, save
from ovk.structured import IOKR, LinkPredictor

__all__ = [
    "IOKR",
    "KAWV",
    "OLOK",
    "PKAWV",
    "Expansion",
    "LinkPredictor",
    "OLOKClassifier",
    "OVKRidge",
    "OVKRidgeCV",
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
    "structured",
]
