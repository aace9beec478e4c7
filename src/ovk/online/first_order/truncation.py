"""How many old support points an online learner keeps.

The influence of a support point shrinks by 1 - eta alpha at every step, so old ones can be dropped. A truncation says
which: by age (`Window`, `PaperWindow`) or by weight (`Tolerance`), with a bound on what it costs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import exp, hypot, sqrt
from typing import Any, NamedTuple

import numpy as np

from ovk.base import Array, Parameters, Times, check_int, in_interval, positive
from ovk.objectives import Loss, ThresholdLoss
from ovk.online.first_order.blocks import Steps, recursion

#: Share of a tolerance that may be spent on dropping when the loss has kinks.
KINK_SHARE = 0.01
#: Points that ``truncation="auto"`` keeps where it keeps a window.
AUTO_WINDOW = 4096


class TruncationWarning(UserWarning):
    """The bound on the cost of dropping support points rose above the tolerance."""


class Truncation(Parameters, ABC):
    """A rule for dropping old support points."""

    def clock(self, t: Times) -> Times:
        """At which steps the schedule is read for an array of steps t: the same ones, unless steps are held."""
        return t


class ByAge(Truncation, saved=False):
    """After step t only the last s_t points are kept."""

    @abstractmethod
    def size(self, t: Times, eta: float, alpha: float) -> Times:
        """s_t for an array of steps, with eta_1 and the ridge weight."""


class Window(ByAge):
    """Keep the last s points.

    A window forgets what the steps before it did, so the last s steps alone must make up f. Steps that go on shrinking
    cannot: f would fade to zero. With `hold_steps` the step size therefore stays from step s on what it is there, and
    the window follows a stream of any length.

    Parameters
    ----------
    s : int >= 1
    hold_steps : bool
        Hold the step size from step s on. False lets a decaying schedule decay for ever, as in the NORMA paper; that
        suits streams not much longer than the window.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.online import Window
    >>> Window(100).size(np.array([1, 1000]), eta=1.0, alpha=0.1)
    array([100, 100])
    """

    def __init__(self, s: int = 1000, hold_steps: bool = True) -> None:
        self.s = s
        self.hold_steps = hold_steps

    def size(self, t: Times, eta: float, alpha: float) -> Times:
        return np.full(np.shape(t), check_int(self.s, "s"), dtype=np.int64)

    def clock(self, t: Times) -> Times:
        return np.minimum(t, check_int(self.s, "s")) if self.hold_steps else t


class PaperWindow(ByAge):
    """s_t = max(t^(1/2 + epsilon), t_0): the window of the OLOK paper's theorem.

    t_0 is the first t from which on  eta alpha < sqrt(t),  exp(-eta alpha t^epsilon) <= eta alpha / sqrt(t)  and
    t^(1/2 + epsilon) <= 0.75 t  hold for good. The paper asks for the smallest t at which they hold, but the second can
    hold for a while and then fail (with eta alpha = 1.1 and epsilon = 0.15 they hold at 3, and for good from 19,777 on
    only), and the proof uses all of them at every t from t_0 on.

    Parameters
    ----------
    epsilon : float in (0, 1/2)

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.online import PaperWindow
    >>> PaperWindow(0.4).size(np.array([1, 10**6]), eta=1.0, alpha=0.9)
    array([    18, 251189])
    """

    def __init__(self, epsilon: float = 0.25) -> None:
        self.epsilon = epsilon

    def size(self, t: Times, eta: float, alpha: float) -> Times:
        epsilon = in_interval(self.epsilon, "epsilon", 1e-3, 0.499)
        grown = np.ceil(np.asarray(t, dtype=np.float64) ** (0.5 + epsilon)).astype(np.int64)
        return np.maximum(grown, self.first(eta, alpha))

    def first(self, eta: float, alpha: float) -> int:
        """t_0."""
        epsilon = in_interval(self.epsilon, "epsilon", 1e-3, 0.499)
        product = eta * alpha

        def holds(t: float) -> bool:
            return (
                product < sqrt(t)
                and exp(-product * t**epsilon) <= product / sqrt(t)
                and t ** (0.5 + epsilon) <= 0.75 * t
            )

        # Each condition, once true, stays true (the second beyond its last crossing): double, then halve.
        high = 1
        while not (holds(high) and holds(4.0 * high)):
            high *= 2
            if high > 1 << 60:
                return high
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high


class Tolerance(Truncation):
    """Drop old points as long as the distance to the learner that keeps all stays below `tol`.

    The distance is measured in the kernel's norm, and what an earlier drop does to later steps counts: the bound
    `truncation_error_` of the learner holds for certain. A prediction differs by at most kappa times it, kappa^2 the
    largest eigenvalue of K(x, x).

    Where two learners can be driven apart, the bound can rise above `tol` whatever is kept: at a kink of the loss
    (epsilon-insensitive, hinge, pinball), where a prediction on its other side takes another step, and with steps too
    large for the kernel, eta (L kappa^2 + 2 alpha) > 2 for a loss with an L-Lipschitz gradient. For a loss with kinks
    dropping therefore spends a hundredth of `tol` only: the nearer the two learners are, the rarer a kink lies between
    them. Should the bound exceed `tol` all the same, a `TruncationWarning` says so, `truncation_error_` still tells the
    truth, and every block drops as much as the penalty takes back in it, so that memory stays bounded.

    Parameters
    ----------
    tol : float > 0

    Examples
    --------
    >>> from ovk.online import Tolerance
    >>> Tolerance(1e-12)
    Tolerance()
    """

    def __init__(self, tol: float = 1e-12) -> None:
        self.tol = tol

    def allowed(self, error: float = 0.0, contraction: float = 1.0, *, smooth: bool = True) -> float:
        """How much dropping may cost now.

        With a budget B, dropping keeps  e <- contraction e + dropped  below B as long as it costs at most B - e, or,
        whatever e is, at most B (1 - contraction).

        Parameters
        ----------
        error : the bound e so far
        contraction : product of the decays since points were last dropped
        smooth : whether the loss has no kinks
        """
        budget = positive(self.tol, "tol") * (1.0 if smooth else KINK_SHARE)
        return max(budget - error, budget * (1.0 - contraction))


def as_truncation(truncation: Any) -> Truncation | None:
    """Turn what a user may pass as a truncation into one: an object, None, or a number of points."""
    if truncation is None or isinstance(truncation, Truncation):
        return truncation
    if isinstance(truncation, (int, np.integer)) and not isinstance(truncation, bool):
        return Window(check_int(truncation, "truncation"))
    raise ValueError(
        f"truncation must be 'auto', None, a number of points or a truncation of ovk.online, got {truncation!r}"
    )


# What dropping support points has cost: a running bound on the distance to the learner that drops nothing.
#
# Let e be that distance in the kernel's norm before a step with decay rho and step size eta, and kappa^2 a bound on
# |K(x, x)|. Both learners take the step at their own prediction, and predictions differ by at most kappa e.
#
#     smooth convex loss (constant L):  e <- max(|rho|, |rho - eta L kappa^2|) e
#     any convex loss:                  e <- sqrt((rho e)^2 + (eta kappa v)^2),  v the change of the gradient within
#     kappa e
#
# The second holds because a convex loss has a monotone gradient: the cross term helps. For a piecewise linear loss v is
# zero unless the prediction is within kappa e of a kink. Dropping points with coefficients a_i adds kappa sum |a_i|.
#
# A threshold that is learned with f moves without decay. With e' the distance of the thresholds and d outputs, v is
# what can change within kappa e + e', and the cross term does not help: e <- rho e + eta kappa v, e' <- e' + eta
# sqrt(d) v.


class Errors(NamedTuple):
    """Bounds on the distances of f and of its threshold to the learner that drops nothing."""

    f: float
    threshold: float = 0.0


def propagate(errors: Errors, loss: Loss, steps: Steps, kappa: Array, dropped: Array) -> Errors:
    """The bounds after a block of b steps: `kappa` (b,) bounds |K(x, x)|^(1/2) for all points up to each row,
    `dropped` (b + 1,) is what the points cost that are dropped before the first row and after each row.
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

    Points that came at step `edge` (b + 1,) or before are dropped, before the first row and after each row. `time`,
    `norms` and `born` (m,) are the step at which each point came, the norm of its coefficient at the start of the
    block or at its birth, and the logarithm of the decay until then; `logs` (b + 1,) the same until before the first
    row and after each row.
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
