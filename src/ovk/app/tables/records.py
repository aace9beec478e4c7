"""Raw rows of CSV, JSON lines and Parquet files, read once from front to back in bounded memory.

A row that cannot be read is counted and reported; a strict reader raises an error instead. If pyarrow is installed, it
splits plain blocks of CSV (`arrow_text`); the standard library reads the others. Both find the same rows, cells and
faults, so a run that began with one can continue with the other.

A digest of all rows read so far identifies a file that is read again. It is computed after decompression and decoding,
so that a log may be compressed between two runs, and costs a few percent of reading.
"""

from __future__ import annotations

import csv
import hashlib
import json
import lzma
import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice, tee
from pathlib import Path
from typing import Any, NamedTuple, Self, TextIO

import numpy as np

from ovk._extras import required
from ovk.app.tables import arrow_text
from ovk.app.tables.arrow_text import Parsed, arrow_installed, parse_plain, wrong_width
from ovk.app.tables.text_files import COMPRESSED, MAX_LINE, STDIN, PipedText, fraction_read, open_text, stem_suffix
from ovk.base import TextCells

#: Maximum characters of a cell, which is Python's default.
MAX_CELL = 1 << 17

#: Characters after which a batch of lines ends, and lines that are read together.
MAX_BATCH, LINES_AT_ONCE = 1 << 27, 16

#: Minimum number of rows of a CSV file for the tip to install pyarrow, which then saves seconds.
MIN_ROWS_FOR_TIP = 200_000


class Batch(NamedTuple):
    """Raw rows of a file: cells by column."""

    columns: list[Sequence[Any]]
    rows: list[int]  # number of each row, from 1 below the header
    bad: list[tuple[int, str]]  # numbers and faults of rows that could not be read, which have no cells


def concatenate(batches: list[Batch], width: int) -> Batch:
    columns = [_joined([batch.columns[j] for batch in batches]) for j in range(width)]
    rows = list(chain.from_iterable(batch.rows for batch in batches))
    return Batch(columns, rows, list(chain.from_iterable(batch.bad for batch in batches)))


def _joined(parts: list[Sequence[Any]]) -> Sequence[Any]:
    if any(isinstance(part, TextCells) for part in parts):
        return TextCells.joined(parts)
    return list(chain.from_iterable(parts))


class Records(ABC):
    """An open file: its column names, and its rows, which can be read once.

    With `strict`, a row that cannot be read is an error, Parquet's numbers are arrays, and no digest is computed.
    `columns` are the indices of the columns to read, None for all.
    """

    names: tuple[str, ...]
    label: str  # name in messages
    n_rows: int | None = None  # None if unknown
    #: Whether reading may wait for rows that do not exist yet.
    waits: bool = False
    #: Whether to pass on the rows of a pipe as soon as they arrive, because the sender waits for an answer. By default
    #: batches are full, so that they do not depend on timing.
    live: bool = False
    offset: int = 0  # rows read so far

    def __init__(self, label: str, strict: bool, columns: Sequence[int] | None) -> None:
        self.label, self.strict, self.columns = label, strict, columns

    @abstractmethod
    def _read(self, size: int) -> Batch | None:
        """At most `size` rows, None at the end."""

    def place(self, row: int) -> str:
        """Line or row of the file in which a row of the last batch is, for messages: by default counted from 0."""
        return f"row {row - 1}"

    @abstractmethod
    def digest(self) -> str:
        """Digest of the column names and the rows up to `offset`."""

    def tip(self) -> str:
        """How to read these rows faster, or ""."""
        return ""

    def fraction_read(self) -> float | None:
        """Fraction of the rows that have been read, None if unknown."""
        return self.offset / self.n_rows if self.n_rows else None

    @abstractmethod
    def close(self) -> None: ...

    def batches(self, size: int) -> Iterator[Batch]:
        """The remaining rows, at most `size` at a time."""
        while (batch := self._read(size)) is not None:
            yield batch

    def skip(self, count: int, size: int) -> None:
        """Skip to the row after the first `count`, in the same batches in which they were learned."""
        while self.offset < count:
            if self._read(min(size, count - self.offset)) is None:
                raise ValueError(
                    f"{self.label} has {self.offset} rows, but {count} were learned: it is not the file that the model "
                    "was learning from; to continue with another file, use --continue-with (continue_with= in Python)"
                )

    def position(self) -> Any:
        """The position to save with a session, None if `offset` determines it."""
        return None

    def resume_at(self, offset: int, size: int, digest: str, position: Any) -> None:
        """Continue after the first `offset` rows, which were read in batches of `size` and have that digest."""
        self.skip(offset, size)
        if position or self.digest() != digest:
            raise ValueError(
                f"the first {offset} rows of {self.label} are not those that were learned: it is not the file that the "
                "model was learning from, or its rows or column names have changed; to continue with another file, use "
                "--continue-with (continue_with= in Python)"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class TextRecords(Records):
    """Rows of a text file, each of one or more lines."""

    #: Advice for a faulty row.
    advice: str

    def __init__(self, file: TextIO, label: str, strict: bool, columns: Sequence[int] | None) -> None:
        super().__init__(label, strict, columns)
        self.file = file
        #: Number of rows that were read to find the names.
        self._rows_at_hand = 0
        # Not `for line in file`: an endless line would fill the memory.
        self.lines: Iterator[str] = iter(partial(file.readline, MAX_LINE), "")
        # The fastest of hashlib on nearly all processors.
        self._hash = hashlib.sha256()
        self._line_end = b""

    def _add_to_digest(self, data: bytes) -> None:
        """Add encoded lines, except the end of the last one: a last line without an end may still grow."""
        if data:
            body = data.removesuffix(b"\n").removesuffix(b"\r")
            self._hash.update(self._line_end)
            self._hash.update(body)
            self._line_end = data[len(body) :]

    def digest(self) -> str:
        return self._hash.hexdigest()

    def _next_lines(self, size: int) -> list[str]:
        """At most `size` lines, fewer if they are long."""
        lines: list[str] = []
        total = 0
        while total < MAX_BATCH and (some := list(islice(self.lines, min(LINES_AT_ONCE, size - len(lines))))):
            lines += some
            total += sum(map(len, some))
        return lines

    @abstractmethod
    def _parse(self, size: int) -> Parsed:
        """At most `size` rows, which are added to the digest unless the reader is strict."""

    def _by_column(self, rows: list[Any], faults: list[tuple[int, str]]) -> Parsed:
        """Rows of cells, None for an empty or faulty one."""
        n_rows = len(rows)
        kept: Sequence[int] = range(n_rows)
        if None in rows:
            kept = [i for i, row in enumerate(rows) if row is not None]
            rows = [row for row in rows if row is not None]
        cells: list[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [()] * len(self.names)
        return Parsed(n_rows, kept, cells if self.columns is None else [cells[j] for j in self.columns], faults)

    def _read(self, size: int) -> Batch | None:
        with readable(self.label):
            if self.live and isinstance(self.file, PipedText):
                size = min(size, self._rows_at_hand or self.file.ready(size))
            self._rows_at_hand = 0
            found = self._parse(size)
        if not found.n_rows:
            return None
        first = self.offset + 1
        if found.faults and self.strict:
            i, fault = found.faults[0]
            raise ValueError(f"{self.place(first + i)} of {self.label} cannot be read ({fault}): {self.advice}")
        self.offset += found.n_rows
        return Batch(found.cells, [first + i for i in found.kept], [(first + i, fault) for i, fault in found.faults])

    def fraction_read(self) -> float | None:
        return fraction_read(self.file)

    def close(self) -> None:
        self.file.close()


class CSVRows(NamedTuple):
    """Rows of any width, None for a faulty one."""

    rows: list[Any]
    ends: list[int]  # number of lines up to the end of each row
    faults: dict[int, str]  # by index of the row
    lines: list[str]

    def n_lines(self, i: int) -> int:
        """Lines of a row: the rows that it contains if a quote was not closed."""
        return self.ends[i] - (self.ends[i - 1] if i else 0)


def csv_rows(lines: Iterable[str], delimiter: str, most: int) -> CSVRows:
    """Read at most `most` rows.

    A row of several lines in which a quote is not closed, or is closed within a cell, is faulty: it spans other rows.
    """
    source, again = tee(lines)
    reader = csv.reader(source, delimiter=delimiter)
    rows: list[Any] = []
    ends: list[int] = []
    faults: dict[int, str] = {}
    # The limit is global, and other libraries change it.
    before = csv.field_size_limit(MAX_CELL)
    try:
        while len(rows) < most:
            try:
                for row in islice(reader, most - len(rows)):
                    rows.append(row)
                    ends.append(reader.line_num)
                break
            except csv.Error as error:
                faults[len(rows)] = str(error)
                rows.append(None)
                ends.append(reader.line_num)
        found = CSVRows(rows, ends, faults, list(islice(again, reader.line_num)))
        for i in range(len(rows)) if reader.line_num > len(rows) else ():
            several = found.lines[ends[i] - found.n_lines(i) : ends[i]]
            if len(several) > 1 and i not in faults:
                try:
                    next(csv.reader(several, delimiter=delimiter, strict=True))
                except csv.Error:
                    rows[i], faults[i] = None, f"a quote is not closed in {len(several)} lines"
    finally:
        csv.field_size_limit(before)
    return found


class CSVRecords(TextRecords):
    """Values separated by commas, semicolons, tabs or bars, after a header with the column names."""

    advice = "correct the line, and quote fields that contain the separator"

    def __init__(self, file: TextIO, label: str, strict: bool, columns: Sequence[int] | None) -> None:
        super().__init__(file, label, strict, columns)
        with readable(label):
            first = next(self.lines, "")
        delimiter = max(",;\t|", key=first.count)
        with readable(label):
            # A quoted name may contain line ends.
            head = csv_rows(chain([first], self.lines), delimiter, 1)
        if head.faults:
            raise ValueError(
                f"the first line of {label} must contain the column names, and cannot be read ({head.faults[0]})"
            )
        names = head.rows[0] if head.rows else []
        if not any(names):
            raise ValueError(f"{label} is empty: its first line must contain the column names")
        if all(map(is_number, names)):
            raise ValueError(
                f"the first line of {label} must contain the column names, got only numbers "
                f"({first.strip()[:40]!r}): add a header line"
            )
        self.names = tuple(name.strip() for name in names)
        self._add_to_digest(_encoded("".join(head.lines)))
        self._delimiter = delimiter
        #: Lines read so far.
        self._n_lines = len(head.lines)
        #: The last batch: number of its first row, lines before it, and lines up to each row if some have several.
        self._batch: tuple[int, int, list[int]] = (1, 1, [])

    def _parse(self, size: int) -> Parsed:
        lines = self._next_lines(size)
        data = _encoded("".join(lines))
        self._batch = (self.offset + 1, self._n_lines, [])
        found = self._parse_plain(lines, data)
        if found is not None:
            self._n_lines += len(lines)
        else:
            # A quoted cell may contain line ends, so that as many rows may need more lines.
            read = csv_rows(chain(lines, self.lines), self._delimiter, len(lines))
            found = self._parse_rows(read)
            data += _encoded("".join(read.lines[len(lines) :]))
            self._batch = (*self._batch[:2], read.ends)
            self._n_lines += len(read.lines)
        if not self.strict:
            self._add_to_digest(data)
        return found

    def _parse_plain(self, lines: list[str], data: bytes) -> Parsed | None:
        worth_it = self.offset >= arrow_text.ROWS_BEFORE_ARROW or "pyarrow" in sys.modules
        if not worth_it or len(lines) < arrow_text.MIN_LINES or not arrow_installed():
            return None
        if max(map(len, lines)) > MAX_CELL:
            return None
        return parse_plain(lines, data, self._delimiter, len(self.names), self.columns)

    def _parse_rows(self, read: CSVRows) -> Parsed:
        width, rows, faults = len(self.names), read.rows, dict(read.faults)
        if faults or set(map(len, rows)) != {width}:
            for i, row in enumerate(rows):
                if row is not None and len(row) != width:
                    if row:
                        faults[i] = wrong_width(len(row), width)
                    rows[i] = None
        return self._by_column(rows, [(i, faults[i]) for i in sorted(faults) for _ in range(read.n_lines(i))])

    def tip(self) -> str:
        if self.offset < MIN_ROWS_FOR_TIP or arrow_installed():
            return ""
        return "Tip: install pyarrow to read CSV files about three times faster (pip install pyarrow)."

    def place(self, row: int) -> str:
        first, before, ends = self._batch
        i = row - first
        return f"line {before + (ends[i - 1] if ends and i else i) + 1}"


def line_ends(cells: Sequence[object] | None) -> int:
    """Line ends within the cells of a row: the rows that it contains if a quote was not closed."""
    return sum(cell.count("\n") for cell in cells or () if isinstance(cell, str))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class JSONRecords(TextRecords):
    """A JSON object per line; the columns are the keys of the first one, and an absent key is a missing value."""

    advice = 'write one object per line, such as {"x": 1.5}'

    def __init__(self, file: TextIO, label: str, strict: bool, columns: Sequence[int] | None) -> None:
        super().__init__(file, label, strict, columns)
        head: list[str] = []
        with readable(label):
            while (not head or head[-1].isspace()) and (line := next(self.lines, "")):
                head.append(line)
        row = _object(head[-1]) if head else None
        if not row:
            if not "".join(head).strip():
                raise ValueError(f'{label} is empty: each line must be a JSON object such as {{"x": 1.5}}')
            raise ValueError(
                f'the first line of {label} must be a JSON object such as {{"x": 1.5}}, got {head[-1].strip()[:40]!r}'
            )
        self.names = tuple(row)
        self.lines = chain(head, self.lines)
        self._rows_at_hand = len(head)

    def _parse(self, size: int) -> Parsed:
        rows: list[Any] = []
        faults: list[tuple[int, str]] = []
        lines = self._next_lines(size)
        if not self.strict:
            self._add_to_digest(_encoded("".join(lines)))
        for i, line in enumerate(lines):
            row = _object(line)
            rows.append(None if row is None else [row.get(name) for name in self.names])
            if row is None and not line.isspace():
                faults.append((i, f"{line.strip()[:40]!r} is not a JSON object, or has a key twice"))
        return self._by_column(rows, faults)

    def place(self, row: int) -> str:
        return f"line {row}"


@contextmanager
def readable(label: str) -> Iterator[None]:
    """Raise ValueError with the name of the file for any error of decompression or decoding."""
    try:
        yield
    except (EOFError, lzma.LZMAError, zlib.error, OSError, UnicodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(
            f"{label} cannot be read ({error}): it is damaged, truncated, or not in the expected format"
        ) from error


def parse_json(text: str) -> Any:
    """The value of JSON; raises ValueError for a key that occurs twice in an object."""
    return _DECODER.decode(text)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key occurs twice")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_distinct)


def _object(line: str) -> dict[str, Any] | None:
    try:
        row = parse_json(line.strip())
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class ParquetRecords(Records):
    """A Parquet file, of which about one row group is in memory at a time."""

    def __init__(
        self, path: Path, strict: bool, columns: Sequence[int] | None, groups: Sequence[int] | None = None
    ) -> None:
        super().__init__(path.name, strict, columns)
        with required("Parquet files", "files"):
            from pyarrow import ArrowException, parquet
        self._error = ArrowException
        try:
            # By default, pyarrow reads all row groups ahead, that is the whole file.
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
        #: A digest for each column, so that the result does not depend on the batch size.
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
        # pyarrow's batches end at row groups. Fill them up, so that batches do not depend on row groups.
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
            raise ValueError(f"{self.label} cannot be read ({error}): it is damaged") from error
        first = self.offset + 1
        self.offset += len(found)
        return Batch(cells, list(range(first, first + len(found))), [])

    def _cells(self, column: Any) -> Sequence[Any]:
        from pyarrow import types

        if self.strict and (types.is_floating(column.type) or types.is_integer(column.type)):
            # An unsafe cast rounds integers beyond 2^53 instead of raising an error.
            numbers: Sequence[Any] = column.cast("float64", safe=False).to_numpy()
            return numbers
        cells: list[Any] = column.to_pylist()
        return cells

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


#: Formats by file suffix.
FORMATS = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}

#: URL schemes of brokers with their default ports.
PORTS = {"nats": 4222, "kafka": 9092}

#: Binary formats by their first bytes.
_BINARY_FORMATS = {b"PK\x03\x04": "a spreadsheet or another zip file", b"\xd0\xcf\x11\xe0": "an old Excel file"}


def is_address(text: str) -> bool:
    """Whether a string is the URL of a broker rather than a path."""
    return any(text.startswith(f"{scheme}://") for scheme in PORTS)


def open_records(
    path: str | Path, form: str | None = None, *, strict: bool = False, columns: Sequence[int] | None = None
) -> Records:
    """Open a CSV, JSON lines or Parquet file for reading once.

    Parameters
    ----------
    path : path
        The file, which may be compressed; ``-`` for standard input.
    form : {"csv", "jsonl", "parquet"}, optional
        Format; default according to the suffix or the first character.
    strict : bool
        Whether a row that cannot be read is an error; by default it is skipped and reported.
    columns : sequence of int, optional
        Indices of the columns to read; default all.

    Returns
    -------
    Records
        The column names and the rows, in batches; also a context manager that closes the file.

    See Also
    --------
    read_table, open_broker, split_files

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.app.tables import open_records
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = os.path.join(directory, "t.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("a,b\\n1,2\\n3\\nx,?\\n")
    ...     with open_records(path) as records:
    ...         [(batch.columns, batch.rows, batch.bad) for batch in records.batches(10)]
    [([('1', 'x'), ('2', '?')], [1, 3], [(2, '1 field instead of 2')])]
    """
    path = Path(path)
    known = form or FORMATS.get(stem_suffix(path))
    if known not in (None, *FORMATS.values()):
        raise ValueError(f"form must be 'csv', 'jsonl' or 'parquet', got {form!r}")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory: name a file in it")
    if known == "parquet":
        if str(path) == STDIN or path.suffix.lower() in COMPRESSED:
            raise ValueError("Parquet cannot be read from a pipe or a compressed file: decompress it to a file")
        return ParquetRecords(path, strict, columns)
    label = "standard input" if str(path) == STDIN else path.name
    with readable(label):
        _check_not_spreadsheet(path, label)
        file = open_text(path)
    return records_of_text(file, known, label, strict, columns)


def _check_not_spreadsheet(path: Path, label: str) -> None:
    if not path.is_file():
        return
    with path.open("rb") as file:
        head = file.read(max(map(len, _BINARY_FORMATS)))
    for begin, what in _BINARY_FORMATS.items():
        if head.startswith(begin):
            raise ValueError(f"{label} is {what}, not a text file: save it as CSV")


def records_of_text(
    file: TextIO, known: str | None, label: str, strict: bool, columns: Sequence[int] | None
) -> TextRecords:
    """The rows of an open text, which is closed with them or on an error."""
    try:
        if known is None:
            known = "jsonl" if _first_character(file) == "{" else "csv"
        kind = JSONRecords if known == "jsonl" else CSVRecords
        return kind(file, label, strict, columns)
    except BaseException:
        file.close()
        raise


def _first_character(file: TextIO) -> str:
    head: bytes = file.buffer.peek(64)  # type: ignore[attr-defined]
    return head.decode(file.encoding, errors="replace").lstrip("\ufeff \t\r\n")[:1]
