"""A small quadratic programme in a box, by projected Newton steps.

    minimise  1/2 d'Qd + g'd   subject to  low <= d <= high        (low <= 0 <= high)

Coordinates that the gradient pushes against their bound stay there; on the others one takes the Newton step, cut off
at the bounds, or halved and cut off, when that lowers the value; else (where Q is nearly singular, the cut can turn
the direction uphill) it goes straight until the first bound, which always does. Once the right bounds are known, one
step is exact.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from ovk._types import Array, Indices

#: Part of the slope that a step must gain, and the parts of a Newton step that are tried.
ARMIJO, PARTS = 1e-4, (1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625)


def box_newton(Q: Array, g: Array, low: Array, high: Array, *, steps: int = 20, tol: float = 1e-10) -> Array:
    """The minimiser d, (k,), to `tol` of the largest gradient at the start or as near as `steps` get.

    Every step lowers the value, so the result is at least as good as d = 0.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.solvers.box_newton import box_newton
    >>> Q = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> box_newton(Q, np.array([-1.0, -5.0]), np.zeros(2), np.ones(2))
    array([0., 1.])
    """
    d, gradient = np.zeros_like(g), g.copy()
    size = float(np.einsum("ii->i", Q).max(initial=0.0))
    # What a bound holds back does not count.
    open_ = ~(((low >= 0) & (g >= 0)) | ((high <= 0) & (g <= 0)))
    goal = tol * float(np.abs(g[open_]).max(initial=0.0))
    jitter = 1e-12 * size
    for _ in range(steps):
        free = np.flatnonzero(~(((d <= low) & (gradient >= 0)) | ((d >= high) & (gradient <= 0))))
        if len(free) == 0 or np.abs(gradient[free]).max() <= goal:
            break
        A = Q.copy() if len(free) == len(Q) else np.take(Q[free], free, axis=1)
        A.ravel()[:: len(A) + 1] += jitter
        L, failed = lapack.dpotrf(A.T, lower=1, overwrite_a=1)
        if failed:
            # Dependent rows (repeated points, a linear kernel): Q is singular there.
            jitter = max(100.0 * jitter, 1e-300)
            continue
        step, _ = lapack.dpotrs(L, -gradient[free], lower=1)
        found = _bent(Q, d, gradient, low, high, free, step)
        if found is None:
            found = _straight(Q, d, gradient, low, high, free, step)
        if found is None:
            break
        d, change = found
        gradient = gradient + change
    return d


def _bent(
    Q: Array, d: Array, gradient: Array, low: Array, high: Array, free: Indices, step: Array
) -> tuple[Array, Array] | None:
    """The largest part of the step that gains enough once it is cut off at the bounds, and Q times the move."""
    for part in PARTS:
        new = d.copy()
        new[free] = np.minimum(np.maximum(d[free] + part * step, low[free]), high[free])
        move = new - d
        change = Q @ move
        slope = float(gradient @ move)
        if slope < 0 and slope + 0.5 * float(move @ change) <= ARMIJO * slope:
            return new, change
    return None


def _straight(
    Q: Array, d: Array, gradient: Array, low: Array, high: Array, free: Indices, step: Array
) -> tuple[Array, Array] | None:
    """The step up to the first bound, and Q times it; None when rounding leaves nothing to gain."""
    at, down = d[free], step < 0
    room = np.where(down, low[free] - at, high[free] - at)
    # A coordinate at its bound is free only when its gradient leads inwards, yet the joint step may lead out.
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(step == 0, np.inf, room / step)
    if (part <= 0).any():
        step = np.where(part <= 0, 0.0, step)
        part = np.where(part <= 0, np.inf, part)
        if float(gradient[free] @ step) >= 0:
            step = np.where(part < np.inf, -gradient[free] / np.einsum("ii->i", Q)[free].clip(1e-300), 0.0)
            room = np.where(step < 0, low[free] - at, high[free] - at)
            with np.errstate(divide="ignore", invalid="ignore"):
                part = np.where(step == 0, np.inf, room / step)
    move = np.zeros_like(d)
    move[free] = step
    change = Q @ move
    slope, curve = float(gradient @ move), float(move @ change)
    if slope >= 0:
        return None
    best = -slope / curve if curve > 0 else np.inf
    length = min(best, float(part.min()))
    new = d + length * move
    new[free] = np.where(part <= length, np.where(step < 0, low[free], high[free]), new[free])
    return new, length * change
