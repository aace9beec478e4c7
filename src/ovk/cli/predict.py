"""``ovk predict``: predictions with intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ovk.cli.errors import Exit, Failure, article, blaming
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

    A model of classes predicts labels and the probabilities of all classes. Nothing is learned. If the model uses
    lags, they are taken from the outputs in the file. Rows from standard input (-) are answered as they arrive.

    Example: ovk predict soil.ovk new-places.csv --out predictions.csv
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
        err.print(f"{predictor.n_bad:,} rows could not be read, or only in part (an unreadable cell counts as missing)")


def load_table_model(path: Path) -> Fitted | FittedClasses | Session:
    """The model in a file, if it was learned from a table."""
    with blaming(Exit.MODEL):
        learned = load(path)
    if isinstance(learned, (Fitted, FittedClasses, Session)):
        return learned
    raise Failure(
        f"{path} holds {article(type(learned).__name__)}, which was not learned from a table: use ovk.load in Python",
        Exit.MODEL,
    )
