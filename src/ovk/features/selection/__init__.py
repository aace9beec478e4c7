"""Which points of a stream join a dictionary."""

from ovk.features.selection.ald import ALD
from ovk.features.selection.base import Chooser, Judge, Neighbours, Selection
from ovk.features.selection.given import Given
from ovk.features.selection.kors import KORS
from ovk.features.selection.uniform import Uniform

__all__ = ["ALD", "KORS", "Chooser", "Given", "Judge", "Neighbours", "Selection", "Uniform"]
