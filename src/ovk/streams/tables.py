"""Tables: named columns whose rows are read in blocks of numbers, from arrays, data frames and files."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ovk._extras import required
from ovk._types import Array
from ovk.streams.cells import require_numbers
from ovk.streams.opening import open_records
from ovk.streams.records import Records
from ovk.streams.text import STDIN


class Table(ABC):
    """Named columns whose rows can be read in blocks.

    Attributes
    ----------
    names : names of the columns
    n_rows : number of rows, None where only reading would tell
    label : what to call the table in a message
    """

    names: tuple[str, ...]
    n_rows: int | None
    label: str

    @abstractmethod
    def blocks(self, columns: list[int], size: int) -> Iterator[Array]:
        """The rows in their order, (at most `size`, number of columns) at a time."""

    def _numbers(self, cells: Iterable[Any], columns: list[int], place: Callable[[int], str]) -> Array:
        """(n, columns) numbers out of the cells of each column; `place` says where the i-th of them stands."""
        names = (self.names[j] for j in columns)
        return np.column_stack(
            [require_numbers(part, name, self.label, place) for part, name in zip(cells, names, strict=True)]
        )


class ArrayTable(Table):
    """A two-dimensional array, memory-mapped perhaps; its columns are called x0, x1, ... or y0, y1, ..."""

    def __init__(self, array: Any, label: str) -> None:
        self.array, self.label, self.n_rows = array, label, len(array)
        self.names = tuple(f"{label.lower()}{j}" for j in range(array.shape[1]))

    def blocks(self, columns: list[int], size: int) -> Iterator[Array]:
        for start in range(0, len(self.array), size):
            part = self.array[start : start + size]
            if columns != list(range(part.shape[1])):
                part = part[:, columns]
            if part.dtype.kind in "biuf":
                yield np.asarray(part, dtype=np.float64)
            else:
                yield self._numbers((column.tolist() for column in part.T), columns, _row_after(start))


class FrameTable(Table):
    """A data frame of any library that narwhals knows."""

    def __init__(self, frame: Any, label: str) -> None:
        self.frame, self.label, self.n_rows = frame, label, len(frame)
        self.names = tuple(map(str, frame.columns))

    def blocks(self, columns: list[int], size: int) -> Iterator[Array]:
        import narwhals as nw

        for start in range(0, len(self.frame), size):
            part = self.frame[start : start + size]
            cells = []
            for series in (part[:, j] for j in columns):
                plain = series.dtype.is_float() or series.dtype.is_integer()
                cells.append(series.cast(nw.Float64).to_numpy() if plain else series.to_list())
            yield self._numbers(cells, columns, _row_after(start))


def _row_after(start: int) -> Callable[[int], str]:
    return lambda i: f"row {start + i}"


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


def is_frame(data: Any) -> bool:
    """Whether `data` is a data frame or a series of a library that speaks Arrow: pandas, polars, pyarrow."""
    # Before version 3 of pandas its frames speak Arrow, but not its series.
    return hasattr(data, "__arrow_c_stream__") or (hasattr(data, "to_frame") and hasattr(data, "index"))


def as_table(data: Any, label: str) -> tuple[Table, bool]:
    """An array-like or data frame as a table, and whether it was one-dimensional: a series, an array (n,)."""
    if is_frame(data):
        frame = _narwhals(data, label)
        single = len(frame.shape) == 1
        return FrameTable(frame.alias(frame.name or "y0").to_frame() if single else frame, label), single
    array = data if isinstance(data, np.ndarray) else np.asarray(data)
    single = array.ndim == 1 and label == "Y"
    if single:
        array = array[:, None]
    if array.ndim != 2:
        allowed = "two dimensions (n, p)" if label == "X" else "one or two dimensions, (n,) or (n, d)"
        raise ValueError(
            f"{label} must have {allowed}, got shape {array.shape} of {type(data).__name__}: reshape it (one row is "
            f"{label}[None, :]), and make sparse matrices dense"
        )
    return ArrayTable(array, label), single


def _narwhals(data: Any, label: str) -> Any:
    with required("data frames", "frames"):
        import narwhals as nw
    frame = nw.from_native(data, eager_only=True, series_only=False, allow_series=True, pass_through=True)
    if not isinstance(frame, (nw.DataFrame, nw.Series)) or (label == "X" and isinstance(frame, nw.Series)):
        raise TypeError(
            f"{label} must be an array or a data frame of pandas, polars or pyarrow, got {type(data).__name__}: make "
            "it one of these"
        )
    return frame


def quoted(names: Iterable[str]) -> str:
    """Names of columns for a message, not too many of them.

    >>> quoted(["a", "b"]), quoted(map(str, range(20)))
    ("'a', 'b'", "'0', '1', '2', '3', '4', '5', '6', '7', '8', '9', ..., '19'")
    """
    names = [repr(name) for name in names]
    return ", ".join(names if len(names) <= 12 else [*names[:10], "...", names[-1]])
