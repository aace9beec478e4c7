"""The last rows of a stream, which the next stage is chosen on."""

from __future__ import annotations

import numpy as np

from ovk._state import State
from ovk._types import Array
from ovk.online.shared.row_buffer import RowBuffer


class RecentRows(State):
    """The last rows up to a number, with the label before each.

    Parameters
    ----------
    most : rows kept
    """

    _saved_state = ("most", "rows")
    _state_classes = {"rows": RowBuffer}

    def __init__(self, most: int, inputs: int, outputs: int) -> None:
        self.most = most
        self.rows = RowBuffer((np.empty((0, inputs)), np.empty((0, outputs)), np.empty((0, outputs))))

    def append(self, X: Array, last: Array, Y: Array) -> None:
        """Add rows; the oldest are dropped."""
        self.rows.append(X, last, Y)
        self.rows.drop(max(0, len(self.rows) - self.most))

    def collect(self) -> tuple[Array, Array, Array]:
        """(n, p) inputs, (n, d) last labels and (n, d) labels of the rows kept."""
        X, last, Y = self.rows.arrays
        return X, last, Y

    def replace_labels(self, Y: Array) -> None:
        """Other labels for the rows kept."""
        self.rows.replace(2, Y)
