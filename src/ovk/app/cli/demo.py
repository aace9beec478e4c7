"""``ovk demo``: learners on a generated stream, compared in half a minute, and a file to try the other commands on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from scipy.signal import lfilter

from ovk import OLOK, PKAWV, load, progressive, save
from ovk.app.cli.options import Json
from ovk.app.cli.output import Bar, Exit, err, exit_code_on_error, print_json, show
from ovk.app.sessions import result_summary
from ovk.base import one_blas_thread
from ovk.datasets import make_stream
from ovk.evaluation import ProgressiveResult, RefittedRidge, ScoreTable
from ovk.features import Nystrom, Uniform
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect

# The table that ``ovk demo`` leaves behind to try the other commands on.

#: Outputs of the table.
STATIONS = ("north", "south", "east", "west")

#: Readings that are missing, and how many weeks there are.
MISSING, WEEKS = 0.3, 16

#: What to try, with the name of the file in the place of {}.
COMMANDS = (
    f"ovk stream {{}} --time time --targets {','.join(STATIONS)} --lags 1,24 --save model.ovk --report model.html",
    "ovk forecast model.ovk --steps 24 --plot forecast.png",
)


def write_demo_table(path: Path) -> None:
    """Write hourly readings of four stations as CSV: a day and a week in them, the weather, and gaps."""
    rng = np.random.default_rng(0)
    hours = np.arange(24 * 7 * WEEKS)
    day, week = 2 * np.pi * hours / 24, 2 * np.pi * hours / 168
    common = 60 + 12 * np.sin(day - 1.5) + 6 * np.sin(week) + 4 * _slow(rng, len(hours))
    own = np.column_stack([_slow(rng, len(hours)) for _ in STATIONS])
    readings = common[:, None] * [1.0, 0.9, 1.2, 0.7] + 2 * own + rng.standard_normal(own.shape)
    seen = rng.uniform(size=own.shape) >= MISSING
    times = np.datetime64("2024-01-01T00:00") + hours.astype("timedelta64[h]")
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"time,{','.join(STATIONS)}\n")
        for time, values, known in zip(times, readings, seen, strict=True):
            cells = (f"{value:.1f}" if there else "" for value, there in zip(values, known, strict=True))
            file.write(f"{str(time).replace('T', ' ')},{','.join(cells)}\n")


def _slow(rng: np.random.Generator, n: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """(n,) a curve that changes over days, of standard deviation about 1."""
    steps = np.sqrt(1 - 0.99**2) * rng.standard_normal(n)
    steps[0] = 0.0
    found: np.ndarray[tuple[int], np.dtype[np.float64]] = lfilter([1.0], [1.0, -0.99], steps)
    return found


ROWS, OUTPUTS, CHUNK = 3000, 6, 200

#: Names of the learners that the conclusion compares.
FORGETS, REMEMBERS = "coupled, forgets (PKAWV)", "coupled, never forgets (PKAWV)"
TOGETHER, APART = "coupled (OLOK)", "each output alone (OLOK)"


def contestants() -> dict[str, Any]:
    """The learners of the demonstration, all with the same kernel on the inputs."""
    k = Gaussian(0.8)
    # Few points suffice in the plane. What is 70 rows old counts a third. Chosen on streams with other seeds.
    few: dict[str, Any] = {"features": Nystrom(Uniform(size=40)), "forecaster": "ridge", "random_state": 0}
    return {
        FORGETS: PKAWV(k * MixedEffect(0.9), 0.1, discount=0.985, **few),
        REMEMBERS: PKAWV(k * MixedEffect(0.9), 0.1, **few),
        TOGETHER: OLOK(k * MixedEffect(0.5), alpha=1e-4, schedule="auto", truncation=1500),
        APART: OLOK(k, alpha=1e-4, schedule="auto", truncation=1500),
    }


def command(
    folder: Annotated[Path, typer.Option("--out", help="Folder for report.html, demo.ovk and demo.csv.")] = Path("."),
    rows: Annotated[int, typer.Option(help="Rows of the stream.", min=400)] = ROWS,
    as_json: Json = False,
) -> None:
    """Compare learners on a generated stream with related outputs, missing labels and a drift.

    Writes a report (report.html), the best model (demo.ovk), and a table (demo.csv) to try the other commands on.
    """
    with exit_code_on_error(Exit.USAGE):
        folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    stream = make_stream(rows, OUTPUTS, random_state=0)
    missing = float(np.isnan(stream.target).mean())
    if not as_json:
        show(
            f"{OUTPUTS} related outputs, {rows:,} rows, {missing:.0%} of the labels missing. Half-way the function "
            "that the outputs share moves."
        )
        show("Every row is predicted before it is learned.")
        show("")
    with one_blas_thread(tiles=1):
        results, models = _evaluate(stream)
    seconds = time.perf_counter() - start
    model_file, page, file = folder / "demo.ovk", folder / "report.html", folder / "demo.csv"
    write_demo_table(file)
    best, X = models[FORGETS], stream.data[-5:]
    save(best, model_file)
    same = bool(np.array_equal(load(model_file).predict(X), best.predict(X)))
    found = _together(results, stream.target_names)
    errors = _errors(found, rows)
    drawn = _report(found, page, seconds, rows, missing, _conclusion(errors))
    if as_json:
        print_json(
            {
                "rows": rows,
                "mse": {learner.name: learner.mse for learner in found.learners},
                "seconds": seconds,
                "report": page if drawn else None,
                "model_file": model_file,
                "table": file,
                "same_predictions_after_loading": same,
            }
        )
        return
    periods = ("before the drift", "during", "after", "all rows")
    table = ScoreTable("mean squared error", tuple(errors), periods, np.array(list(errors.values())))
    for line in [*table.lines(), "", *_conclusion(errors).splitlines(), ""]:
        show(line)
    if drawn:
        show(f"report: {page} (open it in a browser)")
    loaded = "predicts the same after loading" if same else "PREDICTS SOMETHING ELSE after loading"
    show(f"model:  {model_file} ({loaded})")
    show(f"table:  {file} (hourly readings of {len(STATIONS)} stations, {MISSING:.0%} missing). Try it:")
    for line in COMMANDS:
        show(f"  {line.format(file)}")


def _evaluate(stream: Any) -> tuple[dict[str, ProgressiveResult], dict[str, Any]]:
    """All learners over the stream, with progress on standard error."""
    models = contestants()
    results: dict[str, ProgressiveResult] = {}
    columns = (TextColumn("{task.description:32}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Bar(*columns) as bar:
        for name, model in models.items():
            task = bar.add_task(name, total=len(stream.data))

            def chunks(task: Any = task) -> Iterator[tuple[Any, Any]]:
                for at in range(0, len(stream.data), CHUNK):
                    yield stream.data[at : at + CHUNK], stream.target[at : at + CHUNK]
                    bar.update(task, advance=CHUNK)

            # The baselines are the same beside every learner: once is enough.
            beside: list[Any] = [] if results else ["mean", RefittedRidge(max_rows=600)]
            results[name] = progressive(
                model, chunks(), untested=CHUNK, baselines=beside, chunk_size=CHUNK, keep="all", progress=False
            )
    return results, models


def _together(results: dict[str, ProgressiveResult], outputs: list[str]) -> ProgressiveResult:
    """All learners in one result, the first of them as its model."""
    first, *others = results.values()
    model, *beside = (result.model._replace(name=name) for name, result in results.items())
    return replace(
        first,
        model=model,
        baselines=(*beside, *first.baselines),
        baseline_predictions=(*(one.predictions for one in others), *(first.baseline_predictions or ())),
        outputs=tuple(outputs),
    )


def _report(found: ProgressiveResult, page: Path, seconds: float, rows: int, missing: float, conclusion: str) -> bool:
    """Write the report, if pictures can be drawn."""
    from ovk.app.report import report

    summary = replace(result_summary(found), conclusion=conclusion, settings={"command": "ovk demo"})
    summary.sentences += [
        f"{rows:,} rows with {OUTPUTS} related outputs; {missing:.0%} of the labels are missing",
        "in the second third of the stream the function that the outputs share moves, so every learner has to unlearn",
        "coupled outputs learn from each other's labels; learned alone, each output has only its own",
        f"learning took {seconds:,.1f} seconds",
    ]
    try:
        report(summary, page, title="ovk demo")
    except ImportError as missing_package:
        show(f"no report: {missing_package}", err)
        return False
    return True


def _errors(found: ProgressiveResult, rows: int) -> dict[str, list[float]]:
    """Mean squared errors of each learner: before, during and after the drift, and of all rows."""
    parts = [*(found.part(slice(rows * k // 3, rows * (k + 1) // 3)) for k in range(3)), found]
    return {one.name: [float(np.mean(part.learners[k].mse)) for part in parts] for k, one in enumerate(found.learners)}


def _conclusion(errors: dict[str, list[float]]) -> str:
    """What the table says: what coupling gains, and what forgetting does.

    >>> few = {TOGETHER: [0, 0, 0, 0.04], APART: [0, 0, 0, 0.08], FORGETS: [0, 0, 0.1], REMEMBERS: [0, 0, 0.3]}
    >>> print(_conclusion(few))
    Coupling the outputs lowers the error of the same learner by 50%.
    Once the function has moved, the learner that never forgets has 3.0 times the error of the one that does.
    """
    gain = errors[TOGETHER][-1] / errors[APART][-1] - 1
    factor = errors[REMEMBERS][2] / errors[FORGETS][2]
    return (
        f"Coupling the outputs {'lowers' if gain < 0 else 'raises'} the error of the same learner by {abs(gain):.0%}.\n"
        f"Once the function has moved, the learner that never forgets has {factor:.1f} times the error of the one that "
        "does."
    )
