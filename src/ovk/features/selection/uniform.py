"""Points taken without looking at them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ovk._validation import Array, in_interval, whole
from ovk.features.selection.base import Chooser, Judge, Neighbours, Selection


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

    def begin(self) -> Chooser:
        if (self.rate is None) == (self.size is None):
            raise ValueError(f"Uniform takes either rate or size, got rate={self.rate!r} and size={self.size!r}")
        if self.size is not None:
            return UniformChooser(1.0, whole(self.size, "size"))
        if not in_interval(self.rate, "rate", 0.0, 1.0) > 0:
            raise ValueError(f"rate must lie in (0, 1], got {self.rate!r}")
        assert self.rate is not None
        return UniformChooser(float(self.rate), None)


@dataclass
class UniformChooser(Chooser):
    """Attributes: probability of a row, and how many may still join (None for any number)."""

    rate: float
    left: int | None

    def judge(self, block: Neighbours) -> Judge:
        return _Judge(self, block.draws)

    def done(self) -> bool:
        return self.left == 0


class _Judge(Judge):
    def __init__(self, chooser: UniformChooser, draws: Array) -> None:
        self.chooser, self.wanted = chooser, draws < chooser.rate

    def first(self, start: int) -> int | None:
        if self.chooser.left == 0:
            return None
        found = np.flatnonzero(self.wanted[start:])
        return start + int(found[0]) if len(found) else None

    def join(self, j: int, independent: bool) -> bool:
        if independent and self.chooser.left is not None:
            self.chooser.left -= 1
        return independent
