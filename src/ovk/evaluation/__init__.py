"""How well a learner does on a stream: progressive evaluation, baselines, intervals, regret."""

from ovk.evaluation.baselines import Baseline, LastValue, Majority, NoChange, RefittedRidge, RunningMean
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
from ovk.evaluation.conformal.rolling import rows_needed as rows_needed
from ovk.evaluation.delayed import DelayedLabels
from ovk.evaluation.drift import DriftResult, PageHinkley
from ovk.evaluation.evaluator import Evaluator
from ovk.evaluation.learners import Mergeable as Mergeable
from ovk.evaluation.learners import OnlineLearner
from ovk.evaluation.progressive_evaluation import progressive
from ovk.evaluation.regret import Regret, regret
from ovk.evaluation.result import ProgressiveResult
from ovk.evaluation.result import stretch as stretch
from ovk.evaluation.running import RunningMoments as RunningMoments
from ovk.evaluation.running import Standardised as Standardised
from ovk.evaluation.sources import Chunk, Chunks, chunks
from ovk.evaluation.sources import Table as Table
from ovk.evaluation.task import ALIKE as ALIKE
from ovk.evaluation.task import CLASSIFICATION, REGRESSION, ClassScores, RegressionScores, Task
from ovk.evaluation.task import Scores as Scores
from ovk.evaluation.task import ScoreTable as ScoreTable
from ovk.evaluation.task import by_label as by_label
from ovk.evaluation.task import task_of as task_of

__all__ = [
    "ACI",
    "CLASSIFICATION",
    "REGRESSION",
    "Baseline",
    "Chunk",
    "Chunks",
    "ClassScores",
    "Conformal",
    "ConformalPID",
    "DelayedLabels",
    "DriftResult",
    "Evaluator",
    "IntervalResult",
    "LastValue",
    "Majority",
    "NoChange",
    "OnlineLearner",
    "PageHinkley",
    "ProgressiveResult",
    "RecentErrors",
    "RefittedRidge",
    "Regions",
    "RegressionScores",
    "Regret",
    "RollingConformal",
    "RunningMean",
    "StronglyAdaptive",
    "Task",
    "WithIntervals",
    "chunks",
    "progressive",
    "regret",
]
