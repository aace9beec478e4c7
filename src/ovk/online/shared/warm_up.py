"""The first rows of a stream, from which a learner chooses the units in which it works.

The rows are held. After an eighth, a quarter and a half of them, and when they are complete, the learner starts anew:
inputs and outputs are centred and scaled by the rows held, what else it learns from first rows (the width of a kernel)
is learned from these, and then they are learned in their order. So nothing depends on the portions in which the rows
arrive, and every row is predicted from the rows before it: in the first eighth by their mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ovk._state import State
from ovk._types import Array
from ovk.online.shared.row_buffer import LearnedRows
from ovk.online.shared.units import StreamUnits

#: Rows of a warm-up when nobody said how many.
ROWS = 200
#: Shares of the rows after which a learner starts anew.
SHARES = (8, 4, 2, 1)


@dataclass
class HeldRows(State):
    """The rows of a warm-up so far.

    Attributes
    ----------
    size : how many there will be
    rows : those that came
    weights : (n,) their weights, None as long as these are 1
    """

    _state_classes = {"rows": LearnedRows}

    size: int
    rows: LearnedRows
    weights: Array | None = None

    @classmethod
    def empty(cls, size: int, p: int, d: int) -> Self:
        """Before the first row."""
        return cls(size, LearnedRows.empty(p, d))

    def append(self, X: Array, Y: Array, weights: Array | None) -> None:
        """Hold further rows."""
        if weights is not None or self.weights is not None:
            before = np.ones(len(self.rows)) if self.weights is None else self.weights
            self.weights = np.append(before, np.ones(len(X)) if weights is None else weights)
        self.rows.append(X, Y)

    def stages(self) -> list[int]:
        """Numbers of rows at which a learner starts anew."""
        return sorted({max(1, self.size // share) for share in SHARES})

    def until_stage(self) -> int:
        """Rows up to the next stage."""
        return next(stage for stage in self.stages() if stage > len(self.rows)) - len(self.rows)

    def at_stage(self) -> bool:
        """Whether the learner starts anew now."""
        return len(self.rows) in self.stages()

    def started(self) -> bool:
        """Whether the first stage is reached."""
        return len(self.rows) >= self.stages()[0]

    def complete(self) -> bool:
        """Whether all rows are there."""
        return len(self.rows) >= self.size

    def running_means(self, Y: Array) -> Array:
        """(n, d) mean of each output over the rows before each row of Y, which comes next; 0 before any."""
        before, mean, count = self.rows.Y, np.zeros(Y.shape[1]), np.zeros(Y.shape[1])
        found = np.empty((len(before) + len(Y), Y.shape[1]))
        for i, y in enumerate(np.vstack([before, Y])):
            found[i] = mean
            known = np.isfinite(y)
            count = count + known
            # Not a sum over a count, which outputs of 1e300 would make infinite.
            mean = np.where(known, mean + (np.nan_to_num(y) - mean) / np.maximum(count, 1.0), mean)
        return found[len(before) :]


def as_they_are(columns: int) -> StreamUnits:
    """Units of columns that are left as they are."""
    return StreamUnits(np.zeros(columns), np.ones(columns))
