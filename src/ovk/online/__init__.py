"""Learning from a stream."""

from ovk.online.bound import ErrorBound, error_bound
from ovk.online.capacity import (
    Bracket,
    effective_dimension,
    log_determinant,
    online_dimension,
    sketched_effective_dimension,
)
from ovk.online.classifier import OLOKClassifier
from ovk.online.kawv import KAWV
from ovk.online.olok import OLOK
from ovk.online.pkawv import PKAWV
from ovk.online.pkawv_classifier import PKAWVClassifier
from ovk.online.regret_bounds import (
    kors_beta,
    kors_gap,
    kors_size_bound,
    projected_regret_bound,
    regret_bound,
    spilled_regret_bound,
)
from ovk.online.suggest import (
    Suggestion,
    capacity_exponent,
    suggest,
    suggest_analytic,
    suggest_from_capacity,
    taylor_degree,
)
from ovk.online.truncation import PaperWindow, Tolerance, Truncation, Window

__all__ = [
    "KAWV",
    "OLOK",
    "PKAWV",
    "Bracket",
    "ErrorBound",
    "OLOKClassifier",
    "PKAWVClassifier",
    "PaperWindow",
    "Suggestion",
    "Tolerance",
    "Truncation",
    "Window",
    "capacity_exponent",
    "effective_dimension",
    "error_bound",
    "kors_beta",
    "kors_gap",
    "kors_size_bound",
    "log_determinant",
    "online_dimension",
    "projected_regret_bound",
    "regret_bound",
    "sketched_effective_dimension",
    "spilled_regret_bound",
    "suggest",
    "suggest_analytic",
    "suggest_from_capacity",
    "taylor_degree",
]
