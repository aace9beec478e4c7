"""Base class of the displays, and functions for axes and matrices that several displays share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Self, dataclass_transform

import numpy as np

from ovk._extras import required
from ovk.base import Array, NamedOutputs

#: Okabe and Ito's colours for predictions, for bands around them, and for contrast.
BLUE, SKY, ORANGE = "#0072B2", "#56B4E9", "#D55E00"

#: Lines that can be distinguished in greyscale and by the colour-blind.
STYLES: tuple[dict[str, Any], ...] = (
    {"color": BLUE, "linestyle": "-", "linewidth": 2.2},
    {"color": ORANGE, "linestyle": "--", "linewidth": 1.5},
    {"color": "#000000", "linestyle": ":", "linewidth": 1.8},
    {"color": "#009E73", "linestyle": "-.", "linewidth": 1.5},
    {"color": "#CC79A7", "linestyle": (0, (8, 2, 1, 2, 1, 2)), "linewidth": 1.5},
    {"color": "#E69F00", "linestyle": (0, (6, 1)), "linewidth": 1.2},
    {"color": SKY, "linestyle": (0, (1, 1)), "linewidth": 2.2},
    {"color": "#666666", "linestyle": "-", "linewidth": 0.9},
)


Size = tuple[float, float]


def pyplot() -> Any:
    """matplotlib.pyplot, or an error that names the package to install."""
    with required("plots", "plot"):
        import matplotlib.pyplot as plt
    return plt


def check_figure_path(path: Path) -> None:
    """Raise an error for a path to which matplotlib cannot write."""
    known = pyplot().figure().canvas.get_supported_filetypes()
    pyplot().close()
    if path.suffix.lower().lstrip(".") not in known:
        raise ValueError(f"{path} must end in .png, .svg or .pdf")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"the directory {path.absolute().parent} does not exist")


def save_figure(display: Display, path: Path) -> None:
    """Write the figure of a display and close it; the SVG has no date, so equal figures have equal bytes."""
    dated = {"metadata": {"Date": None}} if path.suffix.lower() == ".svg" else {}
    display.figure_.savefig(path, dpi=150, **dated)
    pyplot().close(display.figure_)


def plain_log_ticks(axis: Any) -> None:
    """Tick labels such as 0.02 instead of 2 x 10^-2 on a logarithmic axis that spans less than three decades."""
    from matplotlib import ticker

    low, high = axis.get_view_interval()
    if low > 0 and high < 1e3 * low:
        axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(ticker.NullFormatter())


def shortened(name: str, most: int = 28) -> str:
    """The name, of which only the beginning and the end are shown if it is longer than `most` characters."""
    short = name if len(name) <= most else f"{name[: most // 2]}...{name[-(most - most // 2 - 3) :]}"
    # matplotlib parses text between two dollars as a formula.
    return short.replace("$", r"\$")


def date_axis(ax: Any) -> None:
    """A few dates on the horizontal axis, and their common day, days or years as its offset text."""
    from matplotlib import dates

    plain: Any = dates
    locator = plain.AutoDateLocator(minticks=3, maxticks=7)

    class Dates(plain.ConciseDateFormatter):
        # The offset text of the base class describes only the last tick.
        _common = ""

        def format_ticks(self, values: Any) -> list[str]:
            labels: list[str] = super().format_ticks(values)
            hours = any(":" in label for label in labels)
            form = "%d %b %Y" if hours else "" if all(label.isdecimal() for label in labels) else "%Y"
            ends = [plain.num2date(value).strftime(form) for value in (*values[:1], *values[-1:])]
            self._common = " to ".join(dict.fromkeys(ends))
            # Each month appears once: 30 Apr, 01 May, 02.
            months = [label.split()[-1] if label[-1:].isalpha() else "" for label in ["", *labels]]
            repeated = [bool(one) and one == before and not hours for before, one in pairwise(months)]
            return [label.split()[0] if again else label for label, again in zip(labels, repeated, strict=True)]

        def get_offset(self) -> str:
            return self._common

    ax.xaxis.set_major_locator(locator)
    days = "%d %b"
    formats = ["%Y", "%b", days, "%H:%M", "%H:%M", "%S.%f"]
    ax.xaxis.set_major_formatter(Dates(locator, formats=formats, zero_formats=["", "%Y", days, days, "%H:%M", "%H:%M"]))


@dataclass_transform(eq_default=False)
class Display(ABC):
    """A plot in the style of scikit-learn. Every subclass is a dataclass whose fields are the numbers shown.

    Class methods compute the numbers and draw them on `ax` (`axes` for several panels) or on a new figure; with
    `plot=False` they do not draw. After `plot`, `figure_` and `ax_` are matplotlib's objects.
    """

    figure_: Any
    ax_: Any
    axes_: Any

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(eq=False, repr=False)(cls)

    @abstractmethod
    def plot(self, ax: Any = None) -> Self:
        """Draw on `ax`, or on a new figure."""

    def _drawn(self, ax: Any, plot: bool) -> Self:
        return self.plot(ax) if plot else self

    def _axes(self, ax: Any, size: Size = (5.0, 4.0)) -> Any:
        if ax is None:
            _, ax = pyplot().subplots(figsize=size, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    def _panels(self, axes: Any, n: int, columns: int, margin: Size, panel: Size, **shared: bool) -> Any:
        """(n,) axes, given or on a new figure; the size is `margin` plus `panel` (width, height) times the layout."""
        if axes is None:
            lines = -(-n // columns)
            size = (margin[0] + panel[0] * columns, margin[1] + panel[1] * lines)
            _, axes = pyplot().subplots(lines, columns, figsize=size, layout="constrained", squeeze=False, **shared)
            for unused in axes.reshape(-1)[n:]:
                unused.set_visible(False)
        self.axes_ = np.atleast_1d(np.asarray(axes, dtype=object)).reshape(-1)[:n]
        if len(self.axes_) < n:
            raise ValueError(f"axes must have one for each of the {n} panels, got {len(self.axes_)}")
        self.ax_, self.figure_ = self.axes_[0], self.axes_[0].figure
        return self.axes_

    def _legend(self, *, above: bool, **style: Any) -> None:
        """One legend for all panels: above them, or in the first one."""
        entries: dict[str, Any] = {}
        for panel in self.axes_:
            entries |= dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
        place = {"loc": "outside upper center", "frameon": False} if above else {}
        owner = self.figure_ if above else self.ax_
        owner.legend(entries.values(), entries.keys(), **{"fontsize": 8, **place, **style})

    @staticmethod
    def _names_of(estimator: Any, names: Sequence[str] | None) -> Sequence[str] | None:
        """The given names of the outputs, or those of the estimator; None if there are neither."""
        if names is None and isinstance(estimator, NamedOutputs) and estimator.output_frame_ is not None:
            return estimator.output_names_
        return names

    @staticmethod
    def _index(names: Sequence[str], output: int | str) -> int:
        number = names.index(output) if isinstance(output, str) and output in names else output
        if not isinstance(number, int) or not -len(names) <= number < len(names):
            raise ValueError(f"output must be the name or index of one of {', '.join(names)}, got {output!r}")
        return number % len(names)


def draw_band(ax: Any, x: Any, middle: Array, half: Array, label: str) -> None:
    ax.fill_between(x, middle - half, middle + half, color=SKY, alpha=0.35, linewidth=0, label=label)


def draw_matrix(
    ax: Any,
    values: Array,
    rows: Sequence[str],
    columns: Sequence[str],
    limits: tuple[float, float],
    text: Callable[[float], str] | None = None,
    *,
    bar: str | None = None,
    fontsize: float | None = None,
    **style: Any,
) -> None:
    """Draw a matrix with names of rows and columns, `text` in its cells, and a colour bar with the label `bar`."""
    low, high = limits
    # Both colour maps suit the colour-blind.
    image = ax.imshow(values, vmin=low, vmax=high, cmap="RdBu" if low < 0 else "Blues", **style)
    wide = any(len(name) > 2 for name in columns)
    turned: dict[str, Any] = {"rotation": 45, "ha": "right"} if wide else {}
    ax.set_xticks(range(len(columns)), columns, **turned, fontsize=fontsize)
    ax.set_yticks(range(len(rows)), rows, fontsize=fontsize)
    for (i, j), value in np.ndenumerate(values):
        if text is not None and np.isfinite(value):
            color = "white" if abs(value) > 0.6 * high else "black"
            ax.text(j, i, text(value), ha="center", va="center", fontsize=8 if len(values) < 10 else 7, color=color)
    if bar is not None:
        ax.figure.colorbar(image, ax=ax, label=bar, shrink=0.8)


def time_axis(ax: Any, times: Any, otherwise: str) -> None:
    """Format the axis for dates or numbers; its label is `otherwise` if there are no times."""
    if times is not None and times.dtype.kind == "M":
        date_axis(ax)
    else:
        ax.set_xlabel(otherwise if times is None else "time")
