"""Functions that take the path of a file instead of arrays, and ranges of files that are read independently.

Ranges can be read independently: row groups of a Parquet file, bytes of a CSV or JSON lines file. A line belongs to the
range that contains its first byte, so that every line is read once. A file without random access (compressed, UTF-16)
is one range.
"""

from __future__ import annotations

import glob
import inspect
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import numpy as np

from ovk.app.tables.preparation import MAX_TABLE_LEVELS, Preparation
from ovk.app.tables.records import FORMATS, ParquetRecords, Records, concatenate, open_records, records_of_text
from ovk.app.tables.text_files import BYTE_ORDER_MARKS, COMPRESSED, STDIN, decoded, stem_suffix
from ovk.base import Array
from ovk.evaluation import Chunk, Table
from ovk.evaluation import chunks as chunks_of_rows
from ovk.evaluation import progressive as progressive_of_rows

#: Rows read at a time.
BLOCK_ROWS = 4096


def read_table(
    path: str | Path,
    targets: Sequence[str],
    features: Sequence[str] | None = None,
    time: Sequence[str] = (),
    form: str | None = None,
) -> Chunk:
    """Read a file that fits in memory into inputs X and outputs Y, as ``ovk fit`` does.

    Numbers may have percent signs and thousands separators. Words become indicators; dates become time of day, day of
    week and time of year. Missing and unreadable cells are nan; rows with too many or too few cells are skipped.

    Parameters
    ----------
    path : path
        A CSV, JSON lines or Parquet file, which may be compressed.
    targets, features : sequence of str
        Names of the output and input columns; by default, all columns but the outputs are inputs.
    time : sequence of str
        Names of the columns with the time of a row.
    form : {"csv", "jsonl", "parquet"}, optional
        Format; default according to the suffix or the first character.

    Returns
    -------
    Chunk
        X (n, p), Y (n, d), and the names of the features and targets.

    See Also
    --------
    chunks, open_records, progressive

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.app.tables import read_table
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = os.path.join(directory, "soil.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("rock,humidity,zinc\\nchalk,71.6%,n/a\\nclay,60%,2.5\\nchalk,,3\\nclay,55%,1.5\\n")
    ...     X, Y, features, targets = read_table(path, ["zinc"])
    >>> features
    ('rock=chalk', 'rock=clay', 'humidity')
    >>> X[:, 2], Y[:, 0]
    (array([71.6, 60. ,  nan, 55. ]), array([nan, 2.5, 3. , 1.5]))
    """
    with open_records(path, form) as records:
        preparation = Preparation(targets, features, time, max_levels=MAX_TABLE_LEVELS)
        preparation.bind(records.names, records.label)
        whole = concatenate(list(records.batches(BLOCK_ROWS)), len(records.names))
    if not whole.rows:
        raise ValueError(f"{records.label} has no readable rows: check the path and the format")
    return preparation.fit(whole).prepare(whole).chunk


class FileTable(Table):
    """A range of a file whose cells are all numbers; opened for each reading."""

    def __init__(self, range: FileRange) -> None:
        self.range = range
        if range.path == STDIN:
            raise ValueError("standard input cannot be read twice: use a file, or an iterator of chunks (X, Y)")
        with range.open(strict=True) as records:
            self.names, self.n_rows, self.label = records.names, records.n_rows, range.label

    def blocks(self, columns: list[int], size: int) -> Iterator[Array]:
        with self.range.open(strict=True, columns=columns) as records:
            for cells, rows, _ in records.batches(size):
                if rows:
                    yield self._numbers(cells, columns, lambda i, rows=rows: records.place(rows[i]))  # type: ignore[misc]


Reads = TypeVar("Reads", bound=Callable[..., Any])


def _reads_files(function: Reads, rows: str) -> Reads:
    """The function, extended to take the path or a range of a file as its argument `rows`."""
    signature = inspect.signature(function)

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        given = signature.bind(*arguments, **options)
        source = given.arguments.get(rows)
        if isinstance(source, (str, os.PathLike)):
            source = FileRange(os.fspath(source))
        if isinstance(source, FileRange):
            given.arguments[rows] = FileTable(source)
        return function(*given.args, **given.kwargs)

    return cast(Reads, call)


#: `chunks` and `progressive` of `ovk.evaluation`, which also take the path of a file: ``.csv``, ``.tsv`` or ``.txt``
#: (with a header; separated by comma, semicolon, tab or bar), ``.jsonl`` or ``.ndjson``, each optionally with ``.gz``,
#: ``.xz`` or ``.bz2``, or ``.parquet``. Only one chunk is in memory at a time.
chunks = _reads_files(chunks_of_rows, "source")
progressive = _reads_files(progressive_of_rows, "X")


#: Default bytes of a text range.
RANGE_BYTES = 1 << 26

#: Number of samples that are read from a text range, and bytes of each.
SAMPLES, SAMPLE_BYTES = 8, 1 << 16


@dataclass(frozen=True)
class FileRange:
    """A range of a file that can be read independently of the rest.

    Parameters
    ----------
    path : str
        The file.
    form : {"csv", "jsonl", "parquet"}, optional
        Format; default according to the suffix.
    start, stop : int
        Bytes of a text file, or row groups of a Parquet file; without `stop`, the whole file.

    See Also
    --------
    split_files, ovk.app.parallel.fit

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.app.tables import split_files
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = os.path.join(directory, "t.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("x,y\\n" + "".join(f"{i},{i}\\n" for i in range(10)))
    ...     for part in split_files(path, size=20):
    ...         with part.open() as records:
    ...             print(part.label, records.names, [batch.columns[0] for batch in records.batches(99)])
    t.csv, bytes 0 to 20 ('x', 'y') [('0', '1', '2', '3')]
    t.csv, bytes 20 to 40 ('x', 'y') [('4', '5', '6', '7', '8')]
    t.csv, bytes 40 to 44 ('x', 'y') [('9',)]
    """

    path: str
    form: str | None = None
    start: int = 0
    stop: int | None = None

    @property
    def label(self) -> str:
        name = os.path.basename(self.path)
        if self.stop is None:
            return name
        unit = "row groups" if self._form == "parquet" else "bytes"
        return f"{name}, {unit} {self.start} to {self.stop}"

    @property
    def _form(self) -> str | None:
        return self.form or FORMATS.get(stem_suffix(self.path))

    def open(self, *, strict: bool = False, columns: Sequence[int] | None = None) -> Records:
        """The rows of the range, with the names of the columns of the file."""
        if self.stop is None:
            return open_records(self.path, self.form, strict=strict, columns=columns)
        if self._form == "parquet":
            records = ParquetRecords(Path(self.path), strict, columns, range(self.start, self.stop))
            records.label = self.label
            return records
        form = "jsonl" if self._form == "jsonl" else "csv"
        raw: Any = _LineRange(self.path, self.start, self.stop, header=form == "csv")
        text = decoded(io.BufferedReader(raw, SAMPLE_BYTES), self.label)
        return records_of_text(text, form, self.label, strict, columns)

    def sample(self, rng: np.random.Generator) -> list[FileRange]:
        """Small ranges at random places within this one; for Parquet, the whole range, of which a part is read."""
        if self.stop is None or self._form == "parquet" or self.stop - self.start <= SAMPLES * SAMPLE_BYTES:
            return [self]
        starts = np.sort(rng.integers(self.start, self.stop - SAMPLE_BYTES, size=SAMPLES)).tolist()
        return [FileRange(self.path, self.form, start, start + SAMPLE_BYTES) for start in starts]


class _LineRange(io.RawIOBase):
    """The header of a file, if it has one, and the lines that begin between two bytes."""

    def __init__(self, path: str, start: int, stop: int, *, header: bool) -> None:
        # Opened here, because ranges are sent between processes.
        self._file: BinaryIO = open(path, "rb")  # noqa: SIM115
        try:
            self._head = self._file.readline() if header else b""
            first = len(self._head)
            self._end = self._line_from(stop, first)
            self._at = self._line_from(start, first)
            self._file.seek(self._at)
        except BaseException:
            self._file.close()
            raise

    def _line_from(self, byte: int, first: int) -> int:
        """Start of the first line at or after that byte, and after the header."""
        if byte <= first:
            return first
        self._file.seek(byte - 1)
        self._file.readline()
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._head:
            data, self._head = self._head[: len(buffer)], self._head[len(buffer) :]
        else:
            data = self._file.read(min(len(buffer), max(self._end - self._at, 0)))
            self._at += len(data)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def split_files(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    size: int | None = None,
    form: str | None = None,
) -> list[FileRange]:
    """Split files into ranges that can be read independently, in the order of their names.

    Parameters
    ----------
    paths : path, or iterable of paths
        Files, or patterns such as ``data/*.parquet``.
    size : int, optional
        Bytes of a range, default 64 MB. Ranges of Parquet files are consecutive row groups of about this size.
    form : {"csv", "jsonl", "parquet"}, optional
        Format; default according to the suffix.

    Returns
    -------
    list of FileRange
        Ranges that cover all rows.

    See Also
    --------
    FileRange, ovk.app.parallel.fit

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.app.tables import split_files
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     for name in "ab":
    ...         with open(os.path.join(directory, f"{name}.csv"), "w") as file:
    ...             _ = file.write("x,y\\n1,2\\n")
    ...     [part.label for part in split_files(os.path.join(directory, "*.csv"))]
    ['a.csv, bytes 0 to 8', 'b.csv, bytes 0 to 8']
    """
    wanted = RANGE_BYTES if size is None else size
    if wanted < 1:
        raise ValueError(f"size must be positive, got {size!r}")
    listed = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    found: list[FileRange] = []
    for path in (os.fspath(one) for one in listed):
        files = sorted(glob.glob(path)) if glob.has_magic(path) and not os.path.exists(path) else [path]
        if not files:
            raise FileNotFoundError(f"no file matches {path!r}: check the pattern")
        for name in files:
            found += _ranges(name, form, wanted)
    return found


def _ranges(path: str, form: str | None, size: int) -> list[FileRange]:
    known = form or FORMATS.get(stem_suffix(path))
    if known == "parquet":
        with ParquetRecords(Path(path), True, None) as records:
            bytes_of = [records.file.metadata.row_group(i).total_byte_size for i in range(records.file.num_row_groups)]
        return _grouped(path, form, bytes_of, size)
    with open(path, "rb") as file:
        head = file.read(8)
    # Of the encodings with a mark, only UTF-8 has line ends of one byte.
    wide = any(head.startswith(mark) for mark, encoding in BYTE_ORDER_MARKS.items() if encoding != "utf-8-sig")
    if Path(path).suffix.lower() in COMPRESSED or wide or known is None:
        return [FileRange(path, form)]
    total = os.path.getsize(path)
    return [FileRange(path, form, start, min(start + size, total)) for start in range(0, max(total, 1), size)]


def _grouped(path: str, form: str | None, bytes_of: list[int], size: int) -> list[FileRange]:
    """Consecutive row groups, joined up to `size` bytes."""
    found: list[FileRange] = []
    start, total = 0, 0
    for i, size_of_group in enumerate(bytes_of):
        if i > start and total + size_of_group > size:
            found.append(FileRange(path, form, start, i))
            start, total = i, 0
        total += size_of_group
    return [*found, FileRange(path, form, start, len(bytes_of))] if bytes_of else [FileRange(path, form)]
