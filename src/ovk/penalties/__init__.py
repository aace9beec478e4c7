"""Convex penalties with a proximal step."""

from ovk.penalties.base import Penalty
from ovk.penalties.sparse import L1, L1L2
from ovk.penalties.spectral import Frobenius, PSDCone, Spectral, Trace

__all__ = ["L1", "L1L2", "Frobenius", "PSDCone", "Penalty", "Spectral", "Trace"]
