"""Truncation: dropping old support points of an online learner, with a bound on the error.

The influence of a support point shrinks by 1 - eta alpha at every step, so old ones can be dropped, by age (`Window`,
`PaperWindow`) or by weight (`Tolerance`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable
from math import ceil, exp, floor, hypot, log, sqrt
from typing import Any, NamedTuple

import numpy as np

from ovk.base import Array, Parameters, Times, check_int, in_interval, positive
from ovk.objectives import Loss, ThresholdLoss
from ovk.online.first_order.blocks import Steps, recursion

#: Share of the tolerance available for dropping points if the loss has kinks.
KINK_SHARE = 0.01
#: Window of ``truncation="auto"``.
AUTO_WINDOW = 4096
#: Upper limit of t_0 of `PaperWindow`.
LARGEST_WINDOW = 1 << 60


class TruncationWarning(UserWarning):
    """The bound on the truncation error exceeds the tolerance.

    See Also
    --------
    Tolerance
    """


class Truncation(Parameters, ABC):
    """A rule for dropping old support points."""

    def clock(self, t: Times) -> Times:
        """Steps at which the schedule is evaluated, for an array of steps t."""
        return t


class ByAge(Truncation, saved=False):
    """Keeps the last s_t points after step t."""

    @abstractmethod
    def size(self, t: Times, eta: float, alpha: float) -> Times:
        """s_t for an array of steps, given eta_1 and alpha."""


class Window(ByAge):
    """Truncation of a support expansion to the last s points.

    Only the last s steps contribute to f, so f would fade to zero with step sizes that keep shrinking. With
    `hold_steps` the step size therefore stays constant from step s on.

    Parameters
    ----------
    s : int >= 1
        Number of points.
    hold_steps : bool
        Hold the step size from step s on. False lets a decaying schedule decay forever, as in the NORMA paper, which
        suits streams not much longer than the window.

    See Also
    --------
    OLOK, PaperWindow, Tolerance

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
    """Truncation to the growing window of the OLOK paper's theorem, s_t = max(t^(1/2 + epsilon), t_0).

    t_0 is the smallest t such that  eta alpha < sqrt(t'),  exp(-eta alpha t'^epsilon) <= eta alpha / sqrt(t')  and
    t'^(1/2 + epsilon) <= 0.75 t'  for all t' >= t. The paper uses the smallest t at which they hold, but the second
    condition can hold and then fail again (with eta alpha = 1.1 and epsilon = 0.15 they hold at 3, and permanently only
    from 19,777 on), and the proof uses all of them at every t from t_0 on.

    Parameters
    ----------
    epsilon : float in (0, 1/2)
        Growth of the window.

    See Also
    --------
    OLOK, Window, Tolerance

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
        """t_0, or LARGEST_WINDOW if it is larger.

        The second condition is  g(u) = eta alpha exp(epsilon u) - u / 2 + log(eta alpha) >= 0  with u = log t. g is
        convex and smallest at u* = -log(2 epsilon eta alpha) / epsilon, so the condition can fail only around u*, and
        holds from the first t >= exp(u*) on. The other two stay true once they are.
        """
        epsilon = in_interval(self.epsilon, "epsilon", 1e-3, 0.499)
        product = eta * alpha
        if product <= 0:
            return LARGEST_WINDOW

        def margin(u: float) -> float:
            return product * exp(epsilon * u) - 0.5 * u + log(product)

        lowest, start = -log(2.0 * epsilon * product) / epsilon, 1
        if lowest > 0 and margin(lowest) < 0:
            if lowest > log(LARGEST_WINDOW):
                return LARGEST_WINDOW
            around = exp(lowest)
            # No integer lies between the two roots if the condition holds on both sides of exp(u*).
            if margin(log(floor(around))) < 0 or margin(log(ceil(around))) < 0:
                start = ceil(around)
        decays = _first_true(lambda t: margin(log(t)) >= 0, start)
        shorter = _first_true(lambda t: t ** (0.5 + epsilon) <= 0.75 * t, 1)
        return max(_first_true(lambda t: product < sqrt(t), 1), decays, shorter)


def _first_true(holds: Callable[[int], bool], start: int) -> int:
    """The smallest t in [start, LARGEST_WINDOW] at which a condition holds that stays true; LARGEST_WINDOW if none."""
    return start + bisect_left(range(start, LARGEST_WINDOW), True, key=holds)


class Tolerance(Truncation):
    """Truncation of old points while the error, in the kernel's norm, stays below a tolerance.

    The learner's `truncation_error_` is a rigorous bound on the distance to the learner that keeps all points,
    including the effect of earlier truncations on later steps. A prediction differs by at most kappa times it, where
    kappa^2 is the largest eigenvalue of K(x, x).

    The bound can exceed `tol` where the two learners diverge: at a kink of the loss (epsilon-insensitive, hinge,
    pinball), and with steps too large for the kernel, eta (L kappa^2 + 2 alpha) > 2 for a loss with an L-Lipschitz
    gradient. For a loss with kinks truncation therefore uses only a hundredth of `tol`: the closer the learners, the
    more rarely a kink separates them. If the bound exceeds `tol` nevertheless, a `TruncationWarning` is raised,
    `truncation_error_` stays valid, and each block drops as much as the penalty compensates, so memory stays bounded.

    Parameters
    ----------
    tol : float > 0
        Bound on the truncation error.

    See Also
    --------
    OLOK, Window, TruncationWarning

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK
    >>> from ovk.online import Tolerance
    >>> X = np.random.default_rng(0).uniform(-2, 2, (2000, 1))
    >>> model = OLOK("gaussian", alpha=0.1, truncation=Tolerance(1e-3)).fit(X, np.sin(X))
    >>> len(model.support_) < 2000, model.truncation_error_ < 1e-3
    (True, True)
    """

    def __init__(self, tol: float = 1e-12) -> None:
        self.tol = tol

    def allowed(self, error: float = 0.0, contraction: float = 1.0, *, smooth: bool = True) -> float:
        """The error that the next truncation may add.

        With a budget B,  e <- contraction e + dropped  stays below B if at most B - e is dropped, or, for any e, at
        most B (1 - contraction). `error` is e, and `contraction` the product of the decays since the last truncation.
        """
        budget = positive(self.tol, "tol") * (1.0 if smooth else KINK_SHARE)
        return max(budget - error, budget * (1.0 - contraction))


class FunctionWindow(ByAge, saved=False):
    """Truncation to the last function(t) points after step t, for a plain function; models with it cannot be saved."""

    def __init__(self, function: Callable[[int], int]) -> None:
        self.function = function

    def size(self, t: Times, eta: float, alpha: float) -> Times:
        name = "the number of points that truncation returns"
        sizes = [check_int(self.function(int(step)), name) for step in np.ravel(t)]
        return np.array(sizes, dtype=np.int64).reshape(np.shape(t))


def as_truncation(truncation: Any) -> Truncation | None:
    """A truncation from an object, a number of points, a function of the step t, or None."""
    if truncation is None or isinstance(truncation, Truncation):
        return truncation
    if isinstance(truncation, (int, np.integer)) and not isinstance(truncation, bool):
        return Window(check_int(truncation, "truncation"))
    if callable(truncation) and not isinstance(truncation, type):
        return FunctionWindow(truncation)
    raise ValueError(
        f"truncation must be 'auto', None, a number of points, a truncation of ovk.online or a function of the step t, "
        f"got {truncation!r}"
    )


# The truncation error: a running bound on the distance to the learner that drops nothing.
#
# Let e be that distance in the kernel's norm before a step with decay rho and step size eta, and kappa^2 a bound on
# |K(x, x)|. The predictions of the two learners differ by at most kappa e.
#
#     smooth convex loss (constant L):  e <- max(|rho|, |rho - eta L kappa^2|) e
#     any convex loss:                  e <- sqrt((rho e)^2 + (eta kappa v)^2),  v the change of the gradient within
#     kappa e
#
# The second holds because the gradient of a convex loss is monotone, so that the cross term is not positive. For a
# piecewise linear loss v is zero unless the prediction is within kappa e of a kink. Dropping points with coefficients
# a_i adds kappa sum |a_i|.
#
# A learned threshold does not decay. With e' the distance of the thresholds and d outputs, v is the change of the
# gradient within kappa e + e', and the cross term may be positive: e <- rho e + eta kappa v, e' <- e' + eta sqrt(d) v.


class Errors(NamedTuple):
    """Bounds on the distances of f and of its threshold to those of the learner that drops nothing."""

    f: float
    threshold: float = 0.0


def propagate(errors: Errors, loss: Loss, steps: Steps, kappa: Array, dropped: Array) -> Errors:
    """The bounds after a block of b steps; `kappa` (b,) bounds |K(x, x)|^(1/2) for all points up to each row, `dropped`
    (b + 1,) is the error of dropping points before the first row and after each row.
    """
    errors = errors._replace(f=errors.f + float(dropped[0]))
    if errors == (0.0, 0.0) and not dropped[1:].any():
        return errors
    if loss.smoothness is not None:
        rho, pull = steps.rho, steps.eta * loss.smoothness * kappa**2
        return Errors(float(recursion(errors.f, np.maximum(rho, np.abs(rho - pull)), dropped[1:])[-1]))
    # The changes of the gradient and the bound depend on each other. After k passes of the fixed-point iteration the
    # first k rows are exact, and usually all of them after a few.
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
    """`propagate` for a single step and a loss without a threshold."""
    radius = kappa * errors.f
    if loss.smoothness is not None:
        return Errors(max(rho, abs(rho - eta * loss.smoothness * kappa**2)) * errors.f + dropped)
    v = float(loss.variation(Y, Z, np.array([radius]))[0]) if radius > 0 else 0.0
    return Errors(hypot(rho * errors.f, kappa * eta * v) + dropped)


def _changes(steps: Steps, radius: Array) -> Array:
    """Bounds on the change of the gradients, 0 where the two learners agree."""
    return np.where(radius > 0, steps.loss.variation(steps.targets, steps.block.z, radius), 0.0)


def _follow(errors: Errors, loss: Loss, steps: Steps, kappa: Array, dropped: Array, v: Array) -> tuple[Array, Errors]:
    """Bounds on the errors of the predictions, and those after the last step, if the gradients change by v."""
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


def window_errors(edge: Times, time: Times, norms: Array, born: Array, logs: Array, kappa: Array) -> Array:
    """The error `dropped` (b + 1,) of `propagate` for a window.

    Points up to step `edge` (b + 1,) are dropped, before the first row and after each row. `time`, `norms` and `born`
    (m,) are the step of each point, the norm of its coefficient at the start of the block or at its step, and the
    logarithm of the decay until then; `logs` (b + 1,) are those of the decay before the first row and after each row.
    """
    when = np.searchsorted(edge, time, side="left")
    gone = when < len(edge)
    when = when[gone]
    costs = kappa[np.maximum(when - 1, 0)] * norms[gone] * np.exp(logs[when] - born[gone])
    total: Array = np.zeros(len(edge))
    np.add.at(total, when, costs)
    return total


def count_droppable(A: Array, kappa: float, allowed: float) -> int:
    """How many of the oldest points can be dropped with an error of at most `allowed`."""
    return int(np.searchsorted(np.cumsum(kappa * np.linalg.norm(A, axis=1)), allowed, side="right"))
