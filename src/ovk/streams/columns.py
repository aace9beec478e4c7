"""Inputs out of the columns of a table: numbers, categories, instants."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ovk._state import State
from ovk._types import Array
from ovk.streams.cells import DECIMAL_COMMA, GROUPED, Read, bare, is_missing, read_numbers, tells_groups
from ovk.streams.instants import CALENDAR_NAMES, Clock, calendar, day_comes_first

#: Part of the cells that must agree with a guess of what a column holds. The others are faults of their rows.
AGREEMENT = 0.9

#: Words of a column that have an indicator if they come twice; others need this many rows each.
COMMON, ROWS_PER_WORD = 20, 5


class Column(State, ABC):
    """A kind of column: how its cells become inputs."""

    @abstractmethod
    def sources(self) -> list[str]:
        """Names of the columns of the table that it reads."""

    @abstractmethod
    def names(self) -> list[str]:
        """Names of the inputs that it makes."""

    @abstractmethod
    def encode(self, cells: Sequence[Sequence[Any]]) -> Read:
        """Inputs (n, number of names) out of a sequence of cells for each source."""

    def unknown(self, cells: Sequence[Sequence[Any]]) -> list[str]:
        """Words among the cells that the column has no input for; only categories have any."""
        return []

    @abstractmethod
    def describe(self) -> str:
        """How the cells are read, in a few words."""


@dataclass
class Number(Column, kind="number"):
    """A column of numbers, with a decimal point or comma, and digits that may stand in groups of three.

    Examples
    --------
    >>> from ovk.streams.columns import Number
    >>> Number("x").encode([["1.5", "?"]]).values.ravel()
    array([1.5, nan])
    """

    name: str
    decimal: str = "."
    grouped: bool = False

    def sources(self) -> list[str]:
        return [self.name]

    def names(self) -> list[str]:
        return [self.name]

    def encode(self, cells: Sequence[Sequence[Any]]) -> Read:
        return read_numbers(cells[0], self.decimal, grouped=self.grouped)

    def describe(self) -> str:
        if not self.grouped:
            return "numbers" if self.decimal == "." else "numbers with a decimal comma"
        return "numbers such as 1,234.5" if self.decimal == "." else "numbers such as 1.234,5"


@dataclass
class Category(Column, kind="category"):
    """A column of words: an indicator for each level; words that are not among the levels have none.

    `pooled` tells how many different words of the first rows were too rare for an indicator.

    Examples
    --------
    >>> from ovk.streams.columns import Category
    >>> Category("colour", ["red", "blue"]).encode([["blue", "green", "red"]]).values
    array([[0., 1.],
           [0., 0.],
           [1., 0.]])
    """

    name: str
    levels: Sequence[str]
    pooled: int = 0

    def sources(self) -> list[str]:
        return [self.name]

    def names(self) -> list[str]:
        return [f"{self.name}={level}" for level in self.levels]

    def encode(self, cells: Sequence[Sequence[Any]]) -> Read:
        place = {level: k for k, level in enumerate(self.levels)}
        found = np.array([place.get(as_word(cell), -1) for cell in cells[0]], dtype=np.int64)
        values = (found[:, None] == np.arange(len(self.levels))).astype(np.float64)
        return Read(values, np.zeros(len(found), dtype=bool))

    def unknown(self, cells: Sequence[Sequence[Any]]) -> list[str]:
        known = set(self.levels)
        return [word for cell in cells[0] if (word := as_word(cell)) not in known and not is_missing(cell)]

    def describe(self) -> str:
        shown = ", ".join(map(repr, self.levels[:3])) + (", ..." if len(self.levels) > 3 else "")
        count = f"{len(self.levels)} categories" if len(self.levels) > 1 else "one category"
        words = f"{self.pooled} rarer words" if self.pooled > 1 else "one rarer word"
        return f"{count} ({shown})" + (f"; {words} without one" if self.pooled else "")


@dataclass
class Instant(Column, kind="instant"):
    """One column of instants, or a date and a time of day in two: place in the day, the week and the year.

    `ambiguous` tells that no cell has shown whether the day or the month comes first, as in 3/4/2024.

    Examples
    --------
    >>> from ovk.streams.columns import Instant
    >>> Instant(["Date", "Time"]).encode([["16/12/2006"], ["03:00:00"]]).values[0, :2].round(3)
    array([0.707, 0.707])
    """

    columns: Sequence[str]
    day_first: bool = True
    ambiguous: bool = False

    def __post_init__(self) -> None:
        self._clock = Clock(bool(self.day_first))

    def sources(self) -> list[str]:
        return list(self.columns)

    def names(self) -> list[str]:
        return list(CALENDAR_NAMES)

    def encode(self, cells: Sequence[Sequence[Any]]) -> Read:
        seconds, bad = self._clock.read(cells)
        return Read(calendar(seconds[:, 0]), bad)

    def instants(self, cells: Sequence[Sequence[Any]]) -> Array:
        """(n,) seconds since 1970, nan where not known."""
        return self._clock.read(cells).values[:, 0]

    def describe(self) -> str:
        assumed = "; 3/4/2024 is taken for the 3rd of April" if self.ambiguous else ""
        return f"dates and times, as inputs the time of day, the day of the week and the time of year{assumed}"


def as_word(cell: Any) -> str:
    """A cell as a word of a category."""
    return cell.strip() if isinstance(cell, str) else str(cell)


def guess(name: str, cells: Sequence[Any], max_levels: int) -> Column | None:
    """What a column holds, by its first cells: numbers, instants or categories. None if its words never repeat.

    >>> guess("a", ["1", "2", "?"], 9), guess("b", ["2024-01-31", ""], 9)
    (Number(name='a', decimal='.', grouped=False), Instant(columns=['b'], day_first=True, ambiguous=False))
    >>> guess("c", ["x", "y", "x", "y", "z"], 9)
    Category(name='c', levels=['x', 'y'], pooled=1)
    """
    present = [cell for cell in cells if not is_missing(cell)]
    if not present:
        return Number(name)
    points = int(read_numbers(present).bad.sum())
    if not points:
        return Number(name)
    return _other_number(name, present, points) or _date_or_words(name, present, max_levels)


def _other_number(name: str, present: Sequence[Any], points: int) -> Number | None:
    """Numbers of which `points` cannot be read with a decimal point; None if they are no numbers."""
    enough = AGREEMENT * len(present)
    texts = [bare(cell) for cell in present if isinstance(cell, str)]
    for decimal in (".", ","):
        # "1,234" alone may be either; "1,234.5" and "1,234,567" tell that digits stand in groups.
        told = any(tells_groups(text, decimal) for text in texts)
        if told and len(present) - read_numbers(present, decimal, grouped=True).bad.sum() >= enough:
            return Number(name, decimal, True)
    # Whole numbers below a thousand beside groups of exactly three digits: 999 and 1,234.
    small = [bool(re.fullmatch(r"[+-]?\d{1,3}", text)) for text in texts]
    if any(small) and not all(small):
        grouped = (GROUPED["."].fullmatch(text) for text in texts)
        if all(one or bool(many) for one, many in zip(small, grouped, strict=True)):
            return Number(name, ".", True)
    commas = int(read_numbers(present, ",").bad.sum())
    marks = sum(bool(DECIMAL_COMMA.fullmatch(text)) for text in texts)
    if len(present) - commas >= enough and commas < points and marks > sum("." in text for text in texts):
        return Number(name, ",")
    return Number(name) if len(present) - points >= enough else None


def _date_or_words(name: str, present: Sequence[Any], max_levels: int) -> Column | None:
    column = instant([name], [present])
    if len(present) - column.encode([present]).bad.sum() >= AGREEMENT * len(present):
        return column
    counts = Counter(map(as_word, present))
    # The most frequent first, and in the order of the alphabet among equals: the same levels for the same rows.
    words = sorted((word for word, count in counts.items() if count > 1), key=lambda word: (-counts[word], word))
    levels = [word for k, word in enumerate(words) if k < COMMON or counts[word] >= ROWS_PER_WORD][:max_levels]
    return Category(name, levels, len(counts) - len(levels)) if levels else None


def in_comma_table(column: Number, cells: Sequence[Any]) -> Number:
    """How to read a column of numbers with points, or of whole ones, in a table that has decimal commas elsewhere.

    1.234 is then a number above a thousand, if all points stand before three digits.

    >>> in_comma_table(Number("a"), ["1.234", "56"]), in_comma_table(Number("b"), ["1.5", "2.125"])
    (Number(name='a', decimal=',', grouped=True), Number(name='b', decimal='.', grouped=False))
    """
    texts = [bare(cell) if isinstance(cell, str) else str(cell) for cell in cells if not is_missing(cell)]
    pointed = [text for text in texts if "." in text]
    if column.decimal == "," or column.grouped or not all(isinstance(cell, str) for cell in cells):
        return column
    if all(GROUPED[","].fullmatch(text) for text in pointed):
        return Number(column.name, ",", bool(pointed))
    return column


def instant(names: Sequence[str], cells: Sequence[Sequence[Any]]) -> Instant:
    """Instants in these columns, with the order of day and month told by their cells."""
    return Instant(list(names), *day_comes_first(cell for column in cells for cell in column))
