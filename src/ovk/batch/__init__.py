"""Learning from a batch."""

from ovk.batch.functional import FunctionalRidge, FunctionalRidgeCV
from ovk.batch.gradient_metric import GradientMetric
from ovk.batch.kernel_grid import kernel_grid, unit_variance
from ovk.batch.movkl import MovKL, MovKLCV
from ovk.batch.movkl_classifier import MovKLClassifier
from ovk.batch.multitask_svm import MultiTaskSVC, MultiTaskSVR
from ovk.batch.okvar import (
    OKVAR,
    Network,
    best_okvar,
    consensus,
    leave_one_series_out,
    parent_probabilities,
    penalty_path,
    rank_average,
    stability_selection,
)
from ovk.batch.output_kernel import OutputKernelRidge
from ovk.batch.ridge import OVKRidge
from ovk.batch.ridge_cv import OVKRidgeCV
from ovk.batch.tuning import TuningInfo, tune
from ovk.batch.vector_field import VectorField

__all__ = [
    "OKVAR",
    "FunctionalRidge",
    "FunctionalRidgeCV",
    "GradientMetric",
    "MovKL",
    "MovKLCV",
    "MovKLClassifier",
    "MultiTaskSVC",
    "MultiTaskSVR",
    "Network",
    "OVKRidge",
    "OVKRidgeCV",
    "OutputKernelRidge",
    "TuningInfo",
    "VectorField",
    "best_okvar",
    "consensus",
    "kernel_grid",
    "leave_one_series_out",
    "parent_probabilities",
    "penalty_path",
    "rank_average",
    "stability_selection",
    "tune",
    "unit_variance",
]
