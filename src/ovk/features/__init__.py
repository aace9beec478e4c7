"""Finite feature maps that stand in for a kernel."""

from ovk.features.dictionary import Dictionary
from ovk.features.fourier import FourierMap
from ovk.features.linear_fourier import LinearFourier, LinearFourierMap
from ovk.features.nystrom import NystromMap, OperatorNystromMap
from ovk.features.operator_fourier import FourierTerm, OperatorFourierMap
from ovk.features.paths import PathFingerprints, path_features
from ovk.features.plans import FeaturePlan, FixedFeatures, Fourier, Nystrom, OperatorFourier, StreamFeatures, Taylor
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
    "Nystrom",
    "NystromMap",
    "OperatorFourier",
    "OperatorFourierMap",
    "OperatorNystromMap",
    "PathFingerprints",
    "Selection",
    "StreamFeatures",
    "Taylor",
    "TaylorMap",
    "Uniform",
    "path_features",
]
