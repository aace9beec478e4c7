"""Regions around the predictions of a stream, with the coverage that was asked for whatever the data do."""

from ovk.evaluation.conformal.base import Conformal as Conformal
from ovk.evaluation.conformal.base import Tracker as Tracker
from ovk.evaluation.conformal.learner import IntervalRecord as IntervalRecord
from ovk.evaluation.conformal.learner import IntervalResult as IntervalResult
from ovk.evaluation.conformal.learner import WithIntervals as WithIntervals
from ovk.evaluation.conformal.learner import as_intervals as as_intervals
from ovk.evaluation.conformal.methods import ACI as ACI
from ovk.evaluation.conformal.methods import ConformalPID as ConformalPID
from ovk.evaluation.conformal.methods import StronglyAdaptive as StronglyAdaptive
from ovk.evaluation.conformal.rolling import RecentErrors as RecentErrors
from ovk.evaluation.conformal.rolling import RollingConformal as RollingConformal
from ovk.intervals import Regions as Regions
