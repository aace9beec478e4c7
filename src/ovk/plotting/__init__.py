"""Plots as scikit-learn-style displays: ``Display.from_estimator(model)``."""

from ovk.plotting.curves import FunctionalPredictionDisplay
from ovk.plotting.display import BLUE as BLUE
from ovk.plotting.display import Display
from ovk.plotting.display import check_picture as check_picture
from ovk.plotting.display import date_axis as date_axis
from ovk.plotting.display import draw_band as draw_band
from ovk.plotting.display import pyplot as pyplot
from ovk.plotting.display import save_picture as save_picture
from ovk.plotting.display import shortened as shortened
from ovk.plotting.drift import ClassAccuracyDisplay, ConfusionDisplay, DriftDisplay
from ovk.plotting.graph import (
    JacobianDisplay,
    NetworkDisplay,
    OutputGraphDisplay,
    OutputStructureDisplay,
    SeriesDisplay,
)
from ovk.plotting.intervals import IntervalDisplay
from ovk.plotting.prediction import ObservedDisplay, PredictionDisplay
from ovk.plotting.progressive import ProgressiveErrorDisplay, RegretDisplay, SupportDisplay
from ovk.plotting.recent import ROWS as ROWS
from ovk.plotting.recent import CalibrationDisplay, RecentDisplay, ResidualDisplay
from ovk.plotting.selection import KernelWeightsDisplay, LeaveOneOutDisplay, RelevanceDisplay
from ovk.plotting.vector_field import VectorFieldDisplay

__all__ = [
    "CalibrationDisplay",
    "ClassAccuracyDisplay",
    "ConfusionDisplay",
    "Display",
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
