"""Finite feature maps that stand in for a kernel."""

from ovk.features.dictionary import ALD, KORS, Dictionary, Given, Selection, Uniform
from ovk.features.fourier import FourierMap, FourierTerm, LinearFourierMap, OperatorFourierMap, TaylorMap
from ovk.features.nystrom import NystromMap, OperatorNystromMap, RPCholesky
from ovk.features.nystrom import as_rpcholesky as as_rpcholesky
from ovk.features.nystrom import independent as independent
from ovk.features.stream_features import (
    FeaturePlan,
    FixedFeatures,
    Fourier,
    LinearFourier,
    Nystrom,
    OperatorFourier,
    Taylor,
)
from ovk.features.stream_features import StreamFeatures as StreamFeatures
from ovk.features.sums import ROUNDING as ROUNDING
from ovk.features.sums import FeatureSums as FeatureSums
from ovk.features.sums import MergeTree, merge_all
from ovk.features.sums import OutputSums as OutputSums
from ovk.features.sums import RidgeFactor as RidgeFactor

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
    "RPCholesky",
    "Selection",
    "Taylor",
    "TaylorMap",
    "Uniform",
    "merge_all",
]
