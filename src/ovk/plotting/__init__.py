"""Plots as scikit-learn-style displays: ``Display.from_estimator(model)``."""

from ovk.plotting.display import Display
from ovk.plotting.leave_one_out import LeaveOneOutDisplay
from ovk.plotting.output_structure import OutputStructureDisplay
from ovk.plotting.prediction import PredictionDisplay
from ovk.plotting.progressive_error import ProgressiveErrorDisplay
from ovk.plotting.vector_field import VectorFieldDisplay

__all__ = [
    "Display",
    "LeaveOneOutDisplay",
    "OutputStructureDisplay",
    "PredictionDisplay",
    "ProgressiveErrorDisplay",
    "VectorFieldDisplay",
]
