"""Which columns a model uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from ovk.plotting.display import SKY, Display, shortened

#: Most columns that are shown.
SHOWN = 20


@dataclass(eq=False, repr=False)
class RelevanceDisplay(Display):
    """How much each column matters to the predictions, as bars, the most relevant on top.

    Parameters
    ----------
    relevance : by name of a column, in standard deviations of the outputs

    Examples
    --------
    >>> from ovk.plotting import RelevanceDisplay
    >>> display = RelevanceDisplay({"temperature": 0.8, "wind": 0.1}).plot()
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['wind', 'temperature']
    """

    relevance: Mapping[str, float]

    def plot(self, ax: Any = None) -> Self:
        shown = sorted(self.relevance.items(), key=lambda pair: -pair[1])[:SHOWN][::-1]
        ax = self._axes(ax, (4.6, 1.2 + 0.27 * len(shown)))
        ax.barh(range(len(shown)), [value for _, value in shown], color=SKY, edgecolor="black", linewidth=0.8)
        ax.set_yticks(range(len(shown)), [shortened(name, 22) for name, _ in shown], fontsize=8)
        ax.set_xlabel("change / standard deviation\nof the output", fontsize=8)
        more = f"\n(first {SHOWN} of {len(self.relevance)})" if len(self.relevance) > SHOWN else ""
        ax.set_title(f"Relevance of the inputs{more}", fontsize=10)
        return self
