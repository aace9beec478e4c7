"""What predictions missed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ovk._validation import Array
from ovk.evaluation import Recent
from ovk.plotting.display import Display


class ResidualDisplay(Display):
    """Errors of the last predictions, outcome less prediction over the outcome's deviation: median, quartiles, tails.

    Parameters
    ----------
    residuals : a (m,) array for each output, without gaps
    names : names of the outputs

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import Recent
    >>> from ovk.plotting import ResidualDisplay
    >>> recent = Recent.empty(1)
    >>> recent.take(np.zeros((3, 1)), np.array([[1.0], [np.nan], [-1.0]]))
    >>> ResidualDisplay.from_recent(recent, plot=False).residuals
    [array([ 1., -1.])]
    """

    def __init__(self, residuals: list[Array], names: Sequence[str]) -> None:
        self.residuals = residuals
        self.names = names

    @classmethod
    def from_recent(
        cls, recent: Recent, *, names: Sequence[str] | None = None, ax: Any = None, plot: bool = True
    ) -> Self:
        """The errors that a stream remembers."""
        residuals = []
        for y, f in zip(recent.Y.T, recent.F.T, strict=True):
            known = np.isfinite(y) & np.isfinite(f)
            spread = float(y[known].std()) if known.any() else 1.0
            residuals.append((y - f)[known] / (spread if spread > 0 else 1.0))
        display = cls(residuals, names or [f"y{q}" for q in range(len(residuals))])
        return display.plot(ax) if plot else display

    def plot(self, ax: Any = None) -> Self:
        d = min(len(self.names), 30)
        ax = self._axes(ax, (4.6, 1.4 + 0.38 * d))
        line = {"color": "black", "linewidth": 1.0}
        ax.boxplot(
            [r if len(r) else np.array([np.nan]) for r in self.residuals[:d][::-1]],
            orientation="horizontal", widths=0.6, whis=(1, 99), patch_artist=True, medianprops={**line, "linewidth": 2},
            boxprops={"facecolor": "#56B4E9", **line}, whiskerprops=line, capprops=line,
            flierprops={"marker": ".", "markersize": 2, "markeredgecolor": "0.4"},
        )  # fmt: skip
        ax.set_yticks(range(1, d + 1), list(self.names[:d])[::-1], fontsize=8)
        ax.axvline(0, color="0.5", linewidth=1, zorder=0)
        ax.set_xlabel("error, in deviations of the outcome")
        ax.set_title("What the last predictions missed")
        return self
