"""Outputs that cannot be below or above some number, such as 0 for a power and 100 for a percentage.

With bounds low <= y <= high, the prediction f is first drawn in to them, c = min(max(f, low), high), and the interval
of radius r is cut off where no outcome can be:

    [c - r, c + r]  within  [low, high],      scores |y - c|

An outcome within its bounds lies in what is left if and only if |y - c| <= r. So misses are what they were, and with
them the coverage, and since |y - c| <= |y - f| no score has grown.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from ovk._types import Array, Mask


class Bounds(NamedTuple):
    """Least and largest values (d,) of the outputs, infinite where there is none."""

    low: Array
    high: Array

    def clipped(self, values: Array) -> Array:
        """The values (n, d), drawn in to the bounds; nan stays."""
        return np.clip(values, self.low, self.high)

    def outside(self, Y: Array) -> Mask:
        """(n, d) where outcomes are that cannot be."""
        return (self.low > Y) | (self.high < Y)


def as_bounds(bounds: Any, d: int) -> Bounds | None:
    """The bounds of d outputs; None where there are none.

    Parameters
    ----------
    bounds : (low, high) for all outputs, or d such pairs; None for what is not bounded

    >>> as_bounds([(0, None), None, (0, 100)], 3)
    Bounds(low=array([  0., -inf,   0.]), high=array([ inf,  inf, 100.]))
    >>> as_bounds((0, None), 2).high
    array([inf, inf])
    """
    if bounds is None:
        return None
    if not isinstance(bounds, (Sequence, np.ndarray)) or isinstance(bounds, str):
        raise ValueError(_refused(bounds, d))
    one = len(bounds) == 2 and all(end is None or isinstance(end, Real) for end in bounds)
    pairs = [bounds] * d if one else list(bounds)
    if len(pairs) != d:
        raise ValueError(_refused(bounds, d))
    ends = [_pair(pair, bounds, d) for pair in pairs]
    return Bounds(*np.array(ends, dtype=np.float64).reshape(d, 2).T)


def _pair(pair: Any, bounds: Any, d: int) -> tuple[float, float]:
    low, high = (None, None) if pair is None else pair if np.ndim(pair) == 1 and len(pair) == 2 else (np.nan, np.nan)
    if not all(end is None or isinstance(end, Real) for end in (low, high)):
        raise ValueError(_refused(bounds, d))
    ends = -np.inf if low is None else float(low), np.inf if high is None else float(high)
    # Not the other way round: nan is refused as well.
    if not ends[0] < ends[1]:
        raise ValueError(_refused(bounds, d))
    return ends


def _refused(bounds: Any, d: int) -> str:
    return (
        f"bounds must be a pair (low, high) with low < high, None for an open end, or one such pair for each of the "
        f"{d} outputs, got {bounds!r}"
    )
