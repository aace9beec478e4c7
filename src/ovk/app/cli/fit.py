"""``ovk fit``: learn a table as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from ovk._extras import required
from ovk.app.cli.errors import Exit, Failure, check_model_path, check_report_path, exit_code_on_error
from ovk.app.cli.options import (
    COUPLING,
    Classify,
    Features,
    File,
    Format,
    Horizon,
    Ignore,
    Json,
    Lags,
    MaxBad,
    Targets,
    Time,
    WarnBad,
    asked_settings,
    check_kernel,
    listed,
)
from ovk.app.cli.output import (
    announced,
    faults_json,
    number,
    out,
    percent,
    print_bad_rows,
    print_columns,
    print_json,
    print_observed,
    print_remarks,
    table,
)
from ovk.app.cli.summaries import class_table_summary, print_class_table
from ovk.app.parallel import WorkersLost, local_cluster
from ovk.app.sessions import (
    Fitted,
    FittedClasses,
    Settings,
    doubts,
    fit_classes,
    fit_files,
    fit_table,
    hints,
    rows_learned,
    valid_for,
)
from ovk.app.tables import open_records, split_files
from ovk.persistence import save as save_model

#: Seconds that a scheduler may take to answer.
SCHEDULER = 30


def command(
    file: File,
    targets: Targets,
    save: Annotated[Path, typer.Option(help="File for the model.")],
    features: Features = None,
    ignore: Ignore = "",
    groups: Annotated[
        str,
        typer.Option(
            help="Column that tells which rows belong together, such as patient: it is no input, and whole groups are "
            "left out, so that kernel, errors and intervals are those for new groups."
        ),
    ] = "",
    time_columns: Time = "",
    lags: Lags = "",
    kernel: Annotated[
        str, typer.Option(help="auto tries several by leave-one-out; or gaussian, laplacian, matern, linear.")
    ] = "auto",
    coupling: Annotated[float | None, typer.Option(help=f"{COUPLING} [default: chosen]")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report (HTML) to this file.")] = None,
    landmarks: Annotated[
        int | None,
        typer.Option(help="For files larger than memory (and patterns of files): number of landmark points.", min=1),
    ] = None,
    scheduler: Annotated[str, typer.Option(help="Address of a Dask cluster that reads the files.")] = "",
    workers: Annotated[int, typer.Option(help="Number of processes on this machine that read the files.", min=0)] = 0,
    horizon: Horizon = 24,
    classify: Classify = False,
    max_bad: MaxBad = 0.2,
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
    check_kernel(kernel, coupling, "auto")
    options = {"max_bad": max_bad, "horizon": horizon, "classify": classify, "ignore": listed(ignore)}
    options["groups"] = groups.strip() or None
    settings = asked_settings(targets, features, time_columns, lags, kernel, coupling, **options)
    with exit_code_on_error(Exit.USAGE):
        settings.check()
    names = list(settings.targets)
    if not names:
        raise Failure("name the output columns with --targets, such as --targets a,b,c", Exit.USAGE)
    check_model_path(save)
    check_report_path(report, save)
    if classify:
        if landmarks is not None or scheduler or workers:
            raise Failure(
                "--classify learns tables that fit in memory: leave --landmarks, --scheduler and --workers "
                "out, or use ovk stream --classify",
                Exit.USAGE,
            )
        with (
            exit_code_on_error(Exit.DATA),
            open_records(file, form or None) as records,
            announced(records.label) as say,
        ):
            classes = fit_classes(records, settings, say)
        written = _written(classes, save, report, file)
        if as_json:
            print_json({**class_table_summary(classes), **written})
        else:
            print_class_table(classes, warn_bad)
            _print_written(written)
        return
    if landmarks is not None or scheduler or workers:
        fitted = _fit_in_parts(file, form or None, settings, landmarks or 1000, scheduler, workers)
    else:
        with (
            exit_code_on_error(Exit.DATA),
            open_records(file, form or None) as records,
            announced(records.label) as say,
        ):
            fitted = fit_table(records, settings, say)
    written = _written(fitted, save, report, file)
    mse, of_mean = fitted.errors
    shown = fitted.recent.shown
    if as_json:
        print_json(
            {
                "outputs": names,
                "inputs": fitted.preparation.feature_names_,
                "left_out_mse": mse,
                "left_out_mse_of_mean": of_mean,
                "alpha": fitted.estimator.alpha,
                "kernel": repr(fitted.estimator.kernel_),
                "unreadable_rows": fitted.n_bad,
                "faults": faults_json(fitted.faults),
                "columns": fitted.preparation.describe(),
                "left_out_rows": fitted.tested,
                "rows": fitted.n_rows,
                "rows_learned": fitted.n_known,
                "groups": settings.groups,
                "remarks": doubts(fitted.preparation, fitted.columns()) + hints(fitted.preparation, table=True),
                "interval_level": shown.level,
                "interval_coverage": shown.coverage,
                "interval_width": shown.width,
                **written,
            }
        )
        return
    print_bad_rows(fitted.n_bad, fitted.n_rows, fitted.faults, warn_bad)
    print_columns(fitted.preparation.describe(), names)
    print_remarks(fitted.preparation, fitted.columns(), table=True)
    if fitted.n_known is not None and fitted.n_known < fitted.n_rows:
        out.print(f"learned: {rows_learned(fitted.n_known, fitted.n_rows)}")
    print_observed(fitted.columns())
    explained = 1.0 - mse / of_mean
    rows = [
        [name, *map(number, (mse[q], of_mean[q], mse[q] ** 0.5, explained[q])), percent(shown.coverage[q])]
        for q, name in enumerate(names)
    ]
    title = f"errors on rows left out of a first fit: {fitted.tested}"
    table(title, ["", "MSE", "MSE of the mean", "RMSE", "R2", f"in {shown.percent} interval"], rows)
    out.print(valid_for(settings), markup=False)
    out.print(f"chosen: {fitted.chosen()}", markup=False)
    _print_written(written)


def _written(fitted: Fitted | FittedClasses, save: Path, report: Path | None, file: str) -> dict[str, str | None]:
    """Write model and report; their names, as `--json` prints them."""
    with exit_code_on_error(Exit.USAGE):
        save_model(fitted, save)
    if report is not None:
        from ovk.app.report import model_page

        model_page(fitted, report, f"What was learned from {Path(file).name}")
    return {"model_file": str(save), "report": None if report is None else str(report)}


def _print_written(written: dict[str, str | None]) -> None:
    for what, path in zip(("model", "report"), written.values(), strict=True):
        if path is not None:
            out.print(f"{what}: {path}", markup=False)


def _fit_in_parts(
    file: str, form: str | None, settings: Settings, landmarks: int, scheduler: str, workers: int
) -> Fitted:
    if scheduler and workers:
        raise Failure("--scheduler and --workers exclude each other: give one of them", Exit.USAGE)
    with exit_code_on_error(Exit.DATA), _cluster(scheduler, workers) as client, announced(file) as say:
        ranges = split_files(file, form=form)
        say(f"reading {file} in {len(ranges):,} part{'s' if len(ranges) > 1 else ''}")
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
        client = distributed.Client(scheduler, timeout=SCHEDULER)
    except (OSError, ValueError, TimeoutError) as error:
        raise Failure(f"there is no Dask scheduler at {scheduler}: check the address ({error})", Exit.USAGE) from error
    with client:
        yield client
