"""Checks that several rooms share. A message names the argument, what was found and what is allowed."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]


def positive(value: Any, name: str, *, zero: bool = False) -> float:
    """`value` as a float, if it is a finite number above (or at) zero."""
    allowed = "a finite number >= 0" if zero else "a finite number > 0"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    number = float(value)
    if not np.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    return number


def in_interval(value: Any, name: str, low: float, high: float) -> float:
    """`value` as a float, if it lies in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, Real) or not low <= float(value) <= high:
        raise ValueError(f"{name} must be a number in [{low:g}, {high:g}], got {value!r}")
    return float(value)


def dense_inputs(X: Any, what: str) -> Array:
    """`X` as a float array; a scipy sparse matrix is refused in the name of `what`."""
    if sparse.issparse(X):
        raise ValueError(f"{what} does not take sparse inputs: pass X.toarray(), or use a Gaussian or Linear kernel")
    return np.asarray(X, dtype=np.float64)


def whole(value: Any, name: str, *, least: int = 1) -> int:
    """`value` as an int, if it is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
    return int(value)
