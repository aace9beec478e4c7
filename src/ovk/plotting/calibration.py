"""Whether intervals hold what they promise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ovk._validation import Array
from ovk.evaluation import Recent
from ovk.evaluation.recent import LEVELS
from ovk.plotting.display import Display
from ovk.plotting.progressive_error import LINES

MARKERS = "osD^vP*X"


class CalibrationDisplay(Display):
    """Part of the outcomes that intervals of a level held, against the level; on the diagonal they kept their word.

    Parameters
    ----------
    levels : (k,) levels of the intervals
    coverage : (k, d) part of the outcomes within them
    names : names of the outputs

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import Recent
    >>> from ovk.plotting import CalibrationDisplay
    >>> recent = Recent.empty(2)
    >>> for _ in range(3):
    ...     recent.take(np.zeros((50, 2)), np.random.default_rng(0).standard_normal((50, 2)))
    >>> CalibrationDisplay.from_recent(recent, plot=False).coverage.shape
    (4, 2)
    """

    def __init__(self, levels: Array, coverage: Array, names: Sequence[str]) -> None:
        self.levels = levels
        self.coverage = coverage
        self.names = names

    @classmethod
    def from_recent(
        cls, recent: Recent, *, names: Sequence[str] | None = None, ax: Any = None, plot: bool = True
    ) -> Self:
        """The intervals of a stream, tested as it went."""
        d = recent.Y.shape[1]
        display = cls(np.array(LEVELS), recent.coverage, names or [f"y{q}" for q in range(d)])
        return display.plot(ax) if plot else display

    def plot(self, ax: Any = None) -> Self:
        ax = self._axes(ax, (4.6, 3.8))
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=1, zorder=0)
        for q, name in enumerate(self.names[:8]):
            style = LINES[q % len(LINES)]
            ax.plot(
                self.levels, self.coverage[:, q], marker=MARKERS[q % len(MARKERS)], markersize=6, label=name,
                color=style["color"], linestyle=style["linestyle"], linewidth=1.2,
                fillstyle="none" if q >= len(LINES) else "full",
            )  # fmt: skip
        ax.set_xlim(0.4, 1.0)
        ax.set_ylim(min(0.4, float(np.nanmin(self.coverage, initial=0.4)) - 0.02), 1.01)
        ax.set_xlabel("level of the interval")
        ax.set_ylabel("part of the outcomes within")
        ax.set_title("Do intervals keep their word?")
        ax.legend(fontsize=8, loc="lower right")
        return self
