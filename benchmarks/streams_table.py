"""``python -m benchmarks.streams_table [results.json]``: table and figure of learners with default settings.

The file is the output of ``python -m benchmarks --only streams``. The table is printed; the figure is for the
documentation.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.__main__ import LATEST
from benchmarks.defaults_picture import draw
from benchmarks.streams import FOREST, LAST, OURS

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "streams-without-settings.png"
#: Names of the learners in the table, in the order of its columns.
COLUMNS = {
    OURS: "AutoStream",
    FOREST: "forest (ARF)",
    "river AMF": "AMF",
    "river HAT": "adaptive tree",
    "river kNN": "kNN",
    "river linear": "linear",
    "scikit-learn linear": "SGD",
    LAST: "no change",
}
TICKS = (0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100, 1000)


def found_errors(case: dict[str, Any]) -> dict[str, float]:
    """Errors of the learners that were run on a stream, infinite for one that diverged."""
    named = {name: case["scores"].get(f"error: {name}") for name in COLUMNS}
    return {name: error if np.isfinite(error) else np.inf for name, error in named.items() if error is not None}


def mean_ranks(errors: dict[str, dict[str, float]]) -> dict[str, float]:
    """Mean rank of each learner over the streams with results of all learners; ties share ranks."""
    complete = [each for each in errors.values() if len(each) == len(COLUMNS)]
    table = np.array([[each[name] for name in COLUMNS] for each in complete])
    better = (table[:, None, :] < table[:, :, None]).sum(axis=2)
    equal = (table[:, None, :] == table[:, :, None]).sum(axis=2)
    return dict(zip(COLUMNS, (better + (equal + 1) / 2).mean(axis=0).tolist(), strict=True))


def _cell(error: float, of_last: float) -> str:
    """An error, or "diverged".

    >>> _cell(0.1234, 1.0), _cell(8e23, 0.1), _cell(float("inf"), float("nan"))
    ('0.123', 'diverged', 'diverged')
    """
    return "diverged" if np.isinf(error) or error > 1e6 * of_last else f"{error:.3g}"


def table(cases: Sequence[dict[str, Any]]) -> str:
    """Errors, mean ranks and speeds as Markdown."""
    errors = {case["name"]: found_errors(case) for case in cases}
    lines = [f"| stream | {' | '.join(COLUMNS.values())} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for case in cases:
        each = errors[case["name"]]
        if set(each) == {OURS}:
            continue
        cells = [_cell(each[name], each[LAST]) if name in each else "" for name in COLUMNS]
        best = min(each, key=each.__getitem__)
        cells[list(COLUMNS).index(best)] = f"**{each[best]:.3g}**"
        lines.append(f"| {case['name']} | {' | '.join(cells)} |")
    ranks = mean_ranks(errors)
    lines.append(f"| mean rank | {' | '.join(f'{ranks[name]:.1f}' for name in COLUMNS)} |")
    rates: dict[str, list[float]] = {name: [] for name in COLUMNS}
    for case in cases:
        if len(errors[case["name"]]) == len(COLUMNS):
            for contender in case["contenders"]:
                rates[contender["name"]].append(case["settings"]["n"] / contender["cpu_seconds"])
    speeds = [f"{np.median(rates[name]):,.0f}" if name != LAST else "" for name in COLUMNS]
    return "\n".join([*lines, f"| rows a second, median | {' | '.join(speeds)} |"])


def main(arguments: Sequence[str]) -> None:
    """Print the table and draw the figure."""
    report = json.loads(Path(arguments[0] if arguments else LATEST).read_text())
    (cases,) = (one["cases"] for one in report["benchmarks"] if one["name"] == "streams")
    print(table(cases))
    errors = {case["name"]: found_errors(case) for case in cases}
    # The streams of the table; a learner that diverged has no mark.
    named = {
        name: {COLUMNS[learner]: error for learner, error in each.items() if error <= 1e6 * each[LAST]}
        for name, each in errors.items()
        if set(each) != {OURS}
    }
    seen = {name for name in named if "(new)" not in name}
    draw(named, seen, PICTURE, COLUMNS[LAST], TICKS)


if __name__ == "__main__":
    main(sys.argv[1:])
