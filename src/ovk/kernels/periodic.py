"""Inputs on a circle: the day of the year, the phase of a step."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ovk._params import positive
from ovk._types import Array
from ovk.kernels.base import ScalarKernel
from ovk.kernels.mapped import OfCoordinates


class Periodic(OfCoordinates):
    """k(u(x), u(z)), u(x) = (P / 2 pi) (cos, sin)(2 pi x / P): a kernel of distances through a circle of length P.

    Between near points the distance is |x - z|, so length scales keep their meaning. With a Gaussian of length l it is
    exp(-(P / pi l)^2 sin^2(pi (x - z) / P) / 2).

    Parameters
    ----------
    kernel : scalar kernel of two coordinates for each input
    period : float > 0

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Gaussian, Periodic
    >>> Periodic(Gaussian(0.1), period=1.0)(np.array([[0.05], [0.95]])).round(4)
    array([[1.    , 0.6165],
           [0.6165, 1.    ]])
    """

    def __init__(self, kernel: ScalarKernel, period: float = 1.0) -> None:
        self.kernel = kernel
        self.period = period

    def coordinates(self, X: Any) -> Array:
        """u(x) of every input, (n, 2 p)."""
        radius = positive(self.period, "period") / (2.0 * np.pi)
        angle = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64) / radius
        return radius * np.hstack([np.cos(angle), np.sin(angle)])
