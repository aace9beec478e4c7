"""Data frames as inputs: numbers as they are, categories as columns of zeros and ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from ovk._state import State
from ovk._types import Array
from ovk.targets import is_missing

#: Categories of a column that have a column of their own, the most frequent ones.
MOST_CATEGORIES = 50
#: How the names of types of words begin, in pandas and in polars.
WORDS = ("category", "categorical", "enum", "object", "str", "utf8")
#: The same of types that are neither words nor numbers.
REFUSED = ("date", "time", "duration", "period", "interval", "list", "struct", "binary")


@dataclass
class FrameColumns(State):
    """Columns of a frame as numbers: those of numbers, then for each column of words one for each of its categories.

    A category that was not seen in training, or is rare among many, is zero in all of them.

    Attributes
    ----------
    categories : for each column of the frame None, or its categories; "" stands for a missing one

    Examples
    --------
    >>> import pandas as pd
    >>> from ovk.batch.ridge.frame_inputs import FrameColumns
    >>> frame = pd.DataFrame({"rock": ["lime", "clay", "lime"], "depth": [1, None, 3]})
    >>> columns = FrameColumns.learn(frame)
    >>> columns.categories
    [['clay', 'lime'], None]
    >>> columns(frame)
    array([[ 1.,  0.,  1.],
           [nan,  1.,  0.],
           [ 3.,  0.,  1.]])
    """

    categories: list[Any]

    @classmethod
    def learn(cls, frame: Any) -> FrameColumns:
        """The columns of a frame to learn from."""
        found: list[Any] = []
        for name in frame.columns:
            values = column_values(frame[name], name)
            if values.dtype == np.float64:
                found.append(None)
            else:
                frequent = Counter(values.tolist()).most_common(MOST_CATEGORIES)
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
                words += [(values.astype(str) == category).astype(np.float64) for category in categories]
        return np.column_stack([*numbers, *words])


def is_frame(X: Any) -> bool:
    """Whether X is a data frame, of pandas, polars or another library that names its columns."""
    return getattr(X, "columns", None) is not None and not isinstance(X, np.ndarray)


def column_values(column: Any, name: Any) -> Array:
    """A column as float64 with nan where something is missing, or as strings, "" where something is missing."""
    kind = str(column.dtype).lower()
    if kind.startswith(REFUSED):
        raise ValueError(
            f"column {name!r} of X holds {column.dtype}, which is neither a number nor a category: convert it, dates "
            "for instance to days since the first"
        )
    if kind.startswith(WORDS):
        values = [None if is_missing(value) else value for value in column.to_numpy().tolist()]
        if kind == "object" and all(value is None or isinstance(value, (int, float)) for value in values):
            return np.array([np.nan if value is None else float(value) for value in values])
        return np.array(["" if value is None else str(value) for value in values], dtype=np.str_)
    try:
        return np.asarray(column.to_numpy(dtype="float64", na_value=np.nan), dtype=np.float64)
    except TypeError:  # polars takes neither argument, and makes nan of what is missing by itself
        return np.asarray(column.to_numpy(), dtype=np.float64)
