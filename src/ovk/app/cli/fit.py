"""``ovk fit``: learn a table as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from ovk._extras import required
from ovk.app.cli.options import File, Format, Json, Report, WarnBad, check_model_path, check_report_path, takes_settings
from ovk.app.cli.output import Exit, Failure, announced, exit_code_on_error, print_json, print_summary
from ovk.app.parallel import WorkersLost, local_cluster
from ovk.app.sessions import Settings, TableModel, fit_files, fit_table
from ovk.app.tables import open_records, split_files
from ovk.persistence import save as save_model

#: Seconds that a scheduler may take to answer.
SCHEDULER_TIMEOUT = 30


@takes_settings(Settings, "fit")
def command(
    file: File,
    settings: Settings,
    save: Annotated[Path, typer.Option(help="File for the model.")],
    report: Report = None,
    landmarks: Annotated[
        int | None,
        typer.Option(help="For files larger than memory (and patterns of files): number of landmark points.", min=1),
    ] = None,
    scheduler: Annotated[str, typer.Option(help="Address of a Dask cluster that reads the files.")] = "",
    workers: Annotated[int, typer.Option(help="Number of processes on this machine that read the files.", min=0)] = 0,
    warn_bad: WarnBad = 0.01,
    form: Format = "",
    as_json: Json = False,
) -> None:
    """Learn a table that fits in memory: ridge regression with kernel, alpha and coupling chosen by leave-one-out.

    A fifth of the rows is left out of a first fit: the last fifth with --time or --lags, else every fifth row; with
    --groups, each fifth of the groups in turn. The errors on these rows are shown, and give the intervals of `ovk
    predict`; the saved model has learned all rows. Columns that should not be used are named with --ignore. With
    --landmarks, --scheduler or --workers, files of any size are read in parts, in three passes and bounded memory. With
    --classify the target holds classes, and their probabilities are learned.

    Example: ovk fit soil.csv --targets cadmium,zinc --save soil.ovk
    """
    if not settings.targets:
        raise Failure("name the output columns with --targets, such as --targets a,b,c", Exit.USAGE)
    check_model_path(save)
    check_report_path(report, save)
    in_ranges = landmarks is not None or bool(scheduler or workers)
    if settings.classify and in_ranges:
        raise Failure(
            "--classify learns tables that fit in memory: leave --landmarks, --scheduler and --workers "
            "out, or use ovk stream --classify",
            Exit.USAGE,
        )
    if in_ranges:
        model = _fit_in_ranges(file, form or None, settings, landmarks or 1000, scheduler, workers)
    else:
        with (
            exit_code_on_error(Exit.DATA),
            open_records(file, form or None) as records,
            announced(records.label) as on_progress,
        ):
            model = fit_table(records, settings, on_progress)
    with exit_code_on_error(Exit.USAGE):
        save_model(model, save)
    summary = model.summary()
    if report is not None:
        from ovk.app.report import report as write

        write(summary, report, title=f"What was learned from {Path(file).name}")
    if as_json:
        print_json({**summary.facts, "model_file": save, "report": report})
    else:
        print_summary(summary, warn_bad, {"model": save, "report": report})


def _fit_in_ranges(
    file: str, form: str | None, settings: Settings, landmarks: int, scheduler: str, workers: int
) -> TableModel:
    if scheduler and workers:
        raise Failure("--scheduler and --workers exclude each other: give one of them", Exit.USAGE)
    with exit_code_on_error(Exit.DATA), _cluster(scheduler, workers) as client, announced(file) as on_progress:
        ranges = split_files(file, form=form)
        on_progress(f"reading {file} in {len(ranges):,} part{'s' if len(ranges) > 1 else ''}")
        try:
            return fit_files(ranges, settings, landmarks, client)
        except WorkersLost as error:
            raise Failure(str(error), Exit.FAILED) from error


@contextmanager
def _cluster(scheduler: str, workers: int) -> Iterator[Any]:
    """A client of the cluster that was asked for; None for this process alone."""
    if not scheduler and not workers:
        yield None
        return
    if workers:
        with local_cluster(workers) as client:
            yield client
        return
    with required("--scheduler", "dask"):
        distributed: Any = import_module("distributed")
    try:
        client = distributed.Client(scheduler, timeout=SCHEDULER_TIMEOUT)
    except (OSError, ValueError, TimeoutError) as error:
        raise Failure(f"there is no Dask scheduler at {scheduler}: check the address ({error})", Exit.USAGE) from error
    with client:
        yield client
