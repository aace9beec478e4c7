"""Rows of a file as they stand there, read once from front to back, in bounded memory: CSV, JSON lines, Parquet.

A row that cannot be read is counted and named, and the others are read on; a strict reader refuses the file with its
first faulty row. Text is read by the standard library: half the speed of pyarrow's reader and faster than the learners
behind it; it names the line of what it cannot read, and leaves one way whether pyarrow is installed or not.

When a file is read again, it is recognised by a digest of everything in it up to a row: of the text, after
decompression and decoding, so that a log may be packed between two runs. It costs a few percent of reading: lines are
joined and hashed a block at a time.
"""

from __future__ import annotations

import csv
import hashlib
import json
import lzma
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice, tee
from pathlib import Path
from typing import Any, NamedTuple, Self, TextIO

import numpy as np

from ovk._extras import required
from ovk.app.tables.text import COMPRESSED, MAX_LINE, STDIN, PipedText, open_text, part_read, stem_suffix


class TextDigest:
    """A running digest of lines. The end of the last one does not count: a file whose last line has none may grow."""

    def __init__(self) -> None:
        # The fastest of hashlib where the processor helps, as nearly all do.
        self._hash = hashlib.sha256()
        self._end = ""

    def add(self, lines: str) -> None:
        """Add lines, all of them with their ends but perhaps the last line of the file."""
        if not lines:
            # The end of the file was met: the end of its last line does not count yet.
            return
        body = lines.removesuffix("\n").removesuffix("\r")
        self._hash.update((self._end + body).encode("utf-8", "surrogatepass"))
        self._end = lines[len(body) :]

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


#: Most letters of a cell, which is Python's own limit unless somebody moves it.
MAX_CELL = 1 << 17


class Batch(NamedTuple):
    """Rows as they stand in a file: cells by column, and the rows that could not be read, which have no cells."""

    columns: list[Sequence[Any]]
    rows: list[int]  # number of each row, the first one below the header being 1
    bad: list[tuple[int, str]]  # number and fault


def concatenate(batches: list[Batch], width: int) -> Batch:
    """All rows of the batches in one."""
    columns: list[Sequence[Any]] = [
        list(chain.from_iterable(batch.columns[j] for batch in batches)) for j in range(width)
    ]
    rows = list(chain.from_iterable(batch.rows for batch in batches))
    return Batch(columns, rows, list(chain.from_iterable(batch.bad for batch in batches)))


class Records(ABC):
    """A file, opened: names of its columns, then its rows, once.

    With `strict` a row that cannot be read is an error, Parquet's numbers come as arrays, and no digest is kept.
    `columns` are the numbers of the columns to read, None for all.
    """

    names: tuple[str, ...]
    label: str  # what to call the file in a message
    n_rows: int | None = None  # None where only reading would tell
    #: Whether rows may be yet to come, so that to read on may take any time.
    waits: bool = False
    #: Whether the rows of a pipe are passed on as soon as they have come, however few, because somebody waits for an
    #: answer; by default batches are full, so that they do not depend on when the rows came.
    live: bool = False
    offset: int = 0  # rows read so far

    def __init__(self, label: str, strict: bool, columns: Sequence[int] | None) -> None:
        self.label, self.strict, self.columns = label, strict, columns

    @abstractmethod
    def _read(self, size: int) -> Batch | None:
        """At most `size` rows, None at the end."""

    @abstractmethod
    def place(self, row: int) -> str:
        """Where the row of that number, one of the last batch, stands in the file."""

    @abstractmethod
    def digest(self) -> str:
        """A digest of the names of the columns and of the rows up to `offset`, to recognise the file by."""

    def part_read(self) -> float | None:
        """The part of the rows that were read so far, from 0 to 1; None where that is not known."""
        return self.offset / self.n_rows if self.n_rows else None

    @abstractmethod
    def close(self) -> None:
        """Close the file."""

    def batches(self, size: int) -> Iterator[Batch]:
        """The rows from `offset` on, at most `size` of them at a time."""
        while (batch := self._read(size)) is not None:
            yield batch

    def skip(self, count: int, size: int) -> None:
        """Go on to the row behind the first `count`, by the same batches in which they were read."""
        while self.offset < count:
            if self._read(min(size, count - self.offset)) is None:
                raise ValueError(
                    f"{self.label} has only {self.offset} rows, but {count} of them were learned already: it is not "
                    "the file that the model was learning from; to learn it as a further file, use "
                    "--continue-with (in Python, continue_with=)"
                )

    def position(self) -> Any:
        """Where we are, in a form that is saved with a session, if `offset` does not tell it."""
        return None

    def resume_at(self, offset: int, size: int, digest: str, position: Any) -> None:
        """Go on behind the first `offset` rows, which were read by batches of `size` and have that digest."""
        self.skip(offset, size)
        if position or self.digest() != digest:
            raise ValueError(
                f"the first {offset} rows of {self.label} are not those that were learned: it is not the file "
                "that the model was learning from, or a row or the names of its columns were changed since; to learn "
                "it as a further file, use --continue-with (in Python, continue_with=)"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class TextRecords(Records):
    """Rows of a text file, each a line or more."""

    #: What to do about a faulty row.
    cure: str

    def __init__(self, file: TextIO, label: str, strict: bool, columns: Sequence[int] | None) -> None:
        super().__init__(label, strict, columns)
        self.file = file
        #: Lines that were read to learn the names, and are rows as well.
        self._rows_at_hand = 0
        # Not `for line in file`: a line without an end would fill the memory.
        self.lines: Iterator[str] = iter(partial(file.readline, MAX_LINE), "")
        self._digest = TextDigest()
        #: The same lines once more, for the digest.
        self._again: Iterator[str] = iter(())

    def _keep_digest(self) -> None:
        """From here on every line that is read is added to the digest."""
        if not self.strict:
            self.lines, self._again = tee(self.lines)

    def _add_to_digest(self, count: int) -> None:
        """Add the next lines, which were read by now."""
        if not self.strict:
            self._digest.add("".join(islice(self._again, count)))

    def digest(self) -> str:
        return self._digest.hexdigest()

    @abstractmethod
    def _parse(self, size: int) -> tuple[list[Any], list[tuple[int, str]]]:
        """At most `size` rows, None for an empty or faulty one; and the faults, by their place in the list."""

    def _read(self, size: int) -> Batch | None:
        with readable(self.label):
            if self.live and isinstance(self.file, PipedText):
                # What was read to learn the names has come already.
                size = min(size, self._rows_at_hand or self.file.ready(size))
            self._rows_at_hand = 0
            rows, faults = self._parse(size)
        if not rows:
            return None
        first = self.offset + 1
        if faults and self.strict:
            i, fault = faults[0]
            raise ValueError(f"{self.place(first + i)} of {self.label} cannot be read: {fault}: {self.cure}")
        self.offset += len(rows)
        numbers = list(range(first, first + len(rows)))
        if None in rows:
            numbers = [number for number, row in zip(numbers, rows, strict=True) if row is not None]
            rows = [row for row in rows if row is not None]
        cells: list[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * len(self.names)
        if self.columns is not None:
            cells = [cells[j] for j in self.columns]
        return Batch(cells, numbers, [(first + i, fault) for i, fault in faults])

    def part_read(self) -> float | None:
        return part_read(self.file)

    def close(self) -> None:
        self.file.close()


def csv_rows(reader: Iterator[list[str]], most: int) -> tuple[list[Any], list[tuple[int, str]]]:
    """At most so many rows of any width, None for a faulty one; and the faults, by their place in the list."""
    rows: list[Any] = []
    faults: list[tuple[int, str]] = []
    # The limit belongs to the process, and others move it.
    others = csv.field_size_limit(MAX_CELL)
    try:
        while len(rows) < most:
            try:
                # What was read before a fault stays in the list.
                rows.extend(islice(reader, most - len(rows)))
                break
            except csv.Error as error:
                faults.append((len(rows), str(error)))
                rows.append(None)
    finally:
        csv.field_size_limit(others)
    return rows, faults


class CSVRecords(TextRecords):
    """Comma-separated values, or separated by semicolons, tabs or bars, with a line of names in front."""

    cure = "correct the line, and quote fields that hold the separator"

    def __init__(self, file: TextIO, label: str, strict: bool, columns: Sequence[int] | None) -> None:
        super().__init__(file, label, strict, columns)
        with readable(label):
            first = next(self.lines, "")
        delimiter = max(",;\t|", key=first.count)
        try:
            names = next(csv.reader([first], delimiter=delimiter), [])
        except csv.Error as error:
            raise ValueError(f"the first line of {label} cannot be read ({error}): it must name the columns") from error
        if not any(names):
            raise ValueError(f"{label} is empty: its first line must hold the names of the columns")
        if all(map(is_number, names)):
            raise ValueError(
                f"the first line of {label} must hold the names of the columns, got only numbers "
                f"({first.strip()[:40]!r}): put a line of names in front"
            )
        self.names = tuple(name.strip() for name in names)
        self._digest.add(first)
        self._keep_digest()
        self.reader = csv.reader(self.lines, delimiter=delimiter)
        #: Number of the first row of the last batch, lines before it, and its rows.
        self._batch: tuple[int, int, list[Any]] = (1, 1, [])

    def _parse(self, size: int) -> tuple[list[Any], list[tuple[int, str]]]:
        before = self.reader.line_num
        rows, faults = csv_rows(self.reader, size)
        self._add_to_digest(self.reader.line_num - before)
        width = len(self.names)
        if self.strict:
            self._batch = (self.offset + 1, before + 1, rows)
        if faults or set(map(len, rows)) != {width}:
            known = {i for i, _ in faults}
            for i, row in enumerate(rows):
                if i not in known and len(row) != width:
                    if row:
                        fields = "1 field" if len(row) == 1 else f"{len(row)} fields"
                        faults.append((i, f"{fields} where the first line names {width}"))
                    rows[i] = None
        return rows, sorted(faults)

    def place(self, row: int) -> str:
        first, before, rows = self._batch
        # A quoted cell may hold ends of lines.
        lines = sum(1 + sum(cell.count("\n") for cell in cells or ()) for cells in rows[: row - first])
        return f"line {before + lines + 1}"


class JSONRecords(TextRecords):
    """A JSON object a line; the columns are the keys of the first one, and a key that a line lacks is missing."""

    cure = 'write one object a line, such as {"x": 1.5}'

    def __init__(self, file: TextIO, label: str, strict: bool, columns: Sequence[int] | None) -> None:
        super().__init__(file, label, strict, columns)
        head: list[str] = []
        with readable(label):
            while (not head or head[-1].isspace()) and (line := next(self.lines, "")):
                head.append(line)
        row = _object(head[-1]) if head else None
        if not row:
            if not "".join(head).strip():
                raise ValueError(f'{label} is empty: each line must hold a JSON object such as {{"x": 1.5}}')
            raise ValueError(
                f'the first line of {label} must hold a JSON object such as {{"x": 1.5}}, got {head[-1].strip()[:40]!r}'
            )
        self.names = tuple(row)
        self.lines = chain(head, self.lines)
        self._rows_at_hand = len(head)
        self._keep_digest()

    def _parse(self, size: int) -> tuple[list[Any], list[tuple[int, str]]]:
        rows: list[Any] = []
        faults: list[tuple[int, str]] = []
        for i, line in enumerate(islice(self.lines, size)):
            row = _object(line)
            rows.append(None if row is None else [row.get(name) for name in self.names])
            if row is None and not line.isspace():
                faults.append((i, f"{line.strip()[:40]!r} is not a JSON object"))
        self._add_to_digest(len(rows))
        return rows, faults

    def place(self, row: int) -> str:
        return f"line {row}"


@contextmanager
def readable(label: str) -> Iterator[None]:
    """Turn what decompression raises for a damaged file into one kind of error that names it."""
    try:
        yield
    except (EOFError, lzma.LZMAError, zlib.error, OSError, UnicodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(
            f"{label} cannot be read on ({error}): it is damaged, cut short, or not what its name says"
        ) from error


def _object(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def is_number(text: str) -> bool:
    """Whether a text is a number, and so no name of a column."""
    try:
        float(text)
    except ValueError:
        return False
    return True


# Rows of a Parquet file.


class ParquetRecords(Records):
    """A Parquet file, through pyarrow: about a row group of it is in memory at a time."""

    def __init__(
        self, path: Path, strict: bool, columns: Sequence[int] | None, groups: Sequence[int] | None = None
    ) -> None:
        super().__init__(path.name, strict, columns)
        with required("Parquet files", "files"):
            from pyarrow import ArrowException, parquet
        self._error = ArrowException
        try:
            # Unless told otherwise, pyarrow reads all row groups ahead, that is the whole file.
            self.file = parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16)
        except (ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise ValueError(f"{self.label} is not a Parquet file, or it is damaged: {error}") from error
        self.names, self._groups = tuple(self.file.schema_arrow.names), groups
        metadata = self.file.metadata
        self.n_rows = int(metadata.num_rows if groups is None else sum(metadata.row_group(i).num_rows for i in groups))
        self._stream: Iterator[Any] | None = None
        self._ahead: list[Any] = []
        #: A digest for each column: it does not depend on the sizes of the batches.
        read = self.names if columns is None else [self.names[j] for j in columns]
        self._digests = [hashlib.sha256(repr(name).encode()) for name in read]

    def digest(self) -> str:
        return hashlib.sha256(b"".join(digest.digest() for digest in self._digests)).hexdigest()

    def _read(self, size: int) -> Batch | None:
        from pyarrow import Table

        names = None if self.columns is None else [self.names[j] for j in self.columns]
        if self._stream is None:
            self._stream = self.file.iter_batches(
                batch_size=size, row_groups=self._groups, columns=names, use_threads=False
            )
        # Batches end where row groups do: fill up, so that the same rows always stand together.
        try:
            while sum(map(len, self._ahead)) < size and (batch := next(self._stream, None)) is not None:
                self._ahead.append(batch)
            if not self._ahead:
                return None
            table = Table.from_batches(self._ahead)
            self._ahead = table.slice(size).to_batches()
            found = table.slice(0, size)
            chosen = found.columns if names is None else [found.column(name) for name in names]
            cells = [self._cells(column) for column in chosen]
            if not self.strict:
                for digest, column, values in zip(self._digests, chosen, cells, strict=True):
                    digest.update(_column_bytes(column, values))
        except (self._error, OSError, ValueError) as error:
            raise ValueError(f"{self.label} cannot be read on ({error}): it is damaged") from error
        first = self.offset + 1
        self.offset += len(found)
        return Batch(cells, list(range(first, first + len(found))), [])

    def _cells(self, column: Any) -> Sequence[Any]:
        from pyarrow import types

        if self.strict and (types.is_floating(column.type) or types.is_integer(column.type)):
            # A cast that is not safe rounds whole numbers beyond 2^53, as floats must.
            numbers: Sequence[Any] = column.cast("float64", safe=False).to_numpy()
            return numbers
        cells: list[Any] = column.to_pylist()
        return cells

    def place(self, row: int) -> str:
        # Counted from 0, as in the data frames that such files are made of.
        return f"row {row - 1}"

    def close(self) -> None:
        self.file.close()


def _column_bytes(column: Any, cells: Sequence[Any]) -> bytes:
    from pyarrow import types

    kind = column.type
    if not (types.is_float64(kind) or types.is_float32(kind) or types.is_integer(kind)):
        return "".join(f"{cell!r}\n" for cell in cells).encode("utf-8", "surrogatepass")
    values = column.fill_null(0).to_numpy()
    numbers = np.empty(len(values), dtype=[("value", values.dtype), ("missing", "?")])
    numbers["value"], numbers["missing"] = values, column.is_null().to_numpy()
    return numbers.tobytes()


#: Formats by the ending of a file's name.
FORMATS = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}

#: Schemes of the addresses of brokers, with the port that is meant where none is given.
PORTS = {"nats": 4222, "kafka": 9092}

#: What a file is that begins with these bytes.
_NO_TEXT = {b"PK\x03\x04": "a spreadsheet or another zip file", b"\xd0\xcf\x11\xe0": "an old Excel file"}


def is_address(text: str) -> bool:
    """Whether a text is the address of a broker, and not the path of a file."""
    return any(text.startswith(f"{scheme}://") for scheme in PORTS)


def open_records(
    path: str | Path, form: str | None = None, *, strict: bool = False, columns: Sequence[int] | None = None
) -> Records:
    """Open a file for reading once: CSV, JSON lines or Parquet, compressed perhaps, or ``-`` for standard input.

    Parameters
    ----------
    path : the file
    form : "csv", "jsonl" or "parquet"; by default told by the ending of the name or the first character
    strict : bool
        Whether a row that cannot be read is an error; by default it is left out and named among the faults.
    columns : numbers of the columns to read; default all

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.app.tables import open_records
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "t.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("a,b\\n1,2\\n3\\nx,?\\n")
    ...     with open_records(path) as records:
    ...         [(batch.columns, batch.rows, batch.bad) for batch in records.batches(10)]
    [([('1', 'x'), ('2', '?')], [1, 3], [(2, '1 field where the first line names 2')])]
    """
    path = Path(path)
    known = form or FORMATS.get(stem_suffix(path))
    if known not in (None, *FORMATS.values()):
        raise ValueError(f"the format must be csv, jsonl or parquet, got {form!r}")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give a file in it")
    if known == "parquet":
        if str(path) == STDIN or path.suffix.lower() in COMPRESSED:
            raise ValueError("Parquet is read from a file of its own, not from a pipe or a compressed one: unpack it")
        return ParquetRecords(path, strict, columns)
    label = "standard input" if str(path) == STDIN else path.name
    with readable(label):
        _refuse_spreadsheets(path, label)
        file = open_text(path)
    return records_of_text(file, known, label, strict, columns)


def _refuse_spreadsheets(path: Path, label: str) -> None:
    """Refuse a file of Excel and other zip files, whose first line would be taken for names."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        head = file.read(max(map(len, _NO_TEXT)))
    for begin, what in _NO_TEXT.items():
        if head.startswith(begin):
            raise ValueError(f"{label} is {what}, not a text file: save it as CSV and read that")


def records_of_text(
    file: TextIO, known: str | None, label: str, strict: bool, columns: Sequence[int] | None
) -> TextRecords:
    """The rows of an opened text, which is closed with them."""
    try:
        if known is None:
            known = "jsonl" if _first_letter(file) == "{" else "csv"
        kind = JSONRecords if known == "jsonl" else CSVRecords
        return kind(file, label, strict, columns)
    except BaseException:
        file.close()
        raise


def _first_letter(file: TextIO) -> str:
    head: bytes = file.buffer.peek(64)  # type: ignore[attr-defined]
    return head.decode(file.encoding, errors="replace").lstrip("\ufeff \t\r\n")[:1]
