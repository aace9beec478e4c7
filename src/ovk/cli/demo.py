"""``ovk demo``: the whole story in a minute, on a stream made here."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from ovk import OLOK, PKAWV, load, progressive, save
from ovk._threads import one_blas_thread
from ovk.cli.errors import Exit, blaming
from ovk.cli.options import Json
from ovk.cli.output import err, number, out, print_json, table
from ovk.datasets import make_stream
from ovk.evaluation import ProgressiveResult, RefittedRidge
from ovk.features import Nystrom, Uniform
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect

NAME = "demo"

ROWS, OUTPUTS, CHUNK = 3000, 6, 200


def contestants() -> dict[str, Any]:
    """The learners of the demonstration, all with the same kernel on the inputs."""
    k = Gaussian(0.8)
    # Few points suffice in the plane. What is 70 rows old counts a third. Chosen on streams with other seeds.
    few: dict[str, Any] = {"features": Nystrom(Uniform(size=40)), "forecaster": "ridge", "random_state": 0}
    return {
        "PKAWV, coupled, forgets": PKAWV(k * MixedEffect(0.9), 0.1, discount=0.985, **few),
        "PKAWV, coupled, never forgets": PKAWV(k * MixedEffect(0.9), 0.1, **few),
        "OLOK, coupled": OLOK(k * MixedEffect(0.5), alpha=1e-4, schedule="auto", truncation=1500),
        "OLOK, outputs apart": OLOK(k, alpha=1e-4, schedule="auto", truncation=1500),
    }


def command(
    folder: Annotated[Path, typer.Option("--out", help="Folder for report.html and demo.ovk.")] = Path("."),
    rows: Annotated[int, typer.Option(help="Rows of the stream.", min=400)] = ROWS,
    as_json: Json = False,
) -> None:
    """Learn a stream with coupled outputs, missing labels and a drift; compare, report, save, load, predict."""
    with blaming(Exit.USAGE):
        folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    stream = make_stream(rows, OUTPUTS, random_state=0)
    missing = float(np.isnan(stream.target).mean())
    if not as_json:
        out.print(
            f"A stream of {rows:,} rows with {OUTPUTS} outputs that share a shape; {missing:.0%} of the labels are "
            "missing,\nand in the second third of the stream the shape moves. "
            "Every row is predicted before it is learned.\n"
        )
    with one_blas_thread(tiles=1):
        results, models = _evaluate(stream)
    found = _together(results, stream.target_names)
    seconds = time.perf_counter() - start
    model_file, page = folder / "demo.ovk", folder / "report.html"
    best = models[next(iter(results))]
    save(best, model_file)
    again = load(model_file)
    X = stream.data[-5:]
    same = bool(np.array_equal(again.predict(X), best.predict(X)))
    drawn = _report(found, page, seconds, rows, missing)
    if as_json:
        print_json(
            {
                "rows": rows,
                "mse": {learner.name: learner.mse for learner in (found.model, *found.baselines)},
                "seconds": seconds,
                "report": page if drawn else None,
                "model_file": model_file,
                "same_predictions_after_loading": same,
            }
        )
        return
    _print(found, rows)
    out.print(f"saved to {model_file} and loaded again: {'the same' if same else 'OTHER'} predictions", markup=False)
    for x, y in zip(X[:2], again.predict(X[:2]), strict=True):
        out.print(f"  x = ({x[0]:.2f}, {x[1]:.2f})  ->  {', '.join(f'{value:.2f}' for value in y)}", markup=False)
    out.print(f"{seconds:.0f} s" + (f"; the report is in {page}" if drawn else ""), markup=False)


def _evaluate(stream: Any) -> tuple[dict[str, ProgressiveResult], dict[str, Any]]:
    """All learners over the stream, with progress on standard error."""
    models = contestants()
    results: dict[str, ProgressiveResult] = {}
    columns = (TextColumn("{task.description:32}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        for number_, (name, model) in enumerate(models.items()):
            task = bar.add_task(name, total=len(stream.data))

            def chunks(task: Any = task) -> Iterator[tuple[Any, Any]]:
                for at in range(0, len(stream.data), CHUNK):
                    yield stream.data[at : at + CHUNK], stream.target[at : at + CHUNK]
                    bar.update(task, advance=CHUNK)

            # The baselines are the same beside every learner: once is enough.
            beside: list[Any] = ["mean", RefittedRidge(max_rows=600)] if number_ == 0 else []
            results[name] = progressive(
                model, chunks(), untested=CHUNK, baselines=beside, chunk_size=CHUNK, keep="all", progress=False
            )
    return results, models


def _together(results: dict[str, ProgressiveResult], outputs: list[str]) -> ProgressiveResult:
    """All learners in one result, the first of them as its model."""
    named = {name: replace(result.model, name=name) for name, result in results.items()}
    first, *others = named
    result = results[first]
    beside = (*(named[name] for name in others), *result.baselines)
    return replace(result, model=named[first], baselines=beside, outputs=tuple(outputs))


def _report(found: ProgressiveResult, page: Path, seconds: float, rows: int, missing: float) -> bool:
    """Write the report, if pictures can be drawn."""
    from ovk.plotting import report

    notes = [
        f"{rows:,} rows with {OUTPUTS} outputs that share a shape; {missing:.0%} of the labels are missing.",
        "In the second third of the stream the shape moves: every learner has to unlearn.",
        "Coupled outputs tell each other what was missing; apart, each learns from its own labels alone.",
    ]
    try:
        report(found, page, title="ovk demo", notes=notes, seconds=seconds, settings={"command": "ovk demo"})
    except ImportError as missing_package:
        err.print(f"no report: {missing_package}", markup=False)
        return False
    return True


def _print(found: ProgressiveResult, rows: int) -> None:
    learners = (found.model, *found.baselines)
    thirds = [int(np.searchsorted(found.rows, rows * k // 3)) for k in (1, 2)]
    lines = []
    for learner in learners:
        sums = np.nansum(learner.mse_curve * found.counts, axis=1), found.counts.sum(axis=1)
        at = [0, *thirds, len(found.rows) - 1]
        parts = [
            (sums[0][b] - (sums[0][a] if a else 0)) / (sums[1][b] - (sums[1][a] if a else 0)) for a, b in pairwise(at)
        ]
        lines.append([learner.name, *(number(float(part)) for part in parts), number(float(np.mean(learner.mse)))])
    table(
        "mean squared error of predictions made before the label was seen",
        ["", "before the drift", "during", "after", "all rows"],
        lines,
    )
