"""Approximate linear dependence (Engel, Mannor and Meir 2004)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ovk._validation import positive
from ovk.features.selection.base import Chooser, Judge, Neighbours, Selection
from ovk.features.selection.residual import Residual


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

    def begin(self) -> Chooser:
        if positive(self.tol, "tol") >= 1:
            raise ValueError(f"tol must lie in (0, 1), got {self.tol!r}")
        return AldChooser(float(self.tol), Residual(0.0))


@dataclass
class AldChooser(Chooser):
    """What the dictionary leaves of the kernel."""

    tol: float
    residual: Residual

    def judge(self, block: Neighbours) -> Judge:
        return _Judge(self, block)


class _Judge(Judge):
    def __init__(self, chooser: AldChooser, block: Neighbours) -> None:
        self.limits, self.residual = chooser.tol * block.diagonal, chooser.residual.of(block)

    def first(self, start: int) -> int | None:
        found = np.flatnonzero(self.residual.own(start) > self.limits[start:])
        return start + int(found[0]) if len(found) else None

    def join(self, j: int, independent: bool) -> bool:
        if independent:
            self.residual.join(j, 1.0)
        return independent
