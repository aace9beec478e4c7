"""The dual of support vector machines by Newton steps on a smoothed loss.

With the ridge delta / 2 |b|^2 added to the dual, the primal loss has no kink: for the residuals r = q - f of f = K beta

    b_i(r) = r_i / delta cut off at the bounds [lower_i, upper_i],

the value to minimise is 1/2 beta'K beta plus a smooth loss of slope b_i at each r_i, and beta = b(r) at the minimum. A
Newton step sets beta to b on the coordinates at their bounds and, on the others F, to the solution of

    (K_FF + delta I) beta_F = q_F - (K b_at the bounds)_F,

of the size of F alone (Chapelle 2007, "Training a support vector machine in the primal"), followed by an exact search
along the line. The box grows to its size and delta falls, stage by stage, each from the end of the one before: a large
box at once would have nearly every coordinate in F at first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack

from ovk._types import Array, Indices

#: The first delta in units of the mean diagonal of K, the factor between two stages, and stages at most.
FIRST, FACTOR, STAGES = 0.1, 0.25, 40
#: Newton steps in a stage, the part of the first slope at which it ends, and halvings of a step.
NEWTON, ENOUGH, HALVINGS = 100, 1e-7, 40
#: Stages in a row that may fail to lower the gap.
PATIENCE = 2

Matrix = Callable[[Indices], Array]
Product = Callable[[Array], Array]


def smoothed_newton(
    matrix: Matrix,
    product: Product,
    diagonal: float,
    q: Array,
    lower: Array,
    upper: Array,
    *,
    tol: float = 1e-4,
    work: float = np.inf,
) -> Array | None:
    """b, (N,), near the minimiser of 1/2 b'Kb - q'b between the bounds; None where the work did not suffice.

    Parameters
    ----------
    matrix : K[rows, rows] of some coordinates
    product : K b
    diagonal : mean diagonal of K
    q, lower, upper : (N,) with lower <= 0 <= upper
    tol : part of the primal value at which the duality gap is small enough
    work : multiplications in factorisations, at most

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.solvers.smoothed_newton import smoothed_newton
    >>> K = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> q, room = np.array([1.0, 5.0]), np.ones(2)
    >>> b = smoothed_newton(lambda rows: K[np.ix_(rows, rows)], lambda b: K @ b, 2.0, q, 0 * room, room, tol=1e-9)
    >>> b.round(6) + 0.0
    array([0., 1.])
    """
    size = max(float(upper.max(initial=0.0)), -float(lower.min(initial=0.0)), 1e-300)
    # Up to about this size of the box hardly any coordinate lies between its bounds.
    part = min(1.0, float(np.abs(q).mean()) / max(diagonal, 1e-300) / size)
    delta = FIRST * max(diagonal, 1e-300)
    state = _Smoothed(matrix, product, q, work)
    best, least, failures = None, np.inf, 0
    for _ in range(STAGES):
        state.low, state.high, state.delta = part * lower, part * upper, delta
        if not state.minimise():
            return best
        if part == 1.0:
            b = state.outer(q - state.f)
            gap, primal = _gap(b, product(b), q, lower, upper)
            if gap < least:
                best, least, failures = b, gap, 0
            else:
                failures += 1
            if gap <= tol * primal or failures == PATIENCE:
                break
        part, delta = min(1.0, part / FACTOR), delta * FACTOR
    return best


def _gap(b: Array, values: Array, q: Array, lower: Array, upper: Array) -> tuple[float, float]:
    """Duality gap and primal value."""
    r = q - values
    losses = np.maximum(0.0, np.maximum(upper * r, lower * r))
    return float((losses - r * b).sum()), 0.5 * float(b @ values) + float(losses.sum())


class _Smoothed:
    """beta and f = K beta on their way."""

    low: Array
    high: Array
    delta: float

    def __init__(self, matrix: Matrix, product: Product, q: Array, work: float) -> None:
        self._matrix, self._product, self._q, self._work = matrix, product, q, work
        self.beta, self.f = np.zeros_like(q), np.zeros_like(q)

    def outer(self, r: Array) -> Array:
        """b(r), the slope of the smoothed loss."""
        return np.asarray(np.clip(r / self.delta, self.low, self.high))

    def minimise(self) -> bool:
        """Newton steps at the present delta and bounds; False where a system cannot be solved, or not in time."""
        first = None
        for _ in range(NEWTON):
            r = self._q - self.f
            target = self.outer(r)
            free = np.flatnonzero((target > self.low) & (target < self.high))
            self._work -= len(free) ** 3 / 6
            if self._work < 0:
                return False
            if len(free) and not self._solve(free, target):
                return False
            move, change = target - self.beta, self._product(target) - self.f
            # The slope along the move is linear but for the outer part.
            at_start, per_length = float(self.beta @ change), float(move @ change)

            def slope(
                length: float,
                r: Array = r,
                change: Array = change,
                at_start: float = at_start,
                per_length: float = per_length,
            ) -> float:
                return at_start + length * per_length - float(self.outer(r - length * change) @ change)

            down = -slope(0.0)
            first = down if first is None else first
            if down <= 0.0:
                break
            length = _root(slope, 1e-10 * down)
            self.beta, self.f = self.beta + length * move, self.f + length * change
            if down <= ENOUGH * first:
                break
        return True

    def _solve(self, free: Indices, target: Array) -> bool:
        """Put the Newton step into the free entries of `target`."""
        fixed = target.copy()
        fixed[free] = 0.0
        right = self._q[free] - self._product(fixed)[free]
        A = self._matrix(free)
        A[np.diag_indices_from(A)] += self.delta
        L, failed = lapack.dpotrf(A.T, lower=1, overwrite_a=1)
        if failed:
            return False
        target[free], _ = lapack.dpotrs(L, right, lower=1)
        return True


def _root(slope: Callable[[float], float], level: float) -> float:
    """The length up to 1 at which an increasing slope, negative at 0, reaches zero."""
    if slope(1.0) <= level:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    return high
