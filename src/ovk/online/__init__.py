"""Learning from a stream."""

from ovk.online.bound import ErrorBound, error_bound
from ovk.online.classifier import OLOKClassifier
from ovk.online.kawv import KAWV
from ovk.online.olok import OLOK
from ovk.online.pkawv import PKAWV
from ovk.online.pkawv_classifier import PKAWVClassifier
from ovk.online.truncation import PaperWindow, Tolerance, Truncation, Window

__all__ = [
    "KAWV",
    "OLOK",
    "PKAWV",
    "ErrorBound",
    "OLOKClassifier",
    "PKAWVClassifier",
    "PaperWindow",
    "Tolerance",
    "Truncation",
    "Window",
    "error_bound",
]
