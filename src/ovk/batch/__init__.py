"""Learning from a batch."""

from ovk.batch.functional import FunctionalRidge, FunctionalRidgeCV
from ovk.batch.kernel_grid import kernel_grid
from ovk.batch.movkl import MovKL, MovKLCV
from ovk.batch.movkl_classifier import MovKLClassifier
from ovk.batch.ridge import OVKRidge
from ovk.batch.ridge_cv import OVKRidgeCV

__all__ = [
    "FunctionalRidge",
    "FunctionalRidgeCV",
    "MovKL",
    "MovKLCV",
    "MovKLClassifier",
    "OVKRidge",
    "OVKRidgeCV",
    "kernel_grid",
]
