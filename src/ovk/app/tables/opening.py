"""Which reader a file needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ovk._extras import required
from ovk.app.tables.records import Batch, ColumnDigest, CSVRecords, JSONRecords, Records, TextRecords, readable
from ovk.app.tables.text import COMPRESSED, STDIN, open_text, stem_suffix

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
        self.names = tuple(self.file.schema_arrow.names)
        #: Row groups to read, None for all.
        self._groups = groups
        metadata = self.file.metadata
        self.n_rows = int(metadata.num_rows if groups is None else sum(metadata.row_group(i).num_rows for i in groups))
        self._stream: Iterator[Any] | None = None
        self._ahead: list[Any] = []
        self._digest = ColumnDigest(self.names if columns is None else [self.names[j] for j in columns])

    def digest(self) -> str:
        return self._digest.hexdigest()

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
                self._digest.add([_column_bytes(*pair) for pair in zip(chosen, cells, strict=True)])
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
    """The cells of an arrow column as bytes, one after the other."""
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

#: What a file is that begins with these bytes.
_NO_TEXT = {b"PK\x03\x04": "a spreadsheet or another zip file", b"\xd0\xcf\x11\xe0": "an old Excel file"}


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
    """The first letter, without moving on."""
    head: bytes = file.buffer.peek(64)  # type: ignore[attr-defined]
    return head.decode(file.encoding, errors="replace").lstrip("\ufeff \t\r\n")[:1]
