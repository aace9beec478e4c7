"""Evaluation of learners on streams: progressive evaluation, baselines, intervals, regret."""

from ovk.evaluation.adaptive import ACI, COP, ConformalPID, StronglyAdaptive
from ovk.evaluation.baselines import Baseline, LastValue, Majority, NoChange, RefittedRidge, RunningMean
from ovk.evaluation.conformal import DEFAULT_LEVEL, Conformal, RecentErrors, RollingConformal
from ovk.evaluation.delayed import OnlineLearner
from ovk.evaluation.deployment import DelayedLabels, WithIntervals
from ovk.evaluation.evaluator import Evaluator, progressive
from ovk.evaluation.regret import Regret, regret
from ovk.evaluation.result import IntervalResult, ProgressiveResult, row_slice
from ovk.evaluation.scaling_and_drift import DriftResult, PageHinkley, RunningMoments, Standardised, ratio
from ovk.evaluation.sources import Chunk, Chunks, Table, chunks, is_frame
from ovk.evaluation.task import CLASSIFICATION, EQUAL_TOLERANCE, REGRESSION, Scores, ScoreTable, Task, printable
from ovk.intervals import Regions, rows_needed

__all__ = [
    "ACI",
    "COP",
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
