"""A refit whose work is split over the rows that follow it, so that no row takes long."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from ovk.online.experts.expert_set import ExpertSet, Steps

# The costs of the steps of a refit depend only on the rows before it, not on the sizes of chunks. Each row has a budget
# of `ROW_BUDGET`, so the experts are fitted at the first row r with r `ROW_BUDGET` > the sum of the costs. The r rows
# since the start are then learned, `CATCH_UP_ROWS` at every further row, until the experts have learned all rows and
# replace the present ones.

#: Budget of each row for the steps of a refit, in multiplications, and rows learned at each further row.
ROW_BUDGET, CATCH_UP_ROWS = 5e7, 16


class Refit:
    """New experts, fitted in steps.

    The result depends only on the rows before the refit, so copies of a mixture share this object, and files do not
    contain it: after loading, the refit restarts, and the next row repeats the earlier steps.
    """

    def __init__(self, start: Callable[[], Steps[ExpertSet]]) -> None:
        self._start, self._lock = start, Lock()
        self._restart()

    def _restart(self) -> None:
        self._steps, self._spent = self._start(), 0.0
        #: The fitted experts, and the number of rows until they are.
        self.experts: ExpertSet | None = None
        self.rows = 0

    def advance(self, rows: int) -> None:
        """Run the steps within the budget of the first `rows` rows."""
        with self._lock:
            try:
                while self.experts is None and self._spent < rows * ROW_BUDGET:
                    self._spent += next(self._steps)
            except StopIteration as stop:
                self.experts, self.rows = stop.value, int(self._spent // ROW_BUDGET) + 1
            except BaseException:
                # A generator that was interrupted cannot continue.
                self._restart()
                raise

    @property
    def last_row(self) -> int:
        """The number of rows after which the experts have learned them all."""
        return self.rows + -(-self.rows // (CATCH_UP_ROWS - 1))

    def to_learn(self, learned: int, rows: int) -> int:
        """How many rows the experts learn at once, after `learned` of `rows` rows; 0 if none."""
        if self.experts is None:
            return 0
        return max(0, min(CATCH_UP_ROWS * (rows - self.rows), rows) - learned)
