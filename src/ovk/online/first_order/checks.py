"""What a first-order learner refuses: parameters, rows, steps and numbers of points that make no sense."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ovk._params import check_int, in_interval, positive
from ovk._transactions import reads
from ovk.losses import SimplexHinge, as_loss
from ovk.losses.margin import MarginLoss
from ovk.losses.thresholds import ThresholdLoss
from ovk.online.first_order.dropping import Dropping
from ovk.online.first_order.truncation import ByAge, Tolerance
from ovk.online.shared.rows import Rows, checked_rows
from ovk.schedules import DistanceOverGradients, as_schedule


class FirstOrderChecks(Dropping, saved=False):
    """A first-order learner that looks at its parameters and rows before it learns."""

    on_invalid: str

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

    @reads
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
