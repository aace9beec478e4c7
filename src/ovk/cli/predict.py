"""``ovk predict``: predictions with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ovk.cli.errors import Exit, Failure, blaming
from ovk.cli.options import File, Format, Json, Level, Out, check_level
from ovk.cli.output import err
from ovk.cli.prediction_files import check_place, write_predictions
from ovk.persistence import load
from ovk.sessions import Fitted, FittedClasses, Session
from ovk.streams import open_records

NAME = "predict"


def command(
    model: Annotated[Path, typer.Argument(help="A model of `ovk fit` or `ovk stream`.")],
    file: File,
    save: Out = None,
    level: Level = 0.9,
    form: Format = "",
    as_json: Json = False,
) -> None:
    """Predict the rows of a file, each output with an interval, as CSV (JSON lines with --json).

    Of classes the label is predicted, with the probabilities of all.

    Nothing is learned. Where the model uses lags, outputs that stand in the file serve as such. From standard input
    (-) every row is answered as it comes.
    """
    check_level(level)
    check_place(save)
    learned = load_table_model(model)
    predictor = learned.predictor()
    with blaming(Exit.DATA), open_records(file, form or None) as records:
        records.live = True
        predictor.bind(records.names, records.label)
        columns = learned.prediction_columns(outcomes=predictor.preparation.knows_outputs())
        found = (predictor.predict(batch, level) for batch in records.batches(4096))
        write_predictions(found, columns, save, as_json=as_json)
    if predictor.n_bad:
        err.print(
            f"{predictor.n_bad:,} rows could not be read, or only in part (a cell that cannot be read is missing)"
        )


def load_table_model(path: Path) -> Fitted | FittedClasses | Session:
    """The model in a file, if it was learned from a table."""
    with blaming(Exit.MODEL):
        learned = load(path)
    if isinstance(learned, (Fitted, FittedClasses, Session)):
        return learned
    raise Failure(
        f"{path} holds a {type(learned).__name__}, not a table that was learned: load it in Python (ovk.load)",
        Exit.MODEL,
    )
