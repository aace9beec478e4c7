"""Examples whose features have names, as rows of numbers.

The order of the features is that in which they were first seen, and for features of one example that of their names. A
feature that is absent from an example is 0 in it.
"""

from __future__ import annotations

from datetime import date, time
from typing import Any

import numpy as np

from ovk._state import Forkable
from ovk._types import Array


class NamedFeatures(Forkable):
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
        """(1, p)."""
        row = np.zeros((1, self.width()))
        for name, value in x.items():
            if name in self._index:
                row[0, self._index[name]] = _number(value, name)
        return row

    def table(self, X: Any) -> Array:
        """(n, p) from a data frame."""
        table = np.zeros((len(X), self.width()))
        for j, name in enumerate(X.columns):
            if name in self._index:
                table[:, self._index[name]] = np.asarray(X.iloc[:, j], dtype=np.float64)
        return table


def _number(value: Any, name: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        if value is None:
            cure = "write a missing value as nan for AutoStream, or impute it first (river.preprocessing.StatImputer)"
        elif isinstance(value, (date, time)):
            cure = "give numbers made from it, such as the hour, the weekday or the seconds since a start"
        else:
            cure = "encode it first (river.preprocessing.OneHotEncoder)"
        raise ValueError(f"feature {name!r} must be a number, got {value!r}: {cure}") from None
