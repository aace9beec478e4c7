"""Files where the library takes arrays: as two arrays, in chunks, and in progressive evaluation."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from ovk.app.tables.opening import open_records
from ovk.app.tables.preparation import WORDS_OF_TABLE, Preparation
from ovk.app.tables.records import Records, concatenate
from ovk.app.tables.text import STDIN
from ovk.base import Array
from ovk.evaluation import Chunk, Table
from ovk.evaluation import chunks as chunks_of_rows
from ovk.evaluation import progressive as progressive_of_rows

#: Rows read at a time.
BLOCK = 4096


def read_table(
    path: str | Path,
    targets: Sequence[str],
    features: Sequence[str] | None = None,
    time: Sequence[str] = (),
    form: str | None = None,
) -> Chunk:
    """Read a file that fits in memory, as `ovk fit` does: inputs X and outputs Y, nan where nothing was observed.

    Numbers may have percent signs and thousands separators, words become indicators, dates the time of day, the day of
    the week and the time of year. A cell that cannot be read is nan; rows with too many or too few cells are left out.

    Parameters
    ----------
    path : CSV, JSON lines or Parquet, compressed perhaps
    targets : names of the output columns
    features : names of the input columns; default all others
    time : names of the columns that hold the time of a row
    form : "csv", "jsonl" or "parquet"; by default told by the ending of the name or the first character

    Returns
    -------
    `Chunk` with X (n, p), Y (n, d), and the names of the features and targets

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.app.tables import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "soil.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("rock,humidity,zinc\\nchalk,71.6%,n/a\\nclay,60%,2.5\\nchalk,,3\\nclay,55%,1.5\\n")
    ...     X, Y, features, targets = read_table(path, ["zinc"])
    >>> features
    ('rock=chalk', 'rock=clay', 'humidity')
    >>> X[:, 2], Y[:, 0]
    (array([71.6, 60. ,  nan, 55. ]), array([nan, 2.5, 3. , 1.5]))
    """
    with open_records(path, form) as records:
        preparation = Preparation(targets, features, time, max_levels=WORDS_OF_TABLE)
        preparation.bind(records.names, records.label)
        whole = concatenate(list(records.batches(BLOCK)), len(records.names))
    if not whole.rows:
        raise ValueError(f"{records.label} has no rows that can be read: check the path and the format")
    return preparation.fit(whole).prepare(whole).chunk


class FileTable(Table):
    """A file, opened for each reading: every row must be readable, and every cell of the columns read a number."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if str(path) == STDIN:
            raise ValueError("standard input cannot be read twice: give a file, or an iterator of chunks (X, Y)")
        with open_records(self.path, strict=True) as records:
            self.names, self.n_rows, self.label = records.names, records.n_rows, records.label

    def blocks(self, columns: list[int], size: int) -> Iterator[Array]:
        with self._open(columns) as records:
            for cells, rows, _ in records.batches(size):
                if rows:
                    yield self._numbers(cells, columns, lambda i, rows=rows: records.place(rows[i]))  # type: ignore[misc]

    def _open(self, columns: list[int]) -> Records:
        return open_records(self.path, strict=True, columns=columns)


Reads = TypeVar("Reads", bound=Callable[..., Any])


def _reads_files(function: Reads, rows: str) -> Reads:
    """The function, with a file's path where it takes `rows`, by place or by name."""
    signature = inspect.signature(function)

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        given = signature.bind(*arguments, **options)
        source = given.arguments.get(rows)
        if isinstance(source, (str, os.PathLike)):
            given.arguments[rows] = FileTable(source)
        return function(*given.args, **given.kwargs)

    return cast(Reads, call)


#: `chunks` and `progressive` of `ovk.evaluation`, which also take the path of a file: ``.csv``, ``.tsv`` or ``.txt`` (a
#: line of names in front; separated by comma, semicolon, tab or bar), ``.jsonl`` or ``.ndjson``, each also with
#: ``.gz``, ``.xz`` or ``.bz2`` behind it, or ``.parquet``. Only a chunk is in memory at a time.
chunks = _reads_files(chunks_of_rows, "source")
progressive = _reads_files(progressive_of_rows, "X")
