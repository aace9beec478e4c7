"""How many old support points an online learner keeps.

The influence of a support point shrinks by 1 - eta alpha at every step, so old ones can be dropped. A truncation says
which: by age (`Window`, `PaperWindow`) or by weight (`Tolerance`), with a bound on what it costs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import exp, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from ovk._params import Parameters
from ovk._validation import in_interval, positive, whole

Times = npt.NDArray[np.int64]


class Truncation(Parameters, ABC):
    """A rule for dropping old support points."""


class ByAge(Truncation):
    """After step t only the last s_t points are kept."""

    @abstractmethod
    def size(self, t: Times, eta: float, alpha: float) -> Times:
        """s_t for an array of steps, with eta_1 and the ridge weight."""


class Window(ByAge):
    """Keep the last s points.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.online import Window
    >>> Window(100).size(np.array([1, 1000]), eta=1.0, alpha=0.1)
    array([100, 100])
    """

    def __init__(self, s: int = 1000) -> None:
        self.s = s

    def size(self, t: Times, eta: float, alpha: float) -> Times:
        return np.full(np.shape(t), whole(self.s, "s"), dtype=np.int64)


class PaperWindow(ByAge):
    """s_t = max(t^(1/2 + epsilon), t_0): the window of the OLOK paper's theorem.

    t_0 is the first t with  eta alpha < sqrt(t),  exp(-eta alpha t^epsilon) <= eta alpha / sqrt(t)  and
    t^(1/2 + epsilon) <= 0.75 t.

    Parameters
    ----------
    epsilon : float in (0, 1/2)

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.online import PaperWindow
    >>> PaperWindow(0.4).size(np.array([1, 10**6]), eta=1.0, alpha=0.9)
    array([    18, 251189])
    """

    def __init__(self, epsilon: float = 0.25) -> None:
        self.epsilon = epsilon

    def size(self, t: Times, eta: float, alpha: float) -> Times:
        epsilon = in_interval(self.epsilon, "epsilon", 1e-3, 0.499)
        grown = np.ceil(np.asarray(t, dtype=np.float64) ** (0.5 + epsilon)).astype(np.int64)
        return np.maximum(grown, self.first(eta, alpha))

    def first(self, eta: float, alpha: float) -> int:
        """t_0."""
        epsilon = in_interval(self.epsilon, "epsilon", 1e-3, 0.499)
        product = eta * alpha

        def holds(t: float) -> bool:
            return (
                product < sqrt(t)
                and exp(-product * t**epsilon) <= product / sqrt(t)
                and t ** (0.5 + epsilon) <= 0.75 * t
            )

        # Each condition, once true, stays true (the second beyond its last crossing): double, then halve.
        high = 1
        while not (holds(high) and holds(4.0 * high)):
            high *= 2
            if high > 1 << 60:
                return high
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high


class Tolerance(Truncation):
    """Drop old points as long as the distance to the learner that keeps all stays below `tol`.

    The distance is measured in the kernel's norm, and what an earlier drop does to later steps counts: the bound
    `truncation_error_` of the learner is a certificate. A prediction differs by at most kappa times it, kappa^2 the
    largest eigenvalue of K(x, x). Steps too large for the kernel, eta (L kappa^2 + 2 alpha) > 2 for a loss with an
    L-Lipschitz gradient, can drive two learners apart: there the bound grows, and nothing is dropped while it is
    above `tol`.

    Parameters
    ----------
    tol : float > 0

    Examples
    --------
    >>> from ovk.online import Tolerance
    >>> Tolerance(1e-12)
    Tolerance()
    """

    def __init__(self, tol: float = 1e-12) -> None:
        self.tol = tol

    def allowed(self) -> float:
        """The tolerance, checked."""
        return positive(self.tol, "tol")


def as_truncation(truncation: Any) -> Truncation | None:
    """Turn what a user may pass as a truncation into one: an object, None, or a number of points.

    >>> as_truncation(500)
    Window(s=500)
    """
    if truncation is None or isinstance(truncation, Truncation):
        return truncation
    if isinstance(truncation, (int, np.integer)) and not isinstance(truncation, bool):
        return Window(whole(truncation, "truncation"))
    raise ValueError(f"truncation must be None, a number of points or a truncation of ovk.online, got {truncation!r}")
