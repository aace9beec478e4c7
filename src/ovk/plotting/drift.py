"""What a drift changes along a stream: losses of late with alarms, experts, and how far back they look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ovk.base import Array
from ovk.evaluation import DriftResult, ProgressiveResult
from ovk.plotting.display import BLUE, LINES, ORANGE, SKY, Display, shortened, write_cells

#: Most experts with a band of their own, those that weigh most; the others are one band.
SHOWN = 6


#: Most outputs whose effective windows are drawn.
OUTPUTS = len(LINES)

#: Colours of the bands, from the expert that weighs most.
BANDS = (BLUE, "#E69F00", "#009E73", "#CC79A7", SKY, "#F0E442", "#BBBBBB")


@dataclass(eq=False, repr=False)
class DriftDisplay(Display):
    """Recent losses with alarms; for `AutoStream` also the weights of the experts and the effective window.

    Parameters
    ----------
    drift : what was noted along the stream
    outputs : names of the outputs
    label : which loss it is

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import AutoStream, progressive
    >>> from ovk.plotting import DriftDisplay
    >>> X = np.random.default_rng(0).standard_normal((600, 1))
    >>> result = progressive(AutoStream(), X, np.sin(3 * X[:, 0]))
    >>> display = DriftDisplay.from_result(result, plot=False)
    >>> display.drift.rows[:3], display.drift.windows.shape
    (array([ 64, 128, 192]), (9, 1))
    """

    drift: DriftResult
    outputs: tuple[str, ...]
    label: str

    @classmethod
    def from_result(cls, result: ProgressiveResult, *, axes: Any = None, plot: bool = True) -> Self:
        """What `progressive` has noted.

        Parameters
        ----------
        axes : matplotlib axes, one for the losses alone, or three for a learner of experts; optional
        plot : draw now, or only hold the numbers
        """
        if result.drift is None or not len(result.drift.rows):
            raise ValueError("the result has too few rows to show a drift: go through a longer stream")
        names = result.names if result.drift.windows.shape[1] == len(result.names) else ("label",)
        display = cls(result.drift, result.outputs if result.task.numeric else names, result.task.error_name)
        return display.plot(axes) if plot else display

    def plot(self, ax: Any = None) -> Self:
        """Draw each panel on its own axes, given or new."""
        drift = self.drift
        panels = 3 if len(drift.experts) and (ax is None or np.size(ax) > 1) else 1
        axes = self._panels(ax, panels, 1, (5.4, 0.6), (0.0, 2.6), sharex=True)
        axes[0].plot(drift.rows, drift.losses, **{**LINES[0], "linewidth": 1.5})
        for i, row in enumerate(drift.alarms):
            axes[0].axvline(row, color=ORANGE, linestyle="--", linewidth=1.1, label="alarm" if i == 0 else None)
        if drift.alarms:
            axes[0].legend(fontsize=8, loc="upper left")
        axes[0].set_ylim(bottom=0)
        axes[0].set_ylabel(self.label)
        if panels == 3:
            self._draw_experts(axes[1])
            self._draw_windows(axes[2])
        for panel in axes:
            panel.grid(True, color="0.9", linewidth=0.6)
        axes[-1].set_xlabel("rows")
        axes[-1].xaxis.set_major_formatter("{x:,.0f}")
        axes[-1].locator_params(axis="x", nbins=6)
        return self

    def _draw_experts(self, panel: Any) -> None:
        drift = self.drift
        known = np.isfinite(drift.weights).all(axis=1)
        weights = drift.weights[known]
        order = np.argsort(-weights.sum(axis=0))
        first, others = order[:SHOWN], order[SHOWN:]
        bands = [*weights[:, first].T, weights[:, others].sum(axis=1)]
        names = [*(drift.experts[k] for k in first), "others"]
        panel.stackplot(drift.expert_rows[known], bands, labels=names, colors=BANDS, linewidth=0)
        panel.set_ylim(0, 1)
        panel.set_ylabel("weights of experts")
        # Below, where there is no band to hide.
        panel.legend(fontsize=7.5, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.03), frameon=False)

    def _draw_windows(self, panel: Any) -> None:
        drift = self.drift
        d = drift.windows.shape[1]
        for q in range(min(d, OUTPUTS)):
            name = shortened(self.outputs[q]) if q < len(self.outputs) else f"output {q}"
            panel.plot(drift.expert_rows, drift.windows[:, q], **{**LINES[q], "linewidth": 1.4}, label=name)
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter("{x:,.0f}")
        panel.set_ylabel("effective window")
        if d > 1:
            panel.legend(fontsize=7.5)


# Curves and counts of classifiers along a stream.

#: Most classes of a confusion matrix, those that came most; and most that have numbers in the cells.
CLASSES, WRITTEN = 20, 8


@dataclass(eq=False, repr=False)
class ClassAccuracyDisplay(Display):
    """Accuracy over all rows so far, beside the baselines, with the alarms of drift.

    Parameters
    ----------
    rows : (checkpoints,) numbers of rows
    curves : name of each learner, the model first, with its (checkpoints,) accuracy
    alarms : rows of the alarms

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import AutoStreamClassifier, progressive
    >>> from ovk.plotting import ClassAccuracyDisplay
    >>> X = np.random.default_rng(0).standard_normal((200, 1))
    >>> result = progressive(AutoStreamClassifier(), X, X[:, 0] > 0)
    >>> list(ClassAccuracyDisplay.from_result(result, plot=False).curves)
    ['AutoStreamClassifier', 'no change', 'majority']
    """

    rows: Any
    curves: dict[str, Array]
    alarms: tuple[int, ...]

    @classmethod
    def from_result(cls, result: ProgressiveResult, *, ax: Any = None, plot: bool = True) -> Self:
        """The curves of `progressive` of a classifier."""
        curves = {one.name: np.array(one.curve) for one in (result.model, *result.baselines)}
        display = cls(result.rows, curves, () if result.drift is None else result.drift.alarms)
        return display.plot(ax) if plot else display

    def plot(self, ax: Any = None) -> Self:
        ax = self._axes(ax, (5.0, 3.8))
        for k, (name, curve) in enumerate(self.curves.items()):
            ax.plot(self.rows, curve, **LINES[k], label=name, zorder=3 - 0.1 * k)
        for i, row in enumerate(self.alarms):
            ax.axvline(row, color=ORANGE, linewidth=0.9, alpha=0.7, label="alarm" if i == 0 else None, zorder=1)
        if len(self.rows) and self.rows[-1] > 10 * self.rows[0]:
            ax.set_xscale("log")
            ax.xaxis.set_minor_formatter("")
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.set_xlabel("rows")
        ax.set_ylabel("accuracy of all rows so far")
        ax.grid(True, which="major", color="0.9", linewidth=0.6)
        ax.legend(fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.18), frameon=False, handlelength=3.0)
        return self


@dataclass(eq=False, repr=False)
class ConfusionDisplay(Display):
    """How often each class was predicted as each, as shares of its rows.

    Parameters
    ----------
    confusion : (K, K) counts, a row for each class that came
    labels : names of the classes

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import AutoStreamClassifier, progressive
    >>> from ovk.plotting import ConfusionDisplay
    >>> X = np.random.default_rng(0).standard_normal((200, 1))
    >>> result = progressive(AutoStreamClassifier(), X, X[:, 0] > 0)
    >>> ConfusionDisplay.from_result(result, plot=False).labels
    ['False', 'True']
    """

    confusion: Array
    labels: list[str]

    @classmethod
    def from_result(cls, result: ProgressiveResult, *, ax: Any = None, plot: bool = True) -> Self:
        """The counts of the model, of the classes that came most if there are many."""
        return cls.from_counts(result.model.confusion, result.classes, ax=ax, plot=plot)

    @classmethod
    def from_counts(cls, counts: Array, classes: Any, *, ax: Any = None, plot: bool = True) -> Self:
        """Counts (K, K) of all classes, of those that came most if there are many."""
        most = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[:CLASSES])
        display = cls(counts[np.ix_(most, most)], [str(classes[k]) for k in most])
        return display.plot(ax) if plot else display

    def plot(self, ax: Any = None) -> Self:
        ax = self._axes(ax, (4.6, 4.2))
        came = self.confusion.sum(axis=1, keepdims=True)
        shares = np.divide(self.confusion, came, out=np.zeros_like(self.confusion), where=came > 0)
        ax.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
        if len(self.labels) <= WRITTEN:
            write_cells(ax, shares, "{:.0%}".format, 1.0)
        places = range(len(self.labels))
        ax.set_xticks(places, [*map(shortened, self.labels)], rotation=45, ha="right", fontsize=8)
        ax.set_yticks(places, [*map(shortened, self.labels)], fontsize=8)
        ax.set_xlabel("predicted")
        ax.set_ylabel("came")
        ax.set_title("Share of the rows of each class", fontsize=10)
        return self
