"""Learning from a batch."""

from ovk.batch.multitask_svm import MultiTaskSVC, MultiTaskSVR
from ovk.batch.ridge import OVKRidge
from ovk.batch.ridge_cv import OVKRidgeCV
from ovk.batch.vector_field import VectorField

__all__ = ["MultiTaskSVC", "MultiTaskSVR", "OVKRidge", "OVKRidgeCV", "VectorField"]
