"""``ovk fit``: learn a table as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ovk.cli.class_summary import class_table_summary, print_class_table
from ovk.cli.errors import Exit, Failure, blaming
from ovk.cli.options import (
    Classify,
    Features,
    File,
    Format,
    Horizon,
    Json,
    Lags,
    MaxBad,
    Targets,
    Time,
    WarnBad,
    asked_settings,
    check_kernel,
)
from ovk.cli.output import err, number, out, print_bad_rows, print_columns, print_json, shown_numbers, table
from ovk.distributed.local import local_cluster
from ovk.persistence import save as save_model
from ovk.sessions import Fitted, Settings, fit_classes, fit_files, fit_table
from ovk.streams import open_records, split_files

NAME = "fit"

#: Seconds that a scheduler may take to answer.
SCHEDULER = 30


def command(
    file: File,
    targets: Targets,
    save: Annotated[Path, typer.Option(help="File for the model.")],
    features: Features = None,
    time_columns: Time = "",
    lags: Lags = "",
    kernel: Annotated[
        str, typer.Option(help="auto tries several by leave-one-out; or gaussian, laplacian, matern, linear.")
    ] = "auto",
    coupling: Annotated[
        float | None, typer.Option(help="How much the outputs have in common. [default: chosen]", min=0, max=1)
    ] = None,
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

    A fifth of the rows is left out of a first fit. The errors on these rows are shown, and give the intervals of
    `ovk predict`. With --landmarks, --scheduler or --workers, files of any size are read in parts, in three passes and
    bounded memory. With --classify the target holds classes, and their probabilities are learned.

    Example: ovk fit soil.csv --targets cadmium,zinc --save soil.ovk
    """
    check_kernel("gaussian" if kernel == "auto" else kernel, coupling)
    options = {"max_bad": max_bad, "horizon": horizon, "classify": classify}
    settings = asked_settings(targets, features, time_columns, lags, kernel, coupling, **options)
    names = list(settings.targets)
    if not names:
        raise Failure("name the output columns with --targets, such as --targets a,b,c", Exit.USAGE)
    if classify:
        if landmarks is not None or scheduler or workers:
            raise Failure(
                "--classify learns tables that fit in memory: leave --landmarks, --scheduler and --workers "
                "out, or use ovk stream --classify",
                Exit.USAGE,
            )
        with blaming(Exit.DATA), open_records(file, form or None) as records, err.status(f"learning {records.label}"):
            classes = fit_classes(records, settings)
        with blaming(Exit.USAGE):
            save_model(classes, save)
        if as_json:
            print_json({**class_table_summary(classes), "model_file": str(save)})
        else:
            print_class_table(classes, warn_bad)
            out.print(f"model: {save}", markup=False)
        return
    if landmarks is not None or scheduler or workers:
        fitted = _fit_in_parts(file, form or None, settings, landmarks or 1000, scheduler, workers)
    else:
        with blaming(Exit.DATA), open_records(file, form or None) as records, err.status(f"learning {records.label}"):
            fitted = fit_table(records, settings)
    with blaming(Exit.USAGE):
        save_model(fitted, save)
    mse, of_mean = fitted.errors
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
                "faults": [{"row": row, "fault": fault} for row, fault in fitted.faults],
                "columns": fitted.preparation.describe(),
                "model_file": str(save),
            }
        )
        return
    print_bad_rows(fitted.n_bad, fitted.n_rows, fitted.faults[:3], warn_bad)
    print_columns(fitted.preparation.describe())
    explained = 1.0 - mse / of_mean
    rows = [
        [name, number(mse[q]), number(of_mean[q]), number(mse[q] ** 0.5), number(explained[q])]
        for q, name in enumerate(names)
    ]
    table("mean squared error of the rows left out", ["", "model", "mean", "RMSE", "R2"], rows)
    alphas = ", ".join(f"{alpha:.3g}" for alpha in np.atleast_1d(fitted.estimator.alpha))
    kernel = shown_numbers(repr(fitted.estimator.kernel_))
    out.print(f"chosen: {kernel}, alpha {alphas}", markup=False)
    out.print(f"model: {save}", markup=False)


def _fit_in_parts(
    file: str, form: str | None, settings: Settings, landmarks: int, scheduler: str, workers: int
) -> Fitted:
    if scheduler and workers:
        raise Failure("--scheduler and --workers exclude each other: give one of them", Exit.USAGE)
    with blaming(Exit.DATA), _cluster(scheduler, workers) as client:
        return fit_files(split_files(file, form=form), settings, landmarks, client)


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
    try:
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise ImportError("--scheduler needs Dask: install it with  pip install 'ovk[dask]'") from error
    try:
        client = distributed.Client(scheduler, timeout=SCHEDULER)
    except (OSError, ValueError, TimeoutError) as error:
        raise Failure(f"there is no Dask scheduler at {scheduler}: check the address ({error})", Exit.USAGE) from error
    with client:
        yield client
