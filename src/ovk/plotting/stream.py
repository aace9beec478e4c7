"""Displays of a stream: scores of a model and its baselines, support points, drift, confusion matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ovk.base import Array, check_choice
from ovk.evaluation import DriftResult, ProgressiveResult
from ovk.plotting.display import BLUE, ORANGE, SKY, STYLES, Display, draw_matrix, plain_log_ticks, shortened

#: Means of fewer outcomes are unreliable and not drawn.
MIN_OUTCOMES = 5

#: Maximum number of outputs with separate panels; for more, one panel shows their mean.
MAX_PANELS = 6

ERROR_LABELS = {"mse": "mean squared error", "mae": "mean absolute error"}


class RowCurves(Display):
    """Curves of several learners against the number of rows, in one panel or more; see `ProgressiveErrorDisplay`."""

    rows: npt.NDArray[Any]
    curves: Mapping[str, npt.NDArray[Any]]
    titles: Sequence[str]
    label: str
    alarms: Sequence[int] = ()
    logarithmic: bool = True

    def plot(self, ax: Any = None) -> Self:
        """Draw each panel on its axes, given or new."""
        panels = len(self.titles)
        columns = 2 if panels == 4 else min(panels, 3)
        own = ax is None
        for q, panel in enumerate(self._panels(ax, panels, columns, (1.0, 1.2), (3.6, 2.6))):
            self._draw(panel, q)
            if not own or q % columns == 0:
                panel.set_ylabel(self.label)
            if not own or q + columns >= panels:
                panel.set_xlabel("rows")
        self._legend(above=own, handlelength=3.0, **({"fontsize": 9, "ncols": 2 * columns} if own else {}))
        return self

    def _draw(self, panel: Any, q: int) -> None:
        for k, (name, curves) in enumerate(self.curves.items()):
            # Draw the model, the first curve, on top.
            panel.plot(self.rows, curves[:, q], **STYLES[k % len(STYLES)], label=name, zorder=3 - 0.1 * k)
        for i, row in enumerate(self.alarms):
            panel.axvline(row, color=ORANGE, linewidth=0.9, alpha=0.7, label="alarm" if i == 0 else None, zorder=1)
        if len(self.rows) and self.rows[-1] > 10 * max(int(self.rows[0]), 1):
            panel.set_xscale("log")
            panel.xaxis.set_minor_formatter("")
        panel.xaxis.set_major_formatter("{x:,.0f}")
        values = np.concatenate([curves[:, q] for curves in self.curves.values()])
        values = values[np.isfinite(values)]
        if self.logarithmic and len(values) and values.min() > 0 and values.max() > 10 * values.min():
            panel.set_yscale("log")
            plain_log_ticks(panel.yaxis)
        panel.set_title(shortened(self.titles[q], 44), fontsize=10)
        panel.grid(True, which="major", color="0.9", linewidth=0.6)


class ProgressiveErrorDisplay(RowCurves):
    """Mean error, or accuracy of a classifier, over all rows so far against the number of rows.

    Each output has its panel. Axes are logarithmic if values span more than a factor of ten, except for the accuracy.

    Parameters
    ----------
    rows : (checkpoints,) array
        Number of rows.
    curves : mapping of str to (checkpoints, panels) arrays
        Values of each learner by name, the model first.
    titles : sequence of str
        Title of each panel.
    label : str
        Label of the values.
    alarms : sequence of int
        Rows with drift alarms.
    logarithmic : bool
        Whether values that span more than a factor of ten have a logarithmic axis.

    See Also
    --------
    DriftDisplay, ConfusionDisplay, IntervalDisplay, ovk.progressive

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK
    >>> from ovk.evaluation import progressive
    >>> from ovk.plotting import ProgressiveErrorDisplay
    >>> X = np.linspace(0, 9, 200)[:, None]
    >>> result = progressive(OLOK(), X, np.hstack([np.sin(X), np.cos(X)]))
    >>> display = ProgressiveErrorDisplay.from_result(result, plot=False)
    >>> list(display.curves), display.titles
    (['OLOK', 'last value', 'running mean'], ('y0', 'y1'))
    """

    @classmethod
    def from_result(
        cls,
        result: ProgressiveResult,
        *,
        error: str = "mse",
        outputs: Sequence[int | str] | None = None,
        axes: Any = None,
        plot: bool = True,
    ) -> Self:
        """The curves of a progressive evaluation.

        Parameters
        ----------
        result : ProgressiveResult
            The result of `ovk.evaluation.progressive`.
        error : "mse" or "mae"
            The error to draw for regression.
        outputs : sequence of names or indices, optional
            Outputs to draw; default all, or their mean if there are more than six.
        axes, plot
            Axes to draw on, and whether to draw.
        """
        check_choice(error, "error", ERROR_LABELS)
        if len(result.rows) == 0:
            raise ValueError("the result has no rows to draw")
        if not result.task.numeric:
            shares = {one.name: np.array(one.curve)[:, None] for one in result.learners}
            alarms = () if result.drift is None else result.drift.alarms
            return cls(result.rows, shares, ("",), "accuracy of all rows so far", alarms, False)._drawn(axes, plot)
        names = result.outputs
        if outputs is None:
            chosen = list(range(len(names))) if len(names) <= MAX_PANELS else None
        else:
            listed = [outputs] if isinstance(outputs, (int, str)) else outputs
            chosen = [cls._index(names, output) for output in listed]
        titles = ("mean of all outputs",) if chosen is None else tuple(names[q] for q in chosen)
        errors: dict[str, Array] = {}
        enough = (result.counts >= MIN_OUTCOMES) | (result.counts[-1] < MIN_OUTCOMES)
        for learner in (result.model, *result.baselines):
            curves = np.where(enough, learner.mse_curve if error == "mse" else learner.mae_curve, np.nan)
            name = learner.name if learner.name not in errors else f"{learner.name} ({len(errors)})"
            errors[name] = curves.mean(axis=1, keepdims=True) if chosen is None else curves[:, chosen]
        return cls(result.rows, errors, titles, ERROR_LABELS[error])._drawn(axes, plot)


class SupportDisplay(RowCurves):
    """Number of support points of a learner, or points of its dictionary, against the number of rows.

    Parameters
    ----------
    rows, curves, titles, label, alarms, logarithmic
        As in `ProgressiveErrorDisplay`.

    See Also
    --------
    ProgressiveErrorDisplay, ovk.OLOK

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK, progressive
    >>> from ovk.plotting import SupportDisplay
    >>> X = np.linspace(0, 9, 200)[:, None]
    >>> result = progressive(OLOK(truncation=50), X, np.sin(X))
    >>> SupportDisplay.from_result(result, plot=False).curves["OLOK"][-1]
    array([50])
    """

    @classmethod
    def from_result(cls, result: ProgressiveResult, *, ax: Any = None, plot: bool = True) -> Self:
        """The support points of a model in a progressive evaluation."""
        if result.support_rows is None or result.support_sizes is None:
            raise ValueError(f"{result.model.name} has no support points")
        sizes = {result.model.name: result.support_sizes[:, None]}
        titles = ("Size of the model",)
        return cls(result.support_rows, sizes, titles, "support points", logarithmic=False)._drawn(ax, plot)

    def plot(self, ax: Any = None) -> Self:
        super().plot(ax).ax_.set_ylim(bottom=0)
        return self


#: Maximum number of experts with separate bands, those of the largest weight; the others share one.
MAX_EXPERTS = 6

#: Colours of the bands, by decreasing weight.
BAND_COLOURS = (BLUE, "#E69F00", "#009E73", "#CC79A7", SKY, "#F0E442", "#BBBBBB")


class DriftDisplay(Display):
    """Recent losses with drift alarms; for `AutoStream` also expert weights and effective windows.

    Parameters
    ----------
    drift : DriftResult
        Losses, alarms, weights and windows.
    outputs : tuple of str
        Names of the outputs.
    label : str
        Label of the losses.

    See Also
    --------
    ProgressiveErrorDisplay, ovk.evaluation.DriftResult, ovk.evaluation.PageHinkley

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
        """The drift in a progressive evaluation, on one or three `axes`."""
        if result.drift is None or not len(result.drift.rows):
            raise ValueError("the result has too few rows to show drift")
        # Two classes share one window.
        names = result.names if result.drift.windows.shape[1] == len(result.names) else result.outputs
        return cls(result.drift, names, result.task.error_name)._drawn(axes, plot)

    def plot(self, ax: Any = None) -> Self:
        """Draw each panel on its axes, given or new."""
        drift = self.drift
        panels = 3 if len(drift.experts) and (ax is None or np.size(ax) > 1) else 1
        axes = self._panels(ax, panels, 1, (5.4, 0.6), (0.0, 2.6), sharex=True)
        axes[0].plot(drift.rows, drift.losses, **{**STYLES[0], "linewidth": 1.5})
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
        first, others = order[:MAX_EXPERTS], order[MAX_EXPERTS:]
        bands = [*weights[:, first].T, weights[:, others].sum(axis=1)]
        names = [*(drift.experts[k] for k in first), "others"]
        panel.stackplot(drift.expert_rows[known], bands, labels=names, colors=BAND_COLOURS, linewidth=0)
        panel.set(ylim=(0, 1), ylabel="weights of experts")
        # Below the bands.
        panel.legend(fontsize=7.5, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.03), frameon=False)

    def _draw_windows(self, panel: Any) -> None:
        drift = self.drift
        for q, style in enumerate(STYLES[: drift.windows.shape[1]]):
            name = shortened(self.outputs[q]) if q < len(self.outputs) else f"output {q}"
            panel.plot(drift.expert_rows, drift.windows[:, q], **{**style, "linewidth": 1.4}, label=name)
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter("{x:,.0f}")
        panel.set_ylabel("effective window")
        if drift.windows.shape[1] > 1:
            panel.legend(fontsize=7.5)


#: Maximum number of classes in a confusion matrix, the most frequent ones, and for numbers in its cells.
MAX_CLASSES, MAX_CLASSES_WITH_NUMBERS = 20, 8


class ConfusionDisplay(Display):
    """Confusion matrix of a classifier, as shares of the rows of each class.

    Parameters
    ----------
    confusion : (K, K) array
        Counts by true class (row) and predicted class (column).
    labels : list of str
        Names of the classes.

    See Also
    --------
    ProgressiveErrorDisplay, ovk.progressive

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
        """The counts of the model, for the most frequent classes if there are many."""
        return cls.from_counts(result.model.confusion, result.classes, ax=ax, plot=plot)

    @classmethod
    def from_counts(cls, counts: Array, classes: Any, *, ax: Any = None, plot: bool = True) -> Self:
        """The counts (K, K), for the most frequent classes if there are many."""
        most = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[:MAX_CLASSES])
        return cls(counts[np.ix_(most, most)], [str(classes[k]) for k in most])._drawn(ax, plot)

    def plot(self, ax: Any = None) -> Self:
        ax = self._axes(ax, (4.6, 4.2))
        count = self.confusion.sum(axis=1, keepdims=True)
        shares = np.divide(self.confusion, count, out=np.zeros_like(self.confusion), where=count > 0)
        names = [*map(shortened, self.labels)]
        text = "{:.0%}".format if len(names) <= MAX_CLASSES_WITH_NUMBERS else None
        draw_matrix(ax, shares, names, names, (0.0, 1.0), text, fontsize=8)
        ax.set(xlabel="predicted", ylabel="actual")
        ax.set_title("Share of the rows of each class", fontsize=10)
        return self
