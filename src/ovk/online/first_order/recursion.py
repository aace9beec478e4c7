"""First-order linear recursions, all steps at once."""

from __future__ import annotations

import numpy as np

from ovk._types import Array

#: Products of factors between these exponents can be divided out without leaving the range of numbers.
STEEPEST = 200.0


def recursion(start: float, factors: Array, additions: Array) -> Array:
    """x_0 = start, x_j+1 = factors_j x_j + additions_j: all of them, (b + 1,). The factors are positive.

    With E_j the product of the factors before j, x_j = E_j (x_0 + sum_l<j additions_l / E_l+1). Where that leaves the
    range of numbers the steps are taken one by one.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.online.first_order.recursion import recursion
    >>> recursion(1.0, np.array([0.5, 0.5]), np.array([1.0, 2.0]))
    array([1.  , 1.5 , 2.75])
    """
    logs = np.log(factors).cumsum()
    x: Array = np.empty(len(factors) + 1)
    x[0] = start
    if len(logs) and np.abs(logs).max() < STEEPEST:
        E = np.exp(logs)
        with np.errstate(over="ignore", invalid="ignore"):
            np.cumsum(additions / E, out=x[1:])
            x[1:] += start
            x[1:] *= E
        if np.isfinite(x).all():
            return x
    current = start
    for j, (factor, more) in enumerate(zip(factors.tolist(), additions.tolist(), strict=True)):
        current = factor * current + more
        x[j + 1] = current
    return x
