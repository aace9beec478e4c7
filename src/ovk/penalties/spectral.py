"""Penalties and constraints on the eigenvalues of a symmetric matrix."""

from __future__ import annotations

import numpy as np

from ovk._validation import Array
from ovk.penalties.base import Penalty

#: A negative eigenvalue this small beside the largest is rounding.
ROUNDING = 1e-10


class PSDCone(Penalty):
    """0 for symmetric positive semi-definite matrices, inf for others: its proximal step is the projection.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.penalties import PSDCone
    >>> PSDCone().prox(np.diag([2.0, -1.0]), step=1.0)
    array([[2., 0.],
           [0., 0.]])
    >>> PSDCone().value(np.diag([2.0, -1.0]))
    inf
    """

    def value(self, C: Array) -> float:
        if not np.allclose(C, C.T, rtol=0.0, atol=ROUNDING * float(np.abs(C).max(initial=0.0))):
            return float("inf")
        values = np.linalg.eigvalsh(C)
        return 0.0 if values[0] >= -ROUNDING * max(float(np.abs(values).max()), 1e-300) else float("inf")

    def prox(self, C: Array, step: float) -> Array:
        values, vectors = np.linalg.eigh(0.5 * (C + C.T))
        if values[0] >= 0:
            return np.asarray(0.5 * (C + C.T))
        kept = vectors[:, values > 0]
        result: Array = (kept * values[values > 0]) @ kept.T
        return result
