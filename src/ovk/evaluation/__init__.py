"""How well a learner does on a stream: progressive evaluation, baselines, intervals, regret."""

from ovk.evaluation.baselines import Baseline, LastValue, RefittedRidge, RunningMean
from ovk.evaluation.conformal import (
    ACI,
    Conformal,
    ConformalPID,
    IntervalResult,
    Regions,
    StronglyAdaptive,
    WithIntervals,
)
from ovk.evaluation.curves import LearnerErrors
from ovk.evaluation.learners import OnlineLearner
from ovk.evaluation.progressive import progressive
from ovk.evaluation.race import Race
from ovk.evaluation.recent import Recent
from ovk.evaluation.regret import Regret, regret
from ovk.evaluation.result import ProgressiveResult

__all__ = [
    "ACI",
    "Baseline",
    "Conformal",
    "ConformalPID",
    "IntervalResult",
    "LastValue",
    "LearnerErrors",
    "OnlineLearner",
    "ProgressiveResult",
    "Race",
    "Recent",
    "RefittedRidge",
    "Regions",
    "Regret",
    "RunningMean",
    "StronglyAdaptive",
    "WithIntervals",
    "progressive",
    "regret",
]
