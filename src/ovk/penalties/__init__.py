"""Convex penalties with a proximal step."""

from ovk.penalties.base import Penalty

__all__ = ["Penalty"]
