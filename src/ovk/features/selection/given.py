"""Points known beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ovk._types import Array
from ovk.features.selection.base import BlockKernels, BlockSelection, Selection, SelectionState
from ovk.features.selection.uniform import UniformState


class Given(Selection):
    """A dictionary that is there from the start and does not grow.

    With inputs known beforehand and only the outputs revealed one by one, `Given.chosen` lets another selection go over
    all inputs first.

    Parameters
    ----------
    points : (m, p) array

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.features import KORS, Given
    >>> from ovk.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((500, 1))
    >>> found = Given.chosen(Gaussian(1.0), X, KORS(mu=0.1), random_state=0)
    >>> 5 <= len(found.points) <= 50
    True
    """

    def __init__(self, points: Any) -> None:
        self.points = points

    def start(self) -> SelectionState:
        return GivenState()

    def checked(self, p: int) -> Array:
        """The points, for inputs with p features."""
        points = np.array(self.points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != p or len(points) == 0 or not np.isfinite(points).all():
            raise ValueError(f"points must be finite numbers of shape (m, {p}), got shape {points.shape}")
        return points

    @classmethod
    def chosen(
        cls, kernel: Any, X: Any, selection: Any, *, budget: int | None = None, random_state: Any = None
    ) -> Self:
        """The dictionary that `selection`, or `RPCholesky`, makes of all inputs X, (n, p), with a scalar or
        operator-valued kernel."""
        from ovk.features.dictionary import Dictionary  # a dictionary begins with a selection
        from ovk.features.rpcholesky import RPCholesky

        if isinstance(selection, RPCholesky):
            return cls(selection.dictionary(kernel, X, budget, random_state))
        return cls(Dictionary.chosen(kernel, X, selection, budget, random_state).points)


@dataclass
class GivenState(SelectionState, kind="given"):
    """Lets no row join."""

    def on_block(self, block: BlockKernels) -> BlockSelection:
        return UniformState(1.0, 0).on_block(block)

    def is_complete(self) -> bool:
        return True
