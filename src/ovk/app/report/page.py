"""Sections, figures and tables of a self-contained HTML page."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from ovk.evaluation import ScoreTable
from ovk.persistence import replacing
from ovk.plotting import Display, pyplot

#: Width of a plot in inches, which fits a phone; wider plots, up to the second width, are narrowed to it.
WIDTH, MAX_NARROWED_WIDTH = 3.75, 5.6

#: Pixels per inch in a browser.
PIXELS_PER_INCH = 96

#: Font sizes in points: of ticks, labels and legends; of titles.
LABEL_SIZE, TITLE_SIZE = 9, 10.5

#: The browser rejects everything that is not in the file.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def write_page(path: str | Path, title: str, sections: Sequence[str]) -> Path:
    """Write a page of these sections atomically."""
    frame = Template(files("ovk.app.report").joinpath("page.html").read_text(encoding="utf-8"))
    page = frame.substitute(title=escape(title), policy=POLICY, body="\n".join(sections))
    path = Path(path)
    with replacing(str(path)) as file:
        file.write(page.encode("utf-8"))
    return path


def section(name: str, heading: str, body: str, *, half: bool = False) -> str:
    """A section of a page; two consecutive halves are side by side on a wide screen."""
    kind = ' class="half"' if half else ""
    return f'<section id="{name}"{kind}><h2>{escape(heading)}</h2>{body}</section>'


def pair(left: str, right: str) -> str:
    """Two halves of a section, side by side on a wide screen."""
    return f'<div class="pair"><div>{left}</div><div>{right}</div></div>'


def grid(figures: Sequence[str]) -> str:
    return f'<div class="grid">{"".join(figures)}</div>'


def grid_with_legend(displays: Sequence[Display], descriptions: Sequence[str]) -> str:
    """Figures with one common legend above them, as text of the page."""
    entries: dict[str, Any] = {}
    for display in displays:
        axes = display.figure_.axes
        for one in axes:
            entries |= dict(zip(*reversed(one.get_legend_handles_labels()), strict=True))
        for legend in [*(one.get_legend() for one in axes), *display.figure_.legends]:
            if legend is not None:
                legend.remove()
    words = (f"<span>{_swatch(handle)}{escape(label)}</span>" for label, handle in entries.items())
    figures = [figure(display, text) for display, text in zip(displays, descriptions, strict=True)]
    return f'<div class="legend">{"".join(words)}</div>' + grid(figures)


def _swatch(handle: Any) -> str:
    """The symbol of a legend entry as an image."""
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import Patch

    if isinstance(handle, PolyCollection):
        # matplotlib 3.10 cannot draw a band in the legend of another figure.
        handle = Patch(facecolor=tuple(np.asarray(handle.get_facecolor())[0]), linewidth=0)
    drawn = pyplot().figure(figsize=(0.36, 0.16))
    drawn.legend([handle], [""], loc="center", frameon=False, borderpad=0, handletextpad=0, handlelength=2.5)
    return _image(drawn, "")


def figure(display: Display | Any, description: str) -> str:
    """A display, or a matplotlib figure, as an image with the same font sizes as all others."""
    drawn = display.figure_ if isinstance(display, Display) else display
    _unify_sizes(drawn)
    # Ticks and layout depend on each other: lay out twice.
    drawn.draw_without_rendering()
    return f"<figure>{_image(drawn, description)}</figure>"


def _image(drawn: Any, description: str) -> str:
    """A figure as an image; without a description it is decorative."""
    buffer = BytesIO()
    # Without a date, equal figures give equal files.
    drawn.savefig(buffer, format="svg", metadata={"Date": None})
    pyplot().close(drawn)
    source = b64encode(buffer.getvalue()).decode("ascii")
    width = round(PIXELS_PER_INCH * drawn.get_figwidth())
    words = f'alt="{escape(description)}"' if description else 'alt="" role="presentation"'
    return f'<img width="{width}" {words} src="data:image/svg+xml;base64,{source}">'


def _unify_sizes(drawn: Any) -> None:
    """Set the width of a plot, unless it needs more, and the font sizes."""
    width, height = drawn.get_size_inches()
    if width <= MAX_NARROWED_WIDTH:
        drawn.set_size_inches(WIDTH, height if width <= WIDTH else height * WIDTH / width)
    for legend in [one.get_legend() for one in drawn.axes] + drawn.legends:
        for text in [] if legend is None else legend.get_texts():
            text.set_fontsize(LABEL_SIZE)
    for axes in drawn.axes:
        axes.title.set_fontsize(TITLE_SIZE)
        for axis in (axes.xaxis, axes.yaxis):
            axis.label.set_fontsize(LABEL_SIZE)
            axis.offsetText.set_fontsize(LABEL_SIZE)
            axis.set_tick_params(labelsize=LABEL_SIZE)


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """A table of HTML cells; the first `words` columns contain text, the others numbers."""

    def cells(row: Sequence[str], tag: str) -> str:
        kinds = ("" if k < words else ' class="number"' for k in range(len(row)))
        return "".join(f"<{tag}{kind}>{cell}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    top = f"<caption>{escape(caption)}</caption>" if caption else ""
    header = f"<thead><tr>{cells(head, 'th')}</tr></thead>" if any(head) else ""
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f'<div class="wide"><table>{top}{header}<tbody>{body}</tbody></table></div>'


def number(value: float) -> str:
    """A number with four significant digits, including trailing zeros.

    >>> [number(value) for value in (0.956, 48.66, 25820.3, 0.0, 1.5e9, float("nan"))]
    ['0.9560', '48.66', '25,820', '0', '1.500e+09', '–']
    """
    if not np.isfinite(value) or value == 0:
        return "0" if value == 0 else "–"
    exponent = int(f"{value:.3e}".partition("e")[2])
    return f"{value:,.{max(3 - exponent, 0)}f}" if -4 < exponent < 7 else f"{value:.3e}"


def score_table(scores: ScoreTable) -> str:
    rows = []
    for k, (name, values) in enumerate(zip(scores.rows, scores.values.tolist(), strict=True)):
        known = [value for value in values if np.isfinite(value)]
        best = (max if scores.largest[k] else min)(known) if scores.largest and known else None
        cells = map(_cell, scores.columns, values)
        marked = [f"<b>{cell}</b>" if value == best else cell for cell, value in zip(cells, values, strict=True)]
        rows.append([escape(name), *marked])
    if scores.relative is not None:
        rows.append([escape(scores.relative[0]), *map(_cell, scores.columns, scores.relative[1].tolist())])
    title = f"{scores.title[0].upper()}{scores.title[1:]}{', the best in bold' if scores.largest else ''}"
    return table(title, ["", *map(escape, scores.columns)], rows)


def _cell(heading: str, value: float) -> str:
    return share(value) if ScoreTable.is_share(heading) else f"{int(value):,}" if heading == "rows" else number(value)


def share(value: float, digits: int = 0) -> str:
    return "–" if not np.isfinite(value) else f"{value:.{digits}%}"
