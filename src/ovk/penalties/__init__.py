"""Convex penalties with a proximal step."""

from ovk.penalties.sparse import L1, L1L2, Frobenius, Penalty, PSDCone, Spectral, Trace

__all__ = ["L1", "L1L2", "Frobenius", "PSDCone", "Penalty", "Spectral", "Trace"]
