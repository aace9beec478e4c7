"""The contract of a selection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ovk._params import Parameters
from ovk._state import State
from ovk._types import Array, Mask


class BlockKernels(NamedTuple):
    """A block of inputs as the kernel sees them.

    Attributes
    ----------
    cross : (N, b) k(z_i, x_j) with the points chosen so far; not to be changed
    diagonal : (b,) k(x_j, x_j)
    column : ``column(j)`` is k(x_i, x_j) for all i, (b,)
    draws : (b,) a uniform random number for each row
    """

    cross: Array
    diagonal: Array
    column: Callable[[int], Array]
    draws: Array


class BlockSelection(ABC):
    """A selection at work on one block of inputs."""

    @abstractmethod
    def wanted(self, start: int) -> Mask:
        """Which of the rows from `start` on are to join, as things stand."""

    def next_candidate(self, start: int) -> int | None:
        """The first row from `start` on that is to join; None when there is none."""
        found = np.flatnonzero(self.wanted(start))
        return start + int(found[0]) if len(found) else None

    @abstractmethod
    def accept(self, j: int, independent: bool) -> bool:
        """Let row j join; returns whether it stays among the chosen points, though it may depend on the others."""


class SelectionState(State, ABC):
    """What a selection remembers of a stream."""

    @abstractmethod
    def on_block(self, block: BlockKernels) -> BlockSelection:
        """The selection for a block of inputs."""

    def is_complete(self) -> bool:
        """Whether no row will join any more."""
        return False


class Selection(Parameters, ABC):
    """Decides, row after row, which inputs join the dictionary: each before its own label is seen."""

    @abstractmethod
    def start(self) -> SelectionState:
        """The state at the start of a stream."""
