"""``ovk demo``: compare learners on a generated stream, and create a sample file to experiment with."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from scipy.signal import lfilter

from ovk import OLOK, PKAWV, AutoStream, progressive
from ovk.app.cli.output import Display, Exit, err, exit_code_on_error, show
from ovk.app.report import report
from ovk.app.sessions import SessionProgress, Settings, learn, result_summary
from ovk.base import Array, one_blas_thread
from ovk.datasets import make_stream
from ovk.evaluation import ProgressiveResult, RefittedRidge, ScoreTable
from ovk.features import Nystrom, Uniform
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect

#: Outputs of the sample file.
STATIONS = ("north", "south", "east", "west")

#: Share of missing readings in the sample file, and its number of weeks.
MISSING, WEEKS = 0.3, 16

#: Lags of the sample file, in hours.
LAGS = (1, 24)

#: Commands to try, with the names of the sample file, of the model and of their directory.
COMMANDS = (
    "ovk plot {model}",
    "ovk forecast {model} --steps 24 --plot {directory}forecast.png",
    "ovk predict {model} {table} --out {directory}predictions.csv",
    f"ovk stream {{table}} --time time --targets {','.join(STATIONS)} --lags {','.join(map(str, LAGS))} "
    "--save {directory}model.ovk --report {directory}model.html",
)


def write_demo_table(path: Path) -> None:
    """Write hourly readings of four stations as CSV, with daily and weekly cycles, slow noise and missing values."""
    rng = np.random.default_rng(0)
    hours = np.arange(24 * 7 * WEEKS)
    day, week = 2 * np.pi * hours / 24, 2 * np.pi * hours / 168
    common = 60 + 12 * np.sin(day - 1.5) + 6 * np.sin(week) + 4 * _slow_noise(rng, len(hours))
    own = np.column_stack([_slow_noise(rng, len(hours)) for _ in STATIONS])
    readings = common[:, None] * [1.0, 0.9, 1.2, 0.7] + 2 * own + rng.standard_normal(own.shape)
    seen = rng.uniform(size=own.shape) >= MISSING
    times = np.datetime64("2024-01-01T00:00") + hours.astype("timedelta64[h]")
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"time,{','.join(STATIONS)}\n")
        for time, values, known in zip(times, readings, seen, strict=True):
            cells = (f"{value:.1f}" if there else "" for value, there in zip(values, known, strict=True))
            file.write(f"{str(time).replace('T', ' ')},{','.join(cells)}\n")


def _slow_noise(rng: np.random.Generator, n: int) -> Array:
    """(n,) autoregressive noise with a correlation time of days and a standard deviation of about 1."""
    steps = np.sqrt(1 - 0.99**2) * rng.standard_normal(n)
    steps[0] = 0.0
    return np.asarray(lfilter([1.0], [1.0, -0.99], steps))


ROWS, OUTPUTS, CHUNK = 3000, 6, 200

#: Names of the learners that the conclusion compares.
AUTOMATIC = "no settings (AutoStream)"
FORGETTING, NOT_FORGETTING = "coupled, forgetting (PKAWV)", "coupled, not forgetting (PKAWV)"
COUPLED, SEPARATE = "coupled (OLOK)", "separate outputs (OLOK)"


def learners() -> dict[str, Any]:
    """`AutoStream`, and learners with the same scalar kernel."""
    k = Gaussian(0.8)
    # Few points suffice in the plane. The weight of a row is 1/3 after 70 rows. Chosen on streams with other seeds.
    few: dict[str, Any] = {"features": Nystrom(Uniform(size=40)), "forecaster": "ridge", "random_state": 0}
    return {
        AUTOMATIC: AutoStream(),
        FORGETTING: PKAWV(k * MixedEffect(0.9), 0.1, discount=0.985, **few),
        NOT_FORGETTING: PKAWV(k * MixedEffect(0.9), 0.1, **few),
        COUPLED: OLOK(k * MixedEffect(0.5), alpha=1e-4, schedule="auto", truncation=1500),
        SEPARATE: OLOK(k, alpha=1e-4, schedule="auto", truncation=1500),
    }


def command(
    directory: Annotated[Path, typer.Option("--out", help="Directory for report.html, demo.ovk and demo.csv.")] = Path(
        "."
    ),
    rows: Annotated[int, typer.Option(help="Rows of the stream.", min=400)] = ROWS,
) -> None:
    """Compare learners on a generated stream with related outputs, missing labels and drift.

    Writes a report (report.html), a sample file (demo.csv), and a model of it (demo.ovk) to experiment with.
    """
    with exit_code_on_error(Exit.USAGE):
        directory.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    stream = make_stream(rows, OUTPUTS, random_state=0)
    missing = float(np.isnan(stream.target).mean())
    show(
        f"{OUTPUTS} related outputs, {rows:,} rows, {missing:.0%} of the labels missing. In the middle third, the "
        "shared function changes."
    )
    show("Each row is predicted before it is learned.")
    show("")
    with one_blas_thread(tiles=1):
        found = _evaluate(stream)
    seconds = time.perf_counter() - start
    model_file, page, file = directory / "demo.ovk", directory / "report.html", directory / "demo.csv"
    write_demo_table(file)
    settings = Settings(list(STATIONS), time=["time"], lags=list(LAGS), block=512)
    with Display(f"learning {file.name}", 0.0) as display:

        def count(reached: SessionProgress) -> None:
            display.done = reached.session.offset / (24 * 7 * WEEKS)

        session = learn(file, settings, save_to=model_file, on_progress=count)
    errors = _errors(found, rows)
    summary = replace(
        result_summary(found),
        conclusion=_conclusion(errors),
        settings={"command": "ovk demo"},
        # The rows of the stream have no order that a plot could show; hours have.
        recent=session.recent,
        targets=list(STATIONS),
    )
    summary.sentences += [
        f"{rows:,} rows with {OUTPUTS} related outputs; {missing:.0%} of the labels are missing",
        "in the middle third of the stream, the shared function changes",
        "coupled outputs share their labels; separate outputs use only their own",
        f"learning took {seconds:,.1f} seconds",
        "the predictions and outcomes of the last rows below are those of the sample file, learned by AutoStream",
    ]
    parts = ("before the drift", "during", "after", "all rows")
    table = ScoreTable("mean squared error", tuple(errors), parts, np.array(list(errors.values())))
    for line in [*table.lines(), "", *summary.conclusion.splitlines(), ""]:
        show(line)
    try:
        report(summary, page, title="ovk demo")
        show(f"report: {page} (open it in a browser)")
    except ImportError as missing_package:
        show(f"no report: {missing_package}", err)
    show(f"table:  {file} (hourly readings of {len(STATIONS)} stations, {MISSING:.0%} missing)")
    show(f"model:  {model_file} (AutoStream on this table)")
    for line in session.summary().conclusion.splitlines():
        show(f"  {line}")
    show("Try:")
    prefix = "" if directory == Path(".") else f"{directory}/"
    for line in COMMANDS:
        show(f"  {line.format(table=file, model=model_file, directory=prefix)}")


def _evaluate(stream: Any) -> ProgressiveResult:
    """The results of all learners as one: the first learner is its model, the others are among its baselines."""
    models, results = learners(), list[ProgressiveResult]()
    with Display("learning", 0.0) as display:
        for k, (name, model) in enumerate(models.items()):
            display.text, display.done = name, k / len(models)
            # The baselines do not depend on the learner.
            baselines: list[Any] = [] if results else ["mean", RefittedRidge(max_rows=600)]
            found = progressive(
                model, stream.data, stream.target, untested=CHUNK, baselines=baselines, chunk_size=CHUNK, keep="all",
                progress=False,
            )  # fmt: skip
            results.append(replace(found, model=found.model._replace(name=name)))
    first, *others = results
    rivals = (*(one.model for one in others), *first.baselines)
    predictions = (*(one.predictions for one in others), *(first.baseline_predictions or ()))
    return replace(first, baselines=rivals, baseline_predictions=predictions, outputs=tuple(stream.target_names))


def _errors(found: ProgressiveResult, rows: int) -> dict[str, list[float]]:
    """Mean squared errors of each learner before, during and after the drift, and on all rows."""
    parts = [*(found.part(slice(rows * k // 3, rows * (k + 1) // 3)) for k in range(3)), found]
    return {one.name: [float(np.mean(part.learners[k].mse)) for part in parts] for k, one in enumerate(found.learners)}


def _conclusion(errors: dict[str, list[float]]) -> str:
    """The effects of coupling and of forgetting."""
    gain = errors[COUPLED][-1] / errors[SEPARATE][-1] - 1
    factor = errors[NOT_FORGETTING][2] / errors[FORGETTING][2]
    return (
        f"Coupling the outputs {'lowers' if gain < 0 else 'raises'} the error of the same learner by {abs(gain):.0%}.\n"
        f"After the drift, the error of the learner that does not forget is {factor:.1f} times that of the one that "
        "does."
    )
