"""The last rows of a stream, which the next stage is chosen on."""

from __future__ import annotations

import numpy as np

from ovk._state import State
from ovk._types import Array
from ovk.online.shared.row_buffer import RowBuffer


class RecentRows(State):
    """The last rows up to a number, with the label before each, and with their weights once there are any.

    Parameters
    ----------
    most : rows kept
    """

    _saved_state = ("most", "rows")
    _state_classes = {"rows": RowBuffer}

    def __init__(self, most: int, inputs: int, outputs: int) -> None:
        self.most = most
        self.rows = RowBuffer((np.empty((0, inputs)), np.empty((0, outputs)), np.empty((0, outputs))))

    def append(self, X: Array, last: Array, Y: Array, weights: Array | None = None) -> None:
        """Add rows; the oldest are dropped."""
        if weights is not None and len(self.rows.arrays) == 3:
            self.rows = RowBuffer((*self.rows.arrays, np.ones(len(self.rows))))
        further = () if len(self.rows.arrays) == 3 else (1.0 if weights is None else weights,)
        self.rows.append(X, last, Y, *further)
        self.rows.drop(max(0, len(self.rows) - self.most))

    def collect(self) -> tuple[Array, Array, Array, Array | None]:
        """(n, p) inputs, (n, d) last labels, (n, d) labels and (n,) weights of the rows kept; None for weights of 1."""
        X, last, Y, *weights = self.rows.arrays
        return X, last, Y, weights[0] if weights else None

    def replace_labels(self, Y: Array) -> None:
        """Other labels for the rows kept."""
        self.rows.replace(2, Y)
