"""A gram seen through holes: only some outputs of some points were observed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk._validation import Array, Indices
from ovk.grams.base import Gram


class Observed(Gram):
    """The square gram `base` on the pairs (point, output) that were observed; each pair counts as a point.

    Parameters
    ----------
    base : square gram of n points and d outputs
    rows, outputs : (N,) integer arrays, the pairs

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.grams import Kronecker, Observed
    >>> from ovk.operators import Dense
    >>> base = Kronecker(np.eye(2), Dense([[2.0, 1.0], [1.0, 2.0]]))
    >>> Observed(base, np.array([0, 0, 1]), np.array([0, 1, 1])).dense()
    array([[2., 1., 0.],
           [1., 2., 0.],
           [0., 0., 2.]])
    """

    output_dim = 1

    def __init__(self, base: Gram, rows: Indices, outputs: Indices) -> None:
        self.base = base
        self.rows = rows
        self.outputs = outputs
        self.shape = (len(rows), len(rows))

    def spread(self, c: Any) -> Array:
        """Coefficients of the pairs, (N, 1), as coefficients of points, (n, d), zero where nothing was observed."""
        full = np.zeros((self.base.shape[0], self.base.output_dim))
        full[self.rows, self.outputs] = np.asarray(c).reshape(-1)
        return full

    def matmat(self, C: Any) -> Array:
        values = self.base.matmat(self.spread(C))
        return values[self.rows, self.outputs][:, None]

    def entries(self, rows: Indices, outputs: Indices, columns: Indices, inputs: Indices) -> Array:
        return self.base.entries(self.rows[rows], self.outputs[rows], self.rows[columns], self.outputs[columns])

    def dense(self) -> Array:
        return self.base.entries(self.rows, self.outputs, self.rows, self.outputs)

    def rescale(self, rows: Array | None, columns: Array | None, outputs: Array | None) -> Gram:
        return Observed(self.base.rescale(rows, columns, outputs), self.rows, self.outputs)

    def diagonal_blocks(self) -> Array:
        blocks = self.base.diagonal_blocks()
        return blocks[self.rows, self.outputs, self.outputs][:, None, None]
