"""``ovk predict``: predictions with intervals."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any

import typer

from ovk.cli.errors import Exit, Failure, article, blaming
from ovk.cli.options import File, Format, Json, Keep, LevelOfModel, MaxBad, Out, check_level, listed
from ovk.cli.output import err
from ovk.cli.places import check_place
from ovk.cli.prediction_files import write_predictions
from ovk.persistence import load
from ovk.sessions import Fitted, FittedClasses, Session
from ovk.sessions.file_predictions import MAX_BAD, FilePredictions
from ovk.streams import open_records


def command(
    model: Annotated[Path, typer.Argument(help="A model of `ovk fit` or `ovk stream`.")],
    file: File,
    save: Out = None,
    keep: Keep = "",
    level: LevelOfModel = None,
    max_bad: MaxBad = MAX_BAD,
    form: Format = "",
    as_json: Json = False,
) -> None:
    """Predict the rows of a file, each output with an interval, as CSV (JSON lines with --json).

    A model of classes predicts labels and the probabilities of all classes. Nothing is learned. If the model uses
    lags, they are taken from the outputs in the file. Rows from standard input (-) are answered as they arrive. --keep
    copies columns of the file, such as an id, to the predictions. Columns whose cells cannot be read, and words that
    were never learned, are named on standard error.

    Example: ovk predict soil.ovk new-places.csv --out predictions.csv
    """
    check_level(level)
    check_place(save, models=[model], reads=[file])
    learned = load_table_model(model)
    with blaming(Exit.DATA), open_records(file, form or None) as records:
        records.live = True
        rows = FilePredictions(learned, records, level, max_bad)
        found: Iterable[Any] = rows
        columns = rows.columns
        if names := listed(keep):
            if taken := [name for name in names if name in columns.names]:
                raise Failure(f"--keep {taken[0]}: the predictions have a column of that name already", Exit.USAGE)
            columns = rows.keeping(names)
        else:
            found = (predictions for predictions, _ in rows)
        if records.part_read() is not None:
            # A file that lies there is refused, if it must be, before a line is written; a pipe may wait for the first.
            rest = iter(found)
            found = chain(list(islice(rest, 1)), rest)
        write_predictions(found, columns, save, as_json=as_json)
    for remark in rows.remarks():
        err.print(f"warning: {remark}", style="yellow", markup=False)


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
