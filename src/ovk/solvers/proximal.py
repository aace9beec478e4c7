"""Accelerated proximal gradient: smooth function plus penalty, the objective never rising.

    minimise  F(C) = f(C) + Omega(C),    f convex with gradient, Omega with a proximal step

One step from the extrapolated point P is  Z = prox(P - s grad f(P), s).  Its length s is halved until
f(Z) <= f(P) + <grad f(P), Z - P> + |Z - P|^2 / 2s,  and the best point so far is kept, so F cannot rise (Beck and
Teboulle's monotone variant); momentum is dropped whenever it points uphill. The gradient mapping |P - Z| / s is zero
at a minimum and nowhere else: it is what the iteration stops on.
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

#: Relative error of an objective.
ROUNDING = 1e-13
#: Halvings of the step in one iteration, after which nothing is left to gain but rounding.
HALVINGS = 60


class ProximalInfo(NamedTuple):
    iterations: int  # proximal steps taken
    objective: float  # f + Omega at the end
    gradient_mapping: float  # |P - Z| / s of the last step
    converged: bool
    step: float  # length of the last step, a good start for the next problem of a path


def proximal_gradient(
    smooth: Smooth,  # C -> (f(C), gradient of f at C)
    penalty: Penalty | None,
    start: Array,
    *,
    step: float = 1.0,  # first length of a step, at best 1 / L of an L-smooth f; it is halved where it is too long
    scale: float | None = None,  # of the gradient mapping; by default its own first value, or 1 if that is zero
    tol: float = 1e-6,  # the iteration stops when the gradient mapping is below tol * scale
    max_iter: int = 1000,
    value_only: Callable[[Array], float] | None = None,  # C -> f(C), where that is cheaper than with the gradient
    warn: bool = True,
) -> tuple[Array, ProximalInfo]:
    """The minimiser of f + Omega, searched from `start`; warns where `max_iter` steps do not suffice."""
    tol, max_iter = positive(tol, "tol"), check_int(max_iter, "max_iter")
    step = positive(step, "step")
    at = value_only if value_only is not None else (lambda C: smooth(C)[0])
    best, previous = start, start
    value, gradient = smooth(start)
    objective = value + (0.0 if penalty is None else penalty.value(start))
    point, momentum = start, 1.0
    mapping, iteration, done = float("inf"), 0, False
    while iteration < max_iter and not done:
        iteration += 1
        if iteration > 1:
            value, gradient = smooth(point)
        moved, at_moved, step = _step(at, penalty, point, value, gradient, step)
        mapping = float(np.linalg.norm(point - moved)) / step
        if scale is None:
            scale = mapping if mapping > 0 else 1.0
        total = at_moved + (0.0 if penalty is None else penalty.value(moved))
        # To rounding: differences below it say nothing, and must not hold up the last digits of C.
        better = total <= objective + ROUNDING * abs(objective)
        uphill = float(np.vdot(point - moved, moved - previous)) > 0
        if better:
            previous, best, objective = best, moved, total
        else:
            previous = best
        # A mapping at an extrapolated point speaks for the point next to it only when that one was taken.
        done = mapping <= tol * scale and (better or point is best)
        if (uphill or not better) and point is not best:
            point, momentum = best, 1.0
            continue
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        point = best + (momentum - 1.0) / following * (best - previous)
        momentum = following
    if not done and warn:
        warnings.warn(
            f"proximal gradient stopped after max_iter={max_iter} steps at a gradient mapping {mapping:.1e}: raise "
            "max_iter or tol",
            ConvergenceWarning,
            stacklevel=3,
        )
    return best, ProximalInfo(iteration, objective, mapping, done, step)


def _step(
    at: Callable[[Array], float],
    penalty: Penalty | None,
    point: Array,
    value: float,
    gradient: Array,
    step: float,
) -> tuple[Array, float, float]:
    """A proximal step short enough, the value of f there, and its length."""
    for _ in range(HALVINGS):
        forward = point - step * gradient
        moved = forward if penalty is None else penalty.prox(forward, step)
        change = moved - point
        at_moved = at(moved)
        bound = value + float(np.vdot(gradient, change)) + float(np.vdot(change, change)) / (2.0 * step)
        # Near the minimum the two sides differ by less than rounding: that must not shrink the step for ever.
        if at_moved <= bound + 10 * ROUNDING * max(abs(value), abs(at_moved)):
            return moved, at_moved, step
        step *= 0.5
    return point, value, step


@dataclass(eq=False, repr=False)
class PenaltySum(Penalty):
    """Omega_1 + Omega_2 + ...: the proximal step of a sum by Dykstra's splitting.

    Each penalty in turn takes its proximal step on what the others left, plus what it took off the time before; that
    is coordinate ascent on the dual problem. The last penalty has the last word: put a constraint there, and the
    result fulfils it exactly.
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
