"""A gradient step on a single row, in numbers: what the block engine does when a block has one row.

    z = f(x) + b,   a = -eta grad l(y, z),   f <- rho f + K(x, .) a,   b <- b + a,   rho = discount (1 - eta alpha),
    |f|^2 <- rho^2 |f|^2 + 2 rho <a, f(x)> + <a, K(x, x) a>.

The points that leave the window after the step cost kappa rho |a_i| each (`certificate`).
"""

from __future__ import annotations

from abc import abstractmethod
from math import sqrt
from typing import Any, Self

import numpy as np

from ovk.base import Array
from ovk.kernels import Stationary
from ovk.objectives import DistanceOverGradients, Loss, Schedule, ThresholdLoss, as_loss, as_schedule
from ovk.online.first_order.steps import RUNAWAY_FACTOR, Progress
from ovk.online.first_order.truncation import ByAge, Errors, Truncation, Window, propagate_row
from ovk.online.shared.learner import StreamRegressor
from ovk.online.shared.rows import Rows, SupportPoints
from ovk.operators import OutputOperator
from ovk.ovkernels import OperatorKernel, Separable

#: Step sizes that are read from the schedule at once.
RATES_AHEAD = 64


class RowPlan:
    """What single rows need of the parameters of a learner.

    Attributes
    ----------
    loss, schedule, truncation : the objects that the parameters stand for
    bounded : whether gradients of the loss are bounded
    operator : T of a kernel k T with k(x, x) = 1; None for other kernels
    """

    def __init__(
        self, loss: Loss, schedule: Schedule, truncation: Truncation | None, kernel: OperatorKernel, outputs: int
    ) -> None:
        self.loss, self.schedule, self.truncation, self._kernel = loss, schedule, truncation, kernel
        self.bounded = loss.lipschitz(outputs) is not None
        unit = isinstance(kernel, Separable) and isinstance(kernel.scalar, Stationary)
        self.operator: OutputOperator | None = kernel.operator if unit else None
        self._rates: tuple[int, list[float], dict[str, Any]] = (0, [], {})

    def rate(self, t: int) -> float:
        """The step size of the schedule at step t."""
        first, rates, known = self._rates
        # A schedule may be changed in place by `set_params`.
        if not first <= t < first + len(rates) or known != self.schedule.__dict__:
            first, rates = t, self.schedule.rate(np.arange(t, t + RATES_AHEAD)).tolist()
            self._rates = first, rates, self.schedule.__dict__.copy()
        return rates[t - first]

    def energy(self, X: Array, a: Array) -> float:
        """<a, K(x, x) a> for a row X, (1, p)."""
        Ka = self._kernel.product(X, X, a[None]) if self.operator is None else self.operator.apply(a[None])
        return float(Ka[0].dot(a))


class SingleRows(StreamRegressor, saved=False):
    """A first-order learner that takes single rows one by one."""

    kernel: Any
    init: Any
    alpha: float
    discount: float
    average: bool
    loss: Any
    schedule: Any
    truncation: Any
    max_support: int
    kernel_: OperatorKernel
    support_: SupportPoints
    progress_: Progress
    t_: int
    _rows: int
    block_size_: int
    kappa2_: float
    cumulative_loss_: float
    cumulative_risk_: float
    truncation_error_: float

    @abstractmethod
    def _truncation(self) -> Truncation | None:
        """Which points are dropped; None keeps all."""

    @abstractmethod
    def _check_memory(self, n: int) -> None:
        """Refuse rows for which there is no room."""

    @abstractmethod
    def _check_rates(self, n: int) -> None:
        """Refuse steps that would turn f around."""

    @abstractmethod
    def _truncate(self) -> None:
        """Drop what is too light, at the end of a block."""

    @abstractmethod
    def _bound(self, t: int, before: Errors, after: Errors) -> None:
        """Take over the bounds after step t."""

    def _row_plan(self) -> tuple[int, RowPlan] | None:
        d = self.support_.A.shape[2]
        plan = RowPlan(as_loss(self.loss), as_schedule(self.schedule), self._truncation(), self.kernel_, d)
        adaptive = isinstance(plan.schedule, DistanceOverGradients)
        aged = isinstance(plan.truncation, ByAge) and not isinstance(plan.truncation, Window)
        learned_too = self.average or plan.loss.unsupervised or isinstance(plan.loss, ThresholdLoss)
        if adaptive or aged or learned_too or self.kernel_.norm_bound() is None:
            return None
        return d, plan

    def _row_prediction(self, X: Array) -> Array:
        """f(x) + b, (d,), in the units of the learner."""
        support, bias = self.support_, self.progress_.bias
        f = self.kernel_.product(X, support.X, support.A[:, 0])[0] if len(support) else np.zeros(support.A.shape[2])
        return f if bias is None else f + bias

    def _learn_one(self, X: Array, y: Array) -> tuple[Self, Array]:
        assert self._gate is not None
        plan: RowPlan = self._gate.plan
        loss, truncation = plan.loss, plan.truncation
        loss.check(y[None])
        X, y = self._row_in_units(X, y)
        progress, t = self.progress_, self.t_ + 1
        window = truncation if isinstance(truncation, Window) else None
        if truncation is None and len(self.support_) >= self.max_support:
            self._check_memory(1)
        clock = min(t, int(window.s)) if window is not None and window.hold_steps else t
        alpha, eta = float(self.alpha), plan.rate(clock)
        if plan.schedule.scaled:
            eta /= max(self.kappa2_, 1.0)
        if eta * alpha >= 1.0:
            self._check_rates(1)
        rho = float(self.discount) * (1.0 - eta * alpha)

        z = self._row_prediction(X)
        f = z if progress.bias is None else z - progress.bias
        value, gradient = loss.of_row(y, z)
        a = -eta * gradient
        norm2 = rho * rho * progress.norm2 + 2.0 * rho * float(a.dot(f)) + plan.energy(X, a)
        reach, most = progress.reach, np.inf
        if not plan.bounded:
            reach += 2.0 * eta * loss.of_row(y, np.zeros(len(y)))[0]
            most = RUNAWAY_FACTOR**2 * reach
        if not norm2 <= most:
            # The block engine says what is wrong.
            return self._after_row_in_block(X, y)

        kappa, dropped, leaving = self.kappa2_**0.5, 0.0, 0
        if window is not None:
            _, A, times = self.support_.arrays
            while leaving < len(times) and times[leaving] <= t - window.s:
                old = A[leaving, 0]
                dropped += kappa * rho * sqrt(float(old.dot(old)))
                leaving += 1

        before = Errors(self.truncation_error_, progress.threshold_error)
        learned = self._with(
            support_=self.support_.after_step(rho, leaving, X, a, t),
            progress_=progress._with(
                norm2=max(norm2, 0.0),
                reach=reach,
                contraction=progress.contraction * rho,
                bias=None if progress.bias is None else progress.bias + a,
            ),
            t_=t,
            _rows=self._rows + 1,
            cumulative_loss_=self.cumulative_loss_ + value,
            cumulative_risk_=self.cumulative_risk_ + value + (0.5 * alpha * progress.norm2 if alpha > 0 else 0.0),
        )
        if dropped or before.f:
            learned._bound(t, before, propagate_row(before, loss, y[None], z[None], eta, rho, kappa, dropped))
        if learned._rows % self.block_size_ == 0:
            learned._truncate()
        return learned, self._outputs_of_user(z)

    def _after_row_in_block(self, X: Array, y: Array) -> tuple[Self, Array]:
        """The same by the block engine, from a row in the units of the learner."""
        with self._transaction() as work:
            Z = work._learn(Rows(X, y[None], np.array([True]), self.single_output_))
        return work, self._outputs_of_user(Z[0])
