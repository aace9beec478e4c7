"""The dual of support vector machines, by blocks of coordinates.

    minimise  1/2 b'Kb - q'b + epsilon |b|_1   subject to  lower <= b <= upper      (lower <= 0 <= upper)

With q = y, epsilon = 0 and b_i between 0 and C y_i this is the dual of theorem 2.1 (hinge loss, b_i = y_i alpha_i);
with bounds -C and C it is that of the epsilon-insensitive loss. For r = q - Kb the duality gap is a sum of terms >= 0,

    gap = sum_i  s_i(r_i) - r_i b_i + epsilon |b_i|,     s_i(r) = max(0, upper_i (r - epsilon), lower_i (r + epsilon)),

where sum s_i(r_i) is the loss of the function Kb: the rule that stops is the gap itself, relative to the primal value.

A step takes the coordinates that want to go up most and those that want to go down most (both, because what one side
adds to a common mode of K the other takes off again) and solves for all of them at once. When steps gain little, one
step takes every coordinate between its bounds: that is where the small eigenvalues of K are felt. When that gains
little too, because the right bounds are not known, Newton steps on a smoothed loss find them (hinge loss), or an
interior point method: as soon as the steps so far have cost what it costs, so that it never more than doubles the time
of a problem that was easy. Coordinates that rest firmly at a bound are set aside (shrinking) until the others are done,
and then checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from ovk._types import Array, Indices, Mask
from ovk.solvers.box_newton import box_newton
from ovk.solvers.interior_point import BoxProgramme, interior_point
from ovk.solvers.smoothed_newton import smoothed_newton

#: Coordinates in a step, steps between two looks at the gap, looks between two rounds of shrinking.
BLOCK, LOOK, SHRINK = 32, 10, 3
#: In a step for all free coordinates: how many there may be, violators added on each side, Newton steps.
FREE, VIOLATORS, NEWTON = 1500, 64, 6
#: Active coordinates up to which an interior point method may take them all, and factorisations that it takes.
INTERIOR, FACTORS = 4000, 20
#: Newton steps that a smoothed loss takes, about.
SMOOTHED = 60
#: What a step costs beside its factorisations, in multiplications of these: calls from Python, and each entry of K.
CALLS, ENTRY = 1.5e7, 20
#: The last digits are found by one more Newton step when that costs at most so many calls, or this part of the search.
POLISH_CALLS, POLISH_SHARE = 3, 0.02


@dataclass(frozen=True)
class DualInfo:
    """How a dual was solved.

    Attributes
    ----------
    gap : duality gap, primal value minus dual value
    primal : primal value 1/2 |f|^2 + sum of losses
    iterations : block steps
    converged : the gap came below the tolerance times the primal value
    """

    gap: float
    primal: float
    iterations: int
    converged: bool


class Products(Protocol):
    """What is asked of K: products, entries and its diagonal, as a gram of one output has them."""

    def matmat(self, C: Any) -> Array:
        """K C, (N, k)."""

    def entries(self, rows: Indices, outputs: Indices, columns: Indices, inputs: Indices) -> Array:
        """K[rows, columns]; outputs and inputs are zero."""

    def diagonal_blocks(self) -> Array:
        """The diagonal, (N, 1, 1)."""


class BoxDual(NamedTuple):
    """The problem: K on N pairs, q, bounds (N,), epsilon."""

    gram: Products
    q: Array
    lower: Array
    upper: Array
    epsilon: float

    def matrix(self, rows: Indices, columns: Indices | None = None) -> Array:
        """K[rows, columns], or K[rows, rows]."""
        columns = rows if columns is None else columns
        return self.gram.entries(rows, np.zeros_like(rows), columns, np.zeros_like(columns))

    def losses(self, r: Array) -> Array:
        """s_i(r_i), (N,)."""
        return np.maximum(0.0, np.maximum(self.upper * (r - self.epsilon), self.lower * (r + self.epsilon)))

    def gaps(self, b: Array, r: Array) -> Array:
        """Each coordinate's part of the duality gap, (N,)."""
        return self.losses(r) - r * b + self.epsilon * np.abs(b)

    def info(self, b: Array, r: Array, values: Array, iterations: int, tol: float) -> DualInfo:
        """The record of a solution with function values Kb."""
        primal = 0.5 * float(b @ values) + float(self.losses(r).sum())
        gap = float(self.gaps(b, r).sum())
        return DualInfo(gap, primal, iterations, gap <= tol * primal)


def dual_coordinate(
    problem: BoxDual, *, tol: float = 1e-6, max_iter: int = 10_000, start: Array | None = None
) -> tuple[Array, DualInfo]:
    """Solution b, (N,), and how it was found.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.grams import DenseBlocks
    >>> from ovk.solvers.dual_coordinate import BoxDual, dual_coordinate
    >>> K = DenseBlocks(np.array([[2.0, 1.0], [1.0, 2.0]]), 1)
    >>> y = np.array([1.0, -1.0])
    >>> b, info = dual_coordinate(BoxDual(K, y, np.minimum(0, 5 * y), np.maximum(0, 5 * y), 0.0))
    >>> b, info.converged
    (array([ 1., -1.]), True)
    """
    search = _Search(problem, np.zeros_like(problem.q) if start is None else start.copy())
    last, iteration = np.inf, 0
    while iteration < max_iter:
        gap = search.gap()
        if gap <= tol * search.primal:
            if not search.shrunk:
                break
            search.restore()
            last = np.inf
            continue
        look = iteration // LOOK
        if look % SHRINK == SHRINK - 1:
            search.shrink()
        stalled, last = gap > 0.5 * last, gap
        moved = (search.step_smoothed(tol) or search.step_all(tol) or search.step_free()) if stalled else False
        moved = moved or search.step_block()
        iteration += 1
        for _ in range(LOOK - 1):
            moved |= search.step_block()
            iteration += 1
        if not moved:
            if not search.shrunk:
                break  # rounding: no step gains anything any more
            search.restore()
    search.restore()
    if iteration:
        search.polish()
    return search.b, problem.info(search.b, search.r, problem.q - search.r, iteration, tol)


class _Search:
    """Coefficients b and residuals r = q - Kb, the latter up to date on the `active` coordinates alone."""

    def __init__(self, problem: BoxDual, b: Array) -> None:
        self.problem, self.b = problem, np.clip(b, problem.lower, problem.upper)
        # Cost of all steps, and of block steps since all free coordinates were solved for.
        self.spent, self.by_blocks = 0.0, 0.0
        self.smoothed = problem.epsilon > 0
        self.restore()

    def restore(self) -> None:
        """All coordinates active, r anew, free of what rounding has added up."""
        self.active: Indices = np.arange(len(self.b))
        self.r: Array = self.problem.q - self.problem.gram.matmat(self.b[:, None])[:, 0]
        self.shrunk = False

    def gap(self) -> float:
        """Of the active coordinates; keeps the primal value, which is known only while all of them are."""
        gaps = self.problem.gaps(self.b, self.r)
        if self.shrunk:
            return float(gaps[self.active].sum())
        self.primal = 0.5 * float(self.b @ (self.problem.q - self.r)) + float(self.problem.losses(self.r).sum())
        return float(gaps.sum())

    def _slopes(self) -> tuple[Array, Array]:
        """What a small step up, and a small step down, would gain at each active coordinate; -inf at a bound."""
        p, A = self.problem, self.active
        b, r = self.b[A], self.r[A]
        up = np.where(b >= 0, r - p.epsilon, r + p.epsilon)
        down = np.where(b <= 0, -r - p.epsilon, p.epsilon - r)
        return np.where(b < p.upper[A], up, -np.inf), np.where(b > p.lower[A], down, -np.inf)

    def _most(self, gains: Array, count: int, least: float = -np.inf) -> Indices:
        """Up to `count` active coordinates of largest gain above `least`."""
        count = min(count, len(gains))
        chosen = np.argpartition(gains, len(gains) - count)[len(gains) - count :]
        return self.active[chosen[gains[chosen] > least]]

    def step_block(self) -> bool:
        """Solve for those that want to move most, in either direction."""
        up, down = self._slopes()
        if max(up.max(initial=-np.inf), down.max(initial=-np.inf)) <= 0:
            return False
        W = np.union1d(self._most(up, BLOCK // 2), self._most(down, BLOCK // 2))
        self.by_blocks += self._cost(W, NEWTON)
        return self._solve(W, 20, 1e-3)

    def step_free(self) -> bool:
        """Solve for all coordinates between their bounds, and the worst at them."""
        up, down = self._slopes()
        slope = np.where(self._free()[self.active], np.maximum(np.abs(up), np.abs(down)), -np.inf)
        chosen = [self._most(slope, FREE), self._most(up, VIOLATORS, 0.0), self._most(down, VIOLATORS, 0.0)]
        W = np.unique(np.concatenate(chosen))
        if self.by_blocks < self._cost(W, NEWTON):
            # Not before blocks have had the same time: while bounds still change, they gain as much.
            return self.step_block()
        self.by_blocks = 0.0
        return self._solve(W, NEWTON, 1e-8)

    def _free(self) -> Mask:
        """Which coordinates lie between their bounds and away from zero, (N,)."""
        return np.asarray((self.b > self.problem.lower) & (self.b < self.problem.upper) & (self.b != 0))

    def polish(self) -> None:
        """Meet the conditions of all free coordinates exactly, where that is cheap.

        A gap of `tol` leaves the function itself only known to the root of `tol`; once the bounds are right, one Newton
        step finds it to rounding, so that repeated rows and weights give the same function.
        """
        W = np.flatnonzero(self._free())
        if not 0 < len(W) <= FREE or self._cost(W, 1) > max(POLISH_CALLS * CALLS, POLISH_SHARE * self.spent):
            return
        before, gap = (self.b.copy(), self.r), self.gap()
        self._solve(W, NEWTON, 0.0)
        self.restore()
        if self.gap() > gap:
            self.b, self.r = before

    def _cost(self, W: Indices, steps: int) -> float:
        """Of a step on the coordinates W, in multiplications."""
        return CALLS + ENTRY * len(W) * len(self.active) + steps * len(W) ** 2 * (ENTRY + len(W) / 6)

    def step_smoothed(self, tol: float) -> bool:
        """Solve for all coordinates with a smoothed loss, once; False if nothing is gained."""
        if self.smoothed:
            return False
        self.smoothed = True
        p = self.problem
        new = smoothed_newton(
            p.matrix,
            lambda b: p.gram.matmat(b[:, None])[:, 0],
            float(p.gram.diagonal_blocks().mean()),
            p.q,
            p.lower,
            p.upper,
            tol=tol,
            # No more than an interior point method would take, on as many coordinates as it may have.
            work=FACTORS * min(len(p.q), INTERIOR) ** 3 / 6,
        )
        if new is None:
            return False
        free = np.flatnonzero((new > p.lower) & (new < p.upper))
        self.spent += SMOOTHED * self._cost(free, 1)
        before = self.b
        self.restore()
        values = p.gram.matmat(new[:, None])[:, 0]
        if self._dual(new, values) >= self._dual(before, p.q - self.r):
            return False
        self.b, self.r = new, p.q - values
        return True

    def _dual(self, b: Array, values: Array) -> float:
        """The value to be minimised, for function values Kb."""
        return float(0.5 * b @ values - self.problem.q @ b) + self.problem.epsilon * float(np.abs(b).sum())

    def step_all(self, tol: float) -> bool:
        """Solve for all active coordinates by an interior point method; False when it is not worth it."""
        p, A = self.problem, self.active
        cost = FACTORS * len(A) ** 3 / 6
        if len(A) > INTERIOR or self.spent < cost:
            return False
        self.spent -= cost
        K, b = p.matrix(A), self.b[A]
        # What these coordinates alone must fit; the others stay as they are.
        part = BoxProgramme(K, self.r[A] + K @ b, p.lower[A], p.upper[A], p.epsilon)
        new, _ = interior_point(part, tol=min(1e-9, 1e-3 * tol), start=b)
        change = K @ (new - b)
        gain = (self.r[A] - 0.5 * change) @ (new - b) - p.epsilon * float(np.abs(new).sum() - np.abs(b).sum())
        if gain <= 0:
            return False
        self.b[A] = new
        self.r[A] -= change
        return True

    def _solve(self, W: Indices, steps: int, tol: float) -> bool:
        """Minimise over the coordinates W with the others as they are."""
        if len(W) == 0:
            return False
        p = self.problem
        b, r, low, high = self.b[W], self.r[W], p.lower[W], p.upper[W]
        g = -r
        if p.epsilon > 0:
            # Each stays on its side of the kink at zero in this step; at zero, on the side it wants to go to.
            positive = (b > 0) | ((b == 0) & (r > 0))
            low, high = np.where(positive, 0.0, low), np.where(positive, high, 0.0)
            g = g + np.where(positive, p.epsilon, -p.epsilon)
        self.spent += self._cost(W, steps)
        rows = p.matrix(W, self.active)
        Q = rows[:, np.searchsorted(self.active, W)]
        d = box_newton(Q, g, low - b, high - b, steps=steps, tol=tol)
        # Exactly at the bound, not beside it: what is free is told by comparison.
        self.b[W] = np.where(d >= high - b, high, np.where(d <= low - b, low, b + d))
        self.r[self.active] -= (self.b[W] - b) @ rows
        return bool((self.b[W] != b).any())

    def shrink(self) -> None:
        """Set aside what rests at a bound more firmly than anything that still moves."""
        up, down = self._slopes()
        worst = max(up.max(initial=0.0), down.max(initial=0.0))
        keep = (up > -worst) | (down > -worst)
        if not keep.all() and keep.any():
            self.active = self.active[keep]
            self.shrunk = True
