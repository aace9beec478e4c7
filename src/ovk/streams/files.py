"""Tables in files, read a block at a time: CSV, JSON lines, Parquet.

Text is read by the standard library and converted a block at a time by NumPy. That is half the speed of pyarrow's
reader (18 MB/s against 37) and as fast as the learners behind it; it names the line and the column of what it cannot
read, and leaves one code path whether pyarrow is installed or not.
"""

from __future__ import annotations

import csv
import json
import os
from abc import abstractmethod
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ovk._validation import Array
from ovk.streams.tables import Table, numbers
from ovk.streams.text import COMPRESSED, open_text, readable, stem_suffix

Row = tuple[list[Any], int]

#: Most letters of a line; a longer one is taken for several, which cannot be read as rows.
LONGEST = 1 << 23


class TextTable(Table):
    """A text file with a row a line, compressed or not."""

    n_rows = None

    def __init__(self, path: Path) -> None:
        self.path, self.label = path, path.name
        with self._open() as file:
            self.names = self._header(file)

    def _open(self) -> TextIO:
        return open_text(self.path)

    @abstractmethod
    def _header(self, file: TextIO) -> tuple[str, ...]:
        """Names of the columns."""

    @abstractmethod
    def _rows(self, file: TextIO, columns: list[int]) -> Iterator[Row]:
        """Cells of the columns, and number of the line, for each row."""

    def blocks(self, columns: list[int], size: int) -> Iterator[Array]:
        with self._open() as file:
            rows = self._rows(file, columns)
            while block := list(islice(rows, size)):
                cells, lines = zip(*block, strict=True)
                try:
                    values = np.array(cells, dtype=np.float64).reshape(len(cells), len(columns))
                except (TypeError, ValueError):
                    # Something is missing, or no number: cell by cell.
                    values = numbers(list(zip(*cells, strict=True)), self, columns, lines)
                yield values


class CSV(TextTable):
    """Comma-separated values with a header; or semicolons, tabs, bars: whichever is most frequent in the first line."""

    def _header(self, file: TextIO) -> tuple[str, ...]:
        names, self.delimiter = csv_header(file, self.label)
        return names

    def _rows(self, file: TextIO, columns: list[int]) -> Iterator[Row]:
        reader = csv.reader(file, delimiter=self.delimiter)
        width = len(self.names)
        every = columns == list(range(width))
        try:
            next(reader)
            for row in reader:
                if len(row) == width:
                    yield row if every else [row[j] for j in columns], reader.line_num
                elif row:
                    raise ValueError(
                        f"line {reader.line_num} of {self.label} has {len(row)} fields, but the first line names "
                        f"{width} columns: mend the line, or quote fields that hold the separator"
                    )
        except csv.Error as error:
            raise ValueError(
                f"line {reader.line_num} of {self.label} cannot be read ({error}): is a quote left open?"
            ) from error


def csv_header(file: TextIO, label: str) -> tuple[tuple[str, ...], str]:
    """Names of the columns and the separator, from the first line of a file."""
    with readable(label):
        first = file.readline(LONGEST)
    delimiter = max(",;\t|", key=first.count)
    try:
        names = next(csv.reader([first], delimiter=delimiter), [])
    except csv.Error as error:
        raise ValueError(f"the first line of {label} cannot be read ({error}): it must name the columns") from error
    if not any(names):
        raise ValueError(f"{label} is empty: its first line must hold the names of the columns")
    if all(map(_is_number, names)):
        raise ValueError(
            f"the first line of {label} must hold the names of the columns, got only numbers "
            f"({first.strip()[:40]!r}): put a line of names in front"
        )
    return tuple(name.strip() for name in names), delimiter


class JSONLines(TextTable):
    """A JSON object a line. The columns are the keys of the first; a key that a line lacks is a missing value."""

    def _header(self, file: TextIO) -> tuple[str, ...]:
        for row, _ in self._objects(file):
            return tuple(row)
        raise ValueError(f'{self.label} is empty: each line must hold a JSON object such as {{"x": 1.5}}')

    def _rows(self, file: TextIO, columns: list[int]) -> Iterator[Row]:
        keys = [self.names[j] for j in columns]
        for row, line in self._objects(file):
            yield [row.get(key) for key in keys], line

    def _objects(self, file: TextIO) -> Iterator[tuple[dict[str, Any], int]]:
        for number, line in enumerate(file, start=1):
            if line.isspace():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                row = None
            if not isinstance(row, dict):
                raise ValueError(
                    f'line {number} of {self.label} must hold a JSON object such as {{"x": 1.5}}, got '
                    f"{line.strip()[:40]!r}: write one object a line"
                )
            yield row, number


class Parquet(Table):
    """A Parquet file, through pyarrow: about a row group of it is in memory at a time."""

    def __init__(self, path: Path) -> None:
        try:
            from pyarrow import parquet
        except ImportError as error:
            raise ImportError("Parquet files need pyarrow: install it with  pip install 'ovk[files]'") from error
        self.path, self.label = path, path.name
        with parquet.ParquetFile(path) as file:
            self.names = tuple(file.schema_arrow.names)
            self.n_rows = int(file.metadata.num_rows)

    def blocks(self, columns: list[int], size: int) -> Iterator[Array]:
        from pyarrow import parquet, types

        start, names = 0, [self.names[j] for j in columns]
        # Unless told otherwise, pyarrow reads all row groups ahead, that is the whole file.
        with parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=1 << 16) as file:
            for batch in file.iter_batches(batch_size=size, columns=names, use_threads=False):
                cells = []
                for column in map(batch.column, names):
                    plain = types.is_floating(column.type) or types.is_integer(column.type)
                    # A cast that is not safe rounds whole numbers beyond 2^53, as floats must.
                    number = column.cast("float64", safe=False) if plain else None
                    cells.append(column.to_pylist() if number is None else number.to_numpy(zero_copy_only=False))
                yield numbers(cells, self, columns, start)
                start += len(batch)


#: How a file is read, by the ending of its name.
FORMATS: dict[str, type[TextTable] | type[Parquet]] = {
    ".csv": CSV,
    ".tsv": CSV,
    ".jsonl": JSONLines,
    ".ndjson": JSONLines,
    ".parquet": Parquet,
}


def open_table(path: str | os.PathLike[str]) -> Table:
    """The table in a file, by the ending of its name."""
    path = Path(path)
    kind = FORMATS.get(stem_suffix(path))
    if kind is None or (kind is Parquet and path.suffix.lower() in COMPRESSED):
        raise ValueError(
            f"the name of a file must end in {', '.join(FORMATS)} (text also with {', '.join(COMPRESSED)} behind it), "
            f"got {path.name!r}: rename it, or give an iterator of chunks (X, Y)"
        )
    return kind(path)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
