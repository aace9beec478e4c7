"""Outcomes against predictions, for rows without an order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ovk._types import Array
from ovk.evaluation import Recent
from ovk.evaluation.conformal.rolling import LEVEL
from ovk.plotting.display import BLUE, Display, draw_band, shortened


@dataclass(eq=False, repr=False)
class ObservedDisplay(Display):
    """Outcomes of rows that were not learned against their predictions: on the diagonal both agree.

    Parameters
    ----------
    outcomes, predictions : (m,)
    half : half width of the interval around a prediction, infinite where it is not known
    name : of the output
    level : coverage of the interval

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import Recent
    >>> from ovk.plotting import ObservedDisplay
    >>> recent = Recent.empty(1)
    >>> _ = recent.update(np.zeros((300, 1)), np.ones((300, 1)))
    >>> display = ObservedDisplay.from_recent(recent, 0, plot=False)
    >>> len(display.outcomes), display.half
    (300, 1.0)
    """

    outcomes: Array
    predictions: Array
    half: float
    name: str
    level: float = LEVEL

    @classmethod
    def from_recent(
        cls, recent: Recent, output: int, *, name: str | None = None, ax: Any = None, plot: bool = True
    ) -> Self:
        """One output of all rows that are remembered, with the interval that new rows get."""
        half = float(recent.widths(recent.level)[output])
        display = cls(recent.Y[:, output], recent.F[:, output], half, name or f"y{output}", recent.level)
        return display.plot(ax) if plot else display

    def plot(self, ax: Any = None) -> Self:
        ax = self._axes(ax, (4.6, 3.4))
        known = np.isfinite(self.outcomes) & np.isfinite(self.predictions)
        y, f = self.outcomes[known], self.predictions[known]
        if len(y):
            ends = np.array([min(y.min(), f.min()), max(y.max(), f.max())])
            if np.isfinite(self.half):
                draw_band(ax, ends, ends, np.full(2, self.half), f"{self.level:.0%} interval")
            ax.plot(ends, ends, color="0.5", linewidth=1, zorder=0)
        ax.plot(f, y, ".", color=BLUE, markersize=4, label="row")
        ax.set_title(shortened(self.name, 44), fontsize=10)
        ax.locator_params(axis="x", nbins=5)
        ax.set_xlabel("prediction")
        ax.set_ylabel("outcome")
        ax.legend(fontsize=7, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False)
        return self
