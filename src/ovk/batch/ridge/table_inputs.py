"""Inputs from tables: standardisation, missing values, and columns of words."""

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

#: Largest relative deviation of a column that is constant up to rounding.
CONSTANT_DEVIATION = 1e-12


@dataclass
class InputScaling(State):
    """z = (x - centre) factor for each column; 0 where x is missing, with an indicator column."""

    _stored = {"centre": "p", "factor": "p", "gaps": "k"}

    centre: Array  # (p,) weighted means of the observed values
    #: (p,) inverse weighted deviations; 0 for a constant column, which is ignored at new points too.
    factor: Array
    #: Columns with missing values; each has an indicator column at the end, 1 where a value is missing.
    gaps: Indices = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    @classmethod
    def learn(cls, X: Array, weight: Array | None = None, *, scale: bool = True, indicators: int = 0) -> InputScaling:
        """Learn the scales of inputs (n, p) with row weights (n,); `scale` False only fills gaps.

        The last `indicators` columns, zeros and ones, are not scaled: the distance between two categories is then
        similar to that between two typical values of a standardised number.
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
        """Derivatives (n, d, p) with respect to the inputs, from those with respect to the scaled inputs."""
        return J[:, :, : len(self.factor)] * self.factor


def mean_and_deviation(A: Array, weight: Array | None = None) -> tuple[Array, Array]:
    """Weighted means and standard deviations, (p,) each, ignoring nan."""
    seen = ~np.isnan(A)
    mass = seen * (1.0 if weight is None else weight[:, None])
    mass = mass / np.maximum(mass.sum(axis=0), 1e-300)
    mean = (mass * np.where(seen, A, 0.0)).sum(axis=0)
    return mean, np.sqrt((mass * np.where(seen, A - mean, 0.0) ** 2).sum(axis=0))


#: Maximum number of cells that determine the type of a column of text, evenly spread over it.
MAX_CELLS_INSPECTED = 1000
#: Share of distinct words above which a column is taken for names, if it has at least MIN_NAME_CELLS cells.
NAME_SHARE, MIN_NAME_CELLS = 0.8, 20


def check_categories(words: Sequence[str], name: object) -> None:
    """Reject a column of text that contains numbers or dates, and warn about a column of names."""
    present = [word for word in words if word]
    some = present[:: -(-len(present) // MAX_CELLS_INSPECTED) or 1]
    column = guess_column(str(name), some, 1)
    category = "if they are categories, set the dtype of the column to category"
    if isinstance(column, (Number, Instant)):
        readable = [text for text, bad in zip(some, column.encode([some]).bad, strict=True) if not bad]
    if isinstance(column, Instant):
        raise ValueError(
            f"column {name!r} of X has dates as text, such as {readable[0]!r}: convert them to numbers, for example "
            "days since the first date, or drop the column; ovk.app.tables.read_table encodes dates as time of day, "
            f"day of week and time of year; {category}"
        )
    # Whole numbers may be codes.
    if isinstance(column, Number) and (broken := [text for text in readable if not text.lstrip("+-").isdecimal()]):
        raise ValueError(
            f"column {name!r} of X has numbers as text, such as {broken[0]!r}: convert them (strip percent signs and "
            "thousands separators), or read the file with ovk.app.tables.read_table, which converts them; "
            f"{category}"
        )
    different = len(set(present))
    if len(present) >= MIN_NAME_CELLS and different > NAME_SHARE * len(present):
        warnings.warn(
            f"column {name!r} of X has {different} different words in {len(present)} rows, such as {present[0]!r}: "
            "they look like names, which predict nothing; drop the column",
            UserWarning,
            stacklevel=2,
        )


#: Maximum number of categories encoded for a column, the most frequent ones.
MAX_CATEGORIES = 50
#: Prefixes of dtype names in pandas and polars: categories, all words, and unsupported types.
CATEGORY_TYPES = ("category", "categorical", "enum")
WORD_TYPES = (*CATEGORY_TYPES, "object", "str", "utf8")
UNSUPPORTED_TYPES = ("date", "time", "duration", "period", "interval", "list", "struct", "binary")


@dataclass
class FrameColumns(State):
    """Encodes a data frame: columns of numbers first, then one indicator column for each category of each word column.

    A category that is not in the training data, or is rare among many, is zero in all of them.
    """

    categories: list[Any]  # for each column of the frame None, or its categories; "" means missing

    @classmethod
    def learn(cls, frame: Any) -> FrameColumns:
        found: list[Any] = []
        for name in frame.columns:
            values = column_values(frame[name], name)
            if values.dtype == np.float64:
                found.append(None)
            else:
                # With a categorical dtype the user has declared the column as categories.
                if not _kind(frame[name]).startswith(CATEGORY_TYPES):
                    check_categories(values.tolist(), name)
                frequent = Counter(values.tolist()).most_common(MAX_CATEGORIES)
                found.append(sorted(category for category, _ in frequent))
        return cls(found)

    @property
    def indicators(self) -> int:
        """Number of indicator columns."""
        return sum(len(each) for each in self.categories if each is not None)

    def __call__(self, frame: Any) -> Array:
        numbers, words = [], []
        for name, categories in zip(frame.columns, self.categories, strict=True):
            values = column_values(frame[name], name)
            if categories is None:
                if values.dtype != np.float64:
                    raise ValueError(f"column {name!r} of X must have numbers, as in training, got words")
                numbers.append(values)
            else:
                words.append(Category(name, categories).encode([values.astype(str).tolist()]).values)
        return np.column_stack([*numbers, *words])


def is_frame(X: Any) -> bool:
    """Whether X is a data frame of pandas, polars or another library with named columns."""
    return getattr(X, "columns", None) is not None and not isinstance(X, np.ndarray)


def _kind(column: Any) -> str:
    """The name of the column's dtype in lower case."""
    return str(column.dtype).lower()


def column_values(column: Any, name: Any) -> Array:
    """A column as float64, nan if missing, or as strings, "" if missing."""
    kind = _kind(column)
    if kind.startswith(UNSUPPORTED_TYPES):
        raise ValueError(
            f"column {name!r} of X has dtype {column.dtype}: convert it to a number, for example dates to days since "
            "the first date"
        )
    if kind.startswith(WORD_TYPES):
        cells = column.to_numpy().tolist()
        try:
            # Words repeat: check each once.
            known = {cell: None if is_missing(cell) or is_missing_cell(cell) else cell for cell in set(cells)}
            values = [known[cell] for cell in cells]
        except TypeError:  # unhashable cells
            values = [None if is_missing(cell) or is_missing_cell(cell) else cell for cell in cells]
        if kind == "object" and all(value is None or isinstance(value, (int, float)) for value in values):
            return np.array([np.nan if value is None else float(value) for value in values])
        return np.array(["" if value is None else as_word(value) for value in values], dtype=np.str_)
    try:
        return np.asarray(column.to_numpy(dtype="float64", na_value=np.nan), dtype=np.float64)
    except TypeError:  # polars accepts neither argument, and converts missing values to nan
        return np.asarray(column.to_numpy(), dtype=np.float64)


def reject_missing(X: Array) -> Array:
    """Reject missing values."""
    if np.isnan(X).any():
        row, column = np.argwhere(np.isnan(X))[0]
        raise ValueError(
            f"X has a missing value at row {row}, column {column}: drop the row, or set missing_inputs='impute'"
        )
    return X
