"""Learning from a stream."""

from ovk.online.olok import OLOK
from ovk.online.truncation import PaperWindow, Tolerance, Truncation, Window

__all__ = ["OLOK", "PaperWindow", "Tolerance", "Truncation", "Window"]
