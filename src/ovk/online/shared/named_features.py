"""Examples whose features have names, as rows of numbers.

The order of the features is that in which they were first seen, and for features of one example that of their names. A
feature that is absent from an example is 0 in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from datetime import date, time, timedelta
from typing import Any

import numpy as np

from ovk.base import Array, CopyOnWrite

#: Letters of a value that a message shows.
MAX_LETTERS_SHOWN = 60


class NamedFeatures(CopyOnWrite):
    """The features seen so far, and examples as rows of numbers.

    >>> features = NamedFeatures()
    >>> features.add(features.new({"a": 1.0, "b": 2.0}))
    >>> features.row({"b": 3.0, "c": 4.0})
    array([[0., 3.]])
    """

    def __init__(self) -> None:
        self._index: dict[Any, int] = {}

    def width(self, more: int = 0) -> int:
        """Columns of the rows, with so many more features: without any, one of zeros."""
        return max(len(self._index) + more, 1)

    def new(self, names: Any) -> list[Any]:
        """Those that were not seen before, sorted: their order within an example makes no difference."""
        found = [name for name in names if name not in self._index]
        return sorted(found, key=str) if found else found

    def add(self, names: list[Any]) -> None:
        """Give them the next columns."""
        if names:
            # A new dictionary, as forks share the old one.
            self._index = self._index | {name: len(self._index) + i for i, name in enumerate(names)}

    def row(self, x: dict[Any, Any]) -> Array:
        """(1, p). What was never seen is left out, but has to be a number as well."""
        row = np.zeros((1, self.width()))
        for name, value in x.items():
            try:
                number = float(value)
            except (TypeError, ValueError):
                raise refusal(value, f"feature {name!r}", _cure(value)) from None
            if name in self._index:
                row[0, self._index[name]] = number
        return row

    def table(self, X: Any) -> Array:
        """(n, p) from a data frame, likewise."""
        table = np.zeros((len(X), self.width()))
        for j, name in enumerate(X.columns):
            numbers = as_numbers(X.iloc[:, j], f"feature {name!r}", _cure)
            if name in self._index:
                table[:, self._index[name]] = numbers
        return table


def as_numbers(values: Any, what: str, cure: Callable[[Any], str]) -> Array:
    """(n,) numbers of a column; an error names the column, the first value that is none, and what to do about it."""
    # numpy would turn dates and durations into numbers of their units.
    if np.asarray(values).dtype.kind not in "mM":
        try:
            return np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            pass
    numbers = np.empty(len(values))
    for i, value in enumerate(values):
        try:
            numbers[i] = float(value)
        except (TypeError, ValueError):
            raise refusal(value, f"{what} in row {i}", cure(value)) from None
    return numbers


def refusal(value: Any, what: str, cure: str) -> ValueError:
    """The error for a value that is no number, which says what it is and what to do about it."""
    shown = repr(value)
    shown = shown if len(shown) <= MAX_LETTERS_SHOWN else f"{shown[: MAX_LETTERS_SHOWN - 3]}..."
    return ValueError(f"{what} must be a number, got {shown}: {cure}")


def is_missing(value: Any) -> bool:
    """Whether a value stands for nothing: None, nan, or what pandas writes for them."""
    # The ways of pandas are told by their names, as it need not be there.
    nothing = value is None or type(value).__name__ in ("NAType", "NaTType")
    return nothing or (isinstance(value, float) and value != value)


def _cure(value: Any) -> str:
    if is_missing(value):
        return "write a missing value as nan for AutoStream, or impute it first (river.preprocessing.StatImputer)"
    if isinstance(value, (date, time, timedelta, np.datetime64, np.timedelta64)):
        return "give numbers made from it, such as the hour, the weekday or the seconds since a start"
    if isinstance(value, (Mapping, Sequence, Set, np.ndarray)) and not isinstance(value, (str, bytes)):
        return "give every value in it a feature of its own"
    return "encode it first (river.preprocessing.OneHotEncoder)"
