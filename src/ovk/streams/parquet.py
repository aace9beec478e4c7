"""Rows of a Parquet file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ovk._extras import required
from ovk.streams.digest import ColumnDigest
from ovk.streams.records import Batch, Records


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
