"""Online learning from streams."""

from ovk.base import DivergenceError
from ovk.online.experts.aggregation import BOA, MLPoly
from ovk.online.experts.auto import AutoStream, AutoStreamClassifier
from ovk.online.first_order.movkl import OnlineMovKL
from ovk.online.first_order.novelty import NoveltyDetector
from ovk.online.first_order.olok import OLOK, OLOKClassifier
from ovk.online.first_order.truncation import PaperWindow, Tolerance, Truncation, TruncationWarning, Window
from ovk.online.online_operator import OnlineOperator
from ovk.online.second_order.kawv import KAWV
from ovk.online.second_order.pkawv import PKAWV, PKAWVClassifier
from ovk.online.shared.code_classifier import CodedClassifier
from ovk.online.shared.learner import add_features
from ovk.online.theory import effective_dimension, suggest_from_capacity

__all__ = [
    "BOA",
    "KAWV",
    "OLOK",
    "PKAWV",
    "AutoStream",
    "AutoStreamClassifier",
    "DivergenceError",
    "MLPoly",
    "NoveltyDetector",
    "OLOKClassifier",
    "OnlineMovKL",
    "OnlineOperator",
    "PKAWVClassifier",
    "PaperWindow",
    "Tolerance",
    "TruncationWarning",
    "Window",
]
