"""The dual of support vector machines, by blocks of coordinates.

    minimise  1/2 b'Kb - q'b + epsilon |b|_1   subject to  lower <= b <= upper      (lower <= 0 <= upper)

With q = y, epsilon = 0 and b_i between 0 and C y_i this is the dual of theorem 2.1 (hinge loss, b_i = y_i alpha_i);
with bounds -C and C it is that of the epsilon-insensitive loss. For r = q - Kb the duality gap is a sum of terms >= 0,

    gap = sum_i  s_i(r_i) - r_i b_i + epsilon |b_i|,     s_i(r) = max(0, upper_i (r - epsilon), lower_i (r + epsilon)),

where sum s_i(r_i) is the loss of the function Kb. The iteration stops on the gap relative to the primal value.

A step solves jointly for the coordinates with the largest gains upwards and downwards (both, because their changes of a
common mode of K cancel). If steps gain little, one step solves for every coordinate between its bounds, which handles
the small eigenvalues of K. If that gains little too, because the active bounds are not known, Newton steps on a
smoothed loss find them (hinge loss), or an interior point method. The latter starts when the previous steps have cost
as much as it will, so it at most doubles the time of an easy problem. Coordinates that stay at a bound are set aside
(shrinking) until the others have converged, and then checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import brentq

from ovk.base import Array, Indices, Mask


@dataclass(frozen=True)
class DualInfo:
    gap: float  # primal value minus dual value
    primal: float  # 1/2 |f|^2 + sum of losses
    iterations: int  # block steps
    converged: bool  # the gap is below the tolerance times the primal value


class Products(Protocol):
    """The interface of K, a subset of that of a gram."""

    def matmat(self, C: Any) -> Array: ...
    def entries(self, rows: Indices, outputs: Indices, columns: Indices, inputs: Indices) -> Array: ...
    def diagonal_blocks(self) -> Array: ...


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

    def product(self, b: Array) -> Array:
        """K b."""
        return self.gram.matmat(b[:, None])[:, 0]

    def mean_diagonal(self) -> float:
        return max(float(self.gram.diagonal_blocks().mean()), 1e-300)

    def losses(self, r: Array) -> Array:
        """s_i(r_i), (N,)."""
        return np.maximum(0.0, np.maximum(self.upper * (r - self.epsilon), self.lower * (r + self.epsilon)))

    def gaps(self, b: Array, r: Array) -> Array:
        """The contribution of each coordinate to the duality gap, (N,)."""
        return self.losses(r) - r * b + self.epsilon * np.abs(b)

    def info(self, b: Array, r: Array, values: Array, iterations: int, tol: float) -> DualInfo:
        """Gap and primal value of a solution with function values Kb."""
        primal = 0.5 * float(b @ values) + float(self.losses(r).sum())
        gap = float(self.gaps(b, r).sum())
        return DualInfo(gap, primal, iterations, gap <= tol * primal)


# A small quadratic programme in a box, by projected Newton steps.
#
#     minimise  1/2 d'Qd + g'd   subject to  low <= d <= high        (low <= 0 <= high)
#
# Coordinates that the gradient pushes against their bound stay there; the others take the Newton step, halved if
# necessary and projected to the bounds, if that lowers the value. Otherwise (if Q is nearly singular, the projected
# direction can point uphill) the step goes straight to the first bound, which always lowers the value. Once the active
# bounds are known, one step is exact.

#: Share of the linear decrease that a step must achieve, and the fractions of a Newton step that are tried.
ARMIJO, STEP_FRACTIONS = 1e-4, (1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625)


def box_newton(Q: Array, g: Array, low: Array, high: Array, *, steps: int = 20, tol: float = 1e-10) -> Array:
    """The minimiser d, (k,), up to `tol` of the largest gradient at the start, or after `steps` steps.

    Every step lowers the value, so the result is at least as good as d = 0.
    """
    d, gradient = np.zeros_like(g), g.copy()
    # Gradients that point out of the box do not count.
    open_ = ~(((low >= 0) & (g >= 0)) | ((high <= 0) & (g <= 0)))
    goal = tol * float(np.abs(g[open_]).max(initial=0.0))
    jitter = 1e-12 * float(np.einsum("ii->i", Q).max(initial=0.0))
    for _ in range(steps):
        free = np.flatnonzero(~(((d <= low) & (gradient >= 0)) | ((d >= high) & (gradient <= 0))))
        if len(free) == 0 or np.abs(gradient[free]).max() <= goal:
            break
        A = Q.copy() if len(free) == len(Q) else np.take(Q[free], free, axis=1)
        A.ravel()[:: len(A) + 1] += jitter
        L, failed = lapack.dpotrf(A.T, lower=1, overwrite_a=1)
        if failed:
            # Q is singular for dependent rows (repeated points, a linear kernel).
            jitter = max(100.0 * jitter, 1e-300)
            continue
        at = Q, d, gradient, low, high, free, _solve(L, -gradient[free])
        found = _projected_step(*at) or _straight_step(*at)
        if found is None:
            break
        d, change = found
        gradient = gradient + change
    return d


def _projected_step(
    Q: Array, d: Array, gradient: Array, low: Array, high: Array, free: Indices, step: Array
) -> tuple[Array, Array] | None:
    """The largest fraction of the step that gains enough after projection to the bounds, and Q times the move."""
    for part in STEP_FRACTIONS:
        new = d.copy()
        new[free] = np.minimum(np.maximum(d[free] + part * step, low[free]), high[free])
        move = new - d
        change = Q @ move
        slope = float(gradient @ move)
        if slope < 0 and slope + 0.5 * float(move @ change) <= ARMIJO * slope:
            return new, change
    return None


def _straight_step(
    Q: Array, d: Array, gradient: Array, low: Array, high: Array, free: Indices, step: Array
) -> tuple[Array, Array] | None:
    """The step up to the first bound, and Q times it; None if the gain is below rounding."""

    def reach(step: Array) -> Array:
        room = np.where(step < 0, low[free] - d[free], high[free] - d[free])
        return np.asarray(np.divide(room, step, out=np.full(len(step), np.inf), where=step != 0))

    part = reach(step)
    # A coordinate at its bound is free only if its gradient points inwards, but the joint step may point outwards.
    if (part <= 0).any():
        step = np.where(part <= 0, 0.0, step)
        part = np.where(part <= 0, np.inf, part)
        if float(gradient[free] @ step) >= 0:
            step = np.where(part < np.inf, -gradient[free] / np.einsum("ii->i", Q)[free].clip(1e-300), 0.0)
            part = reach(step)
    move = np.zeros_like(d)
    move[free] = step
    change = Q @ move
    slope, curve = float(gradient @ move), float(move @ change)
    if slope >= 0:
        return None
    length = min(-slope / curve if curve > 0 else np.inf, float(part.min()))
    new = d + length * move
    new[free] = np.where(part <= length, np.where(step < 0, low[free], high[free]), new[free])
    return new, length * change


# The dual by an interior point method, perhaps with sums E'b = 0.
#
# Each coordinate is the difference of its positive and negative part, b = S x with 0 <= x <= u (a part with bound 0 is
# omitted), so that the value is smooth. With multipliers z of x >= 0, w of u - x >= 0 and beta of the sums, and a
# target mu > 0 for every product x z and (u - x) w, a Newton step solves
#
#     (K + D) db + E dbeta = D S Theta^-1 rho,   E' db = -E'b,    D = (S Theta^-1 S')^-1,  Theta = z / x + w / (u - x):
#
# with one Cholesky factorisation for a predictor and a corrector step (Mehrotra 1992). The number of steps hardly
# depends on C, epsilon or the condition of K, while methods that change a few coordinates at a time become slow.

#: Maximum fraction of the distance to the nearest bound in a step, and maximum number of steps.
MAX_BOUND_FRACTION, MAX_INTERIOR_STEPS = 0.995, 60
#: First jitter relative to the mean diagonal of K, if it cannot be factored, and its growth.
FIRST_JITTER, JITTER_GROWTH = 1e-13, 100.0


def interior_point(
    problem: BoxDual, K: Array, E: Array | None = None, *, tol: float = 1e-9, start: Array | None = None
) -> tuple[Array, Array]:
    """Solution b, (N,), exactly at a bound or at zero if the multipliers indicate it, and beta, (T,).

    K (N, N) is dense, and E (N, T) has the optional sums E'b = 0. `tol` is the mean of the products x z at which to
    stop, relative to the scale of the value.
    """
    search = _InteriorPath(problem, K, E, np.zeros(len(K)) if start is None else start)
    for _ in range(MAX_INTERIOR_STEPS):
        if search.mu <= tol * search.scale or not search.step():
            break
    return search.solution(), search.beta


class _InteriorPath:
    """x between 0 and u, multipliers z, w > 0 and beta, with g - z + w + sign E beta = 0 at every step."""

    def __init__(self, problem: BoxDual, K: Array, E: Array | None, start: Array) -> None:
        self.p, self.K, q = problem, K, problem.q
        above, below = np.flatnonzero(problem.upper > 0), np.flatnonzero(problem.lower < 0)
        of = self.of = np.concatenate([above, below])
        sign = self.sign = np.concatenate([np.ones(len(above)), -np.ones(len(below))])
        u = self.u = np.concatenate([problem.upper[above], -problem.lower[below]])
        self._diagonal = max(float(np.einsum("ii->i", K).mean()), 1e-300)
        # Start at the usual size of coefficients, because C can be far larger.
        inside = np.minimum(0.5 * u, max(0.1 * float(np.abs(q).mean()) / self._diagonal, 1e-300))
        self.x = np.minimum(np.maximum(np.maximum(sign * start[of], 0.0), inside), np.maximum(u - inside, 0.5 * u))
        self.E = np.zeros((len(q), 0)) if E is None else E
        self.beta = np.zeros(self.E.shape[1])
        self._renew()
        level = max(float(np.abs(self.g).mean()), 1e-300)
        self.z, self.w = np.maximum(self.g, 0.0) + level, np.maximum(-self.g, 0.0) + level
        self.scale = max(float(np.abs(q).mean()) ** 2 / self._diagonal, 1e-300)

    def _renew(self) -> None:
        """Update b and the gradient g with respect to x."""
        self.v = self.u - self.x
        self.b = np.bincount(self.of, weights=self.sign * self.x, minlength=len(self.p.q))
        slope = self.K @ self.b - self.p.q
        self.g = self.sign * slope[self.of] + self.p.epsilon

    @property
    def mu(self) -> float:
        """Mean of the complementarity products, which are zero at the solution."""
        return float(self.x @ self.z + self.v @ self.w) / (2 * len(self.x))

    def step(self) -> bool:
        """A predictor-corrector step; False if it fails numerically."""
        theta = self.z / self.x + self.w / self.v
        D = 1.0 / np.bincount(self.of, weights=1.0 / theta, minlength=len(self.p.q))
        L = self._factor(D)
        if L is None:
            return False
        solved_E = _solve(L, self.E)
        inner = self.E.T @ solved_E
        slack = -(self.g - self.z + self.w + self.sign * (self.E @ self.beta)[self.of])
        sums = self.E.T @ self.b

        def direction(xz: Array, vw: Array) -> tuple[Array, Array, Array, Array]:
            """Moves of x, z, w and beta towards products x z + xz = 0 and v w + vw = 0."""
            rho = slack - xz / self.x + vw / self.v
            h = D * np.bincount(self.of, weights=self.sign * rho / theta, minlength=len(D))
            db = _solve(L, h)
            dbeta = np.asarray(np.linalg.solve(inner, self.E.T @ db + sums), dtype=np.float64)
            db = db - solved_E @ dbeta
            # K db + E dbeta = h - D db, which does not depend on the condition of K.
            dx = (rho - self.sign * (h - D * db)[self.of]) / theta
            return dx, -(xz + self.z * dx) / self.x, -(vw - self.w * dx) / self.v, dbeta

        dx, dz, dw, _ = direction(self.x * self.z, self.v * self.w)
        near = self._room(dx, dz, dw)
        ahead = float((self.x + near * dx) @ (self.z + near * dz) + (self.v - near * dx) @ (self.w + near * dw))
        target = self.mu * (max(ahead, 0.0) / (2 * len(self.x) * self.mu)) ** 3
        dx, dz, dw, dbeta = direction(self.x * self.z + dx * dz - target, self.v * self.w - dx * dw - target)
        length = min(1.0, MAX_BOUND_FRACTION * self._room(dx, dz, dw))
        if not (np.isfinite(dx).all() and length > 1e-10):
            return False
        self.x, self.z, self.w = self.x + length * dx, self.z + length * dz, self.w + length * dw
        self.beta = self.beta + length * dbeta
        self._renew()
        return bool((self.x > 0).all() and (self.v > 0).all())

    def _room(self, dx: Array, dz: Array, dw: Array) -> float:
        """The largest multiple of the moves within the bounds."""
        most = 1.0 / MAX_BOUND_FRACTION
        for value, move in ((self.x, dx), (self.v, -dx), (self.z, dz), (self.w, dw)):
            down = move < 0
            if down.any():
                most = min(most, float((value[down] / -move[down]).min()))
        return most

    def _factor(self, D: Array) -> Array | None:
        jitter = 0.0
        for _ in range(6):
            A = self.K + np.diag(D + jitter)
            L, failed = lapack.dpotrf(A.T, lower=1, overwrite_a=1)
            if not failed:
                return np.asarray(L)
            jitter = max(JITTER_GROWTH * jitter, FIRST_JITTER * self._diagonal)
        return None

    def solution(self) -> Array:
        """b, with x set to a bound if its multiplier exceeds the scaled distance to it."""
        unit = self._diagonal
        x = np.where(unit * self.x < self.z, 0.0, np.where(unit * self.v < self.w, self.u, self.x))
        b = np.bincount(self.of, weights=self.sign * x, minlength=len(self.p.q))
        return np.asarray(np.clip(b, self.p.lower, self.p.upper))


def _solve(L: Array, right: Array) -> Array:
    found, _ = lapack.dpotrs(L, right, lower=1)
    return np.asarray(found)


# The dual by Newton steps on a smoothed loss.
#
# With the ridge delta / 2 |b|^2 added to the dual, the primal loss has no kink: for the residuals r = q - f of
# f = K beta
#
#     b_i(r) = r_i / delta clipped to the bounds [lower_i, upper_i],
#
# the objective is 1/2 beta'K beta plus a smooth loss of slope b_i at each r_i, and beta = b(r) at the minimum.
# A Newton step sets beta to b on the coordinates at their bounds and, on the others F, to the solution of
#
#     (K_FF + delta I) beta_F = q_F - (K b_at the bounds)_F,
#
# of the size of F (Chapelle 2007, "Training a support vector machine in the primal"), followed by an exact line search.
# The box grows and delta falls in stages, each started at the solution of the previous one: with the full box, nearly
# every coordinate would be in F at first.

#: First delta in units of the mean diagonal of K, the factor between stages, and maximum number of stages.
FIRST_SMOOTHING, STAGE_FACTOR, MAX_STAGES = 0.1, 0.25, 40
#: Maximum number of Newton steps in a stage, and relative slope at which it ends.
MAX_NEWTON_STEPS, SLOPE_TOLERANCE = 100, 1e-7
#: Maximum number of consecutive stages without a lower gap.
MAX_FAILED_STAGES = 2


def smoothed_newton(problem: BoxDual, *, tol: float = 1e-4, work: float = np.inf) -> Array | None:
    """b, (N,), near the minimiser of a problem with epsilon 0; None if `work` multiplications do not suffice."""
    q, lower, upper, diagonal = problem.q, problem.lower, problem.upper, problem.mean_diagonal()
    size = max(float(upper.max(initial=0.0)), -float(lower.min(initial=0.0)), 1e-300)
    # For smaller boxes hardly any coordinate lies between its bounds.
    part = min(1.0, float(np.abs(q).mean()) / diagonal / size)
    delta = FIRST_SMOOTHING * diagonal
    state = _Smoothed(problem, work)
    best, least, failures = None, np.inf, 0
    for _ in range(MAX_STAGES):
        if not state.minimise(part * lower, part * upper, delta):
            return best
        if part == 1.0:
            b = state.outer(q - state.f)
            values = problem.product(b)
            info = problem.info(b, q - values, values, 0, tol)
            best, least, failures = (b, info.gap, 0) if info.gap < least else (best, least, failures + 1)
            if info.converged or failures == MAX_FAILED_STAGES:
                break
        part, delta = min(1.0, part / STAGE_FACTOR), delta * STAGE_FACTOR
    return best


class _Smoothed:
    """Newton steps on the smoothed loss; holds beta and f = K beta."""

    def __init__(self, problem: BoxDual, work: float) -> None:
        self._problem, self._work = problem, work
        self.beta, self.f = np.zeros((2, len(problem.q)))

    def outer(self, r: Array) -> Array:
        """b(r), the slope of the smoothed loss."""
        return np.asarray(np.clip(r / self.delta, self.low, self.high))

    def minimise(self, low: Array, high: Array, delta: float) -> bool:
        """Minimise with these bounds; False if a system is singular or the work is used up."""
        self.low, self.high, self.delta, first = low, high, delta, None
        for _ in range(MAX_NEWTON_STEPS):
            r = self._problem.q - self.f
            target = self.outer(r)
            free = np.flatnonzero((target > self.low) & (target < self.high))
            self._work -= len(free) ** 3 / 6
            if self._work < 0:
                return False
            if len(free) and not self._solve(free, target):
                return False
            move, change = target - self.beta, self._problem.product(target) - self.f
            along = r, change, float(self.beta @ change), float(move @ change)
            down = -self._slope(0.0, *along)
            first = down if first is None else first
            if down <= 0.0:
                break
            length = 1.0 if self._slope(1.0, *along) <= 1e-10 * down else brentq(self._slope, 0.0, 1.0, args=along)
            self.beta, self.f = self.beta + length * move, self.f + length * change
            if down <= SLOPE_TOLERANCE * first:
                break
        return True

    def _slope(self, length: float, r: Array, change: Array, at_start: float, per_length: float) -> float:
        """The slope along a move, which is linear except for the outer part."""
        return at_start + length * per_length - float(self.outer(r - length * change) @ change)

    def _solve(self, free: Indices, target: Array) -> bool:
        """Write the Newton step into the free entries of `target`."""
        fixed = target.copy()
        fixed[free] = 0.0
        A = self._problem.matrix(free)
        A[np.diag_indices_from(A)] += self.delta
        L, failed = lapack.dpotrf(A.T, lower=1, overwrite_a=1)
        if not failed:
            target[free] = _solve(L, self._problem.q[free] - self._problem.product(fixed)[free])
        return not failed


#: Coordinates in a step, steps between two checks of the gap, checks between two rounds of shrinking.
BLOCK_SIZE, CHECK_INTERVAL, SHRINK_INTERVAL = 32, 10, 3
#: In a step for all free coordinates: maximum number of them, violators added on each side, Newton steps.
MAX_FREE, MAX_VIOLATORS, FREE_NEWTON_STEPS = 1500, 64, 6
#: Maximum number of active coordinates for the interior point method, and its typical number of factorisations.
MAX_INTERIOR, INTERIOR_FACTORISATIONS = 4000, 20
#: Typical number of Newton steps on the smoothed loss.
SMOOTHED_NEWTON_STEPS = 60
#: Cost of a step besides factorisations, in multiplications: Python overhead, and each entry of K.
STEP_COST, ENTRY_COST = 1.5e7, 20
#: A final Newton step is taken if it costs at most this multiple of STEP_COST, or this share of the search.
MAX_POLISH_STEPS, MAX_POLISH_SHARE = 3, 0.02


def dual_coordinate(
    problem: BoxDual, *, tol: float = 1e-6, max_iter: int = 10_000, start: Array | None = None
) -> tuple[Array, DualInfo]:
    """Solution b, (N,), and solver info."""
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
        if iteration // CHECK_INTERVAL % SHRINK_INTERVAL == SHRINK_INTERVAL - 1:
            search.shrink()
        stalled, last = gap > 0.5 * last, gap
        moved = (search.step_smoothed(tol) or search.step_all(tol) or search.step_free()) if stalled else False
        moved = moved or search.step_block()
        iteration += 1
        for _ in range(CHECK_INTERVAL - 1):
            moved |= search.step_block()
            iteration += 1
        if not moved:
            if not search.shrunk:
                break  # gains are below rounding
            search.restore()
    search.restore()
    if iteration:
        search.polish()
    return search.b, problem.info(search.b, search.r, problem.q - search.r, iteration, tol)


class _Search:
    """Coefficients b and residuals r = q - Kb, which are current only on the `active` coordinates."""

    def __init__(self, problem: BoxDual, b: Array) -> None:
        self.problem, self.b = problem, np.clip(b, problem.lower, problem.upper)
        # Cost of all steps, and of block steps since the last step for all free coordinates.
        self.spent, self.by_blocks = 0.0, 0.0
        self.smoothed = problem.epsilon > 0
        self.restore()

    def restore(self) -> None:
        """Activate all coordinates and recompute r, which removes accumulated rounding errors."""
        self.active: Indices = np.arange(len(self.b))
        self.r: Array = self.problem.q - self.problem.product(self.b)
        self.shrunk = False

    def gap(self) -> float:
        """The gap of the active coordinates; stores the primal value while all are active."""
        gaps = self.problem.gaps(self.b, self.r)
        if self.shrunk:
            return float(gaps[self.active].sum())
        self.primal = 0.5 * float(self.b @ (self.problem.q - self.r)) + float(self.problem.losses(self.r).sum())
        return float(gaps.sum())

    def _slopes(self) -> tuple[Array, Array]:
        """Slopes of a step up and of a step down at each active coordinate; -inf at a bound."""
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
        """Solve for the coordinates with the largest gains in both directions."""
        up, down = self._slopes()
        if max(up.max(initial=-np.inf), down.max(initial=-np.inf)) <= 0:
            return False
        W = np.union1d(self._most(up, BLOCK_SIZE // 2), self._most(down, BLOCK_SIZE // 2))
        self.by_blocks += self._cost(W, FREE_NEWTON_STEPS)
        return self._solve(W, 20, 1e-3)

    def step_free(self) -> bool:
        """Solve for all coordinates between their bounds, and the worst violators at bounds."""
        up, down = self._slopes()
        slope = np.where(self._free()[self.active], np.maximum(np.abs(up), np.abs(down)), -np.inf)
        chosen = [self._most(slope, MAX_FREE), self._most(up, MAX_VIOLATORS, 0.0), self._most(down, MAX_VIOLATORS, 0.0)]
        W = np.unique(np.concatenate(chosen))
        if self.by_blocks < self._cost(W, FREE_NEWTON_STEPS):
            # First spend the same cost on blocks, which gain as much while the active bounds change.
            return self.step_block()
        self.by_blocks = 0.0
        return self._solve(W, FREE_NEWTON_STEPS, 1e-8)

    def _free(self) -> Mask:
        """(N,) mask of coordinates strictly between their bounds and not zero."""
        return np.asarray((self.b > self.problem.lower) & (self.b < self.problem.upper) & (self.b != 0))

    def polish(self) -> None:
        """Solve for all free coordinates exactly if that is cheap.

        A gap of `tol` determines the function only up to the root of `tol`; once the active bounds are known, one
        Newton step is exact up to rounding, so that repeated rows and weights give the same function.
        """
        W, most = np.flatnonzero(self._free()), max(MAX_POLISH_STEPS * STEP_COST, MAX_POLISH_SHARE * self.spent)
        if not 0 < len(W) <= MAX_FREE or self._cost(W, 1) > most:
            return
        before, gap = (self.b.copy(), self.r), self.gap()
        self._solve(W, FREE_NEWTON_STEPS, 0.0)
        self.restore()
        if self.gap() > gap:
            self.b, self.r = before

    def _cost(self, W: Indices, steps: int) -> float:
        """Cost of a step on the coordinates W, in multiplications."""
        return STEP_COST + ENTRY_COST * len(W) * len(self.active) + steps * len(W) ** 2 * (ENTRY_COST + len(W) / 6)

    def step_smoothed(self, tol: float) -> bool:
        """Solve for all coordinates with a smoothed loss, once; False if it gains nothing."""
        if self.smoothed:
            return False
        self.smoothed = True
        p = self.problem
        # At most the work of the interior point method on its maximum number of coordinates.
        new = smoothed_newton(p, tol=tol, work=INTERIOR_FACTORISATIONS * min(len(p.q), MAX_INTERIOR) ** 3 / 6)
        if new is None:
            return False
        free = np.flatnonzero((new > p.lower) & (new < p.upper))
        self.spent += SMOOTHED_NEWTON_STEPS * self._cost(free, 1)
        before = self.b
        self.restore()
        values = p.product(new)
        if self._dual(new, values) >= self._dual(before, p.q - self.r):
            return False
        self.b, self.r = new, p.q - values
        return True

    def _dual(self, b: Array, values: Array) -> float:
        """The dual value, for function values Kb."""
        return float(0.5 * b @ values - self.problem.q @ b) + self.problem.epsilon * float(np.abs(b).sum())

    def step_all(self, tol: float) -> bool:
        """Solve for all active coordinates by an interior point method; False if it is too expensive."""
        p, A = self.problem, self.active
        cost = INTERIOR_FACTORISATIONS * len(A) ** 3 / 6
        if len(A) > MAX_INTERIOR or self.spent < cost:
            return False
        self.spent -= cost
        K, b = p.matrix(A), self.b[A]
        # The problem of these coordinates with the others fixed.
        part = p._replace(q=self.r[A] + K @ b, lower=p.lower[A], upper=p.upper[A])
        new, _ = interior_point(part, K, tol=min(1e-9, 1e-3 * tol), start=b)
        change = K @ (new - b)
        gain = (self.r[A] - 0.5 * change) @ (new - b) - p.epsilon * float(np.abs(new).sum() - np.abs(b).sum())
        if gain <= 0:
            return False
        self.b[A] = new
        self.r[A] -= change
        return True

    def _solve(self, W: Indices, steps: int, tol: float) -> bool:
        """Minimise over the coordinates W with the others fixed."""
        if len(W) == 0:
            return False
        p = self.problem
        b, r, low, high = self.b[W], self.r[W], p.lower[W], p.upper[W]
        g = -r
        if p.epsilon > 0:
            # Each coordinate stays on its side of the kink at zero; at zero, on the side of its gain.
            positive = (b > 0) | ((b == 0) & (r > 0))
            low, high = np.where(positive, 0.0, low), np.where(positive, high, 0.0)
            g = g + np.where(positive, p.epsilon, -p.epsilon)
        self.spent += self._cost(W, steps)
        rows = p.matrix(W, self.active)
        Q = rows[:, np.searchsorted(self.active, W)]
        d = box_newton(Q, g, low - b, high - b, steps=steps, tol=tol)
        # Set bounds exactly, because free coordinates are found by comparison.
        self.b[W] = np.where(d >= high - b, high, np.where(d <= low - b, low, b + d))
        self.r[self.active] -= (self.b[W] - b) @ rows
        return bool((self.b[W] != b).any())

    def shrink(self) -> None:
        """Set aside coordinates whose gradient at a bound exceeds the largest remaining gain."""
        up, down = self._slopes()
        worst = max(up.max(initial=0.0), down.max(initial=0.0))
        keep = (up > -worst) | (down > -worst)
        if not keep.all() and keep.any():
            self.active = self.active[keep]
            self.shrunk = True


# The dual with an unpenalised bias for each task: sum_{i in task t} b_i = 0 for each t.
#
# The biases are the multipliers of the sums. The method of multipliers: solve the problem in the box with
# rho/2 sum_t (sum_{i in t} b_i)^2 added, which is the kernel K + rho [same task], then raise bias_t by rho times the
# sum, and repeat. If that is slow, an interior point method finds both, for up to a few thousand coordinates. The
# result is balanced to sums of exactly zero, so that the duality gap is valid.

#: Maximum number of rounds of the method of multipliers, and rho in units of the mean diagonal of K.
MAX_ROUNDS, RHO_FACTOR = 50, 10.0
#: Maximum number of free coordinates of the final linear system.
MAX_POLISHED = 3000


class _SameTask:
    """K + rho [same task] on pairs."""

    def __init__(self, base: Products, task: Indices, rho: float) -> None:
        self.base, self.task, self.rho = base, task, rho

    def matmat(self, C: Any) -> Array:
        return self.base.matmat(C) + self.rho * np.bincount(self.task, weights=C[:, 0])[self.task][:, None]

    def entries(self, rows: Indices, outputs: Indices, columns: Indices, inputs: Indices) -> Array:
        same = self.task[rows][:, None] == self.task[columns][None, :]
        return np.asarray(self.base.entries(rows, outputs, columns, inputs) + self.rho * same)

    def diagonal_blocks(self) -> Array:
        return self.base.diagonal_blocks() + self.rho


#: b, (N,), the bias of each task, (T,), and solver info.
Solved = tuple[Array, Array, DualInfo]


def dual_with_biases(problem: BoxDual, task: Indices, *, tol: float = 1e-6, max_iter: int = 10_000) -> Solved:
    """Solution b, (N,), bias of each task, (T,), and solver info; task numbers are 0..T-1."""
    T, N = int(task.max()) + 1, len(problem.q)
    b, bias = np.zeros(N), np.zeros(T)
    # The trial takes about the time of the interior point method; a few steps are for all free coordinates.
    trial = min(max_iter, int(INTERIOR_FACTORISATIONS * N**3 / 48 / STEP_COST) + 1) if N <= MAX_INTERIOR else max_iter
    found = _multipliers(problem, task, b, bias, tol, trial)
    if found[2].converged or N > MAX_INTERIOR:
        return found
    present = np.unique(task)
    E = (task[:, None] == present).astype(np.float64)
    b, bias[present] = interior_point(problem, problem.matrix(np.arange(N)), E, tol=min(1e-9, 1e-3 * tol))
    inside = _certified(problem, task, T, b, bias, found[2].iterations + 1, tol)
    if inside[2].converged or found[2].iterations >= max_iter:
        return min(inside, found, key=_gap)
    return min(inside, _multipliers(problem, task, b, bias, tol, max_iter), key=_gap)


def _gap(solution: Solved) -> float:
    return solution[2].gap


def _multipliers(problem: BoxDual, task: Indices, b: Array, bias: Array, tol: float, max_iter: int) -> Solved:
    """The method of multipliers, started at b and biases."""
    T = len(bias)
    rho = RHO_FACTOR * problem.mean_diagonal()
    stiff = _SameTask(problem.gram, task, rho)
    iterations = 0
    best: Solved | None = None
    for _ in range(MAX_ROUNDS):
        shifted = problem._replace(gram=stiff, q=problem.q - bias[task])
        b, inner = dual_coordinate(shifted, tol=0.1 * tol, max_iter=max(max_iter - iterations, 1), start=b)
        iterations += inner.iterations
        bias = bias + rho * np.bincount(task, weights=b, minlength=T)
        found = _certified(problem, task, T, b, bias, iterations, tol)
        halved = best is None or found[2].gap <= 0.5 * best[2].gap
        if best is None or found[2].gap < best[2].gap:
            best = found
        # Another round is cheap, so continue while the gap halves.
        if (best[2].converged and not halved) or iterations >= max_iter:
            break
    assert best is not None
    return best


def _certified(problem: BoxDual, task: Indices, T: int, b: Array, bias: Array, iterations: int, tol: float) -> Solved:
    """b with sums of exactly zero, the best biases for it, and their gap."""
    found = []
    for candidate in (_polished(problem, task, T, b, bias), b):
        if candidate is not None:
            even = balanced(candidate, task, T)
            values = problem.product(even)
            best = best_biases(problem, task, T, problem.q - values)
            found.append((even, best, problem.info(even, problem.q - values - best[task], values, iterations, tol)))
    return min(found, key=_gap)


def _polished(problem: BoxDual, task: Indices, T: int, b: Array, bias: Array) -> Array | None:
    """b changed on its free coordinates F to satisfy their conditions and the sums exactly; None if infeasible.

    K_FF d + E_F c = (q - Kb - bias)_F - epsilon sign(b_F),    E_F' d = -E' b
    """
    free = np.flatnonzero((b > problem.lower) & (b < problem.upper) & (b != 0))
    if not 0 < len(free) <= MAX_POLISHED:
        return None
    r = problem.q - problem.product(b) - bias[task]
    present = np.unique(task[free])
    E = (task[free][:, None] == present).astype(np.float64)
    K = problem.matrix(free)
    K[np.diag_indices_from(K)] += 1e-13 * float(np.diagonal(K).max())
    system = np.block([[K, E], [E.T, np.zeros((len(present), len(present)))]])
    sums = np.bincount(task, weights=b, minlength=T)[present]
    right = np.concatenate([r[free] - problem.epsilon * np.sign(b[free]), -sums])
    try:
        move = np.linalg.solve(system, right)[: len(free)]
    except np.linalg.LinAlgError:
        return None
    new = b.copy()
    new[free] += move
    inside = (new[free] >= problem.lower[free]) & (new[free] <= problem.upper[free])
    return new if inside.all() and np.isfinite(new).all() else None


def balanced(b: Array, task: Indices, T: int) -> Array:
    """b with the sign of larger total in each task scaled down so that the task sums to zero."""
    up = np.bincount(task, weights=np.maximum(b, 0.0), minlength=T)
    down = np.bincount(task, weights=np.maximum(-b, 0.0), minlength=T)
    level = np.minimum(up, down)
    scale_up = np.divide(level, up, out=np.zeros(T), where=up > 0)
    scale_down = np.divide(level, down, out=np.zeros(T), where=down > 0)
    return b * np.where(b > 0, scale_up[task], scale_down[task])


def best_biases(problem: BoxDual, task: Indices, T: int, r: Array) -> Array:
    """The bias of each task that minimises sum_i s_i(r_i - bias): its slope changes at r_i - epsilon and r_i + epsilon.

    If several biases are optimal, the midpoint.
    """
    result = np.zeros(T)
    for t in range(T):
        rows = np.flatnonzero(task == t)
        if len(rows) == 0:
            continue
        upper, lower = problem.upper[rows], -problem.lower[rows]
        places = np.concatenate([r[rows] - problem.epsilon, r[rows] + problem.epsilon])
        rises = np.concatenate([upper, lower])
        places, rises = places[rises > 0], rises[rises > 0]
        order = np.argsort(places, kind="stable")
        slope = np.cumsum(rises[order]) - upper.sum()
        level = 1e-12 * rises.sum()
        # The slope before the first place is -upper.sum(); flat pieces lie between two places.
        if upper.sum() <= level:
            result[t] = places[order[0]]
            continue
        first = int(np.argmax(slope >= -level))
        flat = abs(slope[first]) <= level and first + 1 < len(order)
        result[t] = 0.5 * (places[order[first]] + places[order[first + 1]]) if flat else places[order[first]]
    return result
