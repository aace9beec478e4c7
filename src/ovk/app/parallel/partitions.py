"""Partitions of the data: small descriptions that are sent to a worker and read there."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ovk.app.tables import FileRange, chunks, split_files
from ovk.base import check_int

#: Rows read at a time.
CHUNK_ROWS = 4096


class PartitionError(ValueError):
    """A partition of the data could not be read or learned; the message names it.

    See Also
    --------
    fit, WorkersLostError

    Examples
    --------
    >>> from ovk import OVKRidge
    >>> from ovk.app.parallel import PartitionError, fit
    >>> def broken():
    ...     raise OSError("the disk is gone")
    >>> try:
    ...     fit(OVKRidge(landmarks=2), [broken])
    ... except PartitionError as error:
    ...     print(error)
    part 0 (broken) failed: the disk is gone
    """


class Partition(ABC):
    """Some rows of the data, read on a worker. Reading them again must give the same rows."""

    label: str  # name in messages
    n_bad: int = 0  # rows that could not be read, known after reading

    @abstractmethod
    def chunks(self) -> Iterator[tuple[Any, ...]]:
        """The rows, as tuples (X, Y), (X, Y, sample_weight) or (X, y, sample_weight or None, task)."""

    def sample(self, rows: int, seed: int) -> list[tuple[Any, ...]]:
        """Chunks with about `rows` of the rows, found without reading much; by default the first ones."""
        found: list[tuple[Any, ...]] = []
        for chunk in self.chunks():
            found.append(_cut(chunk, slice(0, rows)))
            rows -= _count(chunk)
            if rows <= 0:
                break
        return found


@dataclass
class FilePartition(Partition):
    """Numbers in a range of a file; `targets` and `features` name columns as in `ovk.evaluation.chunks`."""

    range: FileRange
    targets: Any
    features: Any = None
    chunk_size: int = CHUNK_ROWS

    @property
    def label(self) -> str:  # type: ignore[override]
        return self.range.label

    def chunks(self) -> Iterator[tuple[Any, ...]]:
        found: Any = chunks(self.range, targets=self.targets, features=self.features, chunk_size=self.chunk_size)
        for chunk in found:
            if len(chunk.X):
                yield chunk.X, chunk.Y

    def sample(self, rows: int, seed: int) -> list[tuple[Any, ...]]:
        places = self.range.sample(np.random.default_rng(seed))
        each = -(-rows // len(places))
        pieces = [FilePartition(place, self.targets, self.features, min(self.chunk_size, each)) for place in places]
        return [chunk for piece in pieces for chunk in Partition.sample(piece, each, seed)]


@dataclass
class GivenPartition(Partition):
    """A tuple of arrays, an iterable of tuples, or a function that returns one of these."""

    rows: Any
    label: str = "future"

    def chunks(self) -> Iterator[tuple[Any, ...]]:
        yield from _chunks(self.rows() if callable(self.rows) else self.rows)


def _chunks(value: Any) -> Iterator[tuple[Any, ...]]:
    if not isinstance(value, tuple):
        for chunk in value:
            yield from _chunks(chunk)
        return
    for start in range(0, _count(value), CHUNK_ROWS):
        yield _cut(value, slice(start, start + CHUNK_ROWS))


def _cut(chunk: tuple[Any, ...], rows: slice) -> tuple[Any, ...]:
    return tuple(None if one is None else one[rows] for one in chunk)


def _count(chunk: tuple[Any, ...]) -> int:
    # Sparse matrices have no length, lists no shape.
    X = chunk[0]
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def as_partitions(given: Any, targets: Any = None, features: Any = None, chunk_size: int = CHUNK_ROWS) -> list[Any]:
    """The user's `parts` as a list of `Partition` and futures of rows."""
    size = check_int(chunk_size, "chunk_size")
    if isinstance(given, str) or not isinstance(given, Iterable):
        given = [given]
    # Without Dask imported there are no futures.
    futures: Any = getattr(sys.modules.get("distributed"), "Future", ())
    found: list[Any] = []
    for one in given:
        if isinstance(one, FileRange):
            found.append(FilePartition(one, targets, features, size))
        elif isinstance(one, (Partition, futures)):
            found.append(one)
        elif callable(one):
            found.append(GivenPartition(one, str(getattr(one, "__name__", type(one).__name__))))
        elif isinstance(one, (str, bytes)) or hasattr(one, "__fspath__"):
            found += [FilePartition(some, targets, features, size) for some in split_files(one)]
        else:
            raise TypeError(
                "parts must be paths, patterns, ranges of files, functions that return (X, Y), or futures, got "
                f"{type(one).__name__}: return arrays from a function, so that they need not pass the scheduler"
            )
    if not found:
        raise ValueError("parts must contain at least one part")
    return found
