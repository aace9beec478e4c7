"""From verified bytes to arrays."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from reproduce.support import Array

Converters: TypeAlias = Mapping[int | str, Callable[[str], float]] | None


def read_table(content: bytes, delimiter: str = ",", converters: Converters = None) -> tuple[list[str], Array]:
    """The names in the first line, and the numbers below it.

    >>> read_table(b'"a";"b"\\n1;2\\n3;4\\n', ";")
    (['a', 'b'], array([[1., 2.], [3., 4.]]))
    """
    header, _, body = content.partition(b"\n")
    names = next(csv.reader([header.decode("ascii").strip()], delimiter=delimiter))
    return names, read_numbers(body, delimiter, converters)


def read_numbers(content: bytes, delimiter: str = ",", converters: Converters = None) -> Array:
    """The numbers of a text without header.

    >>> read_numbers(b"1,2\\n3,4\\n")
    array([[1., 2.], [3., 4.]])
    """
    return np.loadtxt(io.BytesIO(content), delimiter=delimiter, comments=None, ndmin=2, converters=converters)


def read_arrays(content: bytes) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an npz file, by name."""
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return dict(arrays)


def read_relation(content: bytes) -> tuple[list[str], list[str], Array]:
    """A matrix of scikit-fusion: a line of row names, a line of column names, then the values; blank means 0.

    Names may contain a comma followed by a space; separators are not followed by a space.

    >>> read_relation(b"r1,r2\\nc1,one, two,c3\\n1,,\\n,,2\\n")
    (['r1', 'r2'], ['c1', 'one, two', 'c3'], array([[1., 0., 0.], [0., 0., 2.]]))
    """
    rows, columns, body = content.split(b"\n", 2)
    between = re.compile(r",(?! )")
    # Twice: one pass fills every other blank of a sequence.
    body = body.replace(b",,", b",0,").replace(b",,", b",0,").replace(b"\n,", b"\n0,").replace(b",\n", b",0\n")
    values = read_numbers(b"0" + body if body.startswith(b",") else body)
    return between.split(rows.decode("ascii")), between.split(columns.decode("ascii")), values


def columns(names: Sequence[str], table: Array, wanted: Sequence[str]) -> Array:
    """The columns of `table` with the names `wanted`, in that order.

    >>> columns(["a", "b"], np.array([[1.0, 2.0]]), ["b"])
    array([[2.]])
    """
    return np.ascontiguousarray(table[:, [names.index(name) for name in wanted]])
