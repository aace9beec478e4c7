"""Learning from a stream."""

from ovk.online.bound import ErrorBound, error_bound
from ovk.online.classifier import OLOKClassifier
from ovk.online.movkl import OnlineMovKL
from ovk.online.olok import OLOK
from ovk.online.truncation import PaperWindow, Tolerance, Truncation, Window

__all__ = [
    "OLOK",
    "ErrorBound",
    "OLOKClassifier",
    "OnlineMovKL",
    "PaperWindow",
    "Tolerance",
    "Truncation",
    "Window",
    "error_bound",
]
