"""The page of the audit: what the papers say, where it is, how it is tested, and how far code from the papers is off.

``python docs/audit.py`` runs every comparison of ``docs/audits`` and writes ``docs/systems/audit.md``; a test runs them
again. Each writes a statement out as it stands in the paper, with loops and dense matrices, and returns its largest
difference to the library. The page gives a power of ten with a digit to spare, so that it holds on every machine.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from audits import STATEMENTS
from audits.base import Statement

HERE = Path(__file__).resolve().parent


def shown(one: Statement) -> str:
    """A power of ten that the difference stays below, with a digit to spare and not below 1e-12; or "holds"."""
    difference = one.difference()
    if one.bound:
        return "holds" if difference == 0.0 else f"broken by {difference:.2g}"
    return f"below 1e{int(np.ceil(np.log10(max(difference, one.least)))) + 1:+03d}"


def page() -> str:
    """The page."""
    lines = [
        "# Audit: what the papers say, and what the code does",
        "",
        "Written by `python docs/audit.py`, which writes every statement out from the paper, with loops and dense",
        "matrices, and compares. The last column is the largest relative difference to the library; those above 1e-9",
        "are differences of the comparison itself (finite differences, a quadrature, an iteration that was stopped).",
        "Where the code differs from a paper on purpose, the page of the method explains the difference. Experiments",
        "are not here but in {doc}`../api/generated/reproductions`.",
        "",
        "| document | statement | in the library | tested by | largest difference |",
        "|---|---|---|---|---|",
    ]
    for one in STATEMENTS:
        lines.append(f"| {one.seed} | {one.says} | `{one.where}` | `tests/{one.test}` | {shown(one)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    (HERE / "systems" / "audit.md").write_text(page(), encoding="utf-8")
