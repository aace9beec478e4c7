"""Plots as scikit-learn-style displays: ``Display.from_estimator(model)``."""

from ovk.plotting.display import Display
from ovk.plotting.functional import FunctionalPredictionDisplay
from ovk.plotting.kernel_weights import KernelWeightsDisplay
from ovk.plotting.leave_one_out import LeaveOneOutDisplay
from ovk.plotting.output_structure import OutputStructureDisplay
from ovk.plotting.prediction import PredictionDisplay
from ovk.plotting.progressive_error import ProgressiveErrorDisplay

__all__ = [
    "Display",
    "FunctionalPredictionDisplay",
    "KernelWeightsDisplay",
    "LeaveOneOutDisplay",
    "OutputStructureDisplay",
    "PredictionDisplay",
    "ProgressiveErrorDisplay",
]
