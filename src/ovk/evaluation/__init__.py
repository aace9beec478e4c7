"""How well a learner does on a stream: progressive evaluation, baselines, intervals, regret."""

from ovk.evaluation.adaptive import ACI, ConformalPID, StronglyAdaptive
from ovk.evaluation.baselines import Baseline, LastValue, Majority, NoChange, RefittedRidge, RunningMean
from ovk.evaluation.conformal import LEVEL as LEVEL
from ovk.evaluation.conformal import Conformal, RecentErrors, RollingConformal
from ovk.evaluation.delayed import Mergeable as Mergeable
from ovk.evaluation.delayed import OnlineLearner
from ovk.evaluation.evaluator import Evaluator, progressive
from ovk.evaluation.regret import Regret, regret
from ovk.evaluation.result import IntervalResult, ProgressiveResult
from ovk.evaluation.result import stretch as stretch
from ovk.evaluation.running import DriftResult, PageHinkley
from ovk.evaluation.running import RunningMoments as RunningMoments
from ovk.evaluation.running import Standardised as Standardised
from ovk.evaluation.service import DelayedLabels, WithIntervals
from ovk.evaluation.sources import Chunk, Chunks, chunks
from ovk.evaluation.sources import Table as Table
from ovk.evaluation.task import ALIKE as ALIKE
from ovk.evaluation.task import CLASSIFICATION, REGRESSION, ClassScores, RegressionScores, Task
from ovk.evaluation.task import Scores as Scores
from ovk.evaluation.task import ScoreTable as ScoreTable
from ovk.evaluation.task import by_label as by_label
from ovk.evaluation.task import is_share as is_share
from ovk.evaluation.task import printable as printable
from ovk.evaluation.task import task_of as task_of
from ovk.intervals import Regions
from ovk.intervals import rows_needed as rows_needed

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
