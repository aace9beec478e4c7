"""Which outputs go together, as a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from ovk._validation import Array, in_interval
from ovk.plotting.display import Display
from ovk.plotting.output_structure import OutputStructureDisplay

POSITIVE, NEGATIVE = "#0072b2", "#d55e00"


class OutputGraphDisplay(Display):
    """An output operator as a graph of tasks: a line for every two that go together, the wider the more.

    Tasks that move together are joined by a solid blue line, tasks that move against each other by a dashed orange one.
    They stand on a circle, those that go together side by side.

    Parameters
    ----------
    correlation : (d, d)
    names : names of the outputs, optional
    threshold : float in [0, 1]
        Correlations below this (in size) are not drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.plotting import OutputGraphDisplay
    >>> T = np.array([[2.0, 1.8, 0.0], [1.8, 2.0, 0.1], [0.0, 0.1, 1.0]])
    >>> OutputGraphDisplay.from_matrix(T, plot=False).edges
    [(0, 1, 0.9)]
    """

    def __init__(self, correlation: Array, names: Sequence[str] | None = None, threshold: float = 0.2) -> None:
        self.correlation = correlation
        self.names = names
        self.threshold = threshold

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        names: Sequence[str] | None = None,
        threshold: float = 0.2,
        ax: Any = None,
        plot: bool = True,
    ) -> Self:
        """The prior correlation of outputs of a fitted model, as `OutputStructureDisplay` shows it."""
        correlation = OutputStructureDisplay.from_estimator(estimator, plot=False).correlation
        display = cls(correlation, names, threshold)
        return display.plot(ax) if plot else display

    @classmethod
    def from_matrix(
        cls,
        matrix: Array,
        *,
        names: Sequence[str] | None = None,
        threshold: float = 0.2,
        ax: Any = None,
        plot: bool = True,
    ) -> Self:
        """The same for a covariance matrix."""
        correlation = OutputStructureDisplay.from_matrix(matrix, plot=False).correlation
        display = cls(correlation, names, threshold)
        return display.plot(ax) if plot else display

    @property
    def edges(self) -> list[tuple[int, int, float]]:
        """Pairs of outputs that are joined, with their correlation."""
        limit = in_interval(self.threshold, "threshold", 0.0, 1.0)
        rows, columns = np.nonzero(np.triu(np.abs(self.correlation) >= limit, 1))
        return [(int(i), int(j), round(float(self.correlation[i, j]), 12)) for i, j in zip(rows, columns, strict=True)]

    def positions(self) -> Array:
        """Places on the unit circle, (d, 2), in an order that puts outputs that go together side by side."""
        d = len(self.correlation)
        order = np.arange(d)
        if d > 2:
            distance = np.clip(1.0 - np.abs(self.correlation), 0.0, None)
            distance = 0.5 * (distance + distance.T)
            np.fill_diagonal(distance, 0.0)
            order = leaves_list(linkage(squareform(distance, checks=False), "average", optimal_ordering=True))
        angle = np.empty(d)
        angle[order] = np.pi / 2 - 2 * np.pi * np.arange(d) / d
        return np.column_stack([np.cos(angle), np.sin(angle)])

    def plot(self, ax: Any = None) -> Self:
        ax = self._axes(ax, (5.5, 5.5))
        place = self.positions()
        # The strongest last, on top.
        for i, j, value in sorted(self.edges, key=lambda edge: abs(edge[2])):
            strength = abs(value)
            ax.plot(
                *place[[i, j]].T,
                color=POSITIVE if value > 0 else NEGATIVE,
                linestyle="-" if value > 0 else (0, (4, 2)),
                linewidth=0.5 + 4.5 * strength,
                alpha=0.25 + 0.7 * strength,
                solid_capstyle="round",
                zorder=1,
            )
        ax.scatter(*place.T, s=90, color="white", edgecolor="black", linewidth=1.2, zorder=2)
        labels = [str(q) for q in range(len(place))] if self.names is None else list(self.names)
        for (x, y), label in zip(place, labels, strict=True):
            side = "center" if abs(x) < 0.3 else ("left" if x > 0 else "right")
            ax.text(1.1 * x, 1.1 * y, label, ha=side, va="center" if abs(y) < 0.9 else ("bottom" if y > 0 else "top"))
        ax.plot([], [], color=POSITIVE, linewidth=3, label="together")
        ax.plot([], [], color=NEGATIVE, linewidth=3, linestyle=(0, (4, 2)), label="against each other")
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, -0.08), ncols=2, frameon=False, handlelength=3)
        ax.set_xlim(-1.5, 1.5)
        ax.set_ylim(-1.5, 1.35)
        ax.set_aspect("equal")
        ax.set_axis_off()
        ax.set_title(f"Which outputs go together (correlations from {self.threshold:g})")
        return self
