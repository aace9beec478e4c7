"""The cumulative error bound of the OLOK paper (theorem 1), with its constants and its assumptions.

For eta_t = eta / sqrt(t), eta alpha < 1, |K(x, x)| <= kappa^2 and a convex C-Lipschitz loss,

    1/t sum_i R_inst(f_i) <= inf_g R_reg(g) + a / sqrt(t) + b / t,
    a = 2 alpha U^2 (c eta alpha + 1 / (eta alpha)),   b = U^2 / (2 eta),   U = C kappa / alpha,

with c = 2, or c = 10 for the truncated learner with the paper's window. The squared loss is not Lipschitz; with bounded
outputs, |y| <= C_y, and alpha > 2 kappa^2 (assumption 3) the bound holds with U = max(C_y / kappa, 2 C_y / alpha).

The proof needs |f_t| <= U at every step. A step maps the ball of any radius V >= U into itself, so a learner that
starts from f_0 instead of zero stays within V = max(U, |f_0|), with gradients of the regularised risk within 2 alpha V,
and the bound holds with V in place of U. With the paper's window it does not: what the window drops of f_0 is not
bounded by the steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ovk.losses import Squared, as_loss
from ovk.losses.thresholds import ThresholdLoss
from ovk.online.first_order.olok import OLOK
from ovk.online.first_order.truncation import PaperWindow
from ovk.schedules import InverseSqrt, as_schedule


@dataclass(frozen=True)
class ErrorBound:
    """What the theorem says after t steps.

    Attributes
    ----------
    excess : a / sqrt(t) + b / t, what the mean instantaneous risk may exceed the best regularised risk by; None when
        the theorem does not apply
    U : bound on |f_t| in the kernel's norm, at least |f_0|; None when there is none
    failed : which assumption fails, empty when all hold
    """

    excess: float | None
    U: float | None
    failed: str = ""


def error_bound(model: OLOK, largest_output: float | None = None) -> ErrorBound:
    """The right-hand side of theorem 1 for a learner that has begun.

    Parameters
    ----------
    model : OLOK
    largest_output : bound C_y on |y|, needed for the squared loss

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK
    >>> from ovk.kernels import Gaussian
    >>> from ovk.online import error_bound
    >>> model = OLOK(Gaussian(1.0), alpha=0.5, loss="hinge", schedule=1.0).fit(np.eye(2), [1.0, -1.0])
    >>> error_bound(model).U
    2.0
    >>> error_bound(OLOK(Gaussian(1.0), alpha=0.5, schedule=1.0).fit(np.eye(2), [1.0, -1.0]), 1.0).failed
    'assumption 3: the squared loss needs alpha > 2 kappa^2 = 2, alpha is 0.5'
    """
    schedule, loss, alpha = as_schedule(model.schedule), as_loss(model.loss), float(model.alpha)
    kappa2 = model.kernel_.norm_bound()
    if model.fit_intercept:
        return ErrorBound(None, None, "the theorem is about a penalised f: it does not cover fit_intercept")
    if isinstance(loss, ThresholdLoss):
        return ErrorBound(None, None, f"the theorem does not cover the threshold that {type(loss).__name__} learns")
    if alpha == 0:
        return ErrorBound(None, None, "the theorem needs a penalty: alpha is 0")
    if kappa2 is None:
        return ErrorBound(None, None, "assumption 1: the kernel has no known bound on |K(x, x)|")
    kappa = float(np.sqrt(kappa2))
    if isinstance(loss, Squared):
        if largest_output is None:
            return ErrorBound(
                None, None, "assumption 3: the squared loss needs a bound on the outputs (largest_output)"
            )
        if alpha <= 2 * kappa2:
            return ErrorBound(
                None,
                None,
                f"assumption 3: the squared loss needs alpha > 2 kappa^2 = {2 * kappa2:g}, alpha is {alpha:g}",
            )
        U = max(largest_output / kappa, 2 * largest_output / alpha)
    else:
        steepest = loss.lipschitz(model.support_.A.shape[2])
        if steepest is None:
            return ErrorBound(None, None, f"assumption 2: {type(loss).__name__} is not Lipschitz")
        U = steepest * kappa / alpha
    U = max(U, float(model.initial_norm_))
    if not isinstance(schedule, InverseSqrt) or schedule.start != 1 or model.average or model.discount != 1:
        return ErrorBound(None, U, "the theorem is about eta_t = eta / sqrt(t) from t = 1, without average or discount")
    truncation = model._truncation()
    if truncation is not None and not isinstance(truncation, PaperWindow):
        return ErrorBound(None, U, "the theorem is about no truncation, or the paper's window (PaperWindow)")
    if truncation is not None and model.initial_norm_ > 0:
        return ErrorBound(None, U, "the theorem for the paper's window starts from zero, not from init")
    eta, c = float(schedule.eta), 2.0 if truncation is None else 10.0
    if schedule.scaled:
        eta /= max(kappa2, 1.0)
    a = 2 * alpha * U**2 * (c * eta * alpha + 1 / (eta * alpha))
    t = max(model.t_, 1)
    return ErrorBound(float(a / np.sqrt(t) + U**2 / (2 * eta) / t), U)
