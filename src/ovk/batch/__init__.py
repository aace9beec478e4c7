"""Learning from a batch."""

from ovk.batch.functional import FunctionalRidge, FunctionalRidgeCV
from ovk.batch.output_kernel import OutputKernelRidge
from ovk.batch.ridge import OVKRidge
from ovk.batch.ridge_cv import OVKRidgeCV
from ovk.batch.tuning import TuningInfo, tune

__all__ = ["FunctionalRidge", "FunctionalRidgeCV", "OVKRidge", "OVKRidgeCV"]
__all__ = ["OVKRidge", "OVKRidgeCV", "OutputKernelRidge", "TuningInfo", "tune"]
