"""Graphs on a circle: outputs that go together, and variables that act on each other."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from ovk._params import in_interval
from ovk._types import Array
from ovk.batch import Network
from ovk.plotting.display import BLUE, ORANGE, Display, shortened
from ovk.plotting.output_structure import OutputStructureDisplay

POSITIVE, NEGATIVE = BLUE, ORANGE
DASHES = (0, (4, 2))


class GraphDisplay(Display):
    """Nodes on a circle with their names outside of it, and lines between them."""

    @abstractmethod
    def _order(self) -> Sequence[int]:
        """The nodes from the top of the circle on, clockwise."""

    def positions(self) -> Array:
        """Places of the nodes on the unit circle, (d, 2)."""
        order = self._order()
        angle = np.empty(len(order))
        angle[order] = np.pi / 2 - 2 * np.pi * np.arange(len(order)) / len(order)
        return np.column_stack([np.cos(angle), np.sin(angle)])

    def _draw_nodes(self, ax: Any, names: Sequence[str], title: str) -> None:
        """Dots and names on axes without a frame; a line of notes fits below."""
        places = self.positions()
        ax.scatter(*places.T, s=90, color="white", edgecolor="black", linewidth=1.2, zorder=2)
        for (x, y), name in zip(places, (shortened(name, 18) for name in names), strict=True):
            side = "center" if abs(x) < 0.3 else ("left" if x > 0 else "right")
            level = "center" if abs(x) >= 0.3 else ("bottom" if y > 0 else "top")
            ax.text(1.2 * x, 1.2 * y, name, ha=side, va=level, fontsize=9)
        ax.set_xlim(-1.8, 1.8)
        ax.set_ylim(-1.5, 1.35)
        ax.set_aspect("equal")
        ax.set_axis_off()
        ax.set_title(title, fontsize=11)


@dataclass(eq=False, repr=False)
class OutputGraphDisplay(GraphDisplay):
    """An output operator as a graph of tasks: a line for every two that go together, the wider the more.

    Positively correlated tasks are joined by a solid blue line, negatively correlated ones by a dashed orange one.
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

    correlation: Array
    names: Sequence[str] | None = None
    threshold: float = 0.2

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, plot: bool = True, **options: Any) -> Self:
        """The prior correlation of outputs of a fitted model; `options` are `names` and `threshold`."""
        found = OutputStructureDisplay.from_estimator(estimator, plot=False)
        display = cls(found.correlation, **{"names": found.names, **options})
        return display.plot(ax) if plot else display

    @classmethod
    def from_matrix(cls, matrix: Array, *, ax: Any = None, plot: bool = True, **options: Any) -> Self:
        """The correlations of a covariance matrix (d, d)."""
        display = cls(OutputStructureDisplay.from_matrix(matrix, plot=False).correlation, **options)
        return display.plot(ax) if plot else display

    @property
    def edges(self) -> list[tuple[int, int, float]]:
        """Pairs of outputs that are joined, with their correlation."""
        limit = in_interval(self.threshold, "threshold", 0.0, 1.0)
        rows, columns = np.nonzero(np.triu(np.abs(self.correlation) >= limit, 1))
        return [(int(i), int(j), round(float(self.correlation[i, j]), 12)) for i, j in zip(rows, columns, strict=True)]

    def _order(self) -> Sequence[int]:
        d = len(self.correlation)
        if d <= 2:
            return range(d)
        # Outputs that go together stand side by side.
        distance = np.clip(1.0 - np.abs(self.correlation), 0.0, None)
        distance = 0.5 * (distance + distance.T)
        np.fill_diagonal(distance, 0.0)
        tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=True)
        order: list[int] = leaves_list(tree).tolist()
        return order

    def plot(self, ax: Any = None) -> Self:
        ax = self._axes(ax, (5.5, 4.9))
        places = self.positions()
        # The strongest last, on top.
        for i, j, value in sorted(self.edges, key=lambda edge: abs(edge[2])):
            ax.plot(
                *places[[i, j]].T,
                color=POSITIVE if value > 0 else NEGATIVE,
                linestyle="-" if value > 0 else DASHES,
                linewidth=0.5 + 4.5 * abs(value),
                alpha=0.25 + 0.7 * abs(value),
                solid_capstyle="round",
                zorder=1,
            )
        names = [str(q) for q in range(len(places))] if self.names is None else list(self.names)
        self._draw_nodes(ax, names, f"Which outputs go together\n(|correlation| >= {self.threshold:g})")
        ax.plot([], [], color=POSITIVE, linewidth=3, label="same sign")
        ax.plot([], [], color=NEGATIVE, linewidth=3, linestyle=DASHES, label="opposite sign")
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, -0.05), ncols=2, frameon=False, handlelength=3)
        return self


@dataclass(eq=False, repr=False)
class NetworkDisplay(GraphDisplay):
    """The chosen edges of a network as arrows on a circle, the stronger the darker and the wider.

    An arrow with a head activates, one with a bar represses; both have a head where the sign is not known. With the
    truth given, edges that it does not hold are dashed.

    Parameters
    ----------
    network : `ovk.batch.Network`
    truth : (d, d), optional
        Nonzero in row i, column j where i acts on j.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.batch import Network
    >>> from ovk.plotting import NetworkDisplay
    >>> scores = np.array([[0.0, 0.9], [0.1, 0.0]])
    >>> network = Network(scores, scores > 0.5, np.sign(scores), ("a", "b"))
    >>> len(NetworkDisplay(network).arrows())
    1
    """

    network: Network
    truth: Array | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, truth: Array | None = None, ax: Any = None, plot: bool = True, **options: Any
    ) -> Self:
        """The network of a fitted `OKVAR`; `options` are those of its `network`, two edges a variable by default."""
        if not options.keys() & {"threshold", "top_k", "fdr"}:
            options["top_k"] = 2 * len(estimator.mean_)
        display = cls(estimator.network(**options), truth)
        return display.plot(ax) if plot else display

    def arrows(self) -> list[tuple[int, int, float]]:
        """(from, to, strength in (0, 1]) of the chosen edges, the weakest first: the strong ones lie on top."""
        places = np.argwhere(self.network.chosen)
        strength = self.network.scores[tuple(places.T)]
        strength = strength / strength.max() if len(places) and strength.max() > 0 else strength
        order = np.argsort(strength, kind="stable")
        return [(int(places[k][0]), int(places[k][1]), float(strength[k])) for k in order]

    def _order(self) -> Sequence[int]:
        # As they were given: networks of the same variables can be compared.
        return range(len(self.network.names))

    def plot(self, ax: Any = None) -> Self:
        from matplotlib.patches import FancyArrowPatch

        ax = self._axes(ax, (5.5, 4.9))
        places = self.positions()
        for i, j, strength in self.arrows():
            right = self.truth is None or self.truth[i, j] != 0
            represses = self.network.signs[i, j] < 0
            ax.add_patch(
                FancyArrowPatch(
                    places[i],
                    places[j],
                    connectionstyle="arc3,rad=0.12",
                    arrowstyle="|-|,widthA=0,widthB=0.45" if represses else "-|>",
                    mutation_scale=11,
                    shrinkA=7,
                    shrinkB=8,
                    linewidth=0.7 + 1.8 * strength,
                    linestyle="-" if right else DASHES,
                    color=str(round(0.62 * (1 - strength), 3)),
                )
            )
        self._draw_nodes(ax, self.network.names, "Which variables act on which")
        if self.truth is not None:
            ax.text(0.0, -1.5, "dashed: not in the truth", ha="center", va="bottom", fontsize=8)
        return self
