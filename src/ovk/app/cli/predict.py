"""``ovk predict``: predict the rows of a file, with intervals."""

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

from ovk.app.cli.options import NAMES, File, Format, Json, LevelOfModel, Out, check_output_path, split_names
from ovk.app.cli.output import CommandError, Exit, err, exit_code_on_error, plain, show
from ovk.app.sessions import FilePredictions, LearnedTable, PredictionColumns, Settings
from ovk.app.tables import open_records
from ovk.persistence import load, replacing


def write_predictions(
    found: Iterable[tuple[Any, ...]], columns: PredictionColumns, path: Path | None, *, as_json: bool
) -> None:
    """Write predictions as CSV, JSON lines or Parquet: immediately to standard output, or atomically to a file."""
    if path is not None and path.suffix.lower() == ".parquet":
        _write_parquet(found, columns, path)
        return
    with _opened(path) as stream:
        if not as_json:
            stream.write(columns.header)
        for block in found:
            stream.writelines(map(_json_line, columns.objects(*block)) if as_json else columns.lines(*block))
            # A program that sends single rows waits for each prediction.
            stream.flush()


def _json_line(row: dict[str, object]) -> str:
    try:
        return json.dumps(row, allow_nan=False) + "\n"
    except (TypeError, ValueError):
        # Columns that are kept may contain any type of Parquet.
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
            raise CommandError("the file has no rows: nothing was written", Exit.DATA)
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
    model: Annotated[Path, typer.Argument(help="A model saved by `ovk fit` or `ovk stream`.")],
    file: File,
    save: Out = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns of the file to copy to the predictions, such as id, separated by commas.", metavar=NAMES
        ),
    ] = None,
    level: LevelOfModel = None,
    max_bad: Annotated[
        float,
        typer.Option(help="Stop with an error if more than this share of the rows has unreadable cells.", min=0, max=1),
    ] = Settings.max_bad,
    form: Format = "",
    as_json: Json = False,
) -> None:
    """Predict the rows of a file, with an interval for each output, as CSV (JSON lines with --json).

    Classifiers predict labels and the probabilities of all classes. The model does not change. Lags are taken from the
    outputs in the file. Rows from standard input (-) are predicted as they arrive. Unreadable cells and categories that
    were never learned are reported on standard error.

    Example: ovk predict soil.ovk new-places.csv --out predictions.csv
    """
    check_output_path(save, models=[model], reads=[file])
    learned = load_table_model(model)
    with exit_code_on_error(Exit.DATA), open_records(file, form or None) as records:
        records.live = True
        rows = FilePredictions(learned, records, level, max_bad, split_names(keep))
        found: Iterable[tuple[Any, ...]] = rows
        if records.fraction_read() is not None:
            # Reject an unreadable file before a line is written. A pipe may not have sent any row yet.
            rest = iter(found)
            found = chain(list(islice(rest, 1)), rest)
        write_predictions(found, rows.columns, save, as_json=as_json)
    for warning in rows.warnings():
        show(f"warning: {warning}", err, style="yellow")


def load_table_model(path: Path) -> LearnedTable:
    with exit_code_on_error(Exit.MODEL):
        learned = load(path)
    if isinstance(learned, LearnedTable):
        return learned
    message = f"{path} contains {type(learned).__name__}, not a model saved by `ovk fit` or `ovk stream`"
    raise CommandError(f"{message}; use ovk.load in Python", Exit.MODEL)
