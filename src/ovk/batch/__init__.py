"""Learning from a batch."""

from ovk.batch.ridge import OVKRidge

__all__ = ["OVKRidge"]
