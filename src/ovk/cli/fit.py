"""``ovk fit``: learn a table as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ovk.cli.errors import Exit, Failure, blaming
from ovk.cli.options import Features, File, Format, Json, Targets, Time, listed, whole_numbers
from ovk.cli.output import err, number, out, print_json, table
from ovk.persistence import save as save_model
from ovk.sessions import Settings, fit_table
from ovk.streams import open_records

NAME = "fit"


def command(
    file: File,
    targets: Targets,
    save: Annotated[Path, typer.Option(help="Where to keep the model.")],
    features: Features = "",
    time_columns: Annotated[str, typer.Option("--time", help=Time.__metadata__[0].help)] = "",
    lags: Annotated[str, typer.Option(help="Outputs of so many rows before become inputs, such as 1,2,60.")] = "",
    kernel: Annotated[str, typer.Option(help="gaussian, laplacian, matern or linear.")] = "gaussian",
    coupling: Annotated[
        float | None, typer.Option(help="How much the outputs have in common. [default: chosen]", min=0, max=1)
    ] = None,
    form: Format = "",
    as_json: Json = False,
) -> None:
    """Learn a table that fits in memory: ridge regression with alpha and coupling chosen by leave-one-out.

    A fifth of the rows is left out of a first fit: its errors are shown, and make the intervals of `ovk predict`.
    """
    names = listed(targets)
    if not names:
        raise Failure("name the output columns with --targets, such as --targets a,b,c", Exit.USAGE)
    settings = Settings(
        targets=names,
        features=listed(features) if features else None,
        time=listed(time_columns),
        lags=whole_numbers(lags, "--lags") if lags else [],
        kernel=kernel,
        coupling=coupling,
    )
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
                "model_file": str(save),
            }
        )
        return
    if fitted.n_bad:
        out.print(f"{fitted.n_bad:,} rows could not be read and were left out")
    for name, why in fitted.preparation.left_out_.items():
        out.print(f"column {name!r} is not used: {why}", markup=False)
    rows = [[name, number(mse[q]), number(of_mean[q])] for q, name in enumerate(names)]
    table("mean squared error of the rows left out", ["", "model", "mean"], rows)
    out.print(f"model: {save}", markup=False)
