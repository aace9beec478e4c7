"""What the clock alone tells about a series: waves of known periods, such as a day and a week.

    next state:       x(t+1) = b + S' w(t+1) + h(x(t))
    rate of change:   x(t+1) - x(t) = b + S' w(t+1) - decay x(t) + h(x(t))

w(t) holds cos(2 pi t / p) and sin(2 pi t / p) for each period p. S is not penalised, like the constant b, and a
forecast knows w as far ahead as it needs. The Jacobian of h, from which networks are read, does not contain it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk._types import Array


def checked_periods(periods: Any, step: float, target: str) -> Array:
    """The periods in steps, (P,); an error for those that the series cannot show."""
    if periods is None:
        return np.empty(0)
    found = np.atleast_1d(np.asarray(periods, dtype=np.float64))
    if found.ndim != 1 or not (np.isfinite(found).all() and (found >= 2 * step).all()):
        raise ValueError(
            f"periods must be numbers of at least two steps, {2 * step:g}, in the units of the times (seconds for "
            f"dates), got {periods!r}"
        )
    if target == "integral" and len(found):
        raise ValueError("target='integral' takes no periods: use target='next' or 'increment'")
    return found / step


def waves(times: Array, periods: Array) -> Array:
    """w, (n, 2 P): a cosine and a sine of each period at times (n,), both in the same units.

    >>> waves(np.array([0.0, 6.0]), np.array([24.0])).round(2)
    array([[1., 0.],
           [0., 1.]])
    """
    phase = 2 * np.pi * times[:, None] / periods
    return np.column_stack([np.cos(phase), np.sin(phase)])
