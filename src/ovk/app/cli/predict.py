"""``ovk predict``: predictions with intervals."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from ovk.app.cli.options import File, Format, Json, LevelOfModel, Out, check_output_path, listed
from ovk.app.cli.output import Exit, Failure, err, exit_code_on_error, plain, show
from ovk.app.sessions import FilePredictions, LearnedTable, PredictionColumns, Settings
from ovk.app.tables import open_records
from ovk.persistence import load, replacing

# Predictions on their way out: CSV, JSON lines or Parquet, to a file or to standard output.

#: Ending of a file that asks for Parquet.
PARQUET = ".parquet"


def write_predictions(
    found: Iterable[tuple[Any, ...]], columns: PredictionColumns, path: Path | None, *, as_json: bool
) -> None:
    """Write predictions as they come: to standard output, or to a file that is complete or not there."""
    if path is not None and path.suffix.lower() == PARQUET:
        _write_parquet(found, columns, path)
        return
    with _opened(path) as stream:
        if not as_json:
            stream.write(columns.header)
        for block in found:
            stream.writelines(map(_json_line, columns.objects(*block)) if as_json else columns.lines(*block))
            # Whoever sends rows one by one waits for each answer.
            stream.flush()


def _json_line(row: dict[str, object]) -> str:
    try:
        return json.dumps(row, allow_nan=False) + "\n"
    except (TypeError, ValueError):
        # Columns that are kept may hold anything that Parquet knows.
        return json.dumps(plain(row), allow_nan=False) + "\n"


def _write_parquet(found: Iterable[tuple[Any, ...]], columns: PredictionColumns, path: Path) -> None:
    writer = None
    with replacing(str(path)) as file:
        for block in found:
            table = columns.table(*block)
            if writer is None:
                from pyarrow import parquet

                writer = parquet.ParquetWriter(file, table.schema)
            writer.write_table(table)
        if writer is None:
            raise Failure("there are no rows to predict: nothing was written", Exit.DATA)
        writer.close()


@contextmanager
def _opened(path: Path | None) -> Iterator[TextIO]:
    if path is None:
        yield sys.stdout
        return
    with replacing(str(path)) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        yield text
        text.flush()
        text.detach()


def command(
    model: Annotated[Path, typer.Argument(help="A model of `ovk fit` or `ovk stream`.")],
    file: File,
    save: Out = None,
    keep: Annotated[
        str, typer.Option(help="Columns of the file to copy to the predictions, such as id, separated by commas.")
    ] = "",
    level: LevelOfModel = None,
    max_bad: Annotated[
        float,
        typer.Option(help="Stop with an error if more than this share of the rows has unreadable cells.", min=0, max=1),
    ] = Settings.max_bad,
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
    check_output_path(save, models=[model], reads=[file])
    learned = load_table_model(model)
    with exit_code_on_error(Exit.DATA), open_records(file, form or None) as records:
        records.live = True
        names = listed(keep)
        taken = {*learned.prediction_columns().names} & {*names}
        if taken:
            raise Failure(f"--keep {taken.pop()}: the predictions have a column of that name already", Exit.USAGE)
        rows = FilePredictions(learned, records, level, max_bad, names)
        found: Iterable[tuple[Any, ...]] = rows
        if records.fraction_read() is not None:
            # A file that lies there is refused, if it must be, before a line is written; a pipe may wait for the first.
            rest = iter(found)
            found = chain(list(islice(rest, 1)), rest)
        write_predictions(found, rows.columns, save, as_json=as_json)
    for warning in rows.warnings():
        show(f"warning: {warning}", err, style="yellow")


def load_table_model(path: Path) -> LearnedTable:
    """The model in a file, if it was learned from a table."""
    with exit_code_on_error(Exit.MODEL):
        learned = load(path)
    if isinstance(learned, LearnedTable):
        return learned
    name = type(learned).__name__
    raise Failure(
        f"{path} holds {'an' if name[0] in 'AEIO' else 'a'} {name}, which was not learned from a table: use "
        "ovk.load in Python",
        Exit.MODEL,
    )
