"""Finite feature maps that stand in for a kernel."""

from ovk.features.fourier import FourierMap
from ovk.features.nystrom import NystromMap, OperatorNystromMap
from ovk.features.operator_fourier import FourierTerm, OperatorFourierMap
from ovk.features.taylor import TaylorMap

__all__ = ["FourierMap", "FourierTerm", "NystromMap", "OperatorFourierMap", "OperatorNystromMap", "TaylorMap"]
