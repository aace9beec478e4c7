"""One part of the predictions while it grows, as CSV or as Parquet.

A part that was interrupted is written again with the rows that it had, so its bytes must depend on the rows alone: CSV
is text that grows, and a Parquet file is written as one row group.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO


class CsvPart:
    """Lines of CSV behind a header.

    Parameters
    ----------
    columns : how predictions are written
    """

    ending = ".csv"

    def __init__(self, columns: Any) -> None:
        self._columns = columns
        self._text: list[str] = []

    def add(self, found: Any) -> None:
        """Add predictions."""
        self._text.append("".join(self._columns.lines(found)))

    def restore(self, path: Path, rows: int) -> bool:
        """Begin with the first rows of a file; False if it does not hold so many."""
        text = path.read_text(encoding="utf-8")
        lines = text.removeprefix(self._columns.header).splitlines(keepends=True)[:rows]
        self._text = ["".join(lines)]
        return text.startswith(self._columns.header) and len(lines) == rows

    def begins(self, path: Path) -> bool:
        """Whether a file holds these rows, and perhaps more."""
        return path.read_bytes().startswith(self._content())

    def write(self, file: BinaryIO) -> None:
        """Write the part."""
        file.write(self._content())

    def _content(self) -> bytes:
        header: str = self._columns.header
        return (header + "".join(self._text)).encode()


class ParquetPart:
    """Rows of one Parquet file.

    Parameters
    ----------
    columns : how predictions are written
    """

    ending = ".parquet"

    def __init__(self, columns: Any) -> None:
        self._columns = columns
        self._tables: list[Any] = []

    def add(self, found: Any) -> None:
        """Add predictions."""
        self._tables.append(self._columns.table(found))

    def restore(self, path: Path, rows: int) -> bool:
        """Begin with the first rows of a file; False if it does not hold so many."""
        from pyarrow import lib, parquet

        try:
            self._tables = [parquet.read_table(path).slice(0, rows)]
        except lib.ArrowException:
            return False
        return bool(self._tables[0].num_rows == rows and self._tables[0].column_names == self._columns.names)

    def begins(self, path: Path) -> bool:
        """Whether a file holds these rows, and perhaps more."""
        from pyarrow import lib, parquet

        table = self._table()
        try:
            return bool(parquet.read_table(path).slice(0, table.num_rows).equals(table))
        except lib.ArrowException:
            return False

    def write(self, file: BinaryIO) -> None:
        """Write the part."""
        from pyarrow import parquet

        table = self._table()
        parquet.write_table(table, file, row_group_size=max(table.num_rows, 1))

    def _table(self) -> Any:
        import pyarrow

        # A column that was nowhere known in a block has no type there.
        self._tables = [pyarrow.concat_tables(self._tables, promote_options="default").combine_chunks()]
        return self._tables[0]
