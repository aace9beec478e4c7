"""Rows as requests bring them: a matrix of numbers, or columns with names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from ovk.app.serve.access import RequestRefused
from ovk.base import Array, closest_names, quoted

#: A column: (n,) numbers, nan where missing, or cells of any kind that JSON knows.
Cells = Array | list[Any]


@dataclass(frozen=True)
class RequestRows:
    """Rows of a request.

    Attributes
    ----------
    names : names of the columns, None for a matrix without
    columns : the cells of each column; without names the columns of the matrix
    matrix : (n, k) the numbers, where all columns hold numbers and no names were given

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.app.serve.rows import RequestRows
    >>> rows = RequestRows.named(["x", "word"], [np.array([1.0, 2.0]), ["a", None]])
    >>> again = RequestRows.decode(rows.encode())
    >>> again.names, again.columns[1], len(again)
    (('x', 'word'), ['a', None], 2)
    """

    names: tuple[str, ...] | None
    columns: tuple[Cells, ...]
    matrix: Array | None = None

    @classmethod
    def of_matrix(cls, matrix: Array) -> RequestRows:
        """Rows of a matrix (n, k)."""
        return cls(None, (), np.ascontiguousarray(matrix, dtype=np.float64))

    @classmethod
    def named(cls, names: Sequence[str], columns: Sequence[Cells]) -> RequestRows:
        """Columns with names."""
        return cls(tuple(names), tuple(columns))

    def __len__(self) -> int:
        if self.matrix is not None:
            return len(self.matrix)
        return len(self.columns[0]) if self.columns else 0

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.columns) if self.matrix is None else self.matrix.shape[1]

    @property
    def nbytes(self) -> int:
        """About how much memory they take."""
        if self.matrix is not None:
            return self.matrix.nbytes + 200
        return 200 + sum(c.nbytes if isinstance(c, np.ndarray) else 80 * len(c) for c in self.columns)

    def numbers(self, names: Sequence[str] | None, width: int | None, what: str) -> Array:
        """(n, k) numbers: the columns of these names, or where there are no names all of them in their order."""
        if self.matrix is not None:
            matrix = self.matrix
        else:
            columns = self.columns
            if names is not None and self.names is not None:
                hint = ": send null where it is not known" if what == "targets" else ""
                columns = tuple(self.column(name, hint) for name in names)
            matrix = np.column_stack([as_numbers(column, what) for column in columns]) if columns else np.empty((0, 0))
        if width is not None and matrix.shape[1] != width:
            raise RequestRefused(400, f"{what} must have {width} columns, got {matrix.shape[1]}")
        return matrix

    def column(self, name: str, hint: str = "") -> Cells:
        """The column of that name; where there is none the message says so, with a `hint` of what to do."""
        names = self.names or ()
        if name not in names:
            found = quoted(names) or "columns without names"
            message = f"column {name!r} is missing{hint}; the request has {found}"
            raise RequestRefused(400, message + did_you_mean(name, names))
        return self.columns[names.index(name)]

    def labels(self) -> list[Any]:
        """The cells of targets that are labels, which is one column."""
        if self.width != 1:
            raise RequestRefused(400, f"targets must be one column of labels, got {self.width}")
        cells = self.columns[0] if self.matrix is None else self.matrix[:, 0]
        return cells if isinstance(cells, list) else list(cells.tolist())

    def with_names(self, names: Sequence[str], what: str) -> RequestRows:
        """The same rows with names: those they have, or for a matrix the ones given."""
        if self.matrix is None:
            return self
        if self.matrix.shape[1] != len(names):
            listed = ", ".join(names)
            raise RequestRefused(
                400, f"{what} must have the {len(names)} columns {listed}, got {self.matrix.shape[1]} without names"
            )
        return RequestRows.named(names, list(self.matrix.T))

    def encode(self) -> bytes:
        """The rows as bytes: a line of JSON, then the numbers."""
        if self.matrix is not None:
            head: dict[str, Any] = {"shape": self.matrix.shape}
            return json.dumps(head).encode() + b"\n" + self.matrix.astype("<f8").tobytes()
        cells = [None if isinstance(column, np.ndarray) else column for column in self.columns]
        head = {"names": self.names, "rows": len(self), "cells": cells}
        numbers = [column.astype("<f8").tobytes() for column in self.columns if isinstance(column, np.ndarray)]
        return json.dumps(head).encode() + b"\n" + b"".join(numbers)

    @classmethod
    def decode(cls, content: bytes) -> RequestRows:
        """What `encode` gave."""
        end = content.index(b"\n")
        head = json.loads(content[:end])
        numbers = np.frombuffer(content, dtype="<f8", offset=end + 1).astype(np.float64)
        if "shape" in head:
            return cls.of_matrix(numbers.reshape(head["shape"]))
        n, columns, start = head["rows"], list[Cells](), 0
        for cells in head["cells"]:
            if cells is None:
                columns.append(numbers[start : start + n])
                start += n
            else:
                columns.append(cells)
        return cls.named(head["names"], columns)


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """The end of a message on a name that is missing: which of the names it may have been meant by.

    >>> did_you_mean("wall", ["roof", "Wall"])
    "; did you mean 'wall' by 'Wall'?"
    """
    close = closest_names([name], names)
    return f"; did you mean {name!r} by {close[name]!r}?" if close else ""


def rows_differ(rows: RequestRows, targets: RequestRows) -> str:
    """That there are not as many targets as rows, in words."""
    (n, one), (m, other) = ((len(part), "" if len(part) == 1 else "s") for part in (rows, targets))
    return f"the request has {n} row{one} but {m} target{other}: each row needs its own"


def as_numbers(cells: Cells, what: str) -> Array:
    """(n,) numbers; None is a missing one, and infinity is none.

    >>> as_numbers([1, None, 2.5], "inputs")
    array([1. , nan, 2.5])
    """
    if not isinstance(cells, np.ndarray):
        if strange := set(map(type, cells)) - {int, float, bool, type(None)}:
            cell = next(cell for cell in cells if type(cell) in strange)
            raise RequestRefused(400, f"{what} must hold numbers or null, found {str(cell)[:40]!r}")
        try:
            cells = np.array(cells, dtype=np.float64)  # None becomes nan
        except OverflowError:
            raise RequestRefused(400, f"{what} hold a number beyond the range of doubles") from None
    return finite_or_missing(cells, what)


def finite_or_missing(numbers: Array, what: str) -> Array:
    """The numbers, if none of them is infinite."""
    if np.isinf(numbers).any():
        raise RequestRefused(400, f"{what} hold infinity, or a number beyond the range of doubles")
    return numbers


def as_matrix(values: Any, what: str) -> Array:
    """(n, k) numbers of nested lists; a list of numbers is one column."""
    try:
        matrix = np.array(values, dtype=np.float64)  # None becomes nan
    except (TypeError, ValueError, OverflowError):
        raise RequestRefused(400, f"{what} must be rows of equally many numbers or nulls") from None
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    if matrix.ndim != 2:
        raise RequestRefused(400, f"{what} must be rows of numbers, got {matrix.ndim} dimensions")
    return finite_or_missing(matrix, what)


def only_plain(values: Any) -> bool:
    """Whether nested lists hold numbers and nulls alone: no texts, which NumPy would read as numbers.

    >>> only_plain([[1, None], [2.5, 3]]), only_plain([["1"]]), only_plain([{"a": 1}])
    (True, False, False)
    """
    if not isinstance(values, list):
        return False
    while values and type(values[0]) is list and set(map(type, values)) == {list}:
        values = list(chain.from_iterable(values))
    return set(map(type, values)) <= {int, float, type(None)}
