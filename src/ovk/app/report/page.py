"""The building blocks of a page that is one file: sections, figures, tables."""

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

from ovk.evaluation import ScoreTable, is_share
from ovk.persistence import replacing
from ovk.plotting import Display, pyplot

#: Inches of a plot, which a phone shows in natural size; wider ones up to the second width are made as narrow.
WIDTH, WIDEST = 3.75, 5.6

#: Pixels of a browser in an inch.
PIXELS = 96

#: Points of the letters in plots: ticks, labels and legends; titles.
SMALL, LARGE = 9, 10.5

#: The browser itself refuses anything that is not in the file.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def write_page(path: str | Path, title: str, sections: Sequence[str]) -> Path:
    """Write a page of these sections, which is complete or not there."""
    frame = Template(files("ovk.app.report").joinpath("page.html").read_text(encoding="utf-8"))
    page = frame.substitute(title=escape(title), policy=POLICY, body="\n".join(sections))
    path = Path(path)
    with replacing(str(path)) as file:
        file.write(page.encode("utf-8"))
    return path


def section(name: str, heading: str, body: str, *, half: bool = False) -> str:
    """A section of a page; two halves that follow each other stand side by side where there is room."""
    kind = ' class="half"' if half else ""
    return f'<section id="{name}"{kind}><h2>{escape(heading)}</h2>{body}</section>'


def pair(left: str, right: str) -> str:
    """Two halves of a section, side by side where there is room."""
    return f'<div class="pair"><div>{left}</div><div>{right}</div></div>'


def paragraphs(lead: str, facts: Sequence[str]) -> str:
    """The conclusion, and what is to be known beside it."""
    return f'<p class="lead">{escape(lead)}</p>' + "".join(f"<p>{escape(fact)}</p>" for fact in facts)


def grid(figures: Sequence[str]) -> str:
    return f'<div class="grid">{"".join(figures)}</div>'


def grid_with_legend(displays: Sequence[Display], descriptions: Sequence[str]) -> str:
    """Figures of the same curves, with one legend above all of them, whose words wrap like others."""
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
    """The sign of a legend, without its words."""
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import Patch

    if isinstance(handle, PolyCollection):
        # matplotlib 3.10 cannot show a band in the legend of another figure.
        handle = Patch(facecolor=tuple(np.asarray(handle.get_facecolor())[0]), linewidth=0)
    drawn = pyplot().figure(figsize=(0.36, 0.16))
    drawn.legend([handle], [""], loc="center", frameon=False, borderpad=0, handletextpad=0, handlelength=2.5)
    return _image(drawn, "")


def figure(display: Display | Any, description: str) -> str:
    """What a display has drawn, or a figure of matplotlib, as an image in its natural size.

    Letters are of the same size in all plots.
    """
    drawn = display.figure_ if isinstance(display, Display) else display
    _even_out(drawn)
    # Ticks may change with the layout, and the layout with them.
    drawn.draw_without_rendering()
    return f"<figure>{_image(drawn, description)}</figure>"


def _image(drawn: Any, description: str) -> str:
    """A figure as it is; without a description it only repeats what is said beside it."""
    buffer = BytesIO()
    # Without a date, the same numbers make the same file.
    drawn.savefig(buffer, format="svg", metadata={"Date": None})
    pyplot().close(drawn)
    source = b64encode(buffer.getvalue()).decode("ascii")
    width = round(PIXELS * drawn.get_figwidth())
    words = f'alt="{escape(description)}"' if description else 'alt="" role="presentation"'
    return f'<img width="{width}" {words} src="data:image/svg+xml;base64,{source}">'


def _even_out(drawn: Any) -> None:
    """The width of a phone, unless the plot needs more, and one size each for titles, labels and ticks."""
    width, height = drawn.get_size_inches()
    if width <= WIDEST:
        drawn.set_size_inches(WIDTH, height if width <= WIDTH else height * WIDTH / width)
    for legend in [one.get_legend() for one in drawn.axes] + drawn.legends:
        for text in [] if legend is None else legend.get_texts():
            text.set_fontsize(SMALL)
    for axes in drawn.axes:
        axes.title.set_fontsize(LARGE)
        for axis in (axes.xaxis, axes.yaxis):
            axis.label.set_fontsize(SMALL)
            axis.offsetText.set_fontsize(SMALL)
            axis.set_tick_params(labelsize=SMALL)


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """A table of cells that are HTML already; the first `words` columns hold words."""

    def cells(row: Sequence[str], tag: str) -> str:
        kinds = ("" if k < words else ' class="number"' for k in range(len(row)))
        return "".join(f"<{tag}{kind}>{cell}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    top = f"<caption>{escape(caption)}</caption>" if caption else ""
    header = f"<thead><tr>{cells(head, 'th')}</tr></thead>" if any(head) else ""
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f'<div class="wide"><table>{top}{header}<tbody>{body}</tbody></table></div>'


def number(value: float) -> str:
    """Four digits, of which the last ones may be zeros: numbers below each other have as many.

    >>> [number(value) for value in (0.956, 48.66, 25820.3, 0.0, 1.5e9, float("nan"))]
    ['0.9560', '48.66', '25,820', '0', '1.500e+09', '–']
    """
    if not np.isfinite(value) or value == 0:
        return "0" if value == 0 else "–"
    exponent = int(f"{value:.3e}".partition("e")[2])
    return f"{value:,.{max(3 - exponent, 0)}f}" if -4 < exponent < 7 else f"{value:.3e}"


def score_table(scores: ScoreTable) -> str:
    """A table of scores, the best of each row in bold."""
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
    return share(value) if is_share(heading) else f"{int(value):,}" if heading == "rows" else number(value)


def share(value: float, digits: int = 0) -> str:
    return "–" if not np.isfinite(value) else f"{value:.{digits}%}"
