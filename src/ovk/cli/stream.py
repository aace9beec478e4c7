"""``ovk stream``: learn a file of any length, row by row."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from ovk.cli.errors import Exit, Failure, blaming
from ovk.cli.memory import peak_memory
from ovk.cli.options import Features, File, Format, Json, Targets, Time, listed, whole_numbers
from ovk.cli.output import err, number, out, print_json, table
from ovk.persistence import CorruptFile, load
from ovk.sessions import MODELS, Session, Settings, learn
from ovk.sessions import Progress as Reached
from ovk.streams import open_records

NAME = "stream"

_MODELS = ", ".join(["auto", *MODELS])


def command(
    file: File,
    targets: Targets = "",
    features: Features = "",
    time_columns: Annotated[str, typer.Option("--time", help=Time.__metadata__[0].help)] = "",
    lags: Annotated[str, typer.Option(help="Outputs of so many rows before become inputs, such as 1,2,60.")] = "",
    model: Annotated[str, typer.Option(help=f"{_MODELS}.")] = "auto",
    kernel: Annotated[str, typer.Option(help="gaussian, laplacian, matern or linear.")] = "gaussian",
    coupling: Annotated[
        float | None, typer.Option(help="How much the outputs have in common, from 0 to below 1.", min=0, max=1)
    ] = None,
    warm_up: Annotated[int, typer.Option(help="Rows for scaling and bandwidth, learned but not tested.", min=2)] = 1000,
    block: Annotated[int, typer.Option(help="Rows read at a time.", min=1)] = 4096,
    checkpoint: Annotated[int, typer.Option(help="Rows between two checkpoints.", min=1)] = 100_000,
    save: Annotated[Path | None, typer.Option(help="Where to keep the model, written at every checkpoint.")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with this model, behind the rows that it has learned.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report (HTML) to this file.")] = None,
    predictions: Annotated[Path | None, typer.Option(help="Write all predictions into this folder, in parts.")] = None,
    form: Format = "",
    as_json: Json = False,
) -> None:
    """Predict every row of a file before learning from it: any length, bounded memory, no look-ahead.

    Rows that cannot be read are counted and left out; missing outputs are learned around. Words and dates become
    inputs by themselves. With --save the run can be killed at any moment and goes on with --resume: no row is learned
    twice or lost.
    """
    with blaming(Exit.USAGE):
        settings = _settings(
            targets, features, time_columns, lags, model, kernel, coupling, warm_up, block, checkpoint, resume
        )
    _check_places(save, resume, report, predictions)
    if resume is not None and not resume.exists():
        if settings is None:
            raise Failure(f"there is no model {resume} yet: to begin one, give --targets", Exit.USAGE)
        err.print(f"there is no {resume} yet: beginning at the first row")
    start = time.perf_counter()
    place = save or resume
    try:
        with blaming(Exit.DATA), open_records(file, form or None) as records, _Display(records.n_rows) as display:
            session = learn(
                records, settings, save_to=place, resume=resume, predictions=predictions, watch=display.show
            )
    except KeyboardInterrupt:
        cure = f"what is safe is in {place}: go on with --resume {place}" if place else "with --save it could go on"
        raise Failure(f"interrupted; {cure}", Exit.INTERRUPTED) from None
    seconds = time.perf_counter() - start
    found = {"rows_this_run": display.rows, "seconds": seconds, "peak_memory_mb": peak_memory()}
    if report is not None:
        from ovk.plotting import report as write

        write(session.result(), report, **session.for_report(str(file)), seconds=seconds)
    if as_json:
        print_json({**_summary(session), **found, "model_file": place, "report": report})
    else:
        _print(session, found)
        for what, path in (("model", place), ("predictions", predictions), ("report", report)):
            if path is not None:
                out.print(f"{what}: {path}", markup=False)


def _settings(
    targets: str,
    features: str,
    time_columns: str,
    lags: str,
    model: str,
    kernel: str,
    coupling: float | None,
    warm_up: int,
    block: int,
    every: int,
    resume: Path | None,
) -> Settings | None:
    """What was asked for; None if that is left to the model that is resumed."""
    if not targets:
        if resume is None:
            raise Failure("name the output columns with --targets, such as --targets a,b,c", Exit.USAGE)
        return None
    if model not in ("auto", *MODELS):
        raise Failure(f"--model must be one of {_MODELS}, got {model!r}", Exit.USAGE)
    return Settings(
        targets=listed(targets),
        features=listed(features) if features else None,
        time=listed(time_columns),
        lags=whole_numbers(lags, "--lags") if lags else [],
        model=model,
        kernel=kernel,
        coupling=coupling,
        warm_up=warm_up,
        block=block,
        every=every,
    )


def _check_places(save: Path | None, resume: Path | None, report: Path | None, predictions: Path | None) -> None:
    """What would fail after hours should fail at once."""
    for option, path in (("--save", save), ("--report", report), ("--resume", resume)):
        if path is not None and path.is_dir():
            raise Failure(f"{option} {path} is a folder: name a file in it", Exit.USAGE)
        if path is not None and not path.absolute().parent.is_dir():
            raise Failure(f"there is no folder {path.absolute().parent} for {option}: make it first", Exit.USAGE)
    if predictions is not None and predictions.exists() and not predictions.is_dir():
        raise Failure(f"--predictions {predictions} is a file: name a folder", Exit.USAGE)
    if report is not None:
        from ovk.plotting.display import pyplot

        pyplot()
    if save is not None and resume is None and save.exists():
        with blaming(Exit.MODEL):
            _refuse_to_overwrite(save)


def _refuse_to_overwrite(path: Path) -> None:
    """A file that is no model of ours is not for us to replace."""
    try:
        load(path)
    except CorruptFile as error:
        raise Failure(f"{path} is there and is not a model of ovk: give another name to --save", Exit.USAGE) from error


class _Display:
    """Rows so far, on standard error, if somebody is looking."""

    def __init__(self, total: int | None) -> None:
        self.rows = 0
        columns: list[Any] = [SpinnerColumn(), TextColumn("{task.description}")]
        if total is not None:
            columns += [BarColumn(), TaskProgressColumn()]
        self._progress = Progress(
            *columns, TimeElapsedColumn(), console=err, transient=True, disable=not err.is_terminal
        )
        self._task = self._progress.add_task("warming up", total=total)
        self._start = time.perf_counter()

    def __enter__(self) -> _Display:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def show(self, reached: Reached) -> None:
        """Say how far it is."""
        self.rows = reached.rows
        rate = reached.rows / max(time.perf_counter() - self._start, 1e-9)
        text = f"{reached.session.offset:,} rows, {rate:,.0f} a second, safe up to row {reached.saved:,}"
        self._progress.update(self._task, completed=reached.session.offset, description=text)


def _summary(session: Session) -> dict[str, Any]:
    result = session.result()
    return {
        "rows": session.offset,
        "unreadable_rows": session.n_bad,
        "faults": [{"row": row, "fault": fault} for row, fault in session.faults],
        "warm_up": result.warm_up,
        "model": result.model.name,
        "inputs": len(result.features),
        "outputs": list(result.outputs),
        "mse": {learner.name: learner.mse for learner in (result.model, *result.baselines)},
        "mae": {learner.name: learner.mae for learner in (result.model, *result.baselines)},
        "interval_coverage_90": session.recent.coverage[2],
    }


def _print(session: Session, found: dict[str, Any]) -> None:
    result = session.result()
    rate = found["rows_this_run"] / max(found["seconds"], 1e-9)
    out.print(
        f"{session.offset:,} rows read, {found['rows_this_run']:,} of them now in {found['seconds']:.1f} s "
        f"({rate:,.0f} a second, {found['peak_memory_mb']:,.0f} MB at most); the first {result.warm_up:,} were the "
        "warm-up"
    )
    if session.n_bad:
        out.print(f"{session.n_bad:,} rows could not be read and were left out:")
        for row, fault in session.faults[:3]:
            out.print(f"  row {row}: {fault}", markup=False)
    for name, why in session.preparation.left_out_.items():
        out.print(f"column {name!r} is not used: {why}", markup=False)
    learners = (result.model, *result.baselines)
    rows = [
        [output, *(number(learner.mse[q]) for learner in learners), f"{session.recent.coverage[2, q]:.0%}"]
        for q, output in enumerate(result.outputs)
    ]
    table("mean squared error", ["", *(learner.name for learner in learners), "in 90% interval"], rows)
