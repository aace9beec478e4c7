"""Finite feature maps that stand in for a kernel."""

from ovk.features.nystrom import NystromMap, OperatorNystromMap

__all__ = ["NystromMap", "OperatorNystromMap"]
