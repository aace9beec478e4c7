"""Estimators that see all the data at once."""

from ovk.batch.curves.functional import FunctionalRidge, FunctionalRidgeCV
from ovk.batch.fields.vector_field import VectorField
from ovk.batch.movkl.classifier import MovKLClassifier
from ovk.batch.movkl.movkl import MovKL, MovKLCV
from ovk.batch.multitask_svm import MultiTaskSVC, MultiTaskSVR
from ovk.batch.okvar import (
    OKVAR,
    Network,
    best_okvar,
    consensus,
    leave_one_series_out,
    penalty_path,
    rank_average,
    stability_selection,
)
from ovk.batch.operator_learning.operator_ridge import OperatorRidge
from ovk.batch.ridge.classifier import OVKClassifier, OVKClassifierCV
from ovk.batch.ridge.output_kernel import OutputKernelRidge
from ovk.batch.ridge.ridge import OVKRidge
from ovk.batch.ridge.ridge_cv import OVKRidgeCV
from ovk.batch.tuning.automatic import AutomaticChoice
from ovk.batch.tuning.gradient_metric import GradientMetric
from ovk.batch.tuning.kernel_grid import kernel_grid, unit_variance
from ovk.batch.tuning.tune import TuningInfo, tune

__all__ = [
    "OKVAR",
    "AutomaticChoice",
    "FunctionalRidge",
    "FunctionalRidgeCV",
    "GradientMetric",
    "MovKL",
    "MovKLCV",
    "MovKLClassifier",
    "MultiTaskSVC",
    "MultiTaskSVR",
    "Network",
    "OVKClassifier",
    "OVKClassifierCV",
    "OVKRidge",
    "OVKRidgeCV",
    "OperatorRidge",
    "OutputKernelRidge",
    "TuningInfo",
    "VectorField",
    "best_okvar",
    "consensus",
    "kernel_grid",
    "leave_one_series_out",
    "penalty_path",
    "rank_average",
    "stability_selection",
    "tune",
    "unit_variance",
]
