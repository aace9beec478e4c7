"""Outputs as a graph: who goes with whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ovk._validation import Array
from ovk.plotting.display import Display

#: Least correlation that gets an edge.
WEAKEST = 0.2

#: Most outputs on one circle.
MOST = 40


class TaskGraphDisplay(Display):
    """Outputs on a circle, joined where they are correlated: solid if they move together, dashed if against each other.

    Parameters
    ----------
    correlation : (d, d)
    names : names of the outputs

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.plotting import TaskGraphDisplay
    >>> display = TaskGraphDisplay(np.array([[1.0, -0.6, 0.1], [-0.6, 1.0, 0.0], [0.1, 0.0, 1.0]]), ["a", "b", "c"])
    >>> display.edges()
    [(0, 1, -0.6)]
    """

    def __init__(self, correlation: Array, names: Sequence[str]) -> None:
        self.correlation = correlation
        self.names = names

    def edges(self) -> list[tuple[int, int, float]]:
        """Pairs of outputs with a correlation worth showing."""
        d = min(len(self.names), MOST)
        pairs = ((i, j, float(self.correlation[i, j])) for i in range(d) for j in range(i + 1, d))
        return [pair for pair in pairs if abs(pair[2]) >= WEAKEST]

    def plot(self, ax: Any = None) -> Self:
        ax = self._axes(ax, (4.6, 3.8))
        d = min(len(self.names), MOST)
        angles = np.pi / 2 - 2 * np.pi * np.arange(d) / max(d, 1)
        x, y = np.cos(angles), np.sin(angles)
        for i, j, strength in sorted(self.edges(), key=lambda edge: abs(edge[2])):
            ax.plot(
                x[[i, j]], y[[i, j]], color="#0072B2" if strength > 0 else "#D55E00",
                linestyle="-" if strength > 0 else (0, (4, 2)), linewidth=0.5 + 4.5 * abs(strength),
                alpha=0.25 + 0.7 * abs(strength), zorder=1, solid_capstyle="round",
            )  # fmt: skip
        ax.scatter(x, y, s=90, color="white", edgecolors="black", linewidths=1.5, zorder=2)
        for q in range(d):
            side = "center" if abs(x[q]) < 0.3 else "left" if x[q] > 0 else "right"
            up = "center" if abs(x[q]) >= 0.3 else "bottom" if y[q] > 0 else "top"
            ax.text(1.13 * x[q], 1.13 * y[q], self.names[q], ha=side, va=up, fontsize=8)
        ax.set_xlim(-2.1, 2.1)
        ax.set_ylim(-1.4, 1.4)
        ax.set_axis_off()
        ax.set_title(f"Correlations of at least {WEAKEST:g} (dashed: against each other)", fontsize=10)
        return self
