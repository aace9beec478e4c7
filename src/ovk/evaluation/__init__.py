"""How well a learner does on a stream: progressive evaluation, baselines, intervals, regret."""

from ovk.evaluation.adaptive import ACI, ConformalPID, StronglyAdaptive
from ovk.evaluation.baselines import Baseline as Baseline
from ovk.evaluation.baselines import LastValue as LastValue
from ovk.evaluation.baselines import Majority as Majority
from ovk.evaluation.baselines import NoChange as NoChange
from ovk.evaluation.baselines import RefittedRidge
from ovk.evaluation.baselines import RunningMean as RunningMean
from ovk.evaluation.conformal import LEVEL as LEVEL
from ovk.evaluation.conformal import Conformal as Conformal
from ovk.evaluation.conformal import RecentErrors, RollingConformal
from ovk.evaluation.delayed import Mergeable as Mergeable
from ovk.evaluation.delayed import OnlineLearner as OnlineLearner
from ovk.evaluation.deployment import DelayedLabels, WithIntervals
from ovk.evaluation.evaluator import Evaluator as Evaluator
from ovk.evaluation.evaluator import progressive
from ovk.evaluation.regret import Regret, regret
from ovk.evaluation.result import IntervalResult, ProgressiveResult
from ovk.evaluation.result import stretch as stretch
from ovk.evaluation.running import DriftResult, PageHinkley
from ovk.evaluation.running import RunningMoments as RunningMoments
from ovk.evaluation.running import Standardised as Standardised
from ovk.evaluation.sources import Chunk as Chunk
from ovk.evaluation.sources import Chunks as Chunks
from ovk.evaluation.sources import Table as Table
from ovk.evaluation.sources import chunks
from ovk.evaluation.task import ALIKE as ALIKE
from ovk.evaluation.task import CLASSIFICATION as CLASSIFICATION
from ovk.evaluation.task import REGRESSION as REGRESSION
from ovk.evaluation.task import Scores as Scores
from ovk.evaluation.task import ScoreTable as ScoreTable
from ovk.evaluation.task import Task as Task
from ovk.evaluation.task import is_share as is_share
from ovk.evaluation.task import printable as printable
from ovk.intervals import Regions
from ovk.intervals import rows_needed as rows_needed

__all__ = [
    "ACI",
    "ConformalPID",
    "DelayedLabels",
    "DriftResult",
    "IntervalResult",
    "PageHinkley",
    "ProgressiveResult",
    "RecentErrors",
    "RefittedRidge",
    "Regions",
    "Regret",
    "RollingConformal",
    "StronglyAdaptive",
    "WithIntervals",
    "chunks",
    "progressive",
    "regret",
]
