"""Curves along a stream: errors beside those of baselines, the size of the model, and regret."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ovk.base import Array
from ovk.evaluation import ProgressiveResult, Regret
from ovk.plotting.display import BLUE, LINES, Display, plain_log_ticks, shortened

#: Means of fewer outcomes are not drawn: they say nothing, and would stretch the axes.
FEWEST = 5

#: Most outputs that get axes of their own; of more, their mean is shown.
PANELS = 6

LABELS = {"mse": "mean squared error", "mae": "mean absolute error"}


@dataclass(eq=False, repr=False)
class ProgressiveErrorDisplay(Display):
    """Mean error of all predictions so far against the number of rows, axes for each output.

    Axes are logarithmic where the numbers span more than a factor of ten.

    Parameters
    ----------
    rows : (checkpoints,) numbers of rows
    errors : name of each learner, the model first, with its curves (checkpoints, panels)
    titles : what each panel shows
    label : which error it is

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK
    >>> from ovk.evaluation import progressive
    >>> from ovk.plotting import ProgressiveErrorDisplay
    >>> X = np.linspace(0, 9, 200)[:, None]
    >>> result = progressive(OLOK(), X, np.hstack([np.sin(X), np.cos(X)]))
    >>> display = ProgressiveErrorDisplay.from_result(result, plot=False)
    >>> list(display.errors), display.titles
    (['OLOK', 'last value', 'running mean'], ('y0', 'y1'))
    """

    rows: npt.NDArray[np.int64]
    errors: dict[str, Array]
    titles: Sequence[str]
    label: str = LABELS["mse"]

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
        result : what `ovk.evaluation.progressive_evaluation` returned
        error : "mse" or "mae"
        outputs : names or numbers of the outputs to show; default all, or their mean if there are more than six
        axes : matplotlib axes, as many as outputs, optional
        plot : draw now, or only hold the numbers
        """
        if error not in LABELS:
            raise ValueError(f"error must be 'mse' or 'mae', got {error!r}")
        if len(result.rows) == 0:
            raise ValueError("the result holds no errors, since its stream had no rows: there is nothing to draw")
        chosen = _chosen(result.outputs, outputs)
        titles = ("mean of all outputs",) if chosen is None else tuple(result.outputs[q] for q in chosen)
        errors: dict[str, Array] = {}
        enough = (result.counts >= FEWEST) | (result.counts[-1] < FEWEST)
        for learner in (result.model, *result.baselines):
            curves = np.where(enough, learner.mse_curve if error == "mse" else learner.mae_curve, np.nan)
            name = learner.name if learner.name not in errors else f"{learner.name} ({len(errors)})"
            errors[name] = curves.mean(axis=1, keepdims=True) if chosen is None else curves[:, chosen]
        display = cls(result.rows, errors, titles, LABELS[error])
        return display.plot(axes) if plot else display

    def plot(self, ax: Any = None) -> Self:
        """Draw each panel on its own axes, given or new."""
        panels = len(self.titles)
        columns = 2 if panels == 4 else min(panels, 3)
        own = ax is None
        for q, panel in enumerate(self._panels(ax, panels, columns, (1.0, 1.2), (3.6, 2.6))):
            self._draw(panel, q)
            if not own or q % columns == 0:
                panel.set_ylabel(self.label)
            if not own or q + columns >= panels:
                panel.set_xlabel("rows")
        if own:
            # Above the axes, where there is no curve to hide.
            self.figure_.legend(
                *self.ax_.get_legend_handles_labels(),
                fontsize=9,
                loc="outside upper center",
                ncols=2 * columns,
                frameon=False,
                handlelength=3.0,
            )
        else:
            self.ax_.legend(fontsize=8, handlelength=3.0)
        return self

    def _draw(self, panel: Any, q: int) -> None:
        for k, (name, curves) in enumerate(self.errors.items()):
            # Later curves lie below: the model's own is never hidden.
            panel.plot(self.rows, curves[:, q], **LINES[k % len(LINES)], label=name, zorder=3 - 0.1 * k)
        panel.set_xscale(_scale(self.rows))
        panel.set_yscale(_scale(np.concatenate([curves[:, q] for curves in self.errors.values()])))
        if panel.get_yscale() == "log":
            plain_log_ticks(panel.yaxis)
        panel.xaxis.set_major_formatter("{x:,.0f}")
        panel.xaxis.set_minor_formatter("")
        panel.set_title(shortened(self.titles[q], 44), fontsize=10)
        panel.grid(True, which="major", color="0.9", linewidth=0.6)


def _chosen(names: tuple[str, ...], outputs: Sequence[int | str] | None) -> list[int] | None:
    """Numbers of the outputs to draw, or None for the mean of all."""
    if outputs is None:
        return list(range(len(names))) if len(names) <= PANELS else None
    outputs = [outputs] if isinstance(outputs, (int, str)) else list(outputs)
    for output in outputs:
        if not (output in names if isinstance(output, str) else -len(names) <= output < len(names)):
            raise ValueError(f"outputs must hold names or numbers of {', '.join(names)}, got {output!r}")
    return [names.index(output) if isinstance(output, str) else output % len(names) for output in outputs]


def _scale(values: Any) -> str:
    values = values[np.isfinite(values)]
    wide = len(values) > 0 and values.min() > 0 and values.max() > 10 * values.min()
    return "log" if wide else "linear"


@dataclass(eq=False, repr=False)
class SupportDisplay(Display):
    """Number of support points (or of the points of a dictionary) against the number of rows.

    Parameters
    ----------
    rows, sizes : (k,) points after so many rows

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK, progressive
    >>> from ovk.plotting import SupportDisplay
    >>> X = np.linspace(0, 9, 200)[:, None]
    >>> result = progressive(OLOK(truncation=50), X, np.sin(X))
    >>> SupportDisplay.from_result(result, plot=False).sizes[-1]
    np.int64(50)
    """

    rows: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]

    @classmethod
    def from_result(cls, result: ProgressiveResult, *, ax: Any = None, plot: bool = True) -> Self:
        """The growth along a progressive evaluation."""
        if result.support_rows is None or result.support_sizes is None:
            raise ValueError(f"{result.model.name} keeps no support points: there is no growth to draw")
        display = cls(result.support_rows, result.support_sizes)
        return display.plot(ax) if plot else display

    def plot(self, ax: Any = None) -> Self:
        ax = self._axes(ax, (5.0, 3.4))
        ax.plot(self.rows, self.sizes, color=BLUE, marker=".", linewidth=1.8)
        if len(self.rows) and self.rows[-1] > 10 * max(int(self.rows[0]), 1):
            ax.set_xscale("log")
            ax.xaxis.set_minor_formatter("")
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.set_ylim(bottom=0)
        ax.set_xlabel("rows")
        ax.set_ylabel("support points")
        ax.set_title("How large the model grew")
        return self


@dataclass(eq=False, repr=False)
class RegretDisplay(Display):
    """Regret against the number of rows: flat where the learner does as well as the best fixed function.

    Parameters
    ----------
    rows : (checkpoints,)
    curve, regularised : (checkpoints,) regret against the comparator's loss, and against its loss plus its penalty

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK, OVKRidge, progressive
    >>> from ovk.evaluation import regret
    >>> from ovk.plotting import RegretDisplay
    >>> X = np.linspace(0, 9, 200)[:, None]
    >>> found = regret(progressive(OLOK(), X, np.sin(X), keep="all"), OVKRidge())
    >>> RegretDisplay.from_regret(found, plot=False).curve.shape == found.rows.shape
    True
    """

    rows: npt.NDArray[np.int64]
    curve: Array
    regularised: Array

    @classmethod
    def from_regret(cls, found: Regret, *, ax: Any = None, plot: bool = True) -> Self:
        """The curves of `ovk.evaluation.regret`."""
        display = cls(found.rows, found.curve, found.regularised_curve)
        return display.plot(ax) if plot else display

    def plot(self, ax: Any = None) -> Self:
        ax = self._axes(ax)
        ax.axhline(0, color="0.6", linewidth=1)
        ax.plot(self.rows, self.curve, **LINES[0], label="against its loss")
        ax.plot(self.rows, self.regularised, **LINES[1], label="against loss and penalty")
        if self.rows[-1] > 10 * self.rows[0]:
            ax.set_xscale("log")
        ax.set_xlabel("rows")
        ax.set_ylabel("regret")
        ax.set_title("Regret against the best function in hindsight")
        ax.legend(fontsize=8)
        return self
