"""The picture of the packages, `images/packages.svg`, from the layers in pyproject.toml.

``python docs/packages.py`` draws it anew; a test says when that is due.
"""

from __future__ import annotations

import tomllib
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent
PICTURE = HERE / "images" / "packages.svg"

#: What each package holds, in a few words.
CONTENTS = {
    "cli": "the command ovk",
    "serve": "models over HTTP, MLflow",
    "report": "one HTML page",
    "sessions": "tables and streams learned from files",
    "parallel": "partitions, over workers",
    "tables": "rows from files and brokers",
    "plotting": "displays",
    "datasets": "generators, an example",
    "persistence": "save, load, inspect",
    "evaluation": "test then train, intervals",
    "structured": "IOKR, links, pre-images",
    "online": "OLOK, KAWV, PKAWV, AutoStream",
    "batch": "ridge, tuning, curves, MovKL, fields, SVM, OKVAR",
    "intervals": "jackknife, regions",
    "features": "finite maps, sums over features",
    "solvers": "(K + α) C = Y, leave-one-out",
    "ovkernels": "K(x, z), on samples, f = Σ K(·, xᵢ) cᵢ",
    "operators": "T, which outputs are related",
    "kernels": "k(x, z)",
    "objectives": "losses, penalties, step sizes, metrics",
    "curves": "grids, quadrature, bases",
    "base": "parameters, state, checks, threads",
}
#: From the top: a caption for the bands, each ending with the layer named.
BANDS = [
    ("application (ovk.app)", "tables"),
    ("library: around the learners", "evaluation"),
    ("learners", "batch"),
    ("what they are made of", "base"),
]
WIDTH, GAP, LEFT = 800, 6, 210
ONE_LINE, TWO_LINES = 30, 46
COLOURS = ["#f3e3ec", "#e8eef7", "#dcebdf", "#f7ecd9"]


def layers() -> list[list[str]]:
    """The layers from the top, without the private modules at the bottom."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))
    library, application = (one["layers"] for one in project["tool"]["importlinter"]["contracts"][:2])
    rows = [[name.strip("() ") for name in layer.split("|")] for layer in (*application, *library)]
    return [row for row in rows if row[0] != "app" and not row[0].startswith("_")]


def _box(name: str, x: float, y: float, width: float, height: float, colour: str) -> str:
    """A package: its name and what it holds, in one line where the box is as wide as the picture."""
    box = f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{height}" rx="4" fill="{colour}" stroke="#5b6770"/>'
    bold = 'font-size="14" font-weight="bold" fill="#1b2a33"'
    plain = 'font-size="12" fill="#33424b"'
    if height == ONE_LINE:
        title = f'<text x="{x + 12:.0f}" y="{y + 20}" {bold}>{name}</text>'
        return box + title + f'<text x="{x + 120:.0f}" y="{y + 20}" {plain}>{escape(CONTENTS[name])}</text>'
    middle = f'x="{x + width / 2:.0f}" text-anchor="middle"'
    title = f'<text {middle} y="{y + 19}" {bold}>{name}</text>'
    return box + title + f'<text {middle} y="{y + 36}" {plain}>{escape(CONTENTS[name])}</text>'


def picture() -> str:
    """The SVG."""
    parts = []
    y = top = 12
    band = 0
    for row in layers():
        width = (WIDTH - LEFT - 12 - GAP * (len(row) - 1)) / len(row)
        height = ONE_LINE if len(row) == 1 else TWO_LINES
        parts += [_box(name, LEFT + k * (width + GAP), y, width, height, COLOURS[band]) for k, name in enumerate(row)]
        y += height + GAP
        caption, last = BANDS[band]
        if last in row:
            parts.append(f'<text x="12" y="{(top + y) // 2}" font-size="13" fill="#33424b">{caption}</text>')
            y += 12
            band, top = min(band + 1, len(BANDS) - 1), y
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" font-family="sans-serif" role="img" '
        'aria-label="Packages of ovk in layers; each imports only from those below it">'
        f'<rect width="{WIDTH}" height="{y}" fill="#ffffff"/>'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
