"""Columns of a file beside the predictions that were made from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ovk.sessions.columns import csv_line, pyarrow, safe_text
from ovk.streams import Batch
from ovk.streams.column_names import find_columns


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
                raise ValueError(f"keep {name!r}: the predictions have a column of that name already")
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
            yield {**dict(zip(self._keep, cells, strict=True)), **row}

    def arrays(self, found: tuple[Any, Batch]) -> dict[str, Any]:
        """(n,) arrays by the names of the columns; cells that are kept are as they stand in the file."""
        kept = {name: _as_array(cells) for name, cells in zip(self._keep, self._cells(found[1]), strict=True)}
        return {**kept, **self._columns.arrays(found[0])}

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


def _as_array(cells: Sequence[Any]) -> Any:
    """(n,) cells, of texts or of whatever they are."""
    if all(isinstance(cell, str) for cell in cells):
        return np.array(list(cells), dtype=np.str_)
    array = np.empty(len(cells), dtype=object)
    array[:] = list(cells)
    return array
