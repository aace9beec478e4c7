"""Regions around the predictions of a stream, with the coverage that was asked for whatever the data do."""

from ovk.evaluation.conformal.aci import ACI
from ovk.evaluation.conformal.base import Conformal, Tracker
from ovk.evaluation.conformal.learner import WithIntervals, as_intervals
from ovk.evaluation.conformal.pid import ConformalPID
from ovk.evaluation.conformal.result import IntervalRecord, IntervalResult
from ovk.evaluation.conformal.rolling import Recent, RollingConformal
from ovk.evaluation.conformal.strongly_adaptive import StronglyAdaptive
from ovk.intervals.regions import Regions

__all__ = [
    "ACI",
    "Conformal",
    "ConformalPID",
    "IntervalRecord",
    "IntervalResult",
    "Recent",
    "Regions",
    "RollingConformal",
    "StronglyAdaptive",
    "Tracker",
    "WithIntervals",
    "as_intervals",
]
