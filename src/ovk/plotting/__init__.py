"""Plots as scikit-learn-style displays: ``Display.from_estimator(model)``; and `report`, all of them on one page."""

from ovk.plotting.autoregression import JacobianDisplay, SeriesDisplay
from ovk.plotting.calibration import CalibrationDisplay
from ovk.plotting.display import Display
from ovk.plotting.functional import FunctionalPredictionDisplay
from ovk.plotting.intervals import IntervalDisplay
from ovk.plotting.kernel_weights import KernelWeightsDisplay
from ovk.plotting.leave_one_out import LeaveOneOutDisplay
from ovk.plotting.network import NetworkDisplay
from ovk.plotting.output_graph import OutputGraphDisplay
from ovk.plotting.output_structure import OutputStructureDisplay
from ovk.plotting.prediction import PredictionDisplay
from ovk.plotting.progressive_error import ProgressiveErrorDisplay
from ovk.plotting.recent import RecentDisplay
from ovk.plotting.regret import RegretDisplay
from ovk.plotting.report import report
from ovk.plotting.residuals import ResidualDisplay
from ovk.plotting.support import SupportDisplay
from ovk.plotting.task_graph import TaskGraphDisplay
from ovk.plotting.vector_field import VectorFieldDisplay

__all__ = [
    "CalibrationDisplay",
    "Display",
    "FunctionalPredictionDisplay",
    "IntervalDisplay",
    "JacobianDisplay",
    "KernelWeightsDisplay",
    "LeaveOneOutDisplay",
    "NetworkDisplay",
    "OutputGraphDisplay",
    "OutputStructureDisplay",
    "PredictionDisplay",
    "ProgressiveErrorDisplay",
    "RecentDisplay",
    "RegretDisplay",
    "ResidualDisplay",
    "SeriesDisplay",
    "SupportDisplay",
    "TaskGraphDisplay",
    "VectorFieldDisplay",
    "report",
]
