"""Curves and counts of classifiers along a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ovk._types import Array
from ovk.evaluation import ClassificationResult
from ovk.plotting.display import LINES, ORANGE, Display, shortened, write_cells

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
    >>> from ovk import AutoStreamClassifier, progressive_classes
    >>> from ovk.plotting import ClassAccuracyDisplay
    >>> X = np.random.default_rng(0).standard_normal((200, 1))
    >>> result = progressive_classes(AutoStreamClassifier(), X, X[:, 0] > 0)
    >>> list(ClassAccuracyDisplay.from_result(result, plot=False).curves)
    ['AutoStreamClassifier', 'no change', 'majority']
    """

    rows: Any
    curves: dict[str, Array]
    alarms: tuple[int, ...]

    @classmethod
    def from_result(cls, result: ClassificationResult, *, ax: Any = None, plot: bool = True) -> Self:
        """The curves of `ovk.evaluation.progressive_classes`."""
        curves = {one.name: np.array(one.curve) for one in (result.model, *result.baselines)}
        display = cls(result.rows, curves, result.drift.alarms)
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
    >>> from ovk import AutoStreamClassifier, progressive_classes
    >>> from ovk.plotting import ConfusionDisplay
    >>> X = np.random.default_rng(0).standard_normal((200, 1))
    >>> result = progressive_classes(AutoStreamClassifier(), X, X[:, 0] > 0)
    >>> ConfusionDisplay.from_result(result, plot=False).labels
    ['False', 'True']
    """

    confusion: Array
    labels: list[str]

    @classmethod
    def from_result(cls, result: ClassificationResult, *, ax: Any = None, plot: bool = True) -> Self:
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
