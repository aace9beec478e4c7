"""Plots as scikit-learn-style displays: ``Display.from_estimator(model)``."""

from ovk.plotting.display import BLUE as BLUE
from ovk.plotting.display import Display as Display
from ovk.plotting.display import check_picture as check_picture
from ovk.plotting.display import date_axis as date_axis
from ovk.plotting.display import draw_band as draw_band
from ovk.plotting.display import pyplot as pyplot
from ovk.plotting.display import save_picture as save_picture
from ovk.plotting.display import shortened as shortened
from ovk.plotting.intervals import ROWS as ROWS
from ovk.plotting.intervals import CalibrationDisplay, IntervalDisplay, ObservedDisplay, RecentDisplay, ResidualDisplay
from ovk.plotting.prediction import FunctionalPredictionDisplay, PredictionDisplay, VectorFieldDisplay
from ovk.plotting.selection import KernelWeightsDisplay, LeaveOneOutDisplay, RelevanceDisplay
from ovk.plotting.stream import ConfusionDisplay, DriftDisplay, ProgressiveErrorDisplay, RegretDisplay, SupportDisplay
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
]
