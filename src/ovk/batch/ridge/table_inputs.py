"""Inputs as tables have them: of any scale, with gaps and words."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from ovk.base import (
    Array,
    Category,
    Indices,
    Instant,
    Number,
    State,
    as_word,
    guess_column,
    is_missing,
    is_missing_cell,
)

# Inputs of comparable scales and without gaps: what lies between the user's inputs and those that kernels see.

#: A column whose deviation is below this part of its mean is constant but for rounding.
CONSTANT_DEVIATION = 1e-12


@dataclass
class InputScaling(State):
    """z = (x - centre) factor, column by column; 0 where x is missing, and a further column that says so."""

    centre: Array  # (p,) weighted means of what was not missing
    #: (p,) one over the weighted deviations; 0 for a constant column, which must not count at new points either.
    factor: Array
    #: Columns in which values were missing; each has an indicator behind the others, 1 where one is missing.
    gaps: Indices = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    @classmethod
    def learn(cls, X: Array, weight: Array | None = None, *, scale: bool = True, indicators: int = 0) -> InputScaling:
        """The scales of inputs (n, p), rows counted by their weights (n,).

        `scale` False only fills gaps. The last `indicators` columns, of which two rows differ by 0 or 1, stay as they
        are: two categories are then as far apart as two ordinary values of a standardised number.
        """
        mean, deviation = mean_and_deviation(X, weight)
        varies = deviation > CONSTANT_DEVIATION * np.abs(mean)
        factor = np.divide(1.0, deviation, out=np.zeros(len(mean)), where=varies)
        kept = slice(None) if not scale else slice(len(mean) - indicators, None)
        factor[kept] = 1.0
        return cls(mean if scale else np.zeros(len(mean)), factor, np.flatnonzero(np.isnan(X).any(axis=0)))

    def __call__(self, X: Any) -> Array:
        X = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
        missing = np.isnan(X)
        scaled: Array = np.where(missing, 0.0, (X - self.centre) * self.factor)
        return np.hstack([scaled, missing[:, self.gaps].astype(np.float64)]) if len(self.gaps) else scaled

    def slopes(self, J: Array) -> Array:
        """Derivatives (n, d, p) in the inputs, from those in the scaled ones."""
        return J[:, :, : len(self.factor)] * self.factor


def mean_and_deviation(A: Array, weight: Array | None = None) -> tuple[Array, Array]:
    """Weighted means and standard deviations, (p,) each, of the numbers in each column that are not nan."""
    seen = ~np.isnan(A)
    mass = seen * (1.0 if weight is None else weight[:, None])
    mass = mass / np.maximum(mass.sum(axis=0), 1e-300)
    mean = (mass * np.where(seen, A, 0.0)).sum(axis=0)
    return mean, np.sqrt((mass * np.where(seen, A - mean, 0.0) ** 2).sum(axis=0))


# Columns of text that are not categories: numbers, percentages and dates written as text, and names.

#: Most cells that tell what a column of text holds, evenly spread over it.
MAX_WORDS_JUDGED = 1000

#: Share of different words among the cells from which on they are names, and cells from which on that is asked.
NAME_SHARE, MIN_CELLS = 0.8, 20


def check_categories(words: Sequence[str], name: object) -> None:
    """Refuse a column of text that holds numbers or dates, and warn about one of names."""
    present = [word for word in words if word]
    some = present[:: -(-len(present) // MAX_WORDS_JUDGED) or 1]
    column = guess_column(str(name), some, 1)
    category = "if they are categories, give the column the type category"
    if isinstance(column, (Number, Instant)):
        readable = [text for text, bad in zip(some, column.encode([some]).bad, strict=True) if not bad]
    if isinstance(column, Instant):
        raise ValueError(
            f"column {name!r} of X holds dates written as text, such as {readable[0]!r}: turn them into numbers, such "
            "as days since the first one, or leave the column out; ovk.app.tables.read_table makes the time of day, of "
            f"the week and of the year of them; {category}"
        )
    # Whole numbers may be codes.
    if isinstance(column, Number) and (broken := [text for text in readable if not text.lstrip("+-").isdecimal()]):
        raise ValueError(
            f"column {name!r} of X holds numbers written as text, such as {broken[0]!r}: make numbers of them (strip "
            "percent signs and thousands separators), or read the file with ovk.app.tables.read_table, which does it; "
            f"{category}"
        )
    different = len(set(present))
    if len(present) >= MIN_CELLS and different > NAME_SHARE * len(present):
        warnings.warn(
            f"column {name!r} of X holds {different} different words in {len(present)} rows, such as {present[0]!r}: "
            "they look like names, of which nothing can be learned; leave the column out",
            UserWarning,
            stacklevel=2,
        )


#: Categories of a column that have a column of their own, the most frequent ones.
MAX_CATEGORIES = 50
#: How the names of types of categories begin, in pandas and in polars, and those of all types of words.
CATEGORY_TYPES = ("category", "categorical", "enum")
WORD_TYPES = (*CATEGORY_TYPES, "object", "str", "utf8")
#: The same of types that are neither words nor numbers.
REFUSED_TYPES = ("date", "time", "duration", "period", "interval", "list", "struct", "binary")


@dataclass
class FrameColumns(State):
    """Columns of a frame as numbers: those of numbers, then for each column of words one for each of its categories.

    A category that was not seen in training, or is rare among many, is zero in all of them.
    """

    categories: list[Any]  # for each column of the frame None, or its categories; "" stands for a missing one

    @classmethod
    def learn(cls, frame: Any) -> FrameColumns:
        """The columns of a frame to learn from."""
        found: list[Any] = []
        for name in frame.columns:
            values = column_values(frame[name], name)
            if values.dtype == np.float64:
                found.append(None)
            else:
                # Who gives a column that type knows that it holds categories.
                if not _kind(frame[name]).startswith(CATEGORY_TYPES):
                    check_categories(values.tolist(), name)
                frequent = Counter(values.tolist()).most_common(MAX_CATEGORIES)
                found.append(sorted(category for category, _ in frequent))
        return cls(found)

    @property
    def indicators(self) -> int:
        """How many of the last columns are zeros and ones."""
        return sum(len(each) for each in self.categories if each is not None)

    def __call__(self, frame: Any) -> Array:
        numbers, words = [], []
        for name, categories in zip(frame.columns, self.categories, strict=True):
            values = column_values(frame[name], name)
            if categories is None:
                if values.dtype != np.float64:
                    raise ValueError(f"column {name!r} of X held numbers in training, now it holds words")
                numbers.append(values)
            else:
                words.append(Category(name, categories).encode([values.astype(str).tolist()]).values)
        return np.column_stack([*numbers, *words])


def is_frame(X: Any) -> bool:
    """Whether X is a data frame, of pandas, polars or another library that names its columns."""
    return getattr(X, "columns", None) is not None and not isinstance(X, np.ndarray)


def _kind(column: Any) -> str:
    """The name of a column's type, in small letters."""
    return str(column.dtype).lower()


def column_values(column: Any, name: Any) -> Array:
    """A column as float64 with nan where something is missing, or as strings, "" where something is missing."""
    kind = _kind(column)
    if kind.startswith(REFUSED_TYPES):
        raise ValueError(
            f"column {name!r} of X holds {column.dtype}, which is neither a number nor a category: convert it, dates "
            "for instance to days since the first"
        )
    if kind.startswith(WORD_TYPES):
        cells = column.to_numpy().tolist()
        try:
            # Words repeat: each is looked at once.
            known = {cell: None if is_missing(cell) or is_missing_cell(cell) else cell for cell in set(cells)}
            values = [known[cell] for cell in cells]
        except TypeError:  # cells without a hash
            values = [None if is_missing(cell) or is_missing_cell(cell) else cell for cell in cells]
        if kind == "object" and all(value is None or isinstance(value, (int, float)) for value in values):
            return np.array([np.nan if value is None else float(value) for value in values])
        return np.array(["" if value is None else as_word(value) for value in values], dtype=np.str_)
    try:
        return np.asarray(column.to_numpy(dtype="float64", na_value=np.nan), dtype=np.float64)
    except TypeError:  # polars takes neither argument, and makes nan of what is missing by itself
        return np.asarray(column.to_numpy(), dtype=np.float64)


def refuse_gaps(X: Array) -> Array:
    """Refuse inputs with a missing value."""
    if np.isnan(X).any():
        row, column = np.argwhere(np.isnan(X))[0]
        raise ValueError(
            f"X has a missing value at row {row}, column {column}: leave the row out, or give missing_inputs='impute'"
        )
    return X
