"""Parts of the data: something small that travels to a worker and is read there."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ovk.app.tables import FileRange, chunks, split_files
from ovk.base import check_int

#: Rows taken in at a time.
CHUNK = 4096


class PartError(ValueError):
    """A part of the data could not be read or learned; the message names it.

    Examples
    --------
    >>> from ovk import OVKRidge
    >>> from ovk.app.parallel import PartError, fit
    >>> def broken():
    ...     raise OSError("the disk is gone")
    >>> try:
    ...     fit(OVKRidge(landmarks=2), [broken])
    ... except PartError as error:
    ...     print(error)
    part 0 (broken) cannot be used: the disk is gone
    """


class Part(ABC):
    """Some rows of the data, read where they are needed.

    A part is pickled and sent to a worker, perhaps to several of them one after the other: it says where rows are, and
    does not hold them. Reading it again must give the same rows.
    """

    #: What to call it in a message.
    label: str
    #: Rows that could not be read, known when the part has been read.
    n_bad: int = 0

    @abstractmethod
    def chunks(self) -> Iterator[tuple[Any, ...]]:
        """The rows, as tuples (X, Y), (X, Y, sample_weight) or (X, y, sample_weight or None, task)."""

    def sample(self, rows: int, seed: int) -> list[tuple[Any, ...]]:
        """Chunks with some of the rows, about so many, without reading much; by default the first ones."""
        found: list[tuple[Any, ...]] = []
        for chunk in self.chunks():
            found.append(_cut(chunk, slice(0, rows)))
            rows -= _count(chunk)
            if rows <= 0:
                break
        return found


@dataclass
class FilePart(Part):
    """Numbers in a range of a CSV, JSON lines or Parquet file.

    Attributes
    ----------
    range : `ovk.app.tables.FileRange`
    targets, features : names of the columns, as in `ovk.evaluation.chunks`
    chunk_size : rows read at a time

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.app.parallel import FilePart
    >>> from ovk.app.tables import split_files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "t.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("a,b\\n1,2\\n3,4\\n")
    ...     [part] = [FilePart(one, targets="b") for one in split_files(path)]
    ...     [(X.tolist(), y.tolist()) for X, y in part.chunks()]
    [([[1.0], [3.0]], [2.0, 4.0])]
    """

    range: FileRange
    targets: Any
    features: Any = None
    chunk_size: int = CHUNK

    @property
    def label(self) -> str:  # type: ignore[override]
        """What to call it in a message."""
        return self.range.label

    def chunks(self) -> Iterator[tuple[Any, ...]]:
        table, size = self.range.table(), self.chunk_size
        for chunk in chunks(table, targets=self.targets, features=self.features, chunk_size=size):
            if len(chunk.X):
                yield chunk.X, chunk.Y

    def sample(self, rows: int, seed: int) -> list[tuple[Any, ...]]:
        places = self.range.sample(np.random.default_rng(seed))
        each = -(-rows // len(places))
        pieces = [FilePart(place, self.targets, self.features, min(self.chunk_size, each)) for place in places]
        return [chunk for piece in pieces for chunk in Part.sample(piece, each, seed)]


@dataclass
class GivenPart(Part):
    """A tuple of rows, or an iterable of tuples; or a function that returns one of them."""

    rows: Any
    label: str = "future"

    def chunks(self) -> Iterator[tuple[Any, ...]]:
        yield from _chunks(self.rows() if callable(self.rows) else self.rows)


def _chunks(value: Any) -> Iterator[tuple[Any, ...]]:
    """A tuple of arrays cut into chunks, or the tuples of an iterable."""
    if not isinstance(value, tuple):
        for chunk in value:
            yield from _chunks(chunk)
        return
    for start in range(0, _count(value), CHUNK):
        yield _cut(value, slice(start, start + CHUNK))


def _cut(chunk: tuple[Any, ...], rows: slice) -> tuple[Any, ...]:
    """Some rows of a chunk. Sparse matrices have no length but can be cut; lists of outputs the other way round."""
    return tuple(None if one is None else one[rows] for one in chunk)


def _count(chunk: tuple[Any, ...]) -> int:
    X = chunk[0]
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def as_parts(parts: Any, targets: Any = None, features: Any = None, chunk_size: int = CHUNK) -> list[Any]:
    """What a user gave as parts of the data, each a `Part` or a future of one.

    Parameters
    ----------
    parts : path or pattern of files, or a collection of these, of `FileRange`, `Part`, functions and futures
    """
    size = check_int(chunk_size, "chunk_size")
    if isinstance(parts, str) or not isinstance(parts, Iterable):
        parts = [parts]
    # No future is there where nobody has imported Dask.
    futures: Any = getattr(sys.modules.get("distributed"), "Future", ())
    found: list[Any] = []
    for one in parts:
        if isinstance(one, FileRange):
            found.append(FilePart(one, targets, features, size))
        elif isinstance(one, (Part, futures)):
            found.append(one)
        elif callable(one):
            found.append(GivenPart(one, str(getattr(one, "__name__", type(one).__name__))))
        elif isinstance(one, (str, bytes)) or hasattr(one, "__fspath__"):
            found += [FilePart(some, targets, features, size) for some in split_files(one)]
        else:
            raise TypeError(
                "parts must be paths, patterns, ranges of files, functions that return (X, Y), or futures, got "
                f"{type(one).__name__}: arrays would have to travel through the scheduler; put them behind a function"
            )
    if not found:
        raise ValueError("parts is empty: there is nothing to learn from")
    return found
