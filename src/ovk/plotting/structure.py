"""Displays of the correlation of outputs, and of the networks and series of `OKVAR`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform
from sklearn.utils.validation import check_is_fitted

from ovk.base import Array, in_interval
from ovk.batch import Network
from ovk.plotting.display import BLUE, ORANGE, Display, draw_matrix, shortened

#: Maximum number of rows of a matrix with numbers in its cells, and with signs.
MAX_ROWS_WITH_NUMBERS, MAX_ROWS_WITH_SIGNS = 12, 20


class OutputStructureDisplay(Display):
    """The correlations between outputs in a model's output operator, as a matrix.

    Parameters
    ----------
    correlation : (d, d) array
        Correlations of the outputs.
    names : sequence of str, optional
        Names of the outputs.

    See Also
    --------
    OutputGraphDisplay

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OVKRidge
    >>> from ovk.kernels import Gaussian
    >>> from ovk.operators import MixedEffect
    >>> from ovk.plotting import OutputStructureDisplay
    >>> model = OVKRidge(Gaussian() * MixedEffect(0.5)).fit(np.eye(3), np.eye(3))
    >>> OutputStructureDisplay.from_estimator(model, plot=False).correlation
    array([[1. , 0.5, 0.5],
           [0.5, 1. , 0.5],
           [0.5, 0.5, 1. ]])
    """

    correlation: Array
    names: Sequence[str] | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, plot: bool = True, **options: Any) -> Self:
        """The prior correlation of outputs at one point: K(x, x) of the fitted kernel, scaled to a unit diagonal.

        `options` are `names` and, for `OutputGraphDisplay`, `threshold`.
        """
        check_is_fitted(estimator)
        blocks = estimator.kernel_.diagonal_blocks(estimator.X_fit_[:100]).mean(axis=0)
        names = cls._names_of(estimator, options.pop("names", None))
        return cls.from_matrix(blocks, names=names, ax=ax, plot=plot, **options)

    @classmethod
    def from_matrix(cls, matrix: Array, *, ax: Any = None, plot: bool = True, **options: Any) -> Self:
        """The correlations of a covariance matrix (d, d); `options` as in `from_estimator`."""
        scale = np.sqrt(np.maximum(np.diagonal(matrix), 1e-300))
        return cls(matrix / np.outer(scale, scale), **options)._drawn(ax, plot)

    @property
    def labels(self) -> list[str]:
        """Short names of the outputs, default their numbers."""
        if self.names is None:
            return [str(q) for q in range(len(self.correlation))]
        return [shortened(name, 18) for name in self.names]

    def plot(self, ax: Any = None) -> Self:
        d = len(self.correlation)
        ax = self._axes(ax, (1.6 + 0.45 * max(d, 4), 1.2 + 0.4 * max(d, 4)))
        text = "{:.2f}".format if d <= MAX_ROWS_WITH_NUMBERS else None
        draw_matrix(ax, self.correlation, self.labels, self.labels, (-1.0, 1.0), text, bar="correlation")
        ax.set_title("Correlation of the outputs")
        return self


#: Line style for negative correlations, and for edges that are not in the true network.
DASHED = (0, (4, 2))


def circle(order: Sequence[int]) -> Array:
    """Places (d, 2) of nodes on the unit circle, in this order clockwise from the top."""
    angle = np.empty(len(order))
    angle[order] = np.pi / 2 - 2 * np.pi * np.arange(len(order)) / len(order)
    return np.column_stack([np.cos(angle), np.sin(angle)])


def _draw_nodes(ax: Any, places: Array, names: Sequence[str], title: str) -> None:
    """Draw nodes on a circle with their names outside, leaving space for a line of text below."""
    ax.scatter(*places.T, s=90, color="white", edgecolor="black", linewidth=1.2, zorder=2)
    for (x, y), name in zip(places, names, strict=True):
        side = "center" if abs(x) < 0.3 else ("left" if x > 0 else "right")
        level = "center" if abs(x) >= 0.3 else ("bottom" if y > 0 else "top")
        ax.text(1.2 * x, 1.2 * y, name, ha=side, va=level, fontsize=9)
    ax.set(xlim=(-1.8, 1.8), ylim=(-1.5, 1.35), aspect="equal")
    ax.set_axis_off()
    ax.set_title(title, fontsize=11)


class OutputGraphDisplay(OutputStructureDisplay):
    """The correlations between outputs in a model's output operator, as a graph.

    Solid blue lines are positive correlations, dashed orange lines negative ones; wider lines are stronger. Correlated
    outputs are neighbours on a circle.

    Parameters
    ----------
    correlation : (d, d) array
        Correlations of the outputs.
    names : sequence of str, optional
        Names of the outputs.
    threshold : float in [0, 1]
        Smallest absolute correlation that is drawn.

    See Also
    --------
    OutputStructureDisplay, NetworkDisplay

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.plotting import OutputGraphDisplay
    >>> T = np.array([[2.0, 1.8, 0.0], [1.8, 2.0, 0.1], [0.0, 0.1, 1.0]])
    >>> OutputGraphDisplay.from_matrix(T, plot=False).edges
    [(0, 1, 0.9)]
    """

    threshold: float = 0.2

    @property
    def edges(self) -> list[tuple[int, int, float]]:
        """Connected pairs of outputs, with their correlation."""
        limit = in_interval(self.threshold, "threshold", 0.0, 1.0)
        rows, columns = np.nonzero(np.triu(np.abs(self.correlation) >= limit, 1))
        return [(int(i), int(j), round(float(self.correlation[i, j]), 12)) for i, j in zip(rows, columns, strict=True)]

    def positions(self) -> Array:
        """Places (d, 2) of the outputs on the unit circle."""
        d = len(self.correlation)
        if d <= 2:
            return circle(range(d))
        distance = np.clip(1.0 - np.abs(self.correlation), 0.0, None)
        distance = 0.5 * (distance + distance.T)
        np.fill_diagonal(distance, 0.0)
        tree = linkage(squareform(distance, checks=False), "average", optimal_ordering=True)
        return circle(leaves_list(tree))

    def plot(self, ax: Any = None) -> Self:
        ax = self._axes(ax, (5.5, 4.9))
        places = self.positions()
        # Draw the strongest on top.
        for i, j, value in sorted(self.edges, key=lambda edge: abs(edge[2])):
            style = {"color": BLUE, "linestyle": "-"} if value > 0 else {"color": ORANGE, "linestyle": DASHED}
            width, alpha = 0.5 + 4.5 * abs(value), 0.25 + 0.7 * abs(value)
            ax.plot(*places[[i, j]].T, **style, linewidth=width, alpha=alpha, solid_capstyle="round", zorder=1)
        title = f"Correlated outputs\n(|correlation| >= {self.threshold:g})"
        _draw_nodes(ax, places, self.labels, title)
        ax.plot([], [], color=BLUE, linewidth=3, label="same sign")
        ax.plot([], [], color=ORANGE, linewidth=3, linestyle=DASHED, label="opposite sign")
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, -0.05), ncols=2, frameon=False, handlelength=3)
        return self


class NetworkDisplay(Display):
    """The chosen edges of a network as arrows between nodes on a circle.

    Stronger edges are darker and wider. Arrows end in a head for activation and in a bar for repression. Edges that are
    not in `truth` are dashed.

    Parameters
    ----------
    network : ovk.batch.Network
        The network.
    truth : (d, d) array, optional
        Nonzero in row i, column j where i acts on j.

    See Also
    --------
    JacobianDisplay, SeriesDisplay, ovk.OKVAR

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.batch import Network
    >>> from ovk.plotting import NetworkDisplay
    >>> scores = np.array([[0.0, 0.9], [0.1, 0.0]])
    >>> network = Network(scores, scores > 0.5, np.sign(scores), ("a", "b"))
    >>> NetworkDisplay(network).arrows()
    [(0, 1, 1.0)]
    """

    network: Network
    truth: Array | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, truth: Array | None = None, ax: Any = None, plot: bool = True, **options: Any
    ) -> Self:
        """The network of a fitted `OKVAR`; `options` are those of its `network`, default two edges per variable."""
        if not options.keys() & {"threshold", "top_k", "fdr"}:
            options["top_k"] = 2 * len(estimator.mean_)
        return cls(estimator.network(**options), truth)._drawn(ax, plot)

    def arrows(self) -> list[tuple[int, int, float]]:
        """(from, to, strength in (0, 1]) of the chosen edges, the weakest first."""
        places = np.argwhere(self.network.chosen)
        strength = self.network.scores[tuple(places.T)]
        strength = strength / strength.max() if len(places) and strength.max() > 0 else strength
        order = np.argsort(strength, kind="stable")
        return [(int(places[k][0]), int(places[k][1]), float(strength[k])) for k in order]

    def plot(self, ax: Any = None) -> Self:
        from matplotlib.patches import FancyArrowPatch

        ax = self._axes(ax, (5.5, 4.9))
        # Places depend only on the order of the variables, so that networks can be compared.
        places = circle(range(len(self.network.names)))
        for i, j, strength in self.arrows():
            true = self.truth is None or self.truth[i, j] != 0
            represses = self.network.signs[i, j] < 0
            arrow = FancyArrowPatch(
                places[i], places[j], connectionstyle="arc3,rad=0.12", mutation_scale=11, shrinkA=7, shrinkB=8,
                arrowstyle="|-|,widthA=0,widthB=0.45" if represses else "-|>", linestyle="-" if true else DASHED,
                linewidth=0.7 + 1.8 * strength, color=str(round(0.62 * (1 - strength), 3)),
            )  # fmt: skip
            ax.add_patch(arrow)
        names = [shortened(name, 18) for name in self.network.names]
        _draw_nodes(ax, places, names, "Inferred network")
        if self.truth is not None:
            ax.text(0.0, -1.5, "dashed: not in the true network", ha="center", va="bottom", fontsize=8)
        return self


class JacobianDisplay(Display):
    """The mean Jacobian of a fitted `OKVAR`, as a matrix.

    Parameters
    ----------
    jacobian : (d, d) array
        In row i, column j the mean derivative of the dynamics of variable i with respect to variable j.
    names : sequence of str
        Names of the variables.

    See Also
    --------
    NetworkDisplay, SeriesDisplay, ovk.OKVAR

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OKVAR
    >>> from ovk.plotting import JacobianDisplay
    >>> t = np.linspace(0, 9, 60)
    >>> model = OKVAR().fit(np.column_stack([np.sin(t), np.cos(t)]))
    >>> JacobianDisplay.from_estimator(model, plot=False).jacobian.round(1)
    array([[ 0.7,  0.1],
           [-0.1,  0.7]])
    """

    jacobian: Array
    names: Sequence[str]

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any = None, *, lag: int = 1, ax: Any = None, plot: bool = True) -> Self:
        """The mean over the rows of X, default the training points, with respect to the state `lag` steps before."""
        check_is_fitted(estimator)
        d = len(estimator.mean_)
        if not 1 <= lag <= estimator.lag:
            raise ValueError(f"lag must be from 1 to {estimator.lag}, the lag of the model, got {lag}")
        mean = estimator.jacobian(X).mean(axis=0)[:, (lag - 1) * d : lag * d]
        return cls(mean, estimator.names_)._drawn(ax, plot)

    def plot(self, ax: Any = None) -> Self:
        d = len(self.jacobian)
        ax = self._axes(ax, (1.8 + 0.42 * max(d, 5), 1.3 + 0.38 * max(d, 5)))
        most = max(float(np.abs(self.jacobian).max()), 1e-300)
        digits = max(0, 1 - int(np.floor(np.log10(most))))

        def text(value: float) -> str:
            if d <= MAX_ROWS_WITH_NUMBERS:
                return f"{value:.{digits}f}"
            return "+" if value > 0.1 * most else "-" if value < -0.1 * most else ""

        write = text if d <= MAX_ROWS_WITH_SIGNS else None
        draw_matrix(ax, self.jacobian, self.names, self.names, (-most, most), write, bar="mean derivative")
        ax.set(xlabel="acting", ylabel="acted on", title="Mean Jacobian")
        return self


class SeriesDisplay(Display):
    """Observed time series and their predictions one step ahead.

    Parameters
    ----------
    times : (n,) array
        Times of the observations.
    observed, predicted : (n, d) arrays
        Observations, and predictions from the previous step.
    names : sequence of str
        Names of the variables.

    See Also
    --------
    NetworkDisplay, JacobianDisplay, ovk.OKVAR

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OKVAR
    >>> from ovk.plotting import SeriesDisplay
    >>> t = np.linspace(0, 9, 60)
    >>> display = SeriesDisplay.from_estimator(OKVAR().fit(np.sin(t)[:, None]), plot=False)
    >>> display.observed[-3:, 0].round(1), display.predicted[-3:, 0].round(1)
    (array([0.7, 0.5, 0.4]), array([0.8, 0.7, 0.6]))
    """

    times: Array
    observed: Array
    predicted: Array
    names: Sequence[str]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        series: int = 0,
        *,
        variables: Sequence[int] | None = None,
        axes: Any = None,
        plot: bool = True,
    ) -> Self:
        """A training series, default the first; `variables` are indices, default the first twelve."""
        check_is_fitted(estimator)
        if not -len(estimator.series_) <= series < len(estimator.series_):
            raise ValueError(f"series must be an index below {len(estimator.series_)}, got {series}")
        one = estimator.series_[series]
        shown = list(range(min(one.values.shape[1], 12))) if variables is None else list(variables)
        ahead = np.full(one.values.shape, np.nan)
        ahead[1:] = estimator.dynamics_.predict(one)[:-1]
        names = estimator.names_
        return cls(one.times, one.values[:, shown], ahead[:, shown], [names[q] for q in shown])._drawn(axes, plot)

    def plot(self, ax: Any = None) -> Self:
        """Draw each variable in its panel."""
        d = self.observed.shape[1]
        for q, panel in enumerate(self._panels(ax, d, min(d, 3), (1.0, 0.9), (2.6, 1.6), sharex=True)):
            panel.plot(self.times, self.observed[:, q], "k.", markersize=4, label="observed")
            panel.plot(self.times, self.predicted[:, q], color=BLUE, label="one step ahead")
            panel.set_title(self.names[q], fontsize=9)
            panel.tick_params(labelbottom=True, labelsize=8)
        self.axes_[-1].set_xlabel("time")
        self._legend(above=True, ncols=2, fontsize=10)
        return self
