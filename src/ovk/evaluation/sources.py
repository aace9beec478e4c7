"""Rows of arrays, data frames and iterables in chunks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ovk._extras import required
from ovk.base import Array, check_int, quoted, require_numbers

# Tables: named columns whose rows are read in blocks of numbers, from arrays and data frames.


class Table(ABC):
    """Named columns whose rows can be read in blocks."""

    names: tuple[str, ...]
    #: None where only reading would tell.
    n_rows: int | None
    #: What to call the table in a message.
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


class MemoryTable(Table):
    """A two-dimensional array, memory-mapped perhaps, or a data frame of any library that narwhals knows.

    The columns of an array are called x0, x1, ... or y0, y1, ...
    """

    def __init__(self, data: Any, label: str) -> None:
        self.data, self.label, self.n_rows = data, label, len(data)
        plain = isinstance(data, np.ndarray)
        names = [f"{label.lower()}{j}" for j in range(data.shape[1])] if plain else data.columns
        self.names = tuple(map(str, names))

    def blocks(self, columns: list[int], size: int) -> Iterator[Array]:
        for start in range(0, len(self.data), size):
            part = self.data[start : start + size]
            if isinstance(part, np.ndarray) and part.dtype.kind in "biuf":
                whole = columns == list(range(part.shape[1]))
                yield np.asarray(part if whole else part[:, columns], dtype=np.float64)
            else:
                cells = [_cells(part, j) for j in columns]
                yield self._numbers(cells, columns, lambda i, start=start: f"row {start + i}")  # type: ignore[misc]


def _cells(part: Any, j: int) -> Any:
    """The cells of a column, as an array of numbers where it has a type of numbers."""
    column = part[:, j]
    if not isinstance(part, np.ndarray) and (column.dtype.is_float() or column.dtype.is_integer()):
        import narwhals as nw

        return column.cast(nw.Float64).to_numpy()
    return column.tolist() if isinstance(part, np.ndarray) else column.to_list()


def is_frame(data: Any) -> bool:
    """Whether `data` is a data frame or a series of a library that speaks Arrow: pandas, polars, pyarrow."""
    # Before version 3 of pandas its frames speak Arrow, but not its series.
    return hasattr(data, "__arrow_c_stream__") or (hasattr(data, "to_frame") and hasattr(data, "index"))


def as_table(data: Any, label: str) -> tuple[Table, bool]:
    """An array-like or data frame as a table, and whether it was one-dimensional: a series, an array (n,)."""
    if is_frame(data):
        frame = _narwhals(data, label)
        single = len(frame.shape) == 1
        return MemoryTable(frame.alias(frame.name or "y0").to_frame() if single else frame, label), single
    array = np.asanyarray(data)
    single = array.ndim == 1 and label == "Y"
    if single:
        array = array[:, None]
    if array.ndim != 2:
        allowed = "two dimensions (n, p)" if label == "X" else "one or two dimensions, (n,) or (n, d)"
        raise ValueError(
            f"{label} must have {allowed}, got shape {array.shape} of {type(data).__name__}: reshape it (one row is "
            f"{label}[None, :]), and make sparse matrices dense"
        )
    return MemoryTable(array, label), single


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


class Chunk(NamedTuple):
    """Rows X (n, p) and Y (n, d), or (n,) if a single output was given as such; nan where nothing was observed."""

    X: Array
    Y: Array
    features: tuple[str, ...]
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Chunks:
    """An iterable of `Chunk`. Arrays, frames and files can be gone through again, an iterator only once."""

    #: None where only reading would tell.
    n_rows: int | None
    _read: Callable[[], Iterator[Chunk]]

    def __iter__(self) -> Iterator[Chunk]:
        return self._read()


def chunks(source: Any, Y: Any = None, *, targets: Any = None, features: Any = None, chunk_size: int = 1024) -> Chunks:
    """Rows of any source, at most `chunk_size` at a time.

    Parameters
    ----------
    source : one of these
        - array or data frame (pandas, polars, pyarrow) of inputs, with `Y`;
        - array or data frame of inputs and outputs, with `targets`;
        - iterable of chunks: pairs (X, Y), or tables with `targets`. Small ones are passed on as they come.
    Y : (n, d) or (n,) array, frame or series of outputs, optional
    targets : name or number of the output's column, or a sequence of them
        A single one gives outputs of shape (n,), a sequence (n, d).
    features : names or numbers of the input columns; default all that are not targets
    chunk_size : most rows at a time

    Returns
    -------
    `Chunks`, to iterate over. A table without rows gives one chunk without rows.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import chunks
    >>> table = np.arange(12.0).reshape(4, 3)
    >>> for X, y, features, targets in chunks(table, targets=-1, chunk_size=3):
    ...     print(X.tolist(), y.tolist(), features, targets)
    [[0.0, 1.0], [3.0, 4.0], [6.0, 7.0]] [2.0, 5.0, 8.0] ('x0', 'x1') ('x2',)
    [[9.0, 10.0]] [11.0] ('x0', 'x1') ('x2',)
    """
    size = check_int(chunk_size, "chunk_size")
    if Y is not None:
        if targets is not None:
            raise ValueError(
                "targets chooses output columns of X, so it must be None when Y is given: drop one of them"
            )
        return _pair(source, Y, features, size)
    if isinstance(source, Table):
        return _split(source, targets, features, size)
    if isinstance(source, np.ndarray) or is_frame(source):
        return _split(as_table(source, "X")[0], targets, features, size)
    if isinstance(source, Iterable):
        return Chunks(None, lambda: _checked(source, targets, features, size))
    raise TypeError(
        f"rows come from an array, a data frame or an iterable of chunks (X, Y), got {type(source).__name__}"
    )


def _split(table: Table, targets: Any, features: Any, size: int) -> Chunks:
    """Inputs and outputs from the columns of one table."""
    if targets is None:
        raise ValueError(
            f"Y and targets are both None: give the outputs as Y, or name their columns by targets=, out of "
            f"{quoted(table.names)}"
        )
    single = isinstance(targets, (str, int, np.integer))
    ys = _columns(table, [targets] if single else list(targets), "targets")
    xs = [j for j in range(len(table.names)) if j not in ys]
    if features is not None:
        xs = _columns(table, features, "features")
    both = sorted(set(xs) & set(ys))
    if both:
        raise ValueError(
            f"column {table.names[both[0]]!r} stands in features and in targets: it can be only one of them"
        )
    if not xs or not ys:
        raise ValueError(f"{table.label} needs at least one feature and one target, got {len(xs)} and {len(ys)}")
    names = tuple(table.names[j] for j in xs), tuple(table.names[j] for j in ys)

    def read() -> Iterator[Chunk]:
        for block in _nonempty(table, xs + ys, size):
            yield Chunk(block[:, : len(xs)], block[:, -1] if single else block[:, len(xs) :], *names)

    return Chunks(table.n_rows, read)


def _pair(X: Any, Y: Any, features: Any, size: int) -> Chunks:
    """Inputs from one table and outputs from another."""
    inputs, _ = as_table(X, "X")
    outputs, single = as_table(Y, "Y")
    if inputs.n_rows != outputs.n_rows:
        raise ValueError(f"X has {inputs.n_rows} rows but Y has {outputs.n_rows}: they must be the same rows")
    xs = _columns(inputs, range(len(inputs.names)) if features is None else features, "features")
    ys = list(range(len(outputs.names)))
    if not xs or not ys:
        raise ValueError(f"X and Y need at least one column each, got {len(xs)} and {len(ys)}")
    names = tuple(inputs.names[j] for j in xs), outputs.names

    def read() -> Iterator[Chunk]:
        for A, B in zip(_nonempty(inputs, xs, size), _nonempty(outputs, ys, size), strict=True):
            yield Chunk(A, B[:, 0] if single else B, *names)

    return Chunks(inputs.n_rows, read)


def _checked(parts: Iterable[Any], targets: Any, features: Any, size: int) -> Iterator[Chunk]:
    """The chunks of an iterable, each split where it is too large, all checked to be of one shape."""
    first: Chunk | None = None
    for number, part in enumerate(parts):
        if isinstance(part, tuple) and len(part) == 2 and targets is None:
            inner = _pair(*part, features, size)
        elif isinstance(part, np.ndarray) or is_frame(part):
            inner = _split(as_table(part, "X")[0], targets, features, size)
        else:
            raise ValueError(
                f"chunk {number} of the iterable must be a pair (X, Y), or a table when targets= is given, got "
                f"{type(part).__name__}"
                + (": an array-like of rows must be made an array" if isinstance(part, (list, tuple)) else "")
            )
        for chunk in inner:
            first = first or chunk
            if (chunk.X.shape[1], chunk.Y.shape[1:]) != (first.X.shape[1], first.Y.shape[1:]):
                raise ValueError(
                    f"chunk {number} of the iterable has shapes {chunk.X.shape} and {chunk.Y.shape}, but the first one "
                    f"had {first.X.shape} and {first.Y.shape}: columns must stay the same"
                )
            yield chunk


def _nonempty(table: Table, columns: list[int], size: int) -> Iterator[Array]:
    """Blocks of the table; one without rows if it has none, so that its columns are known all the same."""
    blocks = table.blocks(columns, size)
    yield next(blocks, np.empty((0, len(columns))))
    yield from blocks


def _columns(table: Table, chosen: Any, argument: str) -> list[int]:
    """Positions of columns given by name or by number."""
    chosen = [chosen] if isinstance(chosen, (str, int, np.integer)) else list(chosen)
    width = len(table.names)
    found = []
    for one in chosen:
        if isinstance(one, str) and one in table.names:
            found.append(table.names.index(one))
        elif isinstance(one, (int, np.integer)) and -width <= one < width:
            found.append(int(one) % width)
        else:
            raise ValueError(
                f"{argument} must hold names or numbers of the {width} columns of {table.label}, "
                f"{quoted(table.names)}, got {one!r}"
            )
    if len(set(found)) < len(found):
        raise ValueError(f"{argument} must not hold a column twice, got {quoted(table.names[j] for j in found)}")
    return found
