"""How well a learner does on a stream: progressive evaluation, baselines, intervals, regret."""

from ovk.base import quoted as quoted
from ovk.evaluation.baselines import Baseline, LastValue, RefittedRidge, RunningMean
from ovk.evaluation.class_evaluator import ClassEvaluator, ClassificationResult, ClassScores, progressive_classes
from ovk.evaluation.class_evaluator import class_conclusion as class_conclusion
from ovk.evaluation.conformal import (
    ACI,
    Conformal,
    ConformalPID,
    IntervalResult,
    RecentErrors,
    Regions,
    RollingConformal,
    StronglyAdaptive,
    WithIntervals,
)
from ovk.evaluation.conformal.rolling import LEVEL as LEVEL
from ovk.evaluation.delayed import DelayedLabels
from ovk.evaluation.drift import DriftResult, PageHinkley
from ovk.evaluation.evaluator import Evaluator
from ovk.evaluation.learners import Mergeable as Mergeable
from ovk.evaluation.learners import OnlineLearner
from ovk.evaluation.progressive_evaluation import progressive
from ovk.evaluation.regret import Regret, regret
from ovk.evaluation.result import ALIKE as ALIKE
from ovk.evaluation.result import LearnerErrors, ProgressiveResult
from ovk.evaluation.result import stretch as stretch
from ovk.evaluation.running import RunningMoments as RunningMoments
from ovk.evaluation.running import Standardised as Standardised
from ovk.evaluation.sources import Chunk, Chunks, chunks
from ovk.evaluation.sources import Table as Table

__all__ = [
    "ACI",
    "Baseline",
    "Chunk",
    "Chunks",
    "ClassEvaluator",
    "ClassScores",
    "ClassificationResult",
    "Conformal",
    "ConformalPID",
    "DelayedLabels",
    "DriftResult",
    "Evaluator",
    "IntervalResult",
    "LastValue",
    "LearnerErrors",
    "OnlineLearner",
    "PageHinkley",
    "ProgressiveResult",
    "RecentErrors",
    "RefittedRidge",
    "Regions",
    "Regret",
    "RollingConformal",
    "RunningMean",
    "StronglyAdaptive",
    "WithIntervals",
    "chunks",
    "progressive",
    "progressive_classes",
    "regret",
]
