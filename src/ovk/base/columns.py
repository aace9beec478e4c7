"""What the columns of tables hold: numbers, categories, dates, class labels. Frames and files are read alike.

A new kind of column is a subclass of `Column`, and a case in `guess_column`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from ovk.base.dates import CALENDAR_NAMES, MAX_TEXTS, calendar, day_comes_first, instant_seconds
from ovk.base.state import State
from ovk.base.types import Array, Mask

#: How a missing number may be spelled, in small letters.
MISSING = {"", "nan", "na", "n/a", "<na>", "?", "null", "none"}


class ParsedColumn(NamedTuple):
    """What cells hold: numbers (n, k), nan where there is none, and (n,) whether a cell cannot be read."""

    values: Array
    bad: Mask


def is_missing_cell(cell: Any) -> bool:
    """Whether a cell says that nothing was measured."""
    return str(cell).strip().lower() in MISSING


#: What may stand between groups of three digits whatever the decimal mark is: spaces and apostrophes.
_SPACES = " \u00a0\u202f'\u2019"

#: An exponent, as in 4.2e-05.
_EXPONENT = r"(?:[eE][+-]?\d+)?"

#: Numbers whose digits stand in groups of three, by their decimal mark: 1,234,567.5 and 1.234.567,5.
_GROUPED = {
    decimal: re.compile(
        rf"[+-]?[1-9]\d{{0,2}}(?P<group>[{other}{_SPACES}])\d{{3}}(?:(?P=group)\d{{3}})*(?:[{decimal}]\d*)?{_EXPONENT}"
    )
    for decimal, other in ((".", ","), (",", "."))
}

#: Numbers with a decimal comma: 1,5 and ,5 and 4,2e-05.
_DECIMAL_COMMA = re.compile(rf"[+-]?(?:\d+,\d*|,\d+){_EXPONENT}")


def _bare(cell: str) -> str:
    """A cell without spaces around it and a percent sign behind it, its minus that of a keyboard."""
    return cell.strip().removesuffix("%").rstrip().replace("\u2212", "-")


def _tells_groups(text: str, decimal: str) -> bool:
    """Whether a number can be read only with groups of three digits: 1,234.5 and 1,234,567 and 1 234, but not 1,234."""
    found = _GROUPED[decimal].fullmatch(text)
    if found is None:
        return False
    return decimal in text or found["group"] in _SPACES or text.count(found["group"]) > 1


def _plain_number(cell: str, decimal: str, grouped: bool) -> str:
    """A number as Python spells it: without a percent sign or groups of digits, and with a decimal point."""
    text = _bare(cell)
    if grouped and (found := _GROUPED[decimal].fullmatch(text)):
        text = text.replace(found["group"], "")
    return text.replace(",", ".") if decimal == "," else text


def _parse(cells: Sequence[Any]) -> tuple[Array, Mask]:
    """(n,) numbers, infinite ones too, nan where there is none; and (n,) whether a cell there is no number."""
    bad = np.zeros(len(cells), dtype=bool)
    try:
        return np.fromiter(map(float, cells), np.float64, len(cells)), bad
    except (TypeError, ValueError, OverflowError):
        # Something is missing, or no number: one by one.
        numbers = []
        for i, cell in enumerate(cells):
            try:
                numbers.append(float(cell))
            except (TypeError, ValueError, OverflowError):
                numbers.append(np.nan)
                bad[i] = not is_missing_cell(cell)
        return np.array(numbers, dtype=np.float64), bad


def read_numbers(cells: Sequence[Any], decimal: str = ".", *, grouped: bool = False) -> ParsedColumn:
    """The numbers of a column; 12% is 12. Infinity is no measurement.

    The decimal mark is "." or ","; if `grouped`, digits may stand in groups of three, as in 1,234.50.
    """
    values, bad = (None, None) if grouped or decimal == "," else _parse(cells)
    if values is None or bad is None or bad.any():
        values, bad = _parse([_plain_number(c, decimal, grouped) if isinstance(c, str) else c for c in cells])
    infinite = np.isinf(values)
    if infinite.any():
        values[infinite] = np.nan
        bad |= infinite
    return ParsedColumn(values[:, None], bad)


def require_numbers(cells: Any, name: str, label: str, place: Callable[[int], str]) -> Array:
    """(n,) numbers of the column `name` of the table `label`; a cell that is none is refused with its `place`."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        return np.asarray(cells, dtype=np.float64)
    values, bad = _parse(cells)
    if bad.any():
        i = int(bad.argmax())
        raise ValueError(
            f"column {name!r} of {label} holds {cells[i]!r} in {place(i)}, which is not a number: "
            "leave the column out (features=, targets=), or encode it as numbers"
        )
    return values


# Kinds of columns.

#: Part of the cells that must agree with a guess of what a column holds. The others are faults of their rows.
AGREEMENT = 0.9

#: Words of a column that have an indicator if they come twice; others need this many rows each.
COMMON_WORDS, ROWS_PER_WORD = 20, 5

#: Most classes, and most whole numbers that are taken for classes whatever the number of rows.
MAX_CLASSES, MAX_NUMERIC_CLASSES = 100, 20

#: Rows for each class, at least, before whole numbers beyond `MAX_NUMERIC_CLASSES` are taken for classes, and before
#: words are.
ROWS_PER_NUMBER, ROWS_PER_CLASS = 10, 2


class Column(State, ABC):
    """A kind of column: how its cells become inputs."""

    name: str

    def sources(self) -> list[str]:
        """Names of the columns of the table that it reads."""
        return [self.name]

    def names(self) -> list[str]:
        """Names of the inputs that it makes."""
        return [self.name]

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
    """A column of numbers, with a decimal point or comma, and digits that may stand in groups of three."""

    name: str
    decimal: str = "."
    grouped: bool = False

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
    """

    name: str
    levels: Sequence[str]
    pooled: int = 0

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
        count = f"{len(self.levels)} categories" if len(self.levels) > 1 else "one category"
        words = f"{self.pooled} rarer words" if self.pooled > 1 else "one rarer word"
        return f"{count} ({_first(self.levels, 3)})" + (f"; {words} without one" if self.pooled else "")


class TimestampParser(dict[Any, float]):
    """Reads instants, and remembers the cells that it has met: seconds, nan for a missing one, infinity for nonsense.

    `day_first` tells whether 1/2/2006 is in February.
    """

    def __init__(self, day_first: bool) -> None:
        super().__init__()
        self._day_first = day_first

    def __missing__(self, cell: Any) -> float:
        try:
            seconds = np.nan if is_missing_cell(cell) else instant_seconds(cell, self._day_first)
        except (ValueError, OverflowError):
            seconds = np.inf
        if len(self) >= MAX_TEXTS:
            self.clear()
        self[cell] = seconds
        return seconds

    def read(self, columns: Sequence[Sequence[Any]]) -> ParsedColumn:
        """Instants of rows: the sum of what their columns say, so that a date and a time may stand apart."""
        found = [self._column(cells) for cells in columns]
        bad: Mask = np.asarray(np.isinf(found).any(axis=0))
        return ParsedColumn(np.where(bad, np.nan, np.sum(found, axis=0))[:, None], bad)

    def _column(self, cells: Sequence[Any]) -> Array:
        try:
            return np.fromiter(map(self.__getitem__, cells), np.float64, len(cells))
        except TypeError:  # lists, as JSON may hold
            return self._column([str(cell) for cell in cells])


@dataclass
class Instant(Column, kind="instant"):
    """One column of instants, or a date and a time of day in two: place in the day, the week and the year.

    `ambiguous` tells that no cell has shown whether the day or the month comes first, as in 3/4/2024.
    """

    columns: Sequence[str]
    day_first: bool = True
    ambiguous: bool = False

    def __post_init__(self) -> None:
        self._parser = TimestampParser(bool(self.day_first))

    @classmethod
    def guess(cls, names: Sequence[str], cells: Sequence[Sequence[Any]]) -> Self:
        """Instants in these columns, with the order of day and month told by their cells."""
        return cls(list(names), *day_comes_first(cell for column in cells for cell in column))

    def sources(self) -> list[str]:
        return list(self.columns)

    def names(self) -> list[str]:
        return list(CALENDAR_NAMES)

    def encode(self, cells: Sequence[Sequence[Any]]) -> ParsedColumn:
        seconds, bad = self._parser.read(cells)
        return ParsedColumn(calendar(seconds[:, 0]), bad)

    def instants(self, cells: Sequence[Sequence[Any]]) -> Array:
        """(n,) seconds since 1970, nan where not known."""
        return self._parser.read(cells).values[:, 0]

    def describe(self) -> str:
        assumed = "; 3/4/2024 is taken for the 3rd of April" if self.ambiguous else ""
        return f"dates and times, as inputs the time of day, the day of the week and the time of year{assumed}"


@dataclass
class Label(Column, kind="label"):
    """Labels as whole numbers from 0 on: those of the first rows in order, then others as they come.

    `first` of the labels were known from the first rows; if they are `whole` numbers, 1 and 1.0 are the same.
    """

    name: str
    levels: list[str]
    first: int
    whole: bool = False

    def encode(self, cells: Sequence[Sequence[Any]]) -> ParsedColumn:
        place = {level: k for k, level in enumerate(self.levels)}
        codes, bad = np.full(len(cells[0]), np.nan), np.zeros(len(cells[0]), dtype=bool)
        for i, cell in enumerate(cells[0]):
            if _is_unknown(cell, whole=self.whole):
                continue
            word = _as_label(cell, whole=self.whole)
            if word not in place and len(place) < MAX_CLASSES:
                place[word] = len(place)
            # A label beyond the most there may be is a fault of its row.
            bad[i] = word not in place
            codes[i] = place.get(word, np.nan)
        self.levels = list(place)
        return ParsedColumn(codes[:, None], bad)

    def describe(self) -> str:
        later = f", {len(self.levels) - self.first} of which came later" if len(self.levels) > self.first else ""
        return f"{len(self.levels)} classes ({_first(self.levels, 5)}){later}"


def _first(words: Sequence[str], most: int) -> str:
    return ", ".join(map(repr, words[:most])) + (", ..." if len(words) > most else "")


def as_word(cell: Any) -> str:
    """A cell as a word of a category."""
    return cell.strip() if isinstance(cell, str) else str(cell)


def _as_label(cell: Any, *, whole: bool) -> str:
    text = as_word(cell)
    if whole or isinstance(cell, float):
        values, bad = read_numbers([text])
        if not bad[0] and values[0, 0] == round(values[0, 0]):
            return str(int(values[0, 0]))
    return text


def _is_unknown(cell: Any, *, whole: bool) -> bool:
    """Whether the label of a row is not known. Among words, "none" is a class of its own, such as no promotion."""
    return is_missing_cell(cell) and (whole or not isinstance(cell, str) or cell.strip() != "none")


# What a column holds, by its first cells.


def guess_column(name: str, cells: Sequence[Any], max_levels: int) -> Column | None:
    """What a column holds, by its first cells: numbers, instants or categories. None if its words never repeat."""
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
    texts = [_bare(cell) for cell in present if isinstance(cell, str)]
    for decimal in (".", ","):
        # "1,234" alone may be either; "1,234.5" and "1,234,567" tell that digits stand in groups.
        told = any(_tells_groups(text, decimal) for text in texts)
        if told and len(present) - read_numbers(present, decimal, grouped=True).bad.sum() >= enough:
            return Number(name, decimal, True)
    # Whole numbers below a thousand beside groups of exactly three digits: 999 and 1,234.
    small = [bool(re.fullmatch(r"[+-]?\d{1,3}", text)) for text in texts]
    if any(small) and not all(small):
        grouped = (_GROUPED["."].fullmatch(text) for text in texts)
        if all(one or bool(many) for one, many in zip(small, grouped, strict=True)):
            return Number(name, ".", True)
    commas = int(read_numbers(present, ",").bad.sum())
    marks = sum(bool(_DECIMAL_COMMA.fullmatch(text)) for text in texts)
    if len(present) - commas >= enough and commas < points and marks > sum("." in text for text in texts):
        return Number(name, ",")
    return Number(name) if len(present) - points >= enough else None


def _date_or_words(name: str, present: Sequence[Any], max_levels: int) -> Column | None:
    column = Instant.guess([name], [present])
    if len(present) - column.encode([present]).bad.sum() >= AGREEMENT * len(present):
        return column
    counts = Counter(map(as_word, present))
    # The most frequent first, and in the order of the alphabet among equals: the same levels for the same rows.
    words = sorted((word for word, count in counts.items() if count > 1), key=lambda word: (-counts[word], word))
    levels = [word for k, word in enumerate(words) if k < COMMON_WORDS or counts[word] >= ROWS_PER_WORD][:max_levels]
    return Category(name, levels, len(counts) - len(levels)) if levels else None


def in_comma_table(column: Number, cells: Sequence[Any]) -> Number:
    """How to read a column of numbers with points, or of whole ones, in a table that has decimal commas elsewhere.

    1.234 is then a number above a thousand, if all points stand before three digits.
    """
    texts = [_bare(cell) if isinstance(cell, str) else str(cell) for cell in cells if not is_missing_cell(cell)]
    pointed = [text for text in texts if "." in text]
    if column.decimal == "," or column.grouped or not all(isinstance(cell, str) for cell in cells):
        return column
    if all(_GROUPED[","].fullmatch(text) for text in pointed):
        return Number(column.name, ",", bool(pointed))
    return column


def few_whole_numbers(cells: Sequence[Any]) -> list[str]:
    """The different numbers of a column if they are whole and few, as classes are; else nothing."""
    values = _numbers([cell for cell in cells if not is_missing_cell(cell)])
    if values is None or (values != np.round(values)).any():
        return []
    found = np.unique(values)
    most = max(MAX_NUMERIC_CLASSES, len(values) // ROWS_PER_NUMBER)
    return [str(int(value)) for value in found] if 0 < len(found) <= min(MAX_CLASSES, most) else []


def guess_labels(name: str, cells: Sequence[Any], label: str) -> Label:
    """How to read a column of labels, by its first cells; refuses what does not look like classes."""
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
    words = sorted({_as_label(cell, whole=False) for cell in present})
    if len(words) > min(MAX_CLASSES, max(len(present) // ROWS_PER_CLASS, 2)):
        raise ValueError(
            f"{where} holds {len(words)} different words in {len(present)} rows, which look like names, not classes: "
            f"there may be {MAX_CLASSES}, and they must come again; choose another target"
        )
    return Label(name, words, len(words))


def _numbers(cells: Sequence[Any]) -> Any:
    if any(isinstance(cell, bool) for cell in cells):
        return None
    values, bad = read_numbers(cells)
    return None if bad.sum() > (1.0 - AGREEMENT) * len(cells) else values[~bad, 0]
