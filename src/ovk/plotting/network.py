"""Networks of variables that act on each other."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ovk._validation import Array
from ovk.batch import Network
from ovk.plotting.display import Display


class NetworkDisplay(Display):
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

    def __init__(self, network: Network, truth: Array | None = None) -> None:
        self.network = network
        self.truth = truth

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

    def plot(self, ax: Any = None) -> Self:
        from matplotlib.patches import FancyArrowPatch

        d = len(self.network.names)
        ax = self._axes(ax, (5.2, 5.0))
        angles = np.pi / 2 - 2 * np.pi * np.arange(d) / d
        places = np.column_stack([np.cos(angles), np.sin(angles)]) if d > 1 else np.zeros((1, 2))
        for i, j, strength in self.arrows():
            right = self.truth is None or self.truth[i, j] != 0
            represses = self.network.signs[i, j] < 0
            ax.add_patch(
                FancyArrowPatch(
                    places[i],
                    places[j],
                    connectionstyle="arc3,rad=0.12",
                    arrowstyle="|-|,widthA=0,widthB=0.35" if represses else "-|>",
                    mutation_scale=11,
                    shrinkA=13,
                    shrinkB=13,
                    linewidth=0.7 + 1.8 * strength,
                    linestyle="-" if right else (0, (4, 2)),
                    color=str(round(0.62 * (1 - strength), 3)),
                )
            )
        for (x, y), name in zip(places, self.network.names, strict=True):
            ax.text(
                x,
                y,
                name,
                ha="center",
                va="center",
                fontsize=9,
                bbox={"boxstyle": "circle,pad=0.35", "facecolor": "#DCEBF5", "edgecolor": "#0072B2"},
            )
        ax.set_xlim(-1.25, 1.25)
        ax.set_ylim(-1.25, 1.25)
        ax.set_aspect("equal")
        ax.set_axis_off()
        ax.set_title("Which variables act on which")
        if self.truth is not None:
            ax.text(0.0, -1.25, "dashed: not in the truth", ha="center", va="bottom", fontsize=8)
        return self
