"""Estimators that are fitted to all data in memory, or in chunks."""

from ovk.batch.classifier import OVKClassifier, OVKClassifierCV
from ovk.batch.curves import FunctionalRidge, FunctionalRidgeCV, bind_grid, default_operators, has_curve_operator
from ovk.batch.fields.vector_field import VectorField
from ovk.batch.movkl.movkl import MovKL, MovKLClassifier, MovKLCV, as_kernels, kernel_grid
from ovk.batch.multitask_svm import MultiTaskSVC, MultiTaskSVR
from ovk.batch.okvar.model import OKVAR
from ovk.batch.okvar.networks import Network, rank_average
from ovk.batch.okvar.selection import best_okvar, consensus
from ovk.batch.operator_learning.operator_ridge import OperatorRidge
from ovk.batch.operator_learning.search import fill_gaps, stretch
from ovk.batch.ridge.graph_penalty import (
    check_manifold,
    graph_of_inputs,
    neighbour_graph,
    penalty_matrix,
    with_unlabelled,
)
from ovk.batch.ridge.landmarks import LandmarkRidge, choose_landmarks, landmark_ridge
from ovk.batch.ridge.ridge import OVKRegressor, OVKRidge
from ovk.batch.ridge.ridge_system import as_generator, check_on_device, row_keys, takes_gram
from ovk.batch.tuning.automatic import AutomaticChoice
from ovk.batch.tuning.gradient_metric import GradientMetric
from ovk.batch.tuning.output_kernel import OutputKernelRidge
from ovk.batch.tuning.ridge_cv import OVKRidgeCV
from ovk.batch.tuning.tune import TuningInfo, tune

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
    "OVKClassifier",
    "OVKClassifierCV",
    "OVKRidge",
    "OVKRidgeCV",
    "OperatorRidge",
    "OutputKernelRidge",
    "VectorField",
    "best_okvar",
    "consensus",
    "kernel_grid",
    "rank_average",
    "tune",
]
