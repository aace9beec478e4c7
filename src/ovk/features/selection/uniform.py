"""Points taken without looking at them."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

from ovk._params import check_int
from ovk._types import Array, Mask
from ovk.features.selection.base import BlockKernels, BlockSelection, Selection, SelectionState


class Uniform(Selection):
    """Each row joins with the same probability, or the first ones do.

    Parameters
    ----------
    rate : float in (0, 1], optional
        Probability of each row to join.
    size : int, optional
        Instead: the first so many rows that are not in the span of those before (in a stream that comes in random
        order these are a uniform sample, and there from the start).

    Examples
    --------
    >>> from ovk.features import Nystrom, Uniform
    >>> Nystrom(Uniform(size=200))
    Nystrom(selection=Uniform(size=200))
    """

    def __init__(self, rate: float | None = None, size: int | None = None) -> None:
        self.rate = rate
        self.size = size

    def start(self) -> SelectionState:
        if (self.rate is None) == (self.size is None):
            raise ValueError(f"Uniform takes either rate or size, got rate={self.rate!r} and size={self.size!r}")
        if self.size is not None:
            return UniformState(1.0, check_int(self.size, "size"))
        rate: Any = self.rate
        if not isinstance(rate, Real) or not 0.0 < float(rate) <= 1.0:
            raise ValueError(
                f"rate must be a probability in (0, 1], got {self.rate!r}: for a number of points give size, as in "
                "Uniform(size=500)"
            )
        return UniformState(float(rate), None)


@dataclass
class UniformState(SelectionState, kind="uniform"):
    """The probability of each row to join, and how many may still do so (None for any number)."""

    rate: float
    left: int | None

    def on_block(self, block: BlockKernels) -> BlockSelection:
        return _UniformBlock(self, block.draws)

    def is_complete(self) -> bool:
        return self.left == 0


class _UniformBlock(BlockSelection):
    def __init__(self, state: UniformState, draws: Array) -> None:
        self.state, self.drawn = state, draws < state.rate

    def wanted(self, start: int) -> Mask:
        return self.drawn[start:] if self.state.left != 0 else self.drawn[:0]

    def accept(self, j: int, independent: bool) -> bool:
        if independent and self.state.left is not None:
            self.state.left -= 1
        return independent
