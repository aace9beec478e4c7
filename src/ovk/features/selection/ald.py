"""Approximate linear dependence (Engel, Mannor and Meir 2004)."""

from __future__ import annotations

from dataclasses import dataclass

from ovk._params import positive
from ovk._types import Mask
from ovk.features.selection.base import BlockKernels, BlockSelection, Selection, SelectionState
from ovk.features.selection.residual import KernelResidual


class ALD(Selection):
    """A row joins when more than a part `tol` of k(x, x) lies outside the span of the dictionary.

    Parameters
    ----------
    tol : float in (0, 1)

    Examples
    --------
    >>> from ovk.features import ALD, Nystrom
    >>> Nystrom(ALD(0.05))
    Nystrom(selection=ALD(tol=0.05))
    """

    def __init__(self, tol: float = 0.01) -> None:
        self.tol = tol

    def start(self) -> SelectionState:
        if positive(self.tol, "tol") >= 1:
            raise ValueError(f"tol must lie in (0, 1), got {self.tol!r}")
        return ALDState(float(self.tol), KernelResidual(0.0))


@dataclass
class ALDState(SelectionState, kind="ald"):
    """What the dictionary leaves of the kernel."""

    tol: float
    residual: KernelResidual

    _state_classes = {"residual": KernelResidual}

    def on_block(self, block: BlockKernels) -> BlockSelection:
        return _ALDBlock(self, block)


class _ALDBlock(BlockSelection):
    def __init__(self, state: ALDState, block: BlockKernels) -> None:
        self.limits, self.residual = state.tol * block.diagonal, state.residual.on_block(block)

    def wanted(self, start: int) -> Mask:
        return self.residual.diagonal(start) > self.limits[start:]

    def accept(self, j: int, independent: bool) -> bool:
        if independent:
            self.residual.add_point(j, 1.0)
        return independent
