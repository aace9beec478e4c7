"""Penalties that empty entries or whole rows."""

from __future__ import annotations

import numpy as np

from ovk._types import Array
from ovk.penalties.base import WeightedPenalty


class L1(WeightedPenalty):
    """weight * sum of |C_ij|: few entries.

    Its proximal step pulls every entry towards zero by the same amount, sign(c) max(|c| - step weight, 0).

    Parameters
    ----------
    weight : float >= 0
        The amount, for a step of length one.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.penalties import L1
    >>> L1(2.0).value(np.array([[1.0, -3.0]]))
    8.0
    >>> L1(2.0).prox(np.array([[1.0, -3.0]]), step=0.5)
    array([[ 0., -2.]])
    """

    def value(self, C: Array) -> float:
        return self._weight() * float(np.abs(C).sum())

    def prox(self, C: Array, step: float) -> Array:
        # Without the sign function: what clipping takes off is what lies inside the threshold.
        threshold = step * self._weight()
        return C - np.clip(C, -threshold, threshold)


class L1L2(WeightedPenalty):
    """weight * sum of |c_i|, the Euclidean norms of the rows: few rows, each of them whole.

    Its proximal step shortens every row by the same amount, c max(1 - step weight / |c|, 0).

    Parameters
    ----------
    weight : float >= 0
        How much a row of length one costs.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.penalties import L1L2
    >>> L1L2(2.0).value(np.array([[3.0, 4.0], [0.0, 0.0]]))
    10.0
    >>> L1L2(2.0).prox(np.array([[3.0, 4.0], [0.0, 1.0]]), step=1.25)
    array([[1.5, 2. ],
           [0. , 0. ]])
    """

    def value(self, C: Array) -> float:
        return self._weight() * float(np.linalg.norm(C, axis=1).sum())

    def prox(self, C: Array, step: float) -> Array:
        lengths = np.linalg.norm(C, axis=1)
        threshold = step * self._weight()
        # Rows of length zero stay: dividing by the threshold instead of by nothing.
        shrink = np.maximum(1.0 - threshold / np.maximum(lengths, max(threshold, 1e-300)), 0.0)
        return np.asarray(C * shrink[:, None])
