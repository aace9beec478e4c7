"""Rows of arrays, data frames and iterables in chunks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ovk._extras import required
from ovk.base import Array, check_int, quoted, require_numbers


class Table(ABC):
    """Named columns whose rows are read in blocks."""

    names: tuple[str, ...]
    #: None if unknown before reading.
    n_rows: int | None
    #: Name of the table in messages.
    label: str

    @abstractmethod
    def blocks(self, columns: list[int], size: int) -> Iterator[Array]:
        """Blocks (at most `size`, number of columns) of the rows, in order."""

    def _numbers(self, cells: Iterable[Any], columns: list[int], place: Callable[[int], str]) -> Array:
        """(n, columns) numbers from the cells of each column; `place` gives the position of the i-th for messages."""
        pairs = zip(cells, (self.names[j] for j in columns), strict=True)
        return np.column_stack([require_numbers(part, name, self.label, place) for part, name in pairs])


class MemoryTable(Table):
    """An array (n, columns), which may be memory-mapped, or a data frame that narwhals supports.

    The columns of an array have the names x0, x1, ... or y0, y1, ...
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
    """The cells of a column, as an array if its type is numeric."""
    column = part[:, j]
    if not isinstance(part, np.ndarray) and (column.dtype.is_float() or column.dtype.is_integer()):
        import narwhals as nw

        return column.cast(nw.Float64).to_numpy()
    return column.tolist() if isinstance(part, np.ndarray) else column.to_list()


def is_frame(data: Any) -> bool:
    """Whether `data` is a data frame or series of a library with Arrow's interface: pandas, polars, pyarrow."""
    # The series of pandas have Arrow's interface only from version 3 on.
    return hasattr(data, "__arrow_c_stream__") or (hasattr(data, "to_frame") and hasattr(data, "index"))


def as_table(data: Any, label: str) -> tuple[Table, bool]:
    """An array-like or data frame as a table, and whether it is a series or an array (n,)."""
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
            f"{label}[None, :]), and convert sparse matrices to dense ones"
        )
    return MemoryTable(array, label), single


def _narwhals(data: Any, label: str) -> Any:
    with required("data frames", "frames"):
        import narwhals as nw
    frame = nw.from_native(data, eager_only=True, series_only=False, allow_series=True, pass_through=True)
    if not isinstance(frame, (nw.DataFrame, nw.Series)) or (label == "X" and isinstance(frame, nw.Series)):
        allowed = "an array or a data frame of pandas, polars or pyarrow"
        raise TypeError(f"{label} must be {allowed}, got {type(data).__name__}")
    return frame


class Chunk(NamedTuple):
    """Rows X (n, p) and Y (n, d), or (n,) for a single output; nan where missing."""

    X: Array
    Y: Array
    features: tuple[str, ...]
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Chunks:
    """An iterable of `Chunk`, which can be repeated unless the source is an iterator."""

    #: None if unknown before reading.
    n_rows: int | None
    _read: Callable[[], Iterator[Chunk]]

    def __iter__(self) -> Iterator[Chunk]:
        return self._read()


def chunks(source: Any, Y: Any = None, *, targets: Any = None, features: Any = None, chunk_size: int = 1024) -> Chunks:
    """Iterate over the rows of arrays, data frames or iterables in chunks.

    Parameters
    ----------
    source : array, data frame (pandas, polars, pyarrow) or iterable
        - inputs, with `Y`;
        - inputs and outputs, with `targets`;
        - iterable of chunks: pairs (X, Y), or tables with `targets`. Small chunks are not combined.
    Y : (n, d) or (n,) array, frame or series, optional
        The outputs.
    targets : name or index of a column, or a sequence of them
        The output columns of `source`. A single one gives outputs of shape (n,), a sequence (n, d).
    features : names or indices of columns, optional
        The input columns; default all that are not targets.
    chunk_size : int
        Maximum number of rows in a chunk.

    Returns
    -------
    Chunks
        An iterable of tuples (X, Y, names of the inputs, names of the outputs). A table without rows gives one chunk
        without rows.

    See Also
    --------
    progressive

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
            raise ValueError(f"targets must be None when Y is given, got {targets!r}")
        return _pair(source, Y, features, size)
    if isinstance(source, Table):
        return _split(source, targets, features, size)
    if isinstance(source, np.ndarray) or is_frame(source):
        return _split(as_table(source, "X")[0], targets, features, size)
    if isinstance(source, Iterable):
        return Chunks(None, lambda: _checked(source, targets, features, size))
    allowed = "an array, a data frame or an iterable of chunks (X, Y)"
    raise TypeError(f"source must be {allowed}, got {type(source).__name__}")


def _split(table: Table, targets: Any, features: Any, size: int) -> Chunks:
    """Inputs and outputs from the columns of one table."""
    if targets is None:
        raise ValueError(
            f"Y and targets are both None: pass the outputs as Y, or their columns as targets, out of "
            f"{quoted(table.names)}"
        )
    single = isinstance(targets, (str, int, np.integer))
    ys = _columns(table, [targets] if single else list(targets), "targets")
    xs = [j for j in range(len(table.names)) if j not in ys]
    if features is not None:
        xs = _columns(table, features, "features")
    both = sorted(set(xs) & set(ys))
    if both:
        raise ValueError(f"features and targets must not share columns, got {table.names[both[0]]!r} in both")
    if not xs or not ys:
        raise ValueError(f"{table.label} requires at least one feature and one target, got {len(xs)} and {len(ys)}")
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
        raise ValueError(f"X and Y must have the same number of rows, got {inputs.n_rows} and {outputs.n_rows}")
    xs = _columns(inputs, range(len(inputs.names)) if features is None else features, "features")
    ys = list(range(len(outputs.names)))
    if not xs or not ys:
        raise ValueError(f"X and Y must have at least one column each, got {len(xs)} and {len(ys)}")
    names = tuple(inputs.names[j] for j in xs), outputs.names

    def read() -> Iterator[Chunk]:
        for A, B in zip(_nonempty(inputs, xs, size), _nonempty(outputs, ys, size), strict=True):
            yield Chunk(A, B[:, 0] if single else B, *names)

    return Chunks(inputs.n_rows, read)


def _checked(parts: Iterable[Any], targets: Any, features: Any, size: int) -> Iterator[Chunk]:
    """The chunks of an iterable, split if too large, and checked to have the same columns."""
    first: Chunk | None = None
    for number, part in enumerate(parts):
        if isinstance(part, tuple) and len(part) == 2 and targets is None:
            inner = _pair(*part, features, size)
        elif isinstance(part, np.ndarray) or is_frame(part):
            inner = _split(as_table(part, "X")[0], targets, features, size)
        else:
            raise ValueError(
                f"chunk {number} of the iterable must be a pair (X, Y), or an array or data frame with targets, got "
                f"{type(part).__name__}"
            )
        for chunk in inner:
            first = first or chunk
            if (chunk.X.shape[1], chunk.Y.shape[1:]) != (first.X.shape[1], first.Y.shape[1:]):
                raise ValueError(
                    f"all chunks must have the columns of the first, with shapes {first.X.shape} and {first.Y.shape}, "
                    f"got {chunk.X.shape} and {chunk.Y.shape} in chunk {number}"
                )
            yield chunk


def _nonempty(table: Table, columns: list[int], size: int) -> Iterator[Array]:
    """Blocks of the table; one without rows if the table is empty, so that its columns are known."""
    blocks = table.blocks(columns, size)
    yield next(blocks, np.empty((0, len(columns))))
    yield from blocks


def _columns(table: Table, chosen: Any, argument: str) -> list[int]:
    """Indices of columns given by name or index."""
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
                f"{argument} must contain names or indices of the {width} columns of {table.label}, "
                f"{quoted(table.names)}, got {one!r}"
            )
    if len(set(found)) < len(found):
        raise ValueError(f"{argument} must not contain a column twice, got {quoted(table.names[j] for j in found)}")
    return found
