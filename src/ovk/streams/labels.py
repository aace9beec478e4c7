"""A column of class labels: words, or whole numbers of few values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ovk.streams.cells import Read, is_missing, read_numbers
from ovk.streams.columns import AGREEMENT, Column

#: Most classes, and most whole numbers that are taken for classes whatever the number of rows.
MOST, FEW = 100, 20

#: Rows for each class, at least, before whole numbers beyond `FEW` are taken for classes; for words two are enough.
ROWS_PER_NUMBER, ROWS_PER_WORD = 10, 2


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
    >>> from ovk.streams.labels import Label
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

    def encode(self, cells: Sequence[Sequence[Any]]) -> Read:
        place = {level: k for k, level in enumerate(self.levels)}
        codes, bad = np.full(len(cells[0]), np.nan), np.zeros(len(cells[0]), dtype=bool)
        for i, cell in enumerate(cells[0]):
            if _is_unknown(cell, whole=self.whole):
                continue
            word = as_label(cell, whole=self.whole)
            if word not in place and len(place) < MOST:
                place[word] = len(place)
            # A label beyond the most there may be is a fault of its row.
            bad[i] = word not in place
            codes[i] = place.get(word, np.nan)
        self.levels = list(place)
        return Read(codes[:, None], bad)

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
    return is_missing(cell) and (whole or not isinstance(cell, str) or cell.strip() != "none")


def few_whole_numbers(cells: Sequence[Any]) -> list[str]:
    """The different numbers of a column if they are whole and few, as classes are; else nothing.

    >>> few_whole_numbers(["1", "0", "?", "1"]), few_whole_numbers(["0.5", "1"])
    (['0', '1'], [])
    """
    values = _numbers([cell for cell in cells if not is_missing(cell)])
    if values is None or (values != np.round(values)).any():
        return []
    found = np.unique(values)
    most = max(FEW, len(values) // ROWS_PER_NUMBER)
    return [str(int(value)) for value in found] if 0 < len(found) <= min(MOST, most) else []


def guess_labels(name: str, cells: Sequence[Any], label: str) -> Label:
    """How to read a column of labels, by its first cells; refuses what does not look like classes.

    >>> guess_labels("y", ["b", "a", "b", "a"], "t.csv")
    Label(name='y', levels=['a', 'b'], first=2, whole=False)
    """
    where = f"column {name!r} of {label}"
    present = [cell for cell in cells if not is_missing(cell)]
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
    if len(words) > min(MOST, max(len(present) // ROWS_PER_WORD, 2)):
        raise ValueError(
            f"{where} holds {len(words)} different words in {len(present)} rows, which look like names, not classes: "
            f"there may be {MOST}, and they must come again; choose another target"
        )
    return Label(name, words, len(words))


def _numbers(cells: Sequence[Any]) -> Any:
    """The numbers of cells, None if they do not hold numbers."""
    if any(isinstance(cell, bool) for cell in cells):
        return None
    values, bad = read_numbers(cells)
    return None if bad.sum() > (1.0 - AGREEMENT) * len(cells) else values[~bad, 0]
