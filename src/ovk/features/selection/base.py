"""The contract of a selection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from ovk._params import Parameters, Registered
from ovk._validation import Array


class Neighbours(NamedTuple):
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


class Judge(ABC):
    """A selection at work on one block."""

    @abstractmethod
    def first(self, start: int) -> int | None:
        """The first row from `start` on that is to join, as things stand; None when none is."""

    @abstractmethod
    def join(self, j: int, independent: bool) -> bool:
        """Take row j in; whether it stays among the chosen points, though it may depend on the others."""


class Chooser(Registered, ABC):
    """What a selection remembers of a stream."""

    @abstractmethod
    def judge(self, block: Neighbours) -> Judge:
        """Look at a block of inputs."""

    def done(self) -> bool:
        """Whether nobody will join any more."""
        return False


class Selection(Parameters, ABC):
    """Decides, row after row, which inputs join the dictionary: each before its own label is seen."""

    @abstractmethod
    def begin(self) -> Chooser:
        """Of a stream that is about to start."""
