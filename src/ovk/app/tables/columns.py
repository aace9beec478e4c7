"""Inputs out of the columns of a table: numbers, categories, instants."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np

from ovk.app.tables.timestamps import CALENDAR_NAMES, TimestampParser, calendar, day_comes_first
from ovk.base import (
    DECIMAL_COMMA,
    GROUPED,
    Array,
    ParsedColumn,
    State,
    bare,
    is_missing_cell,
    read_numbers,
    tells_groups,
)
from ovk.evaluation import quoted

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
    def encode(self, cells: Sequence[Sequence[Any]]) -> ParsedColumn:
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
    >>> from ovk.app.tables.columns import Number
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

    def encode(self, cells: Sequence[Sequence[Any]]) -> ParsedColumn:
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
    >>> from ovk.app.tables.columns import Category
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

    def encode(self, cells: Sequence[Sequence[Any]]) -> ParsedColumn:
        place = {level: k for k, level in enumerate(self.levels)}
        found = np.array([place.get(as_word(cell), -1) for cell in cells[0]], dtype=np.int64)
        values = (found[:, None] == np.arange(len(self.levels))).astype(np.float64)
        return ParsedColumn(values, np.zeros(len(found), dtype=bool))

    def unknown(self, cells: Sequence[Sequence[Any]]) -> list[str]:
        known = set(self.levels)
        return [word for cell in cells[0] if (word := as_word(cell)) not in known and not is_missing_cell(cell)]

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
    >>> from ovk.app.tables.columns import Instant
    >>> Instant(["Date", "Time"]).encode([["16/12/2006"], ["03:00:00"]]).values[0, :2].round(3)
    array([0.707, 0.707])
    """

    columns: Sequence[str]
    day_first: bool = True
    ambiguous: bool = False

    def __post_init__(self) -> None:
        self._clock = TimestampParser(bool(self.day_first))

    def sources(self) -> list[str]:
        return list(self.columns)

    def names(self) -> list[str]:
        return list(CALENDAR_NAMES)

    def encode(self, cells: Sequence[Sequence[Any]]) -> ParsedColumn:
        seconds, bad = self._clock.read(cells)
        return ParsedColumn(calendar(seconds[:, 0]), bad)

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
    present = [cell for cell in cells if not is_missing_cell(cell)]
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
    texts = [bare(cell) if isinstance(cell, str) else str(cell) for cell in cells if not is_missing_cell(cell)]
    pointed = [text for text in texts if "." in text]
    if column.decimal == "," or column.grouped or not all(isinstance(cell, str) for cell in cells):
        return column
    if all(GROUPED[","].fullmatch(text) for text in pointed):
        return Number(column.name, ",", bool(pointed))
    return column


def instant(names: Sequence[str], cells: Sequence[Sequence[Any]]) -> Instant:
    """Instants in these columns, with the order of day and month told by their cells."""
    return Instant(list(names), *day_comes_first(cell for column in cells for cell in column))


# A column of class labels: words, or whole numbers of few values.

#: Most classes, and most whole numbers that are taken for classes whatever the number of rows.
MAX_CLASSES, MAX_NUMERIC_CLASSES = 100, 20

#: Rows for each class, at least, before whole numbers beyond `MAX_NUMERIC_CLASSES` are taken for classes, and before
#: words are.
ROWS_PER_NUMBER, ROWS_PER_CLASS = 10, 2


@dataclass
class Label(Column, kind="label"):
    """Labels as whole numbers from 0 on: those of the first rows in order, then others as they come.

    Attributes
    ----------
    name : of the column
    levels : the labels so far
    first : how many of them were known from the first rows
    whole : labels are whole numbers, so that 1 and 1.0 are the same

    Examples
    --------
    >>> from ovk.app.tables.columns import Label
    >>> label = Label("colour", ["blue", "red"], first=2)
    >>> label.encode([["red", "?", "green", "blue"]]).values.ravel(), label.levels
    (array([ 1., nan,  2.,  0.]), ['blue', 'red', 'green'])
    """

    name: str
    levels: list[str]
    first: int
    whole: bool = False

    def sources(self) -> list[str]:
        return [self.name]

    def names(self) -> list[str]:
        return [self.name]

    def encode(self, cells: Sequence[Sequence[Any]]) -> ParsedColumn:
        place = {level: k for k, level in enumerate(self.levels)}
        codes, bad = np.full(len(cells[0]), np.nan), np.zeros(len(cells[0]), dtype=bool)
        for i, cell in enumerate(cells[0]):
            if _is_unknown(cell, whole=self.whole):
                continue
            word = as_label(cell, whole=self.whole)
            if word not in place and len(place) < MAX_CLASSES:
                place[word] = len(place)
            # A label beyond the most there may be is a fault of its row.
            bad[i] = word not in place
            codes[i] = place.get(word, np.nan)
        self.levels = list(place)
        return ParsedColumn(codes[:, None], bad)

    def describe(self) -> str:
        shown = ", ".join(map(repr, self.levels[:5])) + (", ..." if len(self.levels) > 5 else "")
        later = f", {len(self.levels) - self.first} of which came later" if len(self.levels) > self.first else ""
        return f"{len(self.levels)} classes ({shown}){later}"


def as_label(cell: Any, *, whole: bool) -> str:
    """A cell as a label.

    >>> as_label(" yes ", whole=False), as_label("1.0", whole=True), as_label(2.0, whole=False)
    ('yes', '1', '2')
    """
    text = cell.strip() if isinstance(cell, str) else str(cell)
    if whole or isinstance(cell, float):
        values, bad = read_numbers([text])
        if not bad[0] and values[0, 0] == round(values[0, 0]):
            return str(int(values[0, 0]))
    return text


def _is_unknown(cell: Any, *, whole: bool) -> bool:
    """Whether the label of a row is not known. Among words, "none" is a class of its own, such as no promotion.

    >>> [_is_unknown(cell, whole=False) for cell in ("none", "None", "NA", "")], _is_unknown("none", whole=True)
    ([False, True, True, True], True)
    """
    return is_missing_cell(cell) and (whole or not isinstance(cell, str) or cell.strip() != "none")


def few_whole_numbers(cells: Sequence[Any]) -> list[str]:
    """The different numbers of a column if they are whole and few, as classes are; else nothing.

    >>> few_whole_numbers(["1", "0", "?", "1"]), few_whole_numbers(["0.5", "1"])
    (['0', '1'], [])
    """
    values = _numbers([cell for cell in cells if not is_missing_cell(cell)])
    if values is None or (values != np.round(values)).any():
        return []
    found = np.unique(values)
    most = max(MAX_NUMERIC_CLASSES, len(values) // ROWS_PER_NUMBER)
    return [str(int(value)) for value in found] if 0 < len(found) <= min(MAX_CLASSES, most) else []


def guess_labels(name: str, cells: Sequence[Any], label: str) -> Label:
    """How to read a column of labels, by its first cells; refuses what does not look like classes.

    >>> guess_labels("y", ["b", "a", "b", "a"], "t.csv")
    Label(name='y', levels=['a', 'b'], first=2, whole=False)
    """
    where = f"column {name!r} of {label}"
    present = [cell for cell in cells if not is_missing_cell(cell)]
    if not present:
        raise ValueError(f"{where} holds no label in the first rows: choose another target, or a longer warm_up")
    numbers = _numbers(present)
    if numbers is not None:
        levels = few_whole_numbers(present)
        if not levels:
            found = len(np.unique(numbers))
            broken = numbers[numbers != np.round(numbers)]
            what = f"such as {broken[0]:g}" if len(broken) else f"{found} different ones in {len(present)} rows"
            raise ValueError(
                f"{where} holds numbers ({what}), which look like a quantity: leave --classify out, or write "
                "the classes as words"
            )
        return Label(name, levels, len(levels), whole=True)
    present = [cell for cell in cells if not _is_unknown(cell, whole=False)]
    words = sorted({as_label(cell, whole=False) for cell in present})
    if len(words) > min(MAX_CLASSES, max(len(present) // ROWS_PER_CLASS, 2)):
        raise ValueError(
            f"{where} holds {len(words)} different words in {len(present)} rows, which look like names, not classes: "
            f"there may be {MAX_CLASSES}, and they must come again; choose another target"
        )
    return Label(name, words, len(words))


def _numbers(cells: Sequence[Any]) -> Any:
    """The numbers of cells, None if they do not hold numbers."""
    if any(isinstance(cell, bool) for cell in cells):
        return None
    values, bad = read_numbers(cells)
    return None if bad.sum() > (1.0 - AGREEMENT) * len(cells) else values[~bad, 0]


# Columns that may not be what they are read as: numbers in another notation, names, numbers of things.

#: Different words of a column before anything is said about them.
MANY = 10

#: Part of the cells that look like numbers, or of the rows that have a word of their own, from which on it is said.
DOUBTFUL_SHARE = 0.5

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
    >>> from ovk.app.tables.columns import guess
    >>> cells = [f"{i % 20} kg" for i in range(100)]
    >>> doubt("mass", guess("mass", cells, 50), cells)
    "Column 'mass' is read as words, although most of its cells look like numbers, such as '0 kg': write them as plain numbers (0.5 or 0,5), or leave the column out (--ignore, in Python ignore=['mass'])."
    """  # noqa: E501
    if not (column is None or isinstance(column, Category)):
        return None
    words = [as_word(cell) for cell in cells if not is_missing_cell(cell)]
    different = len(set(words))
    if different < MANY:
        return None
    cure = f"leave the column out (--ignore, in Python ignore=[{name!r}])"
    like = [word for word in words if _LIKE_NUMBER.fullmatch(word)]
    if len(like) > DOUBTFUL_SHARE * len(words):
        used = "is read as words" if column is not None else "is not used, since its words never repeat"
        return (
            f"Column {name!r} {used}, although most of its cells look like numbers, such as {like[0][:40]!r}: write "
            f"them as plain numbers (0.5 or 0,5), or {cure}."
        )
    if column is not None and different > DOUBTFUL_SHARE * len(words):
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
    present = [cell for cell in cells if not is_missing_cell(cell)]
    if isinstance(column, Number):
        values = column.encode([present]).values[:, 0]
        values = values[np.isfinite(values)]
        if (values != np.round(values)).any():
            return 0
        different = len(np.unique(values))
    else:
        different = len(set(map(as_word, present)))
    return different if 2 < different <= len(present) / ROWS_PER_THING else 0


# Names of columns that are asked for, among those that a table has.


def find_columns(wanted: Iterable[str], names: Sequence[str], label: str) -> None:
    """Refuse names that are not, or not only once, among the columns of a table."""
    wanted = list(wanted)
    check_present(wanted, names, label)
    counts = Counter(names)
    for name in wanted:
        if counts[name] > 1:
            raise ValueError(f"column {name!r} stands {counts[name]} times in {label}: give each its own name")


def check_present(wanted: Sequence[str], names: Sequence[str], label: str) -> None:
    """Refuse names that are not among the columns of a table, all at once, with those that may be meant instead.

    >>> check_present(["HNR", "RPDE"], ["NHR", "rpde"], "t.csv")
    Traceback (most recent call last):
    ValueError: there are no columns 'HNR', 'RPDE' in t.csv: did you mean 'NHR' for 'HNR' and 'rpde' for 'RPDE'?
    >>> check_present(["NHR", "HNR"], ["NHR", "hz"], "t.csv")
    Traceback (most recent call last):
    ValueError: there is no column 'HNR' in t.csv: its columns are 'NHR', 'hz'
    >>> check_present(["b"], ["a:b"], "t")
    Traceback (most recent call last):
    ValueError: there is no column 'b' in t: its only column is 'a:b'; separate cells by commas, semicolons, tabs or |
    """
    missing = list(dict.fromkeys(name for name in wanted if name not in names))
    if not missing:
        return
    meant = _meant(missing, [name for name in names if name not in wanted])
    hint = f"its columns are {quoted(names)}"
    if len(names) == 1 and all(name in names[0] for name in missing):
        hint = f"its only column is {quoted(names)}; separate cells by commas, semicolons, tabs or |"
    elif len(missing) == len(meant) == 1:
        hint = f"did you mean {meant[missing[0]]!r}?"
    elif len(meant) == len(missing):
        hint = f"did you mean {_pairs(meant)}?"
    elif meant:
        hint = f"did you mean {_pairs(meant)}? Its columns are {quoted(names)}"
    what = f"is no column {missing[0]!r}" if len(missing) == 1 else f"are no columns {quoted(missing)}"
    raise ValueError(f"there {what} in {label}: {hint}")


def _pairs(meant: dict[str, str]) -> str:
    *first, last = [f"{found!r} for {name!r}" for name, found in meant.items()]
    return f"{', '.join(first)} and {last}" if first else last


def _meant(missing: Sequence[str], free: Sequence[str]) -> dict[str, str]:
    """Names that nobody else asks for by the missing ones that they are close to, each once, whatever their case."""
    left = {name.casefold(): name for name in reversed(free)}
    found = {name: left.pop(name.casefold()) for name in missing if name.casefold() in left}
    for name in missing:
        if name not in found and (close := get_close_matches(name.casefold(), left, 1)):
            found[name] = left.pop(close[0])
    return {name: found[name] for name in missing if name in found}
