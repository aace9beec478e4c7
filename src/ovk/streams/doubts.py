"""Columns that may not be what they are read as: numbers in another notation, names, numbers of things."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ovk.streams.cells import is_missing
from ovk.streams.columns import Category, Column, Number, as_word

#: Different words of a column before anything is said about them.
MANY = 10

#: Part of the cells that look like numbers, or of the rows that have a word of their own, from which on it is said.
MOST = 0.5

#: Rows for each value, on average, from which on a column may number or name things that come again.
ROWS_PER_THING = 3

#: A number with signs before it and a unit behind it: <0,5 and EUR 12.50 and 12 kg and (1,234).
_LIKE_NUMBER = re.compile(
    r"(?:[<>=~\u2264\u2265\u2248(]+|[^\w\s]|[A-Z]{3})?\s*"
    r"[+\u2212-]?\d[\d.,'\u2019\s]*(?:[eE*x][+-]?[\d^-]+)?\s*\)?\s*"
    r"[^\W\d_]{0,5}[%\u2030/\u00b0\u00b2\u00b3$\u20ac]?[^\W\d_]{0,3}"
)

#: Words in the name of a column that tells which thing a row belongs to.
_THINGS = re.compile(
    r"id|ids|identifier|uuid|guid|(patient|subject|participant|person|user|customer|client|student|animal|household"
    r"|hospital|school|site|station|device|machine|vehicle|donor|specimen)s?"
)


def doubt(name: str, column: Column | None, cells: Sequence[Any]) -> str | None:
    """A sentence about a column that is read as words but may be something else; None for the others.

    Parameters
    ----------
    name : of the column
    column : how it is read, None if it is not used
    cells : those that told so

    Examples
    --------
    >>> from ovk.streams.columns import guess
    >>> cells = [f"{i % 20} kg" for i in range(100)]
    >>> doubt("mass", guess("mass", cells, 50), cells)
    "Column 'mass' is read as words, although most of its cells look like numbers, such as '0 kg': write them as plain numbers (0.5 or 0,5), or leave the column out (--ignore, in Python ignore=['mass'])."
    """  # noqa: E501
    if not (column is None or isinstance(column, Category)):
        return None
    words = [as_word(cell) for cell in cells if not is_missing(cell)]
    different = len(set(words))
    if different < MANY:
        return None
    cure = f"leave the column out (--ignore, in Python ignore=[{name!r}])"
    like = [word for word in words if _LIKE_NUMBER.fullmatch(word)]
    if len(like) > MOST * len(words):
        used = "is read as words" if column is not None else "is not used, since its words never repeat"
        return (
            f"Column {name!r} {used}, although most of its cells look like numbers, such as {like[0][:40]!r}: write "
            f"them as plain numbers (0.5 or 0,5), or {cure}."
        )
    if column is not None and different > MOST * len(words):
        return (
            f"Column {name!r} holds {different:,} different words in {len(words):,} rows, such as {words[0][:40]!r}; "
            f"{len(column.levels)} of them come often enough to learn from. If they are names, {cure}."
        )
    return None


def numbers_things(name: str, column: Column | None, cells: Sequence[Any]) -> int:
    """How many things a column numbers or names, each in several rows, if its name says that it does; else 0.

    >>> cells = [str(i % 9) for i in range(90)]
    >>> numbers_things("patient", Number("patient"), cells), numbers_things("age", Number("age"), cells)
    (9, 0)
    """
    tokens = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    if not isinstance(column, (Number, Category)) or not any(_THINGS.fullmatch(token.lower()) for token in tokens):
        return 0
    present = [cell for cell in cells if not is_missing(cell)]
    if isinstance(column, Number):
        values = column.encode([present]).values[:, 0]
        values = values[np.isfinite(values)]
        if (values != np.round(values)).any():
            return 0
        different = len(np.unique(values))
    else:
        different = len(set(map(as_word, present)))
    return different if 2 < different <= len(present) / ROWS_PER_THING else 0
