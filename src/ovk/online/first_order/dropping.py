"""What a first-order learner forgets: old support points, with a bound on what that costs."""

from __future__ import annotations

import warnings

import numpy as np

from ovk._types import Array, Times
from ovk.losses import Loss, as_loss
from ovk.online.first_order.certificate import Errors, droppable, leaving, propagate
from ovk.online.first_order.start import FirstOrderStart
from ovk.online.first_order.steps import Steps
from ovk.online.first_order.truncation import (
    LAST,
    ByAge,
    Tolerance,
    Truncation,
    TruncationWarning,
    Window,
    as_truncation,
)
from ovk.online.shared.learner import learns_width
from ovk.schedules import DistanceOverGradients, as_schedule


class Dropping(FirstOrderStart, saved=False):
    """A first-order learner that drops support points by its truncation."""

    def _of_the_data(self) -> bool:
        """Whether the user leaves to the data what the learner works with: the algorithm is not that of the paper."""
        return self.init is None and learns_width(self.kernel)

    def _truncation(self) -> Truncation | None:
        if isinstance(self.truncation, str) and self.truncation == "auto":
            return Window(LAST) if self._of_the_data() else None
        return as_truncation(self.truncation)

    def _certify(self, loss: Loss, steps: Steps, times: Times, edge: Times | None, kappa: Array) -> None:
        """Bring the bound on the cost of truncation up to date."""
        dropped = np.zeros(len(times) + 1)
        if edge is not None:
            logs = np.concatenate([[0.0], np.cumsum(np.log(steps.rho))])
            time = self.support_.time[: np.searchsorted(self.support_.time, edge[-1], side="right")]
            old = self.support_.A[: len(time), 0]
            dropped = leaving(
                edge,
                np.concatenate([time, times]),
                np.concatenate([np.linalg.norm(old, axis=1), np.linalg.norm(steps.block.a, axis=1)]),
                np.concatenate([np.zeros(len(old)), logs[1:]]),
                logs,
                kappa,
            )
        self.progress_.contraction *= float(np.prod(steps.rho))
        before = Errors(self.truncation_error_, self.progress_.threshold_error)
        if any(before) or dropped.any():
            self._bound(int(times[-1]), before, propagate(before, loss, steps, kappa, dropped))

    def _bound(self, t: int, before: Errors, after: Errors) -> None:
        if self.fit_intercept:
            # The intercept does not decay, and nothing is known that keeps its distance small.
            self.truncation_error_ = np.inf
            return
        self.truncation_error_, self.progress_.threshold_error = after
        truncation = self.truncation
        if isinstance(truncation, Tolerance) and before.f <= truncation.tol < self.truncation_error_:
            warnings.warn(
                f"after {t} steps the bound on the cost of dropping support points is "
                f"{self.truncation_error_:.2g}, above truncation=Tolerance({truncation.tol:g}): predictions came too "
                "near a kink of the loss, or steps are too large for the kernel. Dropping goes on and "
                "`truncation_error_` stays valid; a smooth loss (huber, squared), a smaller tol or a larger alpha "
                "keep it lower",
                TruncationWarning,
                stacklevel=2,
            )

    def _truncate(self) -> None:
        truncation = self._truncation()
        support, kappa = self.support_, self.kappa2_**0.5
        if truncation is None or self._rows % self.block_size_:
            return
        if isinstance(truncation, Tolerance):
            smooth = as_loss(self.loss).smoothness is not None
            allowed = truncation.allowed(self.truncation_error_, self.progress_.contraction, smooth=smooth)
            self._drop(droppable(support.A[:, 0], kappa, allowed))
            self.progress_.contraction = 1.0
        if len(support) > self.max_support:
            self._drop(len(support) - int(self.max_support))

    def _drop(self, count: int) -> None:
        if count > 0:
            norms = np.linalg.norm(self.support_.A[:count, 0], axis=1)
            self.truncation_error_ += self.kappa2_**0.5 * float(norms.sum())
            self.support_.drop(count)

    def _first_rate(self) -> float:
        schedule = as_schedule(self.schedule)
        if isinstance(schedule, DistanceOverGradients):
            return 1.0
        bound = self.kernel_.norm_bound() if schedule.scaled and hasattr(self, "kernel_") else None
        return float(schedule.rate(np.array([1]))[0]) / max(bound or 1.0, 1.0)

    def _clock(self, times: Times) -> Times:
        """At which steps the schedule is read: a window can hold the step size."""
        truncation = self._truncation()
        return times if truncation is None else truncation.clock(times)

    def _window(self, times: Times) -> tuple[Times | None, Array | None]:
        """The newest step that is dropped before the first row and after each row, (b + 1,), or None; and which rows
        of the block each row sees, None for all before it."""
        truncation = self._truncation()
        if not isinstance(truncation, ByAge):
            return None, None
        last = np.concatenate([[self.t_], times])
        sizes = truncation.size(np.maximum(last, 1), self._first_rate(), float(self.alpha))
        edge = np.maximum.accumulate(last - sizes)
        if edge[-1] < times[0]:
            return edge, None
        return edge, np.tri(len(times), k=-1) * (times[None, :] > edge[:-1, None])
