"""Numbers on pages are those of the results: ``python docs/quotes.py`` puts them there, and a test compares.

A number that is followed by a comment is a quotation, ours or what was published,

    .789<!-- drug_activity: ridge, multi-task, 30% of labels -->
    39.4<!-- published, movkl: RSSE, state: MovKL, l_2 -->

of the row of that name in ``docs/results/drug_activity.json``, with as many digits as stand there. Of the benchmarks
the time of ours over that of another is quoted, by benchmark, case and contender, from ``docs/benchmarks.json``:

    0.81<!-- benchmarks: ridge / Identity / sklearn KernelRidge.fit -->
"""

from __future__ import annotations

import json
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
QUOTATION = re.compile(r"(-?\d*\.?\d+)<!-- (published, )?(\w+): (.+?) -->", flags=re.DOTALL)


def numbers(name: str, published: bool, results: Path) -> dict[str, float]:
    """What can be quoted from a reproduction, or from the benchmarks, by name."""
    if name == "benchmarks":
        report = json.loads((results.parent / "benchmarks.json").read_text(encoding="utf-8"))
        return {
            f"{benchmark['name']} / {case['name']} / {other['name']}": other["ours_over_this"]
            for benchmark in report["benchmarks"]
            for case in benchmark["cases"]
            for other in case["contenders"]
        }
    rows = json.loads((results / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    return {row["name"]: row["published" if published else "ours"] for row in rows}


def renewed(text: str, results: Path = HERE / "results") -> str:
    """The page with the numbers of the results; a quotation of a row that is not there is an error."""

    def number(match: re.Match[str]) -> str:
        shown, published, name, row = match.groups()
        found = numbers(name, bool(published), results).get(" ".join(row.split()))
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
