"""What dropping support points has cost: a running bound on the distance to the learner that drops nothing.

Let e be that distance in the kernel's norm before a step with decay rho and step size eta, and kappa^2 a bound on |K(x, x)|. Both
learners take the step at their own prediction, and predictions differ by at most kappa e.

    smooth convex loss (constant L):  e <- max(|rho|, |rho - eta L kappa^2|) e
    any convex loss:                  e <- sqrt((rho e)^2 + (eta kappa v)^2),  v the change of the gradient within kappa e

The second holds because a convex loss has a monotone gradient: the cross term helps. For a piecewise linear loss v is zero unless the
prediction is within kappa e of a kink. Dropping points with coefficients a_i adds kappa sum |a_i|.
"""

from __future__ import annotations

import numpy as np

from ovk._validation import Array
from ovk.losses import Loss
from ovk.online.steps import Steps


def propagate(error: float, loss: Loss, steps: Steps, learned: Array, kappa: float) -> float:
    """The bound after a block of steps, from the one before it."""
    if error == 0.0:
        return 0.0
    eta, rho = steps.eta, steps.rho
    if loss.smoothness is not None:
        contraction = np.maximum(np.abs(rho), np.abs(rho - eta * loss.smoothness * kappa**2))
        return error * float(np.prod(contraction[learned]))
    for j in np.flatnonzero(learned):
        row = slice(j, j + 1)
        v = loss.variation(steps.targets[row], steps.block.z[row], np.array([kappa * error]))[0]
        error = float(np.hypot(rho[j] * error, eta[j] * kappa * v))
    return error


def droppable(A: Array, kappa: float, allowed: float) -> tuple[int, float]:
    """How many of the oldest points can be dropped for at most `allowed`, and what that costs."""
    costs = np.cumsum(kappa * np.linalg.norm(A, axis=1))
    count = int(np.searchsorted(costs, allowed, side="right"))
    return count, float(costs[count - 1]) if count else 0.0
