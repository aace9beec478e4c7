"""Step sizes of online learners."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from numbers import Real
from typing import Any

import numpy as np

from ovk.base import Array, Parameters, Times, check_int, positive


class Schedule(Parameters, ABC):
    """Base class of step sizes eta_t at step t = 1, 2, ...; a subclass implements `rate`.

    See Also
    --------
    Constant, InverseSqrt, Loss

    Examples
    --------
    >>> from ovk.objectives import Constant, Schedule
    >>> isinstance(Constant(0.1), Schedule)
    True
    """

    #: Whether learners divide eta_t by |K(x, x)| of the row if that is above 1.
    scaled: bool = False

    @abstractmethod
    def rate(self, t: Times) -> Array:
        """eta_t for an array of steps."""


@dataclass(eq=False, repr=False)
class InverseSqrt(Schedule):
    """Step size eta / sqrt(t), the schedule of the OLOK and NORMA papers.

    Parameters
    ----------
    eta : float > 0
        First step size.
    start : int >= 1
        t of the first step: 10 starts with eta / sqrt(10).
    scaled : bool
        Whether learners divide each step by |K(x, x)| of the row if that is above 1. With eta = 1 and a loss whose
        gradient has the Lipschitz constant 1, such as the squared loss, no step then overshoots.

    See Also
    --------
    Inverse, Constant, DistanceOverGradients

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
    """Step size eta / t.

    Parameters
    ----------
    eta : float > 0
        First step size.
    start : int >= 1
        t of the first step.

    See Also
    --------
    InverseSqrt, Constant

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
    """Constant step size, for streams that drift.

    Parameters
    ----------
    eta : float > 0
        Step size.

    See Also
    --------
    InverseSqrt, DistanceOverGradients

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
    """Parameter-free step size, max(first * scale, max_s |f_s - f_0|) / sqrt(sum_s |gradient_s|^2).

    The distance from the start over the gradients so far, both in the kernel's norm (Ivgi, Hinder and Carmon 2023). The
    scale is the largest loss_s / |gradient_s|, so the step does not depend on the units of outputs and kernel.

    Parameters
    ----------
    first : float > 0
        First step relative to the scale; it has little influence later.

    See Also
    --------
    InverseSqrt, Constant

    References
    ----------
    Ivgi, Hinder and Carmon (2023), DoG is SGD's best friend: a parameter-free dynamic step size schedule.

    Examples
    --------
    >>> from ovk.objectives import DistanceOverGradients
    >>> DistanceOverGradients().step(distance=2.0, gradients=16.0, scale=1.0)
    0.5
    """

    first: float = 0.1

    def rate(self, t: Times) -> Array:
        raise ValueError("DistanceOverGradients has no rate independent of the data: use step()")

    def step(self, distance: float, gradients: float, scale: float) -> float:
        """Step size at a `distance` from the start, with the sum `gradients` of squared gradient norms."""
        least = positive(self.first, "first") * scale
        return max(least, distance) / sqrt(gradients) if gradients > 0 else 0.0


_NAMES: dict[str, type[Schedule]] = {
    "inverse-sqrt": InverseSqrt,
    "inverse": Inverse,
    "constant": Constant,
    "auto": DistanceOverGradients,
}


class FunctionSchedule(Schedule, saved=False):
    """Step size function(t) for a plain function of one step t = 1, 2, ...; models with it cannot be saved."""

    def __init__(self, function: Callable[[int], float]) -> None:
        self.function = function

    def rate(self, t: Times) -> Array:
        steps = np.asarray(t)
        rates = np.array([float(self.function(int(step))) for step in steps.ravel()])
        if not (np.isfinite(rates) & (rates >= 0)).all():
            worst = int(np.argmin(np.isfinite(rates) & (rates >= 0)))
            at = steps.ravel()[worst]
            raise ValueError(f"schedule must return finite numbers >= 0, got {rates[worst]} at t = {at}")
        return rates.reshape(steps.shape)


def as_schedule(schedule: Any) -> Schedule:
    """A schedule from an object, name, function of t, number eta (eta / sqrt(t)), or None (1 / sqrt(t), scaled)."""
    if isinstance(schedule, Schedule):
        return schedule
    if schedule is None:
        return InverseSqrt(scaled=True)
    if isinstance(schedule, str) and schedule in _NAMES:
        return _NAMES[schedule]()
    if not isinstance(schedule, bool) and isinstance(schedule, Real):
        return InverseSqrt(float(schedule))
    if callable(schedule) and not isinstance(schedule, type):
        return FunctionSchedule(schedule)
    raise ValueError(
        f"schedule must be a number, one of {sorted(_NAMES)}, a schedule object (ovk.objectives) or a function of the "
        f"step t, got {schedule!r}"
    )
