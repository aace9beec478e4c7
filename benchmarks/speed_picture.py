"""``python -m benchmarks.speed_picture [results.json]``: times relative to ovk.

The figure compares other libraries and the bare computation.

The file is the output of ``python -m benchmarks``; the figure is for the documentation.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.__main__ import PUBLISHED

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "speed.png"
#: Meaning of a mark: another library, a plain implementation, or the minimum for the machine.
KINDS = {"library": ("o", "#0072b2"), "plain code": ("s", "#e69f00"), "limit of the machine": ("|", "#222222")}


class Job(NamedTuple):
    """A row of the figure.

    Parameters
    ----------
    title : description of the job, with the settings of the case
    benchmark, case : source of the times: the last case with this prefix, which is the largest
    others : contenders by their name in the results: (kind, short name)
    """

    title: str
    benchmark: str
    case: str
    others: dict[str, tuple[str, str]]


LIBRARY, PLAIN, LIMIT = KINDS
JOBS = (
    Job("Gaussian kernel matrix, {n:,} rows", "gram", "p=22 threads=1", {
        "sklearn rbf_kernel": (LIBRARY, "scikit-learn"),
        "limit: exp + GEMM": (LIMIT, ""),
    }),
    Job("OVKRidge, {n:,} rows", "ridge", "Identity", {
        "sklearn KernelRidge.fit": (LIBRARY, "scikit-learn"),
        "limit: gram + Cholesky + solve": (LIMIT, ""),
    }),
    Job("OVKRidgeCV, {alphas} alphas, {n:,} rows", "leave_one_out", "n=", {
        "sklearn GridSearchCV.fit": (LIBRARY, "scikit-learn"),
        "himalaya KernelRidgeCV.fit": (LIBRARY, "himalaya"),
        "limit: one eigh of the gram": (LIMIT, ""),
    }),
    Job("MultiTaskSVC, C = {C:g}", "multitask_svm", "C=100", {"SVC on the expanded kernel": (LIBRARY, "libsvm")}),
    Job("OLOK, window of {window:,} points", "online_click", "one thread", {
        "loop with a ring buffer": (PLAIN, "NumPy, row by row"),
        "bare kernel and products": (LIMIT, ""),
    }),
    Job("OLOK on cod-rna, window of {window:,}", "online_peers", "cod-rna", {
        "river": (LIBRARY, "river"),
        "scikit-learn, chunks of 256": (LIBRARY, "scikit-learn"),
        "loop with a ring buffer": (PLAIN, "NumPy, row by row"),
    }),
    Job("PKAWV, {m} features", "second_order", "m=", {
        "numba, one row at a time": (PLAIN, "numba, row by row"),
        "limit: bare BLAS": (LIMIT, ""),
    }),
    Job("AutoStream, drifting Friedman function", "streams", "friedman drift", {
        "river ARF": (LIBRARY, "river, forest"),
        "river linear": (LIBRARY, "river, linear"),
    }),
)  # fmt: skip


def measured(report: dict[str, Any], job: Job) -> tuple[str, dict[str, float]] | None:
    """The title, and the time of each contender relative to ovk; None if the benchmark was not run."""
    cases = [case for part in report["benchmarks"] if part["name"] == job.benchmark for case in part["cases"]]
    largest = next((case for case in reversed(cases) if case["name"].startswith(job.case)), None)
    if largest is None:
        return None
    others = {row["name"]: 1.0 / row["ours_over_this"] for row in largest["contenders"] if row["name"] in job.others}
    return job.title.format(**largest["settings"]), others


def draw(report: dict[str, Any], path: Path) -> None:
    """Draw a row for each measured job."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    rows = [(job, *found) for job in reversed(JOBS) if (found := measured(report, job)) is not None]
    figure, axes = plt.subplots(figsize=(9, 0.62 * len(rows) + 1.3), layout="constrained")
    for row, (job, _, others) in enumerate(rows):
        before = 0.0
        for name, ratio in sorted(others.items(), key=lambda other: other[1]):
            kind, label = job.others[name]
            marker, colour = KINDS[kind]
            size = 420 if kind == LIMIT else 60
            axes.scatter(ratio, row, marker=marker, color=colour, s=size, linewidth=2 if kind == LIMIT else 1, zorder=3)
            # Names of neighbours would overlap.
            above = (0, 9) if kind == LIBRARY and ratio > 1.5 * before else (0, -17)
            before = ratio if label else before
            axes.annotate(
                label, (ratio, row), above, textcoords="offset points", ha="center", fontsize=7.5,
                bbox={"color": "white", "pad": 0.5}, zorder=2,
            )  # fmt: skip
    for kind, (marker, colour) in KINDS.items():
        size = 200 if kind == LIMIT else 60
        axes.scatter([], [], marker=marker, color=colour, s=size, linewidth=2 if kind == LIMIT else 1, label=kind)
    axes.axvline(1.0, color="#c0182b", linewidth=1.2, zorder=1)
    axes.set_yticks(range(len(rows)), [title for _, title, _ in rows])
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.set_xscale("log")
    axes.margins(x=0.08)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel("time over that of ovk (right of the line: ovk is faster)")
    axes.grid(axis="y", linewidth=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=len(KINDS), frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the results and draw."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    source = Path(given[0]) if given else PUBLISHED
    draw(json.loads(source.read_text(encoding="utf-8")), PICTURE)
    print(f"written to {PICTURE}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
