"""Plots as scikit-learn-style displays: ``Display.from_estimator(model)``."""

from ovk.plotting.display import BLUE, Display, check_figure_path, date_axis, draw_band, pyplot, save_figure, shortened
from ovk.plotting.intervals import CalibrationDisplay, IntervalDisplay, ObservedDisplay, RecentDisplay, ResidualDisplay
from ovk.plotting.prediction import FunctionalPredictionDisplay, PredictionDisplay, VectorFieldDisplay
from ovk.plotting.selection import KernelWeightsDisplay, LeaveOneOutDisplay, RelevanceDisplay
from ovk.plotting.stream import ConfusionDisplay, DriftDisplay, ProgressiveErrorDisplay, SupportDisplay
from ovk.plotting.structure import (
    JacobianDisplay,
    NetworkDisplay,
    OutputGraphDisplay,
    OutputStructureDisplay,
    SeriesDisplay,
)

__all__ = [
    "CalibrationDisplay",
    "ConfusionDisplay",
    "DriftDisplay",
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
    "ResidualDisplay",
    "SeriesDisplay",
    "SupportDisplay",
    "VectorFieldDisplay",
]
