"""Finite feature maps that stand in for a kernel."""

from ovk.features.dictionary import ALD, KORS, Given, Nystrom, Uniform
from ovk.features.dictionary import Dictionary as Dictionary
from ovk.features.fourier import Fourier, LinearFourier, OperatorFourier, Taylor
from ovk.features.fourier import FourierMap as FourierMap
from ovk.features.fourier import OperatorFourierMap as OperatorFourierMap
from ovk.features.fourier import TaylorMap as TaylorMap
from ovk.features.nystrom import NystromMap as NystromMap
from ovk.features.nystrom import OperatorNystromMap as OperatorNystromMap
from ovk.features.nystrom import RPCholesky
from ovk.features.nystrom import as_rpcholesky as as_rpcholesky
from ovk.features.nystrom import independent as independent
from ovk.features.stream_features import FeaturePlan as FeaturePlan
from ovk.features.stream_features import StreamFeatures as StreamFeatures
from ovk.features.sums import ROUNDING as ROUNDING
from ovk.features.sums import FeatureSums as FeatureSums
from ovk.features.sums import MergeTree as MergeTree
from ovk.features.sums import OutputSums as OutputSums
from ovk.features.sums import RidgeFactor as RidgeFactor
from ovk.features.sums import merge_all

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
