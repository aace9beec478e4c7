"""The parts of a page that is one file: sections, figures, tables."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from string import Template

import numpy as np

from ovk.persistence.atomic import replacing
from ovk.plotting.display import Display, pyplot
from ovk.plotting.relevance import RelevanceDisplay

#: The browser itself refuses anything that is not in the file.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def write_page(path: str | Path, title: str, parts: Sequence[str]) -> Path:
    """Write a page of these sections, which is complete or not there."""
    frame = Template(files("ovk.plotting").joinpath("page.html").read_text(encoding="utf-8"))
    page = frame.substitute(title=escape(title), policy=POLICY, body="\n".join(parts))
    path = Path(path)
    with replacing(str(path)) as file:
        file.write(page.encode("utf-8"))
    return path


def relevance_section(relevance: Mapping[str, float]) -> str:
    """How much each column matters, in words and bars."""
    text = (
        "<p>How much the predictions change when the values of a column are shuffled between rows. This shows what the "
        "model uses, not what causes what.</p>"
    )
    display = RelevanceDisplay(dict(relevance)).plot()
    return section("relevance", "Which inputs matter", text + grid([figure(display, "Relevance of each column")]))


def section(name: str, heading: str, body: str) -> str:
    return f'<section id="{name}"><h2>{escape(heading)}</h2>{body}</section>'


def grid(figures: Sequence[str]) -> str:
    return f'<div class="grid">{"".join(figures)}</div>'


def figure(display: Display, description: str) -> str:
    """A plot as an image within the page: its names cannot collide with those of other plots."""
    buffer = BytesIO()
    # Without a date, the same numbers make the same file.
    display.figure_.savefig(buffer, format="svg", metadata={"Date": None})
    pyplot().close(display.figure_)
    source = b64encode(buffer.getvalue()).decode("ascii")
    return f'<figure><img alt="{escape(description)}" src="data:image/svg+xml;base64,{source}"></figure>'


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
    return "–" if not np.isfinite(value) else f"{value:.4g}"
