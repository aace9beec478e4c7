"""Errors along a stream, beside those of baselines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ovk._validation import Array
from ovk.evaluation import ProgressiveResult
from ovk.plotting.display import Display, pyplot

#: Line styles and colours (Okabe and Ito's), told apart in grey as well as by eyes that mix up red and green.
LINES: tuple[dict[str, Any], ...] = (
    {"color": "#0072B2", "linestyle": "-", "linewidth": 2.2},
    {"color": "#D55E00", "linestyle": "--", "linewidth": 1.5},
    {"color": "#000000", "linestyle": ":", "linewidth": 1.8},
    {"color": "#009E73", "linestyle": "-.", "linewidth": 1.5},
    {"color": "#CC79A7", "linestyle": (0, (8, 2, 1, 2, 1, 2)), "linewidth": 1.5},
    {"color": "#E69F00", "linestyle": (0, (6, 1)), "linewidth": 1.2},
    {"color": "#56B4E9", "linestyle": (0, (1, 1)), "linewidth": 2.2},
    {"color": "#666666", "linestyle": "-", "linewidth": 0.9},
)

#: Means of fewer outcomes are not drawn: they say nothing, and would stretch the axes.
FEWEST = 5

#: Most outputs that get axes of their own; of more, their mean is shown.
PANELS = 6

LABELS = {"mse": "mean squared error", "mae": "mean absolute error"}


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

    def __init__(
        self,
        rows: npt.NDArray[np.int64],
        errors: dict[str, Array],
        titles: Sequence[str],
        label: str = LABELS["mse"],
    ) -> None:
        self.rows = rows
        self.errors = errors
        self.titles = titles
        self.label = label

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
        result : what `ovk.evaluation.progressive` returned
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
        if own:
            lines = -(-panels // columns)
            size = (1.0 + 3.6 * columns, 1.2 + 2.6 * lines)
            _, ax = pyplot().subplots(lines, columns, figsize=size, layout="constrained", squeeze=False)
            for unused in ax.reshape(-1)[panels:]:
                unused.remove()
        self.axes_ = np.atleast_1d(np.asarray(ax, dtype=object)).reshape(-1)[:panels]
        if len(self.axes_) < panels:
            raise ValueError(f"axes must hold one for each of the {panels} panels, got {len(self.axes_)}")
        self.ax_, self.figure_ = self.axes_[0], self.axes_[0].figure
        for q, panel in enumerate(self.axes_):
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
        panel.xaxis.set_major_formatter("{x:,.0f}")
        panel.xaxis.set_minor_formatter("")
        panel.set_title(self.titles[q], fontsize=10)
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
