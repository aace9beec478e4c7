"""Predictions on their way out: CSV, JSON lines or Parquet, to a file or to standard output."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from ovk.cli.errors import Exit, Failure
from ovk.cli.output import plain
from ovk.persistence.atomic import replacing
from ovk.sessions.columns import csv_line, pyarrow, safe_text
from ovk.streams import Batch
from ovk.streams.preparation import find_columns

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


class KeptColumns:
    """Predictions with columns of the file that they were made from, which stand first.

    Parameters
    ----------
    columns : those of the predictions
    keep : names of the columns to copy
    names, label : columns of the file, and its name
    """

    def __init__(self, columns: Any, keep: Sequence[str], names: Sequence[str], label: str) -> None:
        find_columns(keep, names, label)
        for name in keep:
            if name in columns.names:
                raise Failure(f"--keep {name}: the predictions have a column of that name already", Exit.USAGE)
        self._columns, self._keep = columns, list(keep)
        self._places = [list(names).index(name) for name in keep]
        self.header = _before(keep, columns.header)

    def _cells(self, batch: Batch) -> list[Sequence[Any]]:
        return [batch.columns[place] for place in self._places]

    def lines(self, found: tuple[Any, Batch]) -> Iterator[str]:
        """A line of CSV for each row."""
        kept = zip(*self._cells(found[1]), strict=True)
        return (_before(cells, line) for cells, line in zip(kept, self._columns.lines(found[0]), strict=True))

    def objects(self, found: tuple[Any, Batch]) -> Iterator[dict[str, Any]]:
        """An object for each row."""
        kept = zip(*self._cells(found[1]), strict=True)
        for cells, row in zip(kept, self._columns.objects(found[0]), strict=True):
            yield {**dict(zip(self._keep, map(plain, cells), strict=True)), **row}

    def table(self, found: tuple[Any, Batch]) -> Any:
        """A table of pyarrow."""
        table = self._columns.table(found[0])
        for k, (name, cells) in enumerate(zip(self._keep, self._cells(found[1]), strict=True)):
            words = [None if cell is None else str(cell) for cell in cells]
            table = table.add_column(k, name, pyarrow().array(words, pyarrow().string()))
        return table


def _before(cells: Sequence[Any], line: str) -> str:
    """A line of CSV with cells before it."""
    return f"{csv_line([safe_text(cell) if isinstance(cell, str) else cell for cell in cells])[:-1]},{line}"


def _json_line(row: dict[str, object]) -> str:
    return json.dumps(row, allow_nan=False) + "\n"


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
