"""Step sizes of online learners."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import sqrt
from numbers import Real
from typing import Any

import numpy as np

from ovk.base import Array, Parameters, Times, check_int, positive


class Schedule(Parameters, ABC, saved=False):
    """Step size eta_t at step t = 1, 2, ..."""

    #: Whether learners divide eta_t by |K(x, x)| of its row, where that is above 1.
    scaled: bool = False

    @abstractmethod
    def rate(self, t: Times) -> Array:
        """eta_t for an array of steps."""


@dataclass(eq=False, repr=False)
class InverseSqrt(Schedule):
    """eta_t = eta / sqrt(t), counted from `start`: the schedule of the OLOK and NORMA papers.

    Parameters
    ----------
    eta : float > 0
    start : int >= 1
        Number of the first step: 10 begins with eta / sqrt(10).
    scaled : bool
        Let learners divide each step by |K(x, x)| of its row, where that is above 1. With eta = 1 and a loss whose
        gradient has a Lipschitz constant of 1, such as the squared loss, no step then overshoots.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.objectives import InverseSqrt
    >>> InverseSqrt(0.5).rate(np.array([1, 4]))
    array([0.5 , 0.25])
    """

    eta: float = 1.0
    start: int = 1
    scaled: bool = False

    def rate(self, t: Times) -> Array:
        return np.asarray(positive(self.eta, "eta") / np.sqrt(t + (check_int(self.start, "start") - 1.0)))


@dataclass(eq=False, repr=False)
class Inverse(Schedule):
    """eta_t = eta / t, counted from `start`.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.objectives import Inverse
    >>> Inverse(1.0).rate(np.array([1, 4]))
    array([1.  , 0.25])
    """

    eta: float = 1.0
    start: int = 1

    def rate(self, t: Times) -> Array:
        return positive(self.eta, "eta") / np.asarray(t + (check_int(self.start, "start") - 1.0), dtype=np.float64)


@dataclass(eq=False, repr=False)
class Constant(Schedule):
    """eta_t = eta: never stops adapting, for streams that drift.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.objectives import Constant
    >>> Constant(0.1).rate(np.array([1, 4]))
    array([0.1, 0.1])
    """

    eta: float = 0.1

    def rate(self, t: Times) -> Array:
        return np.full(np.shape(t), positive(self.eta, "eta"))


@dataclass(eq=False, repr=False)
class DistanceOverGradients(Schedule):
    """eta_t = max(first * scale, max_s |f_s - f_0|) / sqrt(sum_s |gradient_s|^2): no step size to tune.

    The distance travelled so far, over the gradients met so far (Ivgi, Hinder and Carmon 2023), both in the kernel's
    norm. At the start nothing was travelled: the scale is the largest loss_s / |gradient_s|, how far a single example
    asks to go, so that neither the units of the outputs nor those of the kernel matter.

    Parameters
    ----------
    first : float > 0
        The first step, as a part of what the first example asks for; of little influence later.

    Examples
    --------
    >>> from ovk.objectives import DistanceOverGradients
    >>> DistanceOverGradients().step(distance=2.0, gradients=16.0, scale=1.0)
    0.5
    """

    first: float = 0.1

    def rate(self, t: Times) -> Array:
        raise ValueError("DistanceOverGradients depends on the data: it has no rate of its own before it sees them")

    def step(self, distance: float, gradients: float, scale: float) -> float:
        """Step size after travelling `distance` with squared gradient norms that sum to `gradients`."""
        least = positive(self.first, "first") * scale
        return max(least, distance) / sqrt(gradients) if gradients > 0 else 0.0


_NAMES: dict[str, type[Schedule]] = {
    "inverse-sqrt": InverseSqrt,
    "inverse": Inverse,
    "constant": Constant,
    "auto": DistanceOverGradients,
}


def as_schedule(schedule: Any) -> Schedule:
    """The schedule that a user means: an object, a name, a number for eta / sqrt(t), or None for 1 / sqrt(t) in the
    kernel's own scale."""
    if isinstance(schedule, Schedule):
        return schedule
    if schedule is None:
        return InverseSqrt(scaled=True)
    if isinstance(schedule, str) and schedule in _NAMES:
        return _NAMES[schedule]()
    if not isinstance(schedule, bool) and isinstance(schedule, Real):
        return InverseSqrt(float(schedule))
    raise ValueError(
        f"schedule must be a number, one of {sorted(_NAMES)} or a schedule of ovk.objectives, got {schedule!r}"
    )
