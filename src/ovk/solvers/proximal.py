"""Accelerated proximal gradient: smooth function plus penalty, the objective never rising.

    minimise  F(C) = f(C) + Omega(C),    f convex with gradient, Omega with a proximal step

One step from the extrapolated point P is  Z = prox(P - s grad f(P), s).  Its length s is halved until
f(Z) <= f(P) + <grad f(P), Z - P> + |Z - P|^2 / 2s,  and the best point so far is kept, so F cannot rise (Beck and
Teboulle's monotone variant); momentum is dropped whenever it points uphill. The gradient mapping |P - Z| / s is zero
at a minimum and nowhere else: it is what the iteration stops on, unless a duality gap is given.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ovk.base import Array, Registered, Smooth, check_int, positive
from ovk.objectives import Penalty

#: Relative error of an objective.
ROUNDING = 1e-13
#: Halvings of the step in one iteration, after which nothing is left to gain but rounding.
HALVINGS = 60


@dataclass(frozen=True)
class ProximalInfo(Registered):
    """How a minimisation went.

    Attributes
    ----------
    iterations : proximal steps taken
    objective : f + Omega at the end
    gradient_mapping : |P - Z| / s of the last step
    gap : duality gap at the end, nan where none was asked for
    converged : the stopping rule was met
    step : length of the last step, a good start for the next problem of a path
    """

    iterations: int
    objective: float
    gradient_mapping: float
    gap: float
    converged: bool
    step: float


class Minimum(NamedTuple):
    """Where a minimisation ended, and how."""

    C: Array
    info: ProximalInfo


def proximal_gradient(
    smooth: Smooth,
    penalty: Penalty | None,
    start: Array,
    *,
    step: float = 1.0,
    scale: float | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    gap: Callable[[Array], float] | None = None,
    value_only: Callable[[Array], float] | None = None,
    warn: bool = True,
) -> Minimum:
    """Minimise f + Omega from `start`.

    Parameters
    ----------
    smooth : C -> (f(C), gradient of f at C)
    penalty : Omega, or None for none
    start : where to begin; along a path, the solution of the neighbour
    step : first length of a step, at best 1 / L of an L-smooth f; it is halved where it is too long
    scale : the gradient mapping counts relative to this; default its own first value, or 1 if that is zero
    tol : the iteration stops when the gradient mapping is below tol * scale; or, with `gap`, when the duality gap is
        below tol * max(|F|, 1e-300)
    max_iter : steps after which a `ConvergenceWarning` is given
    gap : C -> duality gap of F at C, an upper bound on F(C) - min F
    value_only : C -> f(C), where that is cheaper than with the gradient
    warn : whether to warn

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.objectives import L1
    >>> from ovk.solvers import proximal_gradient
    >>> target = np.array([[3.0, 0.5]])
    >>> C, info = proximal_gradient(lambda C: (0.5 * float(((C - target) ** 2).sum()), C - target), L1(1.0), 0 * target)
    >>> C, info.converged
    (array([[2., 0.]]), True)
    """
    tol, max_iter = positive(tol, "tol"), check_int(max_iter, "max_iter")
    step = positive(step, "step")
    at = value_only if value_only is not None else (lambda C: smooth(C)[0])
    best, previous = start, start
    value, gradient = smooth(start)
    objective = value + (0.0 if penalty is None else penalty.value(start))
    point, momentum = start, 1.0
    mapping, found, iteration, done = float("inf"), float("nan"), 0, False
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
        if gap is None:
            # A mapping at an extrapolated point speaks for the point next to it only when that one was taken.
            done = mapping <= tol * scale and (better or point is best)
        elif iteration % 10 == 0 or iteration == max_iter or mapping <= 1e-14 * scale:
            found = gap(best)
            done = found <= tol * max(abs(objective), 1e-300) or mapping <= 1e-14 * scale
        if (uphill or not better) and point is not best:
            point, momentum = best, 1.0
            continue
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        point = best + (momentum - 1.0) / following * (best - previous)
        momentum = following
    if not done and warn:
        rule = f"gradient mapping {mapping:.1e}" if gap is None else f"duality gap {found:.1e}"
        warnings.warn(
            f"proximal gradient stopped after max_iter={max_iter} steps at a {rule}: raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=3,
        )
    return Minimum(best, ProximalInfo(iteration, objective, mapping, found, done, step))


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

    Parameters
    ----------
    penalties : sequence of penalties
    tol : float > 0
        Change of the point, relative to its length, at which to stop.
    max_iter : int
        Rounds at most.

    Examples
    --------
    A sparse covariance: small entries vanish, and the matrix stays positive semi-definite.

    >>> import numpy as np
    >>> from ovk.objectives import L1, PSDCone
    >>> from ovk.solvers import PenaltySum
    >>> B = np.array([[1.0, 0.2, -0.9], [0.2, 1.0, 0.1], [-0.9, 0.1, 0.5]])
    >>> PenaltySum([L1(0.2), PSDCone()]).prox(B, step=1.0).round(2) + 0.0
    array([[ 0.86,  0.  , -0.61],
           [ 0.  ,  0.8 ,  0.  ],
           [-0.61,  0.  ,  0.43]])
    """

    penalties: Sequence[Penalty]
    tol: float = 1e-9
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
