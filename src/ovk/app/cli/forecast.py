"""``ovk forecast``: forecast the next rows."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ovk.app.cli.options import Format, Json, LevelOfModel, Out, check_output_path
from ovk.app.cli.output import CommandError, Exit, err, exit_code_on_error, show
from ovk.app.cli.predict import load_table_model, write_predictions
from ovk.app.sessions import PredictionColumns
from ovk.app.tables import open_records


def command(
    model: Annotated[Path, typer.Argument(help="A model saved by `ovk stream` or `ovk fit` with --lags or --time.")],
    steps: Annotated[int, typer.Option(help="Rows to forecast.", min=1)] = 24,
    inputs: Annotated[
        str, typer.Option(help="File of the next rows, with the inputs that are neither lags nor dates.")
    ] = "",
    level: LevelOfModel = None,
    save: Out = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the last rows and the forecast (.png, .svg, .pdf).")] = None,
    form: Format = "",
    as_json: Json = False,
) -> None:
    """Forecast the rows after those a model has learned, with intervals and dates, as CSV or JSON lines.

    Each forecast is a lag of the following ones, and dates continue at the interval of the last rows. The interval of
    step h comes from the errors of forecasts h rows ahead, tested while learning, up to the --horizon of `ovk stream`
    or `ovk fit` (24 by default).

    Example: ovk forecast model.ovk --steps 24 --plot forecast.png
    """
    for path, option in ((save, "--out"), (plot, "--plot")):
        check_output_path(path, option, models=[model], reads=[inputs or None])
    if plot is not None:
        from ovk.plotting import check_figure_path

        with exit_code_on_error(Exit.USAGE):
            check_figure_path(plot)
    learned = load_table_model(model)
    if learned.settings.classify:
        raise CommandError(f"`ovk forecast` does not support classes, which {model} predicts: use ovk predict")
    with exit_code_on_error(Exit.DATA):
        opened: Any = open_records(inputs, form or None) if inputs else nullcontext()
        with opened as future:
            found = learned.forecast(steps, level, future)
    columns = PredictionColumns(found.outputs, timed=found.instants is not None, first="step")
    write_predictions([(found.predictions(),)], columns, save, as_json=as_json)
    if plot is not None:
        from ovk.app.report import ForecastDisplay
        from ovk.plotting import save_figure

        save_figure(ForecastDisplay.from_forecast(found, learned.recent), plot)
    bounded = int(np.isfinite(found.widths).all(axis=1).sum())
    if bounded < steps:
        advice = "too few rows were learned to test forecasts this far ahead"
        if int(learned.settings.horizon) < steps:
            advice = f"learn with --horizon {steps} to get all of them"
        show(f"only {bounded} of {steps} steps have intervals: {advice}", err)
