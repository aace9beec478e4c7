"""Finite feature maps that stand in for a kernel."""

from ovk.features.dictionary import Dictionary
from ovk.features.fourier import FourierMap, LinearFourierMap
from ovk.features.merging import MergeTree, merge_all
from ovk.features.nystrom import NystromMap, OperatorNystromMap
from ovk.features.operator_fourier import FourierTerm, OperatorFourierMap
from ovk.features.paths import PathFingerprints, path_features
from ovk.features.plans import (
    FeaturePlan,
    FixedFeatures,
    Fourier,
    LinearFourier,
    Nystrom,
    OperatorFourier,
    StreamFeatures,
    Taylor,
)
from ovk.features.rpcholesky import RPCholesky
from ovk.features.selection import ALD, KORS, Given, Selection, Uniform
from ovk.features.taylor import TaylorMap

__all__ = [
    "ALD",
    "KORS",
    "Dictionary",
    "FeaturePlan",
    "FixedFeatures",
    "Fourier",
    "FourierMap",
    "FourierTerm",
    "Given",
    "LinearFourier",
    "LinearFourierMap",
    "MergeTree",
    "Nystrom",
    "NystromMap",
    "OperatorFourier",
    "OperatorFourierMap",
    "OperatorNystromMap",
    "PathFingerprints",
    "RPCholesky",
    "Selection",
    "StreamFeatures",
    "Taylor",
    "TaylorMap",
    "Uniform",
    "merge_all",
    "path_features",
]
