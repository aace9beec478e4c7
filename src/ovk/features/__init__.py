"""Finite feature maps that approximate a kernel."""

from ovk.features.dictionary import ALD, DEPENDENCE_TOL, KORS, Dictionary, Given, Nystrom, Uniform
from ovk.features.fourier import (
    Fourier,
    FourierMap,
    LinearFourier,
    OperatorFourier,
    OperatorFourierMap,
    Taylor,
    TaylorMap,
)
from ovk.features.nystrom import ROUNDING_TOL, NystromMap, OperatorNystromMap, RPCholesky, as_rpcholesky, independent
from ovk.features.stream_features import FeatureSpec, StreamFeatures
from ovk.features.sums import ROUNDING, FeatureSums, MergeTree, OutputSums, RidgeFactor, merge_all

__all__ = [
    "ALD",
    "KORS",
    "Fourier",
    "Given",
    "LinearFourier",
    "Nystrom",
    "OperatorFourier",
    "RPCholesky",
    "Taylor",
    "Uniform",
    "merge_all",
]
