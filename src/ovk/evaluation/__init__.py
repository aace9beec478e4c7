"""How well a learner does on a stream: progressive evaluation, baselines, intervals, regret."""

from ovk.evaluation.adaptive import ACI, ConformalPID, StronglyAdaptive
from ovk.evaluation.baselines import Baseline as Baseline
from ovk.evaluation.baselines import LastValue, Majority, NoChange, RefittedRidge, RunningMean
from ovk.evaluation.conformal import LEVEL as LEVEL
from ovk.evaluation.conformal import Conformal as Conformal
from ovk.evaluation.conformal import RecentErrors, RollingConformal
from ovk.evaluation.delayed import Mergeable as Mergeable
from ovk.evaluation.delayed import OnlineLearner as OnlineLearner
from ovk.evaluation.evaluator import Evaluator as Evaluator
from ovk.evaluation.evaluator import progressive
from ovk.evaluation.regret import Regret, regret
from ovk.evaluation.result import IntervalResult, ProgressiveResult
from ovk.evaluation.result import stretch as stretch
from ovk.evaluation.running import DriftResult, PageHinkley
from ovk.evaluation.running import RunningMoments as RunningMoments
from ovk.evaluation.running import Standardised as Standardised
from ovk.evaluation.service import DelayedLabels, WithIntervals
from ovk.evaluation.sources import Chunk as Chunk
from ovk.evaluation.sources import Chunks as Chunks
from ovk.evaluation.sources import Table as Table
from ovk.evaluation.sources import chunks
from ovk.evaluation.task import ALIKE as ALIKE
from ovk.evaluation.task import CLASSIFICATION as CLASSIFICATION
from ovk.evaluation.task import REGRESSION as REGRESSION
from ovk.evaluation.task import ClassScores as ClassScores
from ovk.evaluation.task import RegressionScores as RegressionScores
from ovk.evaluation.task import Scores as Scores
from ovk.evaluation.task import ScoreTable as ScoreTable
from ovk.evaluation.task import Task as Task
from ovk.evaluation.task import by_label as by_label
from ovk.evaluation.task import is_share as is_share
from ovk.evaluation.task import printable as printable
from ovk.evaluation.task import task_of as task_of
from ovk.intervals import Regions
from ovk.intervals import rows_needed as rows_needed

__all__ = [
    "ACI",
    "ConformalPID",
    "DelayedLabels",
    "DriftResult",
    "IntervalResult",
    "LastValue",
    "Majority",
    "NoChange",
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
    "regret",
]
