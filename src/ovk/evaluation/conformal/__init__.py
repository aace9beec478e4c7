"""Regions around the predictions of a stream, with the coverage that was asked for whatever the data do."""

from ovk.evaluation.conformal.base import Conformal, Tracker
from ovk.evaluation.conformal.learner import IntervalRecord, IntervalResult, WithIntervals, as_intervals
from ovk.evaluation.conformal.methods import ACI, ConformalPID, StronglyAdaptive
from ovk.evaluation.conformal.rolling import RecentErrors, RollingConformal
from ovk.intervals import Regions

__all__ = [
    "ACI",
    "Conformal",
    "ConformalPID",
    "IntervalRecord",
    "IntervalResult",
    "RecentErrors",
    "Regions",
    "RollingConformal",
    "StronglyAdaptive",
    "Tracker",
    "WithIntervals",
    "as_intervals",
]
