"""Numbers on pages are those of the results: ``python docs/quotes.py`` puts them there, and a test compares.

A number that is followed by a comment is a quotation, ours or what was published,

    .789<!-- drug_activity: ridge, multi-task, 30% of labels -->
    39.4<!-- published, movkl: RSSE, state: MovKL, l_2 -->

of the row of that name in ``docs/results/drug_activity.json``, with as many digits as stand there.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
QUOTATION = re.compile(r"(-?\d*\.?\d+)<!-- (published, )?(\w+): (.+?) -->", flags=re.DOTALL)


def renewed(text: str, results: Path = HERE / "results") -> str:
    """The page with the numbers of the results; a quotation of a row that is not there is an error."""

    def number(match: re.Match[str]) -> str:
        shown, published, name, row = match.groups()
        rows = json.loads((results / f"{name}.json").read_text(encoding="utf-8"))["rows"]
        found = {one["name"]: one["published" if published else "ours"] for one in rows}.get(" ".join(row.split()))
        if found is None:
            raise ValueError(f"there is no number of this name in {name}.json: {row}")
        _, _, decimals = shown.partition(".")
        fresh = f"{found:.{len(decimals)}f}"
        fresh = fresh.replace("0.", ".", 1) if shown.lstrip("-").startswith(".") else fresh
        return match[0].replace(shown, fresh, 1)

    return QUOTATION.sub(number, text)


def pages() -> list[Path]:
    """All pages that are written by hand."""
    return [path for path in HERE.rglob("*.md") if not {"_build", "generated", "gallery"} & set(path.parts)]


if __name__ == "__main__":
    for page in pages():
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")
