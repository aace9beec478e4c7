"""Predictions on their way out: CSV, JSON lines or Parquet, to a file or to standard output."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from ovk.cli.errors import Exit, Failure
from ovk.cli.output import plain
from ovk.persistence.atomic import replacing

#: Ending of a file that asks for Parquet.
PARQUET = ".parquet"


def write_predictions(found: Iterable[Any], columns: Any, path: Path | None, *, as_json: bool) -> None:
    """Write predictions as they come: to standard output, or to a file that is complete or not there."""
    if path is not None and path.suffix.lower() == PARQUET:
        _write_parquet(found, columns, path)
        return
    with _opened(path) as stream:
        if not as_json:
            stream.write(columns.header)
        for predictions in found:
            rows = map(_json_line, columns.objects(predictions)) if as_json else columns.lines(predictions)
            stream.writelines(rows)
            # Whoever sends rows one by one waits for each answer.
            stream.flush()


def _json_line(row: dict[str, object]) -> str:
    try:
        return json.dumps(row, allow_nan=False) + "\n"
    except (TypeError, ValueError):
        # Columns that are kept may hold anything that Parquet knows.
        return json.dumps(plain(row), allow_nan=False) + "\n"


def _write_parquet(found: Iterable[Any], columns: Any, path: Path) -> None:
    writer = None
    with replacing(str(path)) as file:
        for predictions in found:
            table = columns.table(predictions)
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
