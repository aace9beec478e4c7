"""Columns of class labels as targets of a regression, and back.

A column of two classes is one output with the targets -1 and 1, a column of K classes has K outputs, 1 for the class
and -1 for the others. A label that is missing (nan, None, a frame's NA) is a target that was not observed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import column_or_1d

from ovk._state import State
from ovk._types import Array, Indices, Labels
from ovk.targets import masked_as_nan, missing_labels


@dataclass
class LabelColumns(State):
    """The classes of each column of labels.

    Attributes
    ----------
    classes : of each column, in order
    single : labels came as (n,), and so will predictions

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.batch.ridge.labels import LabelColumns
    >>> columns, numbers = LabelColumns.learn(np.array(["yes", None, "no"], dtype=object))
    >>> numbers.T, columns.codes(numbers).T
    (array([[ 1, -1,  0]]), array([[ 1., nan, -1.]]))
    """

    classes: list[Labels]
    single: bool

    @classmethod
    def learn(cls, y: Any) -> tuple[LabelColumns, Indices]:
        """Classes, and the number (n, columns) of each label's class, -1 where it is missing."""
        table, single = _as_columns(y)
        found, numbers = [], []
        for q, column in enumerate(table):
            seen = ~missing_labels(column)
            labels = _compact(column[seen])
            if labels.dtype.kind == "f" and not np.isfinite(labels).all():
                raise ValueError("Input y contains infinity or a value too large for dtype('float64').")
            if labels.dtype.kind == "f" and len(labels) and "continuous" in type_of_target(labels):
                raise ValueError(f"Unknown label type: column {q} of y holds real numbers, not classes")
            classes, own = np.unique(labels, return_inverse=True)
            if len(classes) < 2:
                raise ValueError(
                    f"each column of y must hold at least 2 classes, got {len(classes)} in column {q}: one class is no "
                    "choice"
                )
            number = np.full(len(column), -1, dtype=np.intp)
            number[seen] = own
            found.append(classes)
            numbers.append(number)
        return cls(found, single), np.column_stack(numbers)

    def _spans(self) -> list[slice]:
        """The outputs of each column."""
        widths = [1 if len(classes) == 2 else len(classes) for classes in self.classes]
        ends = np.cumsum(widths)
        return [slice(int(end) - width, int(end)) for end, width in zip(ends, widths, strict=True)]

    def codes(self, numbers: Indices) -> Array:
        """Targets (n, d) of labels by number."""
        blocks = []
        for q, classes in enumerate(self.classes):
            number = numbers[:, q]
            code = np.array([[-1.0], [1.0]]) if len(classes) == 2 else 2.0 * np.eye(len(classes)) - 1.0
            block = code[np.maximum(number, 0)]
            block[number < 0] = np.nan
            blocks.append(block)
        return np.hstack(blocks)

    def scores(self, F: Array) -> list[Array]:
        """A score for each class of each column, (n, K), from predicted targets (n, d)."""
        parts = [F[:, span] for span in self._spans()]
        return [np.hstack([-part, part]) if part.shape[1] == 1 else part for part in parts]

    def labels(self, winners: list[Indices]) -> Labels:
        """(n,) or (n, columns) labels from the numbers of the classes."""
        columns = [classes[winner] for classes, winner in zip(self.classes, winners, strict=True)]
        if self.single:
            return columns[0]
        common = {column.dtype.kind for column in columns}
        if len(common) > 1:
            columns = [column.astype(object) for column in columns]
        return np.column_stack(columns)


def _as_columns(y: Any) -> tuple[list[Labels], bool]:
    """Columns of labels as arrays, and whether there was one alone."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None: give a label for each row")
    if hasattr(y, "columns") and hasattr(y, "shape") and len(y.shape) == 2:
        # A frame: column by column, since each may have a type of its own.
        return [_from_series(y[name]) for name in y.columns], False
    if hasattr(y, "to_list") and not hasattr(y, "columns"):
        return [_from_series(y)], True
    table = np.asarray(masked_as_nan(y, "y"))
    if table.ndim not in (1, 2) or (table.ndim == 2 and table.shape[1] == 0):
        raise ValueError(f"y must have a label for each row, (n,) or (n, columns), got shape {table.shape}")
    if table.ndim == 1 or table.shape[1] == 1:
        return [column_or_1d(table, warn=True)], True
    return list(table.T), False


def _from_series(series: Any) -> Labels:
    values = np.empty(len(series), dtype=object)
    values[:] = series.to_list()
    return values


def _compact(column: Labels) -> Labels:
    """Objects as an array of their own type, so that classes of numbers are numbers and of booleans booleans."""
    if column.dtype.kind != "O":
        return column
    kinds = {type(one) for one in column.tolist()}
    if any(issubclass(kind, str) for kind in kinds) and len(kinds) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(f"labels of a column must be of one type, got {names}: turn them into strings")
    return np.array(column.tolist())
