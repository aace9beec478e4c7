"""Estimators that see all the data at once."""

from ovk.batch.classifier import OVKClassifier, OVKClassifierCV
from ovk.batch.curves.curve_outputs import bind_grid as bind_grid
from ovk.batch.curves.curve_outputs import default_operators as default_operators
from ovk.batch.curves.curve_outputs import has_curve_operator as has_curve_operator
from ovk.batch.curves.functional import FunctionalRidge, FunctionalRidgeCV
from ovk.batch.fields.vector_field import VectorField
from ovk.batch.movkl.classifier import MovKLClassifier
from ovk.batch.movkl.kernel_grid import kernel_grid
from ovk.batch.movkl.kernel_grid import unit_variance as unit_variance
from ovk.batch.movkl.movkl import MovKL, MovKLCV
from ovk.batch.multitask_svm import MultiTaskSVC, MultiTaskSVR
from ovk.batch.okvar.model import OKVAR
from ovk.batch.okvar.networks import Network, rank_average
from ovk.batch.okvar.selection import best_okvar, consensus
from ovk.batch.operator_learning.operator_ridge import OperatorRidge
from ovk.batch.operator_learning.search import fill_gaps as fill_gaps
from ovk.batch.operator_learning.search import stretch as stretch
from ovk.batch.ridge.graph_penalty import check_manifold as check_manifold
from ovk.batch.ridge.graph_penalty import graph_of_inputs as graph_of_inputs
from ovk.batch.ridge.graph_penalty import neighbour_graph as neighbour_graph
from ovk.batch.ridge.graph_penalty import penalty_matrix as penalty_matrix
from ovk.batch.ridge.graph_penalty import with_unlabelled as with_unlabelled
from ovk.batch.ridge.landmarks import LandmarkRidge as LandmarkRidge
from ovk.batch.ridge.landmarks import choose_landmarks as choose_landmarks
from ovk.batch.ridge.landmarks import landmark_ridge as landmark_ridge
from ovk.batch.ridge.ridge import OVKRegressor as OVKRegressor
from ovk.batch.ridge.ridge import OVKRidge
from ovk.batch.ridge.ridge_system import as_generator as as_generator
from ovk.batch.ridge.ridge_system import row_keys as row_keys
from ovk.batch.ridge.ridge_system import takes_gram as takes_gram
from ovk.batch.tuning.automatic import AutomaticChoice as AutomaticChoice
from ovk.batch.tuning.gradient_metric import GradientMetric
from ovk.batch.tuning.output_kernel import OutputKernelRidge
from ovk.batch.tuning.ridge_cv import OVKRidgeCV
from ovk.batch.tuning.tune import TuningInfo as TuningInfo
from ovk.batch.tuning.tune import tune

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
