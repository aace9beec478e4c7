"""The base of all plots: compute first, draw when asked; and what several plots draw alike."""

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

#: Okabe and Ito's colours for what is predicted, for bands around it, and for what is set against it.
BLUE, SKY, ORANGE = "#0072B2", "#56B4E9", "#D55E00"

#: Lines that can be distinguished in greyscale and by the colour-blind.
LINES: tuple[dict[str, Any], ...] = (
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
    """matplotlib.pyplot, or a message that says what to install."""
    with required("plots", "plot"):
        import matplotlib.pyplot as plt
    return plt


def check_picture(path: Path) -> None:
    """Refuse the name of a picture that cannot be written, before anything is drawn."""
    known = pyplot().figure().canvas.get_supported_filetypes()
    pyplot().close()
    if path.suffix.lower().lstrip(".") not in known:
        raise ValueError(f"{path} must end in .png, .svg or .pdf")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"the directory {path.absolute().parent} does not exist")


def save_picture(display: Display, path: Path) -> None:
    """Write what a display has drawn, and forget the figure; the same numbers make the same SVG."""
    dated = {"metadata": {"Date": None}} if path.suffix.lower() == ".svg" else {}
    display.figure_.savefig(path, dpi=150, **dated)
    pyplot().close(display.figure_)


def plain_log_ticks(axis: Any) -> None:
    """Numbers such as 0.02 and 0.05 at the ticks of a logarithmic axis, not 2 x 10^-2, where it spans few decades."""
    from matplotlib import ticker

    low, high = axis.get_view_interval()
    if low > 0 and high < 1e3 * low:
        axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(ticker.NullFormatter())


def shortened(name: str, most: int = 28) -> str:
    """A name that fits beside an axis: a long one keeps its beginning and its end."""
    short = name if len(name) <= most else f"{name[: most // 2]}...{name[-(most - most // 2 - 3) :]}"
    # Between two dollars matplotlib would read a formula, and may fail.
    return short.replace("$", r"\$")


def date_axis(ax: Any) -> None:
    """Few dates on the horizontal axis, and beside it what they have in common: the day or days, or the years."""
    from matplotlib import dates

    plain: Any = dates
    locator = plain.AutoDateLocator(minticks=3, maxticks=7)

    class Dates(plain.ConciseDateFormatter):
        """matplotlib's formatter would tell the last tick's month or day of all of them."""

        _common = ""

        def format_ticks(self, values: Any) -> list[str]:
            labels: list[str] = super().format_ticks(values)
            hours = any(":" in label for label in labels)
            form = "%d %b %Y" if hours else "" if all(label.isdecimal() for label in labels) else "%Y"
            ends = [plain.num2date(value).strftime(form) for value in (*values[:1], *values[-1:])]
            self._common = " to ".join(dict.fromkeys(ends))
            # A month is told once: 30 Apr, 01 May, 02.
            months = [label.split()[-1] if label[-1:].isalpha() else "" for label in ["", *labels]]
            told = [bool(one) and one == before and not hours for before, one in pairwise(months)]
            return [label.split()[0] if known else label for label, known in zip(labels, told, strict=True)]

        def get_offset(self) -> str:
            return self._common

    ax.xaxis.set_major_locator(locator)
    days = "%d %b"
    formats = ["%Y", "%b", days, "%H:%M", "%H:%M", "%S.%f"]
    ax.xaxis.set_major_formatter(Dates(locator, formats=formats, zero_formats=["", "%Y", days, days, "%H:%M", "%H:%M"]))


@dataclass_transform(eq_default=False)
class Display(ABC):
    """A plot in the manner of scikit-learn: made by a class method from an estimator, holding the numbers it shows.

    Every subclass is a dataclass, whose fields are these numbers.

    Class methods take matplotlib's axes as `ax`, or `axes` where there are several, and draw on a new figure without
    them; with `plot=False` they only compute the numbers. After `plot`, `figure_` and `ax_` are matplotlib's; call
    `plot` again with other axes or another style.
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
        """(n,) axes, those given or the first n of a new figure with `columns` in a line.

        A new figure is as large as its `margin` and, for each of its lines and columns, a `panel` (width, height).
        """
        if axes is None:
            lines = -(-n // columns)
            size = (margin[0] + panel[0] * columns, margin[1] + panel[1] * lines)
            _, axes = pyplot().subplots(lines, columns, figsize=size, layout="constrained", squeeze=False, **shared)
            for unused in axes.reshape(-1)[n:]:
                unused.set_visible(False)
        self.axes_ = np.atleast_1d(np.asarray(axes, dtype=object)).reshape(-1)[:n]
        if len(self.axes_) < n:
            raise ValueError(f"axes must hold one for each of the {n} panels, got {len(self.axes_)}")
        self.ax_, self.figure_ = self.axes_[0], self.axes_[0].figure
        return self.axes_

    def _legend(self, *, above: bool, **style: Any) -> None:
        """One legend for all panels: above them, where it hides nothing, or within the first."""
        entries: dict[str, Any] = {}
        for panel in self.axes_:
            entries |= dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
        place = {"loc": "outside upper center", "frameon": False} if above else {}
        owner = self.figure_ if above else self.ax_
        owner.legend(entries.values(), entries.keys(), **{"fontsize": 8, **place, **style})


def own_names(estimator: Any, names: Sequence[str] | None) -> Sequence[str] | None:
    """Names of the outputs that were given, else those that the estimator learned; None where there are neither."""
    if names is None and isinstance(estimator, NamedOutputs) and estimator.output_frame_ is not None:
        return estimator.output_names_
    return names


def output_number(names: Sequence[str], output: int | str) -> int:
    """The number of an output that is given by its name or its number."""
    number = names.index(output) if isinstance(output, str) and output in names else output
    if not isinstance(number, int) or not -len(names) <= number < len(names):
        raise ValueError(f"an output must be a name or a number of {', '.join(names)}, got {output!r}")
    return number % len(names)


def draw_band(ax: Any, x: Any, middle: Array, half: Array, label: str) -> None:
    """Shade what lies within `half` of the `middle`."""
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
    """An image of a matrix with names at its rows and columns, `text` in its cells and a colour `bar` of that name."""
    low, high = limits
    # Light to dark, or red to blue, which the colour-blind can distinguish; in greyscale the text of the cells does.
    image = ax.imshow(values, vmin=low, vmax=high, cmap="RdBu" if low < 0 else "Blues", **style)
    wide = any(len(name) > 2 for name in columns)
    ax.set_xticks(
        range(len(columns)), columns, rotation=45 if wide else 0, ha="right" if wide else "center", fontsize=fontsize
    )
    ax.set_yticks(range(len(rows)), rows, fontsize=fontsize)
    for (i, j), value in np.ndenumerate(values):
        if text is not None and np.isfinite(value):
            color = "white" if abs(value) > 0.6 * high else "black"
            ax.text(j, i, text(value), ha="center", va="center", fontsize=8 if len(values) < 10 else 7, color=color)
    if bar is not None:
        ax.figure.colorbar(image, ax=ax, label=bar, shrink=0.8)


def time_axis(ax: Any, times: Any, otherwise: str) -> None:
    """Dates, or numbers under the name "time", along the axis; `otherwise` is its name where no times are known."""
    if times is not None and times.dtype.kind == "M":
        date_axis(ax)
    else:
        ax.set_xlabel(otherwise if times is None else "time")


def row_axis(ax: Any, rows: Any) -> None:
    """Numbers of rows along the axis, on a logarithmic scale where they span more than a factor of ten."""
    if len(rows) and rows[-1] > 10 * max(int(rows[0]), 1):
        ax.set_xscale("log")
        ax.xaxis.set_minor_formatter("")
    ax.xaxis.set_major_formatter("{x:,.0f}")
