"""``ovk fit``: fit a model to a whole table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from ovk._extras import required
from ovk.app.cli.options import File, Format, Json, Report, WarnBad, check_model_path, check_report_path, takes_settings
from ovk.app.cli.output import CommandError, Exit, announced, exit_code_on_error, publish
from ovk.app.parallel import WorkersLostError, local_cluster
from ovk.app.sessions import Settings, fit_files, fit_table
from ovk.app.tables import open_records, split_files
from ovk.persistence import save as save_model

#: Timeout in seconds for the answer of a scheduler.
SCHEDULER_TIMEOUT = 30


@takes_settings(Settings, "fit")
def command(
    file: File,
    settings: Settings,
    save: Annotated[Path, typer.Option(help="File for the model.")],
    report: Report = None,
    landmarks: Annotated[
        int | None,
        typer.Option(help="Number of landmarks, for files larger than memory or patterns such as 'data/*.csv'.", min=1),
    ] = None,
    scheduler: Annotated[str, typer.Option(help="Address of a Dask cluster that reads the files.")] = "",
    workers: Annotated[int, typer.Option(help="Number of processes on this machine that read the files.", min=0)] = 0,
    warn_bad: WarnBad = 0.01,
    form: Format = "",
    as_json: Json = False,
) -> None:
    """Fit ridge regression to a table that fits in memory; leave-one-out selects kernel, alpha and coupling.

    To estimate errors and intervals, a first fit holds out a fifth of the rows: the last fifth with --time or --lags,
    otherwise every fifth row; with --groups, each fifth of the groups in turn. The saved model is fitted to all rows.
    With --landmarks, --scheduler or --workers, files of any size are read in three passes with bounded memory. With
    --classify, the model predicts the probabilities of classes.

    Example: ovk fit soil.csv --targets cadmium,zinc --save soil.ovk
    """
    if not settings.targets:
        raise CommandError("pass the output columns with --targets, such as --targets a,b,c")
    check_model_path(save)
    check_report_path(report, save)
    in_ranges = landmarks is not None or bool(scheduler or workers)
    if settings.classify and in_ranges:
        raise CommandError(
            "--classify requires a table that fits in memory: omit --landmarks, --scheduler and --workers, or use ovk "
            "stream --classify"
        )
    if scheduler and workers:
        raise CommandError("--scheduler and --workers cannot be combined")
    if in_ranges:
        with exit_code_on_error(Exit.DATA), _cluster(scheduler, workers) as client, announced(file) as on_progress:
            ranges = split_files(file, form=form or None)
            on_progress(f"reading {file} in {len(ranges):,} range{'s' if len(ranges) > 1 else ''}")
            try:
                model = fit_files(ranges, settings, landmarks or 1000, client)
            except WorkersLostError as error:
                raise CommandError(str(error), Exit.FAILED) from error
    else:
        with (
            exit_code_on_error(Exit.DATA),
            open_records(file, form or None) as records,
            announced(records.label) as on_progress,
        ):
            model = fit_table(records, settings, on_progress)
    with exit_code_on_error(Exit.USAGE):
        save_model(model, save)
    files = {"model": save, "report": report}
    publish(model.summary(), files, f"Results for {Path(file).name}", warn_bad, as_json=as_json)


@contextmanager
def _cluster(scheduler: str, workers: int) -> Iterator[Any]:
    """A client of the given cluster; None for this process alone."""
    if workers or not scheduler:
        with local_cluster(workers) if workers else nullcontext() as client:
            yield client
        return
    with required("--scheduler", "dask"):
        distributed: Any = import_module("distributed")
    try:
        client = distributed.Client(scheduler, timeout=SCHEDULER_TIMEOUT)
    except (OSError, ValueError, TimeoutError) as error:
        raise CommandError(f"no Dask scheduler at {scheduler}: check the address ({error})") from error
    with client:
        yield client
