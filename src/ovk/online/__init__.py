"""Learning from a stream."""

from ovk.base import Diverged
from ovk.online.experts.aggregation import BOA, MLPoly
from ovk.online.experts.auto import AutoStream, AutoStreamClassifier
from ovk.online.feature_growth import add_features as add_features
from ovk.online.first_order.movkl import OnlineMovKL
from ovk.online.first_order.novelty import NoveltyDetector
from ovk.online.first_order.olok import OLOK, OLOKClassifier
from ovk.online.first_order.truncation import PaperWindow, Tolerance, TruncationWarning, Window
from ovk.online.first_order.truncation import Truncation as Truncation
from ovk.online.online_operator import OnlineOperator
from ovk.online.second_order.kawv import KAWV
from ovk.online.second_order.pkawv import PKAWV, PKAWVClassifier
from ovk.online.shared.code_classifier import CodedClassifier as CodedClassifier
from ovk.online.theory import Bracket as Bracket
from ovk.online.theory import ErrorBound as ErrorBound
from ovk.online.theory import Suggestion as Suggestion
from ovk.online.theory import capacity_exponent as capacity_exponent
from ovk.online.theory import effective_dimension as effective_dimension
from ovk.online.theory import error_bound as error_bound
from ovk.online.theory import kors_beta as kors_beta
from ovk.online.theory import kors_gap as kors_gap
from ovk.online.theory import kors_size_bound as kors_size_bound
from ovk.online.theory import log_determinant as log_determinant
from ovk.online.theory import online_dimension as online_dimension
from ovk.online.theory import projected_regret_bound as projected_regret_bound
from ovk.online.theory import regret_bound as regret_bound
from ovk.online.theory import sketched_effective_dimension as sketched_effective_dimension
from ovk.online.theory import spilled_regret_bound as spilled_regret_bound
from ovk.online.theory import suggest as suggest
from ovk.online.theory import suggest_analytic as suggest_analytic
from ovk.online.theory import suggest_from_capacity as suggest_from_capacity
from ovk.online.theory import taylor_degree as taylor_degree

__all__ = [
    "BOA",
    "KAWV",
    "OLOK",
    "PKAWV",
    "AutoStream",
    "AutoStreamClassifier",
    "Diverged",
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
