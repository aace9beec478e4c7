"""Rows of a file as they stand there, read once from front to back, in bounded memory.

Where `files` refuses a file with its first faulty line, records go on: a row that cannot be read is counted and named.
This is how files of the world are read; numbers, dates and categories are made of the cells elsewhere.
"""

from __future__ import annotations

import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self, TextIO

from ovk.streams.files import LONGEST, csv_header
from ovk.streams.text import COMPRESSED, STDIN, open_text, readable, stem_suffix

#: Most letters of a cell, which is Python's own limit unless somebody moves it.
FIELD = 1 << 17


class Batch(NamedTuple):
    """Rows as they stand in a file.

    Attributes
    ----------
    columns : a sequence of cells for each column of the file
    rows : number of each row, the first one below the header being 1
    bad : number and fault of the rows that could not be read; they have no cells
    """

    columns: list[Sequence[Any]]
    rows: list[int]
    bad: list[tuple[int, str]]


class Records(ABC):
    """A file, opened: names of its columns, then its rows, once.

    Attributes
    ----------
    names : names of the columns
    label : what to call the file in a message
    n_rows : number of rows, None where only reading would tell
    offset : rows read so far
    last : cells of the last row read, as a text to recognise the file by
    """

    names: tuple[str, ...]
    label: str
    n_rows: int | None = None
    offset: int = 0
    last: str = ""

    @abstractmethod
    def _read(self, size: int) -> tuple[list[Any], list[tuple[int, str]]]:
        """At most `size` rows, a faulty one as None; and their faults, by their place in the list. Empty at the end."""

    def _columns(self, rows: list[Any]) -> list[Sequence[Any]]:
        return list(zip(*rows, strict=True)) if rows else [()] * len(self.names)

    def batches(self, size: int) -> Iterator[Batch]:
        """The rows from `offset` on, at most `size` of them at a time."""
        while True:
            with readable(self.label):
                rows, faults = self._read(size)
            if not rows:
                return
            start = self.offset + 1
            self._advance(rows)
            numbers = list(range(start, start + len(rows)))
            if None in rows:
                numbers = [number for number, row in zip(numbers, rows, strict=True) if row is not None]
                rows = [row for row in rows if row is not None]
            yield Batch(self._columns(rows), numbers, [(start + i, fault) for i, fault in faults])

    def skip(self, count: int, size: int) -> None:
        """Go on to the row behind the first `count`, by the same batches in which they were read."""
        while self.offset < count:
            with readable(self.label):
                rows, _ = self._read(min(size, count - self.offset))
            if not rows:
                raise ValueError(
                    f"{self.label} has only {self.offset} rows, but {count} of them were learned already: it is not "
                    "the file that the model was learning from"
                )
            self._advance(rows)

    def _advance(self, rows: list[Any]) -> None:
        self.offset += len(rows)
        if rows[-1] is not None:
            self.last = repr(rows[-1])

    @abstractmethod
    def close(self) -> None:
        """Close the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class TextRecords(Records):
    """Rows of a text file that is open behind its header."""

    def __init__(self, file: TextIO, label: str) -> None:
        self.file, self.label = file, label

    def _lines(self) -> Iterator[str]:
        # Not `for line in file`: a line without an end would fill the memory.
        return iter(partial(self.file.readline, LONGEST), "")

    def close(self) -> None:
        self.file.close()


class CSVRecords(TextRecords):
    """Comma-separated values, or separated by semicolons, tabs or bars, with a line of names in front."""

    def __init__(self, file: TextIO, label: str) -> None:
        super().__init__(file, label)
        self.names, delimiter = csv_header(file, label)
        self.reader = csv.reader(self._lines(), delimiter=delimiter)

    def _read(self, size: int) -> tuple[list[Any], list[tuple[int, str]]]:
        # The limit belongs to the process, and others move it.
        others = csv.field_size_limit(FIELD)
        try:
            rows, faults = self._parsed(size)
        finally:
            csv.field_size_limit(others)
        width = len(self.names)
        if faults or set(map(len, rows)) != {width}:
            known = {i for i, _ in faults}
            for i, row in enumerate(rows):
                if i not in known and len(row) != width:
                    if row:
                        faults.append((i, f"{len(row)} fields where the first line names {width}"))
                    rows[i] = None
        return rows, sorted(faults)

    def _parsed(self, size: int) -> tuple[list[Any], list[tuple[int, str]]]:
        """Rows of any width, a faulty one as None."""
        rows: list[Any] = []
        faults: list[tuple[int, str]] = []
        while len(rows) < size:
            before = len(rows)
            try:
                # What was read before a fault stays in the list.
                rows.extend(islice(self.reader, size - len(rows)))
            except csv.Error as error:
                faults.append((len(rows), str(error)))
                rows.append(None)
                continue
            if len(rows) == before or len(rows) == size:
                break
        return rows, faults


class JSONRecords(TextRecords):
    """A JSON object a line; the columns are the keys of the first one."""

    def __init__(self, file: TextIO, label: str) -> None:
        super().__init__(file, label)
        self.lines = self._lines()
        with readable(label):
            first = next((line for line in self.lines if not line.isspace()), "")
        row = _object(first)
        if not row:
            found = f"got {first.strip()[:40]!r}" if first else "and it is empty"
            raise ValueError(f'the first line of {label} must hold a JSON object such as {{"x": 1.5}}, {found}')
        self.names = tuple(row)
        self.first: list[str] = [first]

    def _read(self, size: int) -> tuple[list[Any], list[tuple[int, str]]]:
        lines = [*self.first, *islice(self.lines, size - len(self.first))]
        self.first = []
        rows: list[Any] = []
        faults: list[tuple[int, str]] = []
        for i, line in enumerate(lines):
            row = _object(line)
            rows.append(None if row is None else [row.get(name) for name in self.names])
            if row is None and not line.isspace():
                faults.append((i, f"{line.strip()[:40]!r} is not a JSON object"))
        return rows, faults


class ParquetRecords(Records):
    """A Parquet file, through pyarrow."""

    def __init__(self, path: Path) -> None:
        try:
            from pyarrow import ArrowException, parquet
        except ImportError as error:
            raise ImportError("Parquet files need pyarrow: install it with  pip install 'ovk[files]'") from error
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder: give a file in it")
        self.label, self._error = path.name, ArrowException
        try:
            # Unless told otherwise, pyarrow reads all row groups ahead, that is the whole file.
            self.file = parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16)
        except (ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise ValueError(f"{self.label} is not a Parquet file, or it is damaged: {error}") from error
        self.names = tuple(self.file.schema_arrow.names)
        self.n_rows = int(self.file.metadata.num_rows)
        self.batch: Iterator[Any] | None = None
        self.rest: list[Any] = []

    def _read(self, size: int) -> tuple[list[Any], list[tuple[int, str]]]:
        if self.batch is None:
            self.batch = self.file.iter_batches(batch_size=size, use_threads=False)
        # Batches end where row groups do: fill up, so that the same rows always stand together.
        try:
            while len(self.rest) < size and (batch := next(self.batch, None)) is not None:
                self.rest += zip(*(column.to_pylist() for column in batch.columns), strict=True)
        except (self._error, OSError, ValueError) as error:
            raise ValueError(f"{self.label} cannot be read on ({error}): it is damaged") from error
        rows, self.rest = self.rest[:size], self.rest[size:]
        return rows, []

    def close(self) -> None:
        self.file.close()


def open_records(path: str | Path, form: str | None = None) -> Records:
    """Open a file for reading once: CSV, JSON lines or Parquet, compressed perhaps, or ``-`` for standard input.

    Parameters
    ----------
    path : the file
    form : "csv", "jsonl" or "parquet"; by default what the ending of the name says, or else its first letter

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.streams import open_records
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "t.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("a,b\\n1,2\\n3\\nx,?\\n")
    ...     with open_records(path) as records:
    ...         [(batch.columns, batch.rows, batch.bad) for batch in records.batches(10)]
    [([('1', 'x'), ('2', '?')], [1, 3], [(2, '1 fields where the first line names 2')])]
    """
    path = Path(path)
    ending = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
    known = form or ending.get(stem_suffix(path))
    if known not in (None, "csv", "jsonl", "parquet"):
        raise ValueError(f"the format must be csv, jsonl or parquet, got {form!r}")
    if known == "parquet":
        if str(path) == STDIN or path.suffix.lower() in COMPRESSED:
            raise ValueError("Parquet is read from a file of its own, not from a pipe or a compressed one: unpack it")
        return ParquetRecords(path)
    label = "standard input" if str(path) == STDIN else path.name
    file = open_text(path)
    try:
        if known is None:
            known = "jsonl" if _first_letter(file) == "{" else "csv"
        return JSONRecords(file, label) if known == "jsonl" else CSVRecords(file, label)
    except BaseException:
        file.close()
        raise


def _first_letter(file: TextIO) -> str:
    """The first letter, without moving on."""
    head: bytes = file.buffer.peek(64)  # type: ignore[attr-defined]
    return head.decode(file.encoding, errors="replace").lstrip("\ufeff \t\r\n")[:1]


def _object(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
