"""Learning from a batch."""

from ovk.batch.functional import FunctionalRidge, FunctionalRidgeCV
from ovk.batch.ridge import OVKRidge
from ovk.batch.ridge_cv import OVKRidgeCV

__all__ = ["FunctionalRidge", "FunctionalRidgeCV", "OVKRidge", "OVKRidgeCV"]
