"""Tables: named columns whose rows are read in blocks of numbers. Here those in memory: arrays and data frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ovk._validation import Array

#: How a missing number may be spelled, in small letters.
MISSING = {"", "nan", "na", "n/a", "<na>", "?", "null", "none"}


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
                yield numbers([column.tolist() for column in part.T], self, columns, start)


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
            yield numbers(cells, self, columns, start)


def is_frame(data: Any) -> bool:
    """Whether `data` is a data frame or a series of a library that speaks Arrow: pandas, polars, pyarrow."""
    return not isinstance(data, np.ndarray) and hasattr(data, "__arrow_c_stream__")


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
    try:
        import narwhals as nw
    except ImportError as error:
        raise ImportError("data frames need narwhals: install it with  pip install 'ovk[frames]'") from error
    frame = nw.from_native(data, eager_only=True, series_only=False, allow_series=True, pass_through=True)
    if not isinstance(frame, (nw.DataFrame, nw.Series)) or (label == "X" and isinstance(frame, nw.Series)):
        raise TypeError(
            f"{label} must be an array or a data frame of pandas, polars or pyarrow, got {type(data).__name__}: make "
            "it one of these"
        )
    return frame


def numbers(cells: Sequence[Any], table: Table, columns: list[int], rows: int | Sequence[int]) -> Array:
    """Cells of the given columns, a sequence for each, as an array (n, columns).

    `rows` is the number of the first row, or the line of each row in a text file.
    """
    result = np.empty((len(cells[0]) if cells else 0, len(columns)))
    for k, (column, j) in enumerate(zip(cells, columns, strict=True)):
        if isinstance(column, np.ndarray):
            result[:, k] = column
            continue
        for i, cell in enumerate(column):
            try:
                result[i, k] = float(cell)
            except (TypeError, ValueError):
                if str(cell).strip().lower() not in MISSING:
                    place = f"row {rows + i}" if isinstance(rows, int) else f"line {rows[i]}"
                    raise ValueError(
                        f"column {table.names[j]!r} of {table.label} holds {cell!r} in {place}, which is not a number: "
                        "leave the column out (features=, targets=), or encode it as numbers"
                    ) from None
                result[i, k] = np.nan
    return result
