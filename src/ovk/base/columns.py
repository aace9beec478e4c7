"""Column types of tables (numbers, categories, dates, class labels), shared by frames and files."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from ovk.base.dates import (
    CALENDAR_NAMES,
    MAX_CACHED_CELLS,
    block_seconds,
    calendar_features,
    day_comes_first,
    instant_seconds,
)
from ovk.base.state import State
from ovk.base.types import Array, Mask

MISSING_CELLS = {"", "nan", "na", "n/a", "<na>", "?", "null", "none"}  # spellings of a missing cell, in lower case


class ParsedColumn(NamedTuple):
    values: Array  # (n, k), nan where a cell is missing or bad
    bad: Mask  # (n,) cells that cannot be read


def is_missing_cell(cell: Any) -> bool:
    return str(cell).strip().lower() in MISSING_CELLS


_SPACES = " \u00a0\u202f'\u2019"  # separators between groups of three digits, for any decimal mark
_EXPONENT = r"(?:[eE][+-]?\d+)?"  # an exponent, as in 4.2e-05

#: Numbers with grouped digits, by decimal mark: 1,234,567.5 and 1.234.567,5.
_GROUPED = {
    decimal: re.compile(
        rf"[+-]?[1-9]\d{{0,2}}(?P<group>[{other}{_SPACES}])\d{{3}}(?:(?P=group)\d{{3}})*(?:[{decimal}]\d*)?{_EXPONENT}"
    )
    for decimal, other in ((".", ","), (",", "."))
}

#: Numbers with a decimal comma: 1,5 and ,5 and 4,2e-05.
_DECIMAL_COMMA = re.compile(rf"[+-]?(?:\d+,\d*|,\d+){_EXPONENT}")


def _bare(cell: str) -> str:
    """A cell without surrounding spaces and percent sign, with an ASCII minus."""
    return cell.strip().removesuffix("%").rstrip().replace("\u2212", "-")


def _has_grouped_digits(text: str, decimal: str) -> bool:
    """Whether a number must have grouped digits: 1,234.5 and 1,234,567 and 1 234, but not 1,234."""
    found = _GROUPED[decimal].fullmatch(text)
    return found is not None and (decimal in text or found["group"] in _SPACES or text.count(found["group"]) > 1)


def _plain_number(cell: str, decimal: str, grouped: bool) -> str:
    """A number in Python's notation."""
    text = _bare(cell)
    if grouped and (found := _GROUPED[decimal].fullmatch(text)):
        text = text.replace(found["group"], "")
    return text.replace(",", ".") if decimal == "," else text


class TextCells(Sequence[str]):
    """Cells of a column in an Arrow array of strings, whose plain numbers are read all at once."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @classmethod
    def joined(cls, parts: Iterable[Any]) -> Self:
        """The cells of several columns, one below the other; some may be tuples of strings or Arrow arrays."""
        import pyarrow

        arrays = [part.array if isinstance(part, TextCells) else part for part in parts]
        arrays = [one if isinstance(one, pyarrow.Array) else pyarrow.array(one, pyarrow.string()) for one in arrays]
        return cls(arrays[0] if len(arrays) == 1 else pyarrow.concat_arrays(arrays))

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[str]:
        return iter(self.array.to_pylist())

    def __getitem__(self, i: Any) -> Any:
        return TextCells(self.array[i]) if isinstance(i, slice) else self.array[i].as_py()

    def plain_numbers(self, marks: str = ".") -> tuple[Array, Mask]:
        """(n,) numbers, nan elsewhere; and (n,) cells, other than empty ones, that are not plain numbers.

        A plain number has ASCII digits, one of the decimal `marks` and perhaps an exponent. Arrow rounds it correctly,
        as Python does, so that the result is the same bit for bit.
        """
        from pyarrow import ArrowInvalid, compute

        filled = compute.not_equal(self.array, "")
        if marks == ".":
            try:
                values = compute.if_else(filled, self.array, "nan").cast("float64").to_numpy(zero_copy_only=False)
            except ArrowInvalid:
                pass
            else:
                # Arrow reads nan(1), too.
                return values.copy(), np.isnan(values) & filled.to_numpy(zero_copy_only=False)
        # So few digits that no number is infinite.
        digits = rf"(?:[0-9]{{1,40}}[{marks}]?[0-9]{{0,40}}|[{marks}][0-9]{{1,40}})"
        plain = compute.match_substring_regex(self.array, rf"^-?{digits}(?:[eE][+-]?[0-9]{{1,2}})?$")
        texts = compute.replace_substring(self.array, ",", ".") if "," in marks else self.array
        values = compute.if_else(plain, texts, "nan").cast("float64").to_numpy(zero_copy_only=False)
        return values.copy(), compute.and_not(filled, plain).to_numpy(zero_copy_only=False)


def _parse(cells: Sequence[Any]) -> tuple[Array, Mask]:
    """(n,) numbers, nan where a cell is missing or bad, and (n,) bad cells."""
    if isinstance(cells, TextCells):
        values, bad = cells.plain_numbers()
        rest = np.flatnonzero(bad).tolist()
        values[rest], bad[rest] = _parse([cells[i] for i in rest])
        return values, bad
    bad = np.zeros(len(cells), dtype=bool)
    try:
        return np.fromiter(map(float, cells), np.float64, len(cells)), bad
    except (TypeError, ValueError, OverflowError):
        # A cell is missing or not a number: convert one by one.
        numbers = []
        for i, cell in enumerate(cells):
            try:
                numbers.append(float(cell))
            except (TypeError, ValueError, OverflowError):
                numbers.append(np.nan)
                bad[i] = not is_missing_cell(cell)
        return np.array(numbers, dtype=np.float64), bad


def read_numbers(cells: Sequence[Any], decimal: str = ".", *, grouped: bool = False) -> ParsedColumn:
    """The numbers of a column; 12% is 12, infinity is a bad cell. With `grouped`, digits may be grouped: 1,234.50."""
    if decimal == "." and not grouped:
        values, bad = _parse(cells)
    elif isinstance(cells, TextCells):
        # 1.234 is 1234 among grouped digits, and 1.234 among others.
        values, bad = cells.plain_numbers(decimal if grouped else ".,")
    else:
        values, bad = np.full(len(cells), np.nan), np.ones(len(cells), dtype=bool)
    if rest := np.flatnonzero(bad).tolist():
        found = (cells[i] for i in rest)
        plain = [_plain_number(c, decimal, grouped) if isinstance(c, str) else c for c in found]
        values[rest], bad[rest] = _parse(plain)
    infinite = np.isinf(values)
    if infinite.any():
        values[infinite] = np.nan
        bad |= infinite
    return ParsedColumn(values[:, None], bad)


def require_numbers(cells: Any, name: str, label: str, place: Callable[[int], str]) -> Array:
    """(n,) numbers of the column `name` of the table `label`; the error for a bad cell states its `place`."""
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        return np.asarray(cells, dtype=np.float64)
    values, bad = _parse(cells)
    if bad.any():
        i = int(bad.argmax())
        raise ValueError(
            f"column {name!r} of {label} has {cells[i]!r} in {place(i)}, which is not a number: exclude the column "
            "(features=, targets=), or encode it as numbers"
        )
    return values


# Column types.

#: Minimum share of cells that must agree with a guessed column type. The others are bad cells.
MIN_AGREEMENT = 0.9

#: The most frequent words have an indicator if they occur twice; others if they occur in this many rows.
MAX_COMMON_WORDS, MIN_ROWS_PER_WORD = 20, 5

MAX_CLASSES, MAX_NUMERIC_CLASSES = 100, 20  # maximum number of classes, and of integer classes in small tables

#: Minimum number of rows per class: of integers if there are more than `MAX_NUMERIC_CLASSES`, and of words.
MIN_ROWS_PER_NUMBER, MIN_ROWS_PER_CLASS = 10, 2


class Column(State, ABC):
    """A column type: how cells become inputs."""

    name: str

    def sources(self) -> list[str]:
        """Names of the table columns that it reads."""
        return [self.name]

    def names(self) -> list[str]:
        """Names of the resulting inputs."""
        return [self.name]

    @abstractmethod
    def encode(self, cells: Sequence[Sequence[Any]]) -> ParsedColumn:
        """Inputs (n, number of names) from one sequence of cells per source."""

    def unknown(self, cells: Sequence[Sequence[Any]]) -> list[str]:
        """Words among the cells that have no input; only for categories."""
        return []

    @abstractmethod
    def describe(self) -> str:
        """How cells are encoded, in a few words."""


@dataclass
class Number(Column, kind="number"):
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
    """A column of words, with an indicator for each level."""

    name: str
    levels: Sequence[str]
    pooled: int = 0  # distinct words of the first rows that are too rare for an indicator

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


MIN_BLOCK, MIN_DISTINCT = 32, 0.25  # minimum number of cells parsed as a block, and minimum share of distinct cells


class TimestampParser(dict[Any, float]):
    """Seconds of cells, cached: nan if missing, infinity if bad. 1/2/2006 is in February if `day_first`."""

    def __init__(self, day_first: bool) -> None:
        super().__init__()
        self._day_first = day_first

    def __missing__(self, cell: Any) -> float:
        try:
            seconds = np.nan if is_missing_cell(cell) else instant_seconds(cell, self._day_first)
        except (ValueError, OverflowError):
            seconds = np.inf
        if len(self) >= MAX_CACHED_CELLS:
            self.clear()
        self[cell] = seconds
        return seconds

    def read(self, columns: Sequence[Sequence[Any]]) -> ParsedColumn:
        """Seconds of rows, summed over columns, so that date and time may be in two columns."""
        found = [self._column(cells) for cells in columns]
        bad: Mask = np.asarray(np.isinf(found).any(axis=0))
        return ParsedColumn(np.where(bad, np.nan, np.sum(found, axis=0))[:, None], bad)

    def _column(self, cells: Sequence[Any]) -> Array:
        cells = list(cells)
        seconds = np.full(len(cells), np.nan)
        # Cells that repeat are found in the cache faster.
        if len(cells) >= MIN_BLOCK and {*map(type, cells)} == {str} and len({*cells}) > MIN_DISTINCT * len(cells):
            seconds = block_seconds(cells, self._day_first)
        rest = np.flatnonzero(np.isnan(seconds)).tolist()
        try:
            seconds[rest] = [self[cells[i]] for i in rest]
        except TypeError:  # lists, which JSON may contain
            return self._column([str(cell) for cell in cells])
        return seconds


@dataclass
class Instant(Column, kind="instant"):
    """Dates and times in one column, or in two; encoded as calendar features."""

    columns: Sequence[str]
    day_first: bool = True
    ambiguous: bool = False  # no cell shows whether the day or the month comes first, as in 3/4/2024

    def __post_init__(self) -> None:
        self._parser = TimestampParser(bool(self.day_first))

    @classmethod
    def guess(cls, names: Sequence[str], cells: Sequence[Sequence[Any]]) -> Self:
        return cls(list(names), *day_comes_first(cell for column in cells for cell in column))

    def sources(self) -> list[str]:
        return list(self.columns)

    def names(self) -> list[str]:
        return list(CALENDAR_NAMES)

    def encode(self, cells: Sequence[Sequence[Any]]) -> ParsedColumn:
        seconds, bad = self._parser.read(cells)
        return ParsedColumn(calendar_features(seconds[:, 0]), bad)

    def instants(self, cells: Sequence[Sequence[Any]]) -> Array:
        """(n,) seconds since 1970, nan where not known."""
        return self._parser.read(cells).values[:, 0]

    def describe(self) -> str:
        assumed = "; 3/4/2024 is read as 3 April" if self.ambiguous else ""
        return f"datetime; encoded as time of day, day of week and time of year{assumed}"


@dataclass
class Label(Column, kind="label"):
    """Class labels as integers from 0: those of the first rows sorted, then new ones as they occur."""

    name: str
    levels: list[str]
    first: int  # number of labels in the first rows
    whole: bool = False  # labels are integers: 1 and 1.0 are the same

    def encode(self, cells: Sequence[Sequence[Any]]) -> ParsedColumn:
        place = {level: k for k, level in enumerate(self.levels)}
        codes, bad = np.full(len(cells[0]), np.nan), np.zeros(len(cells[0]), dtype=bool)
        for i, cell in enumerate(cells[0]):
            if _is_unknown(cell, whole=self.whole):
                continue
            word = _as_label(cell, whole=self.whole)
            if word not in place and len(place) < MAX_CLASSES:
                place[word] = len(place)
            # Labels beyond the maximum number of classes are bad cells.
            bad[i] = word not in place
            codes[i] = place.get(word, np.nan)
        self.levels = list(place)
        return ParsedColumn(codes[:, None], bad)

    def describe(self) -> str:
        later = f", {len(self.levels) - self.first} of them added later" if len(self.levels) > self.first else ""
        return f"{len(self.levels)} classes ({_first(self.levels, 5)}){later}"


def _first(words: Sequence[str], most: int) -> str:
    return ", ".join(map(repr, words[:most])) + (", ..." if len(words) > most else "")


def as_word(cell: Any) -> str:
    return cell.strip() if isinstance(cell, str) else str(cell)


def _as_label(cell: Any, *, whole: bool) -> str:
    text = as_word(cell)
    if whole or isinstance(cell, float):
        values, bad = read_numbers([text])
        if not bad[0] and values[0, 0] == round(values[0, 0]):
            return str(int(values[0, 0]))
    return text


def _is_unknown(cell: Any, *, whole: bool) -> bool:
    """Whether a label is missing. Among words, "none" is a class, for example "no promotion"."""
    return is_missing_cell(cell) and (whole or not isinstance(cell, str) or cell.strip() != "none")


# Guessing column types from the first cells.


def guess_column(name: str, cells: Sequence[Any], max_levels: int) -> Column | None:
    """The type of a column from its first cells: numbers, dates or categories. None if words never repeat."""
    points = int(read_numbers(cells).bad.sum())
    if not points:
        return Number(name)
    present = [cell for cell in cells if not is_missing_cell(cell)]
    return _other_number(name, present, points) or _date_or_words(name, present, max_levels)


def _other_number(name: str, present: Sequence[Any], points: int) -> Number | None:
    """A column of numbers, of which `points` cannot be read with a decimal point; None if it contains no numbers."""
    enough = MIN_AGREEMENT * len(present)
    texts = [_bare(cell) for cell in present if isinstance(cell, str)]
    for decimal in (".", ","):
        # "1,234" is ambiguous; "1,234.5" and "1,234,567" have grouped digits.
        told = any(_has_grouped_digits(text, decimal) for text in texts)
        if told and len(present) - read_numbers(present, decimal, grouped=True).bad.sum() >= enough:
            return Number(name, decimal, True)
    # Integers below a thousand next to groups of exactly three digits: 999 and 1,234.
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
    if len(present) - column.encode([present]).bad.sum() >= MIN_AGREEMENT * len(present):
        return column
    counts = Counter(map(as_word, present))
    # Sorted by frequency, then alphabetically, so that the levels are reproducible.
    words = sorted((word for word, count in counts.items() if count > 1), key=lambda word: (-counts[word], word))
    words = [word for k, word in enumerate(words) if k < MAX_COMMON_WORDS or counts[word] >= MIN_ROWS_PER_WORD]
    levels = words[:max_levels]
    return Category(name, levels, len(counts) - len(levels)) if levels else None


def in_comma_table(column: Number, cells: Sequence[Any]) -> Number:
    """How to read a column of numbers in a table with decimal commas elsewhere.

    1.234 is a number above a thousand if all points precede three digits.
    """
    texts = [_bare(cell) if isinstance(cell, str) else str(cell) for cell in cells if not is_missing_cell(cell)]
    pointed = [text for text in texts if "." in text]
    if column.decimal == "," or column.grouped or not all(isinstance(cell, str) for cell in cells):
        return column
    return Number(column.name, ",", bool(pointed)) if all(map(_GROUPED[","].fullmatch, pointed)) else column


def few_whole_numbers(cells: Sequence[Any]) -> list[str]:
    """The distinct numbers of a column if they are few integers, as classes are; else nothing."""
    values = _numbers([cell for cell in cells if not is_missing_cell(cell)])
    if values is None or (values != np.round(values)).any():
        return []
    found = np.unique(values)
    most = max(MAX_NUMERIC_CLASSES, len(values) // MIN_ROWS_PER_NUMBER)
    return [str(int(value)) for value in found] if 0 < len(found) <= min(MAX_CLASSES, most) else []


def guess_labels(name: str, cells: Sequence[Any], label: str) -> Label:
    """The labels of a column, from its first cells; an error if they do not look like classes."""
    where = f"column {name!r} of {label}"
    present = [cell for cell in cells if not is_missing_cell(cell)]
    if not present:
        raise ValueError(f"{where} has no label in the first rows: choose another target, or a longer warm_up")
    numbers = _numbers(present)
    if numbers is not None:
        levels = few_whole_numbers(present)
        if not levels:
            found = len(np.unique(numbers))
            broken = numbers[numbers != np.round(numbers)]
            what = f"such as {broken[0]:g}" if len(broken) else f"{found} distinct ones in {len(present)} rows"
            advice = "omit --classify, or use words as classes"
            raise ValueError(f"{where} has numbers ({what}) that look like a quantity: {advice}")
        return Label(name, levels, len(levels), whole=True)
    present = [cell for cell in cells if not _is_unknown(cell, whole=False)]
    words = sorted({_as_label(cell, whole=False) for cell in present})
    if len(words) > min(MAX_CLASSES, max(len(present) // MIN_ROWS_PER_CLASS, 2)):
        raise ValueError(
            f"{where} has {len(words)} distinct words in {len(present)} rows, which look like names, not classes: "
            f"at most {MAX_CLASSES} classes are supported, and they must repeat; choose another target"
        )
    return Label(name, words, len(words))


def _numbers(cells: Sequence[Any]) -> Any:
    if any(isinstance(cell, bool) for cell in cells):
        return None
    values, bad = read_numbers(cells)
    return None if bad.sum() > (1.0 - MIN_AGREEMENT) * len(cells) else values[~bad, 0]
