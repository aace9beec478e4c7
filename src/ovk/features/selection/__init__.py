"""Which points of a stream join a dictionary."""

from ovk.features.selection.base import BlockKernels, BlockSelection, Selection, SelectionState
from ovk.features.selection.given import Given
from ovk.features.selection.residual import ALD, KORS
from ovk.features.selection.uniform import Uniform

__all__ = ["ALD", "KORS", "BlockKernels", "BlockSelection", "Given", "Selection", "SelectionState", "Uniform"]
