"""What first-order learners start with, what they refuse, and which old support points they drop."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ovk.base import Array, Times, check_int, in_interval, positive, reads_snapshot, refuse_overflow
from ovk.kernels import Gaussian
from ovk.objectives import DistanceOverGradients, Loss, MarginLoss, SimplexHinge, ThresholdLoss, as_loss, as_schedule
from ovk.online.first_order.single_rows import SingleRows
from ovk.online.first_order.steps import Progress, Steps
from ovk.online.first_order.truncation import (
    AUTO_WINDOW,
    ByAge,
    Errors,
    Tolerance,
    Truncation,
    TruncationWarning,
    Window,
    as_truncation,
    droppable,
    leaving,
    propagate,
)
from ovk.online.shared.learner import learns_width
from ovk.online.shared.rows import Rows, SupportPoints, checked_rows
from ovk.ovkernels import Expansion, OperatorKernel, as_operator_kernel

#: Rows computed together, fewer where the kernel's values for a block would fill memory or most are out of the window.
MAX_BLOCK, MAX_BLOCK_NUMBERS, MIN_BLOCK = 384, 1 << 22, 64


class FirstOrder(SingleRows, saved=False):
    """A learner that takes a step along the gradient at every row, in blocks."""

    fit_intercept: bool
    initial_norm_: float
    on_invalid: str

    # Start ------------------------------------------------------------------------------------------------------------

    def _start(self, rows: Rows) -> None:
        kernel: OperatorKernel = clone(as_operator_kernel(Gaussian() if self.kernel is None else self.kernel))
        X, d = rows.X[rows.valid], rows.Y.shape[1]
        self.kernel_ = kernel.resolve(X, d)
        refuse_overflow(self, self.kernel_, X)
        self.single_output_ = rows.single
        self.t_ = 0
        self.cumulative_loss_ = self.cumulative_risk_ = 0.0
        self.truncation_error_ = 0.0
        self._rows = 0
        bound = self.kernel_.norm_bound()
        self.kappa2_ = 0.0 if bound is None else bound
        truncation = self._truncation()
        self.block_size_ = (
            max(MIN_BLOCK, min(MAX_BLOCK, int(truncation.s))) if isinstance(truncation, Window) else MAX_BLOCK
        )
        if self.kernel_.gram(X[:1]).terms() is None:
            self.block_size_ = min(self.block_size_, max(16, int(MAX_BLOCK_NUMBERS**0.5) // d))
        loss = as_loss(self.loss)
        self.progress_ = Progress(threshold=loss.start() if isinstance(loss, ThresholdLoss) else 0.0)
        self.progress_.bias = np.zeros(d) if self.fit_intercept else None
        self.support_ = SupportPoints.empty(X.shape[1], d, 2 if self.average else 1)
        if self.init is not None:
            self._start_from(self.init, d)
        self.initial_norm_ = float(np.sqrt(self.progress_.norm2))
        self.progress_.reach = self.progress_.norm2
        if self.progress_.bias is not None:
            self.progress_.reach += float(self.progress_.bias @ self.progress_.bias)

    def _start_from(self, init: Any, d: int) -> None:
        f = init if isinstance(init, Expansion) else getattr(init, "expansion_", None)
        if not isinstance(f, Expansion):
            raise TypeError(f"init must be an Expansion or a fitted estimator with `expansion_`, got {init!r}")
        if f.offset is not None:
            if not self.fit_intercept:
                raise ValueError(
                    "init must be an expansion without an intercept: fit it with fit_intercept=False, or learn one here"
                )
            self.progress_.bias = np.array(f.offset, dtype=np.float64)
        C = f.C if isinstance(f.C, np.ndarray) else f.C.toarray()
        if C.shape[1] != d or f.support.shape[1] != self.support_.X.shape[1]:
            raise ValueError(
                f"init maps {f.support.shape[1]} features to {C.shape[1]} outputs, the data have "
                f"{self.support_.X.shape[1]} and {d}"
            )
        A = np.zeros((len(C), self.support_.A.shape[1], d))
        A[:, 0] = C
        self.support_.append(np.asarray(f.support), A, np.arange(1 - len(C), 1))
        X = self.support_.X
        self.progress_.norm2 = float(np.square(Expansion(self.kernel_, X, C).norm()))
        for start in range(0, len(X) if self.kernel_.norm_bound() is None else 0, self.block_size_):
            norms = self.kernel_.gram(X[start : start + self.block_size_]).block_norms()
            self.kappa2_ = max(self.kappa2_, float(norms.max()))

    # Checks -----------------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        alpha = positive(self.alpha, "alpha", zero=True)
        if not in_interval(self.discount, "discount", 0.0, 1.0) > 0:
            raise ValueError(f"discount must lie in (0, 1], got {self.discount!r}")
        check_int(self.max_support, "max_support")
        if self.fit_intercept and self.average:
            raise ValueError(
                "fit_intercept=True goes with the last iterate, not with average=True: center the outputs, or add a "
                "constant kernel"
            )
        if self.on_invalid not in ("raise", "skip"):
            raise ValueError(f"on_invalid must be 'raise' or 'skip', got {self.on_invalid!r}")
        schedule = as_schedule(self.schedule)
        if isinstance(schedule, DistanceOverGradients):
            schedule.step(0.0, 1.0, 1.0)
        if self._warm_up_rows() and self.init is not None:
            raise ValueError("warm_up must be 0 with init, which is a function in the units of the user")
        truncation = self._truncation()
        if isinstance(truncation, ByAge):
            truncation.size(np.array([1]), self._first_rate(), alpha)
        elif isinstance(truncation, Tolerance):
            truncation.allowed()
            if self.fit_intercept:
                raise ValueError(
                    "truncation=Tolerance() cannot go with fit_intercept=True: no bound is known for a constant that "
                    "does not decay; use a window, or center the outputs"
                )
            if self.average:
                raise ValueError(
                    "truncation=Tolerance() cannot go with average=True: in a mean of all iterates no point loses its "
                    "weight; use a window, or the last iterate (average=False)"
                )

    def _refuse_weights(self) -> None:
        loss = as_loss(self.loss)
        if loss.unsupervised or isinstance(loss, ThresholdLoss):
            raise ValueError(
                f"sample_weight cannot go with loss={loss!r}, whose threshold counts rows: use another loss"
            )

    def _default_warm_up(self) -> int:
        return super()._default_warm_up() if self._of_the_data() else 0

    def _scales_outputs(self) -> bool:
        loss = as_loss(self.loss)
        return not loss.unsupervised and not isinstance(loss, (MarginLoss, SimplexHinge))

    def _check_rates(self, n: int) -> None:
        """Refuse steps that would turn f around."""
        schedule, alpha = as_schedule(self.schedule), float(self.alpha)
        if isinstance(schedule, DistanceOverGradients) or n == 0:
            return
        rates = schedule.rate(self._clock(np.arange(self.t_ + 1, self.t_ + n + 1)))
        if rates.max() * alpha >= 1:
            first = int(np.argmax(rates * alpha >= 1))
            rate = float(rates[first])
            raise ValueError(
                f"eta_t * alpha must stay below 1, but at t = {self.t_ + 1 + first} it is {rate:g} * {alpha:g} = "
                f"{rate * alpha:g}: lower alpha or the schedule's eta, or start the schedule later (start=)"
            )

    def _checked(self, X: Any, y: Any, *, first: bool, whole: bool = False) -> Rows:
        loss = as_loss(self.loss)
        rows = checked_rows(
            self,
            X,
            y,
            outputs=None if first else self.support_.A.shape[2],
            on_invalid=self.on_invalid,
            whole=whole,
            unsupervised=loss.unsupervised,
        )
        loss.check(rows.Y)
        return rows

    @reads_snapshot
    def memory_needed(self, n_rows: int) -> int:
        """Bytes that the support points will take after `n_rows` rows if none is dropped."""
        check_is_fitted(self, "support_")
        numbers: int = self.support_.X.shape[1] + self.support_.A.shape[1] * self.support_.A.shape[2] + 1
        return 8 * n_rows * numbers

    def _check_memory(self, n: int) -> None:
        most = check_int(self.max_support, "max_support")
        if self._truncation() is None and len(self.support_) + n > most:
            need = self.memory_needed(len(self.support_) + n)
            raise ValueError(
                f"without truncation these {n} rows make {len(self.support_) + n} support points "
                f"({need / 1e6:.0f} MB, and as many kernel values for each further row), more than "
                f"max_support={most}: give truncation=Tolerance() or a window, or raise max_support"
            )

    # Dropping old support points --------------------------------------------------------------------------------------

    def _of_the_data(self) -> bool:
        """Whether the user leaves to the data what the learner works with: the algorithm is not that of the paper."""
        return self.init is None and learns_width(self.kernel)

    def _truncation(self) -> Truncation | None:
        if isinstance(self.truncation, str) and self.truncation == "auto":
            return Window(AUTO_WINDOW) if self._of_the_data() else None
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
