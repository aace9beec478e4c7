"""What dropping support points has cost: a running bound on the distance to the learner that drops nothing.

Let e be that distance in the kernel's norm before a step with decay rho and step size eta, and kappa^2 a bound on
|K(x, x)|. Both learners take the step at their own prediction, and predictions differ by at most kappa e.

    smooth convex loss (constant L):  e <- max(|rho|, |rho - eta L kappa^2|) e
    any convex loss:                  e <- sqrt((rho e)^2 + (eta kappa v)^2),  v the change of the gradient within
    kappa e

The second holds because a convex loss has a monotone gradient: the cross term helps. For a piecewise linear loss v is
zero unless the prediction is within kappa e of a kink. Dropping points with coefficients a_i adds kappa sum |a_i|.

A threshold that is learned with f moves without decay. With e' the distance of the thresholds and d outputs, v is what
can change within kappa e + e', and there is no help from the cross term: e <- rho e + eta kappa v,
e' <- e' + eta sqrt(d) v.
"""

from __future__ import annotations

from math import hypot
from typing import NamedTuple

import numpy as np

from ovk._types import Array, Times
from ovk.losses import Loss
from ovk.losses.thresholds import ThresholdLoss
from ovk.online.first_order.blocks import recursion
from ovk.online.first_order.steps import Steps


class Errors(NamedTuple):
    """Bounds on the distances, of f and of the threshold that is learned with it, to the learner that drops nothing."""

    f: float
    threshold: float = 0.0


def propagate(errors: Errors, loss: Loss, steps: Steps, kappa: Array, dropped: Array) -> Errors:
    """The bounds after a block of b steps, from those before it.

    Parameters
    ----------
    kappa : (b,) bound on |K(x, x)|^(1/2) for all points up to each row
    dropped : (b + 1,) what the points cost that are dropped before the first row and after each row
    """
    errors = errors._replace(f=errors.f + float(dropped[0]))
    if errors == (0.0, 0.0) and not dropped[1:].any():
        return errors
    if loss.smoothness is not None:
        rho, pull = steps.rho, steps.eta * loss.smoothness * kappa**2
        return Errors(float(recursion(errors.f, np.maximum(rho, np.abs(rho - pull)), dropped[1:])[-1]))
    # The change of the gradient depends on the bound so far, and the bound on the changes so far: the first k rows are
    # right after k passes, and all of them after a few, as changes are rare or certain.
    v = _changes(steps, kappa * errors.f + errors.threshold)
    for _ in range(len(v)):
        radius, end = _follow(errors, loss, steps, kappa, dropped, v)
        before, v = v, _changes(steps, radius)
        if np.array_equal(before, v):
            break
    return end


def propagate_row(
    errors: Errors, loss: Loss, Y: Array, Z: Array, eta: float, rho: float, kappa: float, dropped: float
) -> Errors:
    """The bounds after a single step, for a loss without a threshold; `dropped` is what the points cost that leave."""
    radius = kappa * errors.f
    if loss.smoothness is not None:
        return Errors(max(rho, abs(rho - eta * loss.smoothness * kappa**2)) * errors.f + dropped)
    v = float(loss.variation(Y, Z, np.array([radius]))[0]) if radius > 0 else 0.0
    return Errors(hypot(rho * errors.f, kappa * eta * v) + dropped)


def _changes(steps: Steps, radius: Array) -> Array:
    """How much the gradients can change; not at all at a kink that both learners stand on."""
    return np.where(radius > 0, steps.loss.variation(steps.targets, steps.block.z, radius), 0.0)


def _follow(errors: Errors, loss: Loss, steps: Steps, kappa: Array, dropped: Array, v: Array) -> tuple[Array, Errors]:
    """How far predictions can be off at each row, and the bounds at the end, when the gradients change by v."""
    radius = np.empty(len(v))
    error, threshold = errors
    moves, wide = (steps.eta * v).tolist(), float(np.sqrt(steps.targets.shape[1]))
    rows = zip(kappa.tolist(), steps.rho.tolist(), moves, dropped[1:].tolist(), strict=True)
    for j, (k, rho, move, more) in enumerate(rows):
        radius[j] = k * error + threshold
        if isinstance(loss, ThresholdLoss):
            error = rho * error + k * move + more
            threshold += wide * move
        else:
            error = hypot(rho * error, k * move) + more
    return radius, Errors(error, threshold)


def leaving(edge: Times, time: Times, norms: Array, born: Array, logs: Array, kappa: Array) -> Array:
    """What the points cost that a window leaves behind during a block, (b + 1,), as `propagate` wants it.

    Parameters
    ----------
    edge : (b + 1,) points that came at this step or before are dropped, before the first row and after each row
    time : (m,) the step at which each point came
    norms : (m,) norms of their coefficients, those that they had at the start of the block or at their birth in it
    born : (m,) logarithm of the decay from the start of the block until then
    logs : (b + 1,) the same until before the first row and after each row
    """
    when = np.searchsorted(edge, time, side="left")
    gone = when < len(edge)
    when = when[gone]
    costs = kappa[np.maximum(when - 1, 0)] * norms[gone] * np.exp(logs[when] - born[gone])
    total: Array = np.zeros(len(edge))
    np.add.at(total, when, costs)
    return total


def droppable(A: Array, kappa: float, allowed: float) -> int:
    """How many of the oldest points can be dropped for at most `allowed`."""
    return int(np.searchsorted(np.cumsum(kappa * np.linalg.norm(A, axis=1)), allowed, side="right"))
