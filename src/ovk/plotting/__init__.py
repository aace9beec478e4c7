"""Plots as scikit-learn-style displays: ``Display.from_estimator(model)``; and `report`, all of them on one page."""

from ovk.plotting.calibration import CalibrationDisplay
from ovk.plotting.display import Display
from ovk.plotting.intervals import IntervalDisplay
from ovk.plotting.leave_one_out import LeaveOneOutDisplay
from ovk.plotting.output_structure import OutputStructureDisplay
from ovk.plotting.prediction import PredictionDisplay
from ovk.plotting.progressive_error import ProgressiveErrorDisplay
from ovk.plotting.recent import RecentDisplay
from ovk.plotting.regret import RegretDisplay
from ovk.plotting.report import report
from ovk.plotting.residuals import ResidualDisplay
from ovk.plotting.support import SupportDisplay
from ovk.plotting.task_graph import TaskGraphDisplay

__all__ = [
    "CalibrationDisplay",
    "Display",
    "IntervalDisplay",
    "LeaveOneOutDisplay",
    "OutputStructureDisplay",
    "PredictionDisplay",
    "ProgressiveErrorDisplay",
    "RecentDisplay",
    "RegretDisplay",
    "ResidualDisplay",
    "SupportDisplay",
    "TaskGraphDisplay",
    "report",
]
