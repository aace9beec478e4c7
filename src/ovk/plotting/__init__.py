"""Plots as scikit-learn-style displays: ``Display.from_estimator(model)``; and `report`, all of them on one page."""

from ovk.plotting.autoregression import JacobianDisplay, SeriesDisplay
from ovk.plotting.classes import ClassAccuracyDisplay, ConfusionDisplay
from ovk.plotting.curves import FunctionalPredictionDisplay
from ovk.plotting.display import Display
from ovk.plotting.drift import DriftDisplay
from ovk.plotting.forecast import ForecastDisplay
from ovk.plotting.graph import NetworkDisplay, OutputGraphDisplay
from ovk.plotting.intervals import IntervalDisplay
from ovk.plotting.kernel_weights import KernelWeightsDisplay
from ovk.plotting.leave_one_out import LeaveOneOutDisplay
from ovk.plotting.observed import ObservedDisplay
from ovk.plotting.output_structure import OutputStructureDisplay
from ovk.plotting.prediction import PredictionDisplay
from ovk.plotting.progressive import ProgressiveErrorDisplay, RegretDisplay, SupportDisplay
from ovk.plotting.recent import CalibrationDisplay, RecentDisplay, ResidualDisplay
from ovk.plotting.relevance import RelevanceDisplay
from ovk.plotting.report import report
from ovk.plotting.vector_field import VectorFieldDisplay

__all__ = [
    "CalibrationDisplay",
    "ClassAccuracyDisplay",
    "ConfusionDisplay",
    "Display",
    "DriftDisplay",
    "ForecastDisplay",
    "FunctionalPredictionDisplay",
    "IntervalDisplay",
    "JacobianDisplay",
    "KernelWeightsDisplay",
    "LeaveOneOutDisplay",
    "NetworkDisplay",
    "ObservedDisplay",
    "OutputGraphDisplay",
    "OutputStructureDisplay",
    "PredictionDisplay",
    "ProgressiveErrorDisplay",
    "RecentDisplay",
    "RegretDisplay",
    "RelevanceDisplay",
    "ResidualDisplay",
    "SeriesDisplay",
    "SupportDisplay",
    "VectorFieldDisplay",
    "report",
]
