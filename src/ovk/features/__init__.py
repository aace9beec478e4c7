"""Finite feature maps that stand in for a kernel."""

from ovk.features.nystrom import NystromMap, OperatorNystromMap
from ovk.features.paths import PathFingerprints, path_features

__all__ = ["NystromMap", "OperatorNystromMap", "PathFingerprints", "path_features"]
