"""The last rows of a stream: what was predicted, what came."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ovk._validation import Array
from ovk.evaluation import Recent
from ovk.plotting.display import Display


class RecentDisplay(Display):
    """Outcomes of the last rows as dots, predictions as a line, their intervals as a band.

    Parameters
    ----------
    outcomes, predictions : (m,)
    width : half width of the intervals
    name : of the output

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import Recent
    >>> from ovk.plotting import RecentDisplay
    >>> recent = Recent.empty(1)
    >>> recent.take(np.zeros((300, 1)), np.ones((300, 1)))
    >>> display = RecentDisplay.from_recent(recent, 0, plot=False)
    >>> len(display.outcomes), display.width
    (150, 1.0)
    """

    def __init__(self, outcomes: Array, predictions: Array, width: float, name: str) -> None:
        self.outcomes = outcomes
        self.predictions = predictions
        self.width = width
        self.name = name

    @classmethod
    def from_recent(
        cls, recent: Recent, output: int, *, name: str | None = None, rows: int = 150, ax: Any = None, plot: bool = True
    ) -> Self:
        """One output of the last `rows` rows, with intervals that hold 90% of what was seen."""
        width = float(recent.widths([0.9])[0, output])
        display = cls(recent.Y[-rows:, output], recent.F[-rows:, output], width, name or f"y{output}")
        return display.plot(ax) if plot else display

    def plot(self, ax: Any = None) -> Self:
        ax = self._axes(ax, (4.6, 3.0))
        t = np.arange(-len(self.outcomes), 0) + 1
        ax.fill_between(
            t, self.predictions - self.width, self.predictions + self.width, color="#56B4E9", alpha=0.35, linewidth=0,
            label="90% interval",
        )  # fmt: skip
        ax.plot(t, self.predictions, color="#0072B2", linewidth=1.5, label="prediction")
        ax.plot(t, self.outcomes, "k.", markersize=3.5, label="outcome")
        ax.set_title(self.name)
        ax.set_xlabel("rows before the end")
        ax.legend(fontsize=7, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.22), frameon=False)
        return self
