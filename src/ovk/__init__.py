"""ovk: learning functions with vector, curve, graph and other structured outputs, with operator-valued kernels."""

from ovk import curves, features, grams, kernels, operators, ovkernels, solvers, structured
from ovk._version import __version__
from ovk.batch import (
    OKVAR,
    FunctionalRidge,
    FunctionalRidgeCV,
    GradientMetric,
    MovKL,
    MovKLClassifier,
    MovKLCV,
    MultiTaskSVC,
    MultiTaskSVR,
    OutputKernelRidge,
    OVKRidge,
    OVKRidgeCV,
    VectorField,
    tune,
)
from ovk.evaluation import progressive
from ovk.expansion import Expansion
from ovk.online import KAWV, OLOK, PKAWV, OLOKClassifier, OnlineMovKL, PKAWVClassifier
from ovk.persistence import load, save
from ovk.structured import IOKR, LinkPredictor

__all__ = [
    "IOKR",
    "KAWV",
    "OKVAR",
    "OLOK",
    "PKAWV",
    "Expansion",
    "FunctionalRidge",
    "FunctionalRidgeCV",
    "GradientMetric",
    "LinkPredictor",
    "MovKL",
    "MovKLCV",
    "MovKLClassifier",
    "MultiTaskSVC",
    "MultiTaskSVR",
    "OLOKClassifier",
    "OVKRidge",
    "OVKRidgeCV",
    "OnlineMovKL",
    "OutputKernelRidge",
    "PKAWVClassifier",
    "VectorField",
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
    "structured",
    "tune",
]
