"""Which sums suit which kernel."""

from __future__ import annotations

from typing import Any

from ovk.batch.landmark_sums import LandmarkRidge
from ovk.batch.pair_landmarks import PairLandmarks
from ovk.batch.separable_landmarks import SeparableLandmarks
from ovk.features import NystromMap, OperatorNystromMap
from ovk.ovkernels import OperatorKernel, Separable


def landmark_ridge(kernel: OperatorKernel, points: Any, d: int) -> LandmarkRidge:
    """Empty sums for a resolved kernel and a dictionary of landmarks."""
    if isinstance(kernel, Separable):
        return SeparableLandmarks.empty(NystromMap.from_points(kernel.scalar, points), kernel.operator)
    return PairLandmarks.empty(OperatorNystromMap.from_points(kernel, points), d)
