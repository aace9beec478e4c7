"""Accelerated proximal gradient for a smooth function plus a penalty; the objective never increases.

    minimise  F(C) = f(C) + Omega(C),    f convex with gradient, Omega with a proximal step

One step from the extrapolated point P is  Z = prox(P - s grad f(P), s).  The step size s is halved until
f(Z) <= f(P) + <grad f(P), Z - P> + |Z - P|^2 / 2s,  and the best point so far is kept, so F cannot increase (Beck and
Teboulle's monotone variant); momentum is reset whenever it points uphill. The gradient mapping |P - Z| / s is zero only
at a minimum, so it is the stopping criterion.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ovk.base import Array, Smooth, check_int, positive
from ovk.objectives import Penalty

#: Relative rounding error of an objective.
ROUNDING = 1e-13
#: Maximum number of halvings of the step in one iteration; beyond that, decreases are rounding errors.
MAX_HALVINGS = 60
#: Maximum number of Newton steps without a lower objective.
MAX_NEWTON_STEPS = 4


class ProximalInfo(NamedTuple):
    iterations: int  # proximal steps taken
    objective: float  # f + Omega at the end
    gradient_mapping: float  # |P - Z| / s of the last step
    converged: bool
    step: float  # size of the last step, a good start for the next problem of a path


def proximal_gradient(
    smooth: Smooth,  # C -> (f(C), gradient of f at C)
    penalty: Penalty | None,
    start: Array,
    *,
    step: float = 1.0,  # first step size, ideally 1 / L for an L-smooth f; halved if too large
    scale: float | None = None,  # of the gradient mapping; by default its first value, or 1 if that is zero
    tol: float = 1e-6,  # stop if the gradient mapping is below tol * scale
    max_iter: int = 1000,
    lower_bound: Callable[[Array, float, Array], float] | None = None,  # see below
    value_only: Callable[[Array], float] | None = None,  # C -> f(C), if cheaper than with the gradient
    newton: Callable[[Array, Array], Array | None] | None = None,  # C, gradient at C -> the end of a Newton step
    warn: bool = True,
) -> tuple[Array, ProximalInfo]:
    """Minimise f + Omega from `start`; warns if `max_iter` steps do not suffice.

    `lower_bound` maps C, f(C) and the gradient to a lower bound on the minimum. With it the criterion is that the
    objective is within a fraction `tol` of it. A Newton step is taken if it lowers the objective; after one that
    does not, the next is tried after twice as many proximal steps.
    """
    tol, max_iter = positive(tol, "tol"), check_int(max_iter, "max_iter")
    step = positive(step, "step")
    at = value_only if value_only is not None else (lambda C: smooth(C)[0])
    best, previous = start, start
    value, gradient = smooth(start)
    objective = value + (0.0 if penalty is None else penalty.value(start))
    point, momentum = start, 1.0
    mapping, iteration, done, lowest = float("inf"), 0, False, -float("inf")
    due, wait = 1, 1
    while iteration < max_iter and not done:
        iteration += 1
        if iteration > 1:
            value, gradient = smooth(point)
        moved, at_moved, step = _step(at, penalty, point, value, gradient, step)
        mapping = float(np.linalg.norm(point - moved)) / step
        if scale is None:
            scale = mapping if mapping > 0 else 1.0
        total = at_moved + (0.0 if penalty is None else penalty.value(moved))
        # Differences below rounding are noise, and must not stop the convergence of C.
        better = total <= objective + ROUNDING * abs(objective)
        uphill = float(np.vdot(point - moved, moved - previous)) > 0
        previous = best
        if better:
            best, objective = moved, total
        if lower_bound is not None:
            lowest = max(lowest, lower_bound(point, value, gradient))
            done = objective - lowest <= tol * abs(objective)
        else:
            # The mapping at an extrapolated point counts only if the step from it was accepted.
            done = mapping <= tol * scale and (better or point is best)
        if newton is not None and iteration >= due and not done:
            ahead, total = _newton_step(smooth, at, newton, penalty, best, objective)
            wait = 1 if ahead is not None else 2 * wait
            due = iteration + wait
            if ahead is not None:
                point = previous = best = ahead
                objective, momentum = total, 1.0
                continue
        if (uphill or not better) and point is not best:
            point, momentum = best, 1.0
            continue
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        point = best + (momentum - 1.0) / following * (best - previous)
        momentum = following
    if not done and warn:
        warnings.warn(
            f"proximal gradient did not reach tol={tol:g} within max_iter={max_iter} steps, gradient mapping "
            f"{mapping:.1e}: increase max_iter or tol",
            ConvergenceWarning,
            stacklevel=3,
        )
    return best, ProximalInfo(iteration, objective, mapping, done, step)


def _newton_step(
    smooth: Smooth,
    at: Callable[[Array], float],
    newton: Callable[[Array, Array], Array | None],
    penalty: Penalty | None,
    start: Array,
    objective: float,
) -> tuple[Array | None, float]:
    """The first of some Newton steps that ends at a lower objective, if there is one, and that objective.

    The penalty's derivatives hold on one side of zero only: entries that would cross it become zero, and the next step
    is taken in the others.
    """
    point = start
    for _ in range(MAX_NEWTON_STEPS):
        end = newton(point, smooth(point)[1])
        if end is None:
            break
        point = np.where(end * point < 0, 0.0, end)
        total = at(point) + (0.0 if penalty is None else penalty.value(point))
        if total < objective - ROUNDING * abs(objective):
            return point, total
    return None, objective


def _step(
    at: Callable[[Array], float], penalty: Penalty | None, point: Array, value: float, gradient: Array, step: float
) -> tuple[Array, float, float]:
    """The result of a sufficiently small proximal step, the value of f there, and the step size."""
    for _ in range(MAX_HALVINGS):
        forward = point - step * gradient
        moved = forward if penalty is None else penalty.prox(forward, step)
        change = moved - point
        at_moved = at(moved)
        bound = value + float(np.vdot(gradient, change)) + float(np.vdot(change, change)) / (2.0 * step)
        # Near the minimum the sides differ by less than rounding, which must not shrink the step indefinitely.
        if at_moved <= bound + 10 * ROUNDING * max(abs(value), abs(at_moved)):
            return moved, at_moved, step
        step *= 0.5
    return point, value, step


@dataclass(eq=False, repr=False)
class PenaltySum(Penalty):
    """Omega_1 + Omega_2 + ...: the proximal step of a sum by Dykstra's splitting.

    Each penalty in turn takes its proximal step from the current point plus its previous correction, which is
    coordinate ascent on the dual problem. The result satisfies a constraint exactly if it is the last penalty.
    """

    penalties: Sequence[Penalty]
    tol: float = 1e-9  # change of the point, relative to its length, at which to stop
    max_iter: int = 500

    def value(self, C: Array) -> float:
        return float(sum(penalty.value(C) for penalty in self.penalties))

    def prox(self, C: Array, step: float) -> Array:
        point = np.array(C, dtype=np.float64)
        enough = positive(self.tol, "tol") * float(np.linalg.norm(point))
        corrections = [np.zeros_like(point) for _ in self.penalties]
        for _ in range(check_int(self.max_iter, "max_iter")):
            before = point
            for k, penalty in enumerate(self.penalties):
                pulled = point + corrections[k]
                point = penalty.prox(pulled, step)
                corrections[k] = pulled - point
            if len(self.penalties) < 2 or np.linalg.norm(point - before) <= enough:
                break
        return point
