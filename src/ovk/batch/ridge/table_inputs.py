"""Inputs as tables have them: of any scale, with gaps and words."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from ovk._bad_cells import refuse_odd_frames
from ovk._state import State
from ovk._types import Array
from ovk.batch.ridge.inputs import InputScaling
from ovk.batch.ridge.kernel_estimator import KernelEstimator
from ovk.batch.ridge.text_columns import check_categories
from ovk.targets import check_inputs, is_missing

#: Categories of a column that have a column of their own, the most frequent ones.
MOST_CATEGORIES = 50
#: How the names of types of categories begin, in pandas and in polars, and those of all types of words.
DECLARED = ("category", "categorical", "enum")
WORDS = (*DECLARED, "object", "str", "utf8")
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
    >>> from ovk.batch.ridge.table_inputs import FrameColumns
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
                # Who gives a column that type knows that it holds categories.
                if not _kind(frame[name]).startswith(DECLARED):
                    check_categories(values.tolist(), name)
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


def _kind(column: Any) -> str:
    """The name of a column's type, in small letters."""
    return str(column.dtype).lower()


def column_values(column: Any, name: Any) -> Array:
    """A column as float64 with nan where something is missing, or as strings, "" where something is missing."""
    kind = _kind(column)
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


class TableInputs(KernelEstimator, saved=False):
    """Mixin: without a kernel inputs are read as tables; a kernel that is given sees them as they are."""

    _state_classes = {"columns_": FrameColumns}

    standardize: bool
    missing_inputs: str
    columns_: FrameColumns | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._finds_kernel() and self.missing_inputs == "impute"
        return tags

    def _finds_kernel(self) -> bool:
        """No kernel is given."""
        return self.kernel is None

    def _check_inputs(self, X: Any, *, reset: bool, stream: bool = False) -> Any:
        if not self._finds_kernel():
            if reset:
                self.columns_ = None
            return super()._check_inputs(X, reset=reset, stream=stream)
        if self.missing_inputs not in ("impute", "error"):
            raise ValueError(f"missing_inputs must be 'impute' or 'error', got {self.missing_inputs!r}")
        refuse_odd_frames(X, "X")
        frame = is_frame(X)
        if reset:
            self.columns_ = FrameColumns.learn(X) if frame else None
        if frame and self.columns_ is not None:
            validate_data(self, X, reset=reset, skip_check_array=True)
            X = check_array(self.columns_(X), ensure_all_finite="allow-nan", input_name="X")
            self._refuse_gaps(X)
            return X
        finite = "allow-nan" if self.missing_inputs == "impute" and not sparse.issparse(X) else True
        return check_inputs(self, X, reset=reset, accept_sparse="csr", dtype=np.float64, ensure_all_finite=finite)

    def _refuse_gaps(self, X: Array) -> None:
        if self.missing_inputs == "error" and np.isnan(X).any():
            row, column = np.argwhere(np.isnan(X))[0]
            raise ValueError(
                f"X has a missing value at row {row}, column {column}: leave the row out, or give "
                "missing_inputs='impute'"
            )

    def _scaling(self, X: Any, weight: Array | None) -> InputScaling | None:
        """What makes inputs comparable and fills their gaps, learned from them; None where nothing is to be done."""
        if sparse.issparse(X) or not (self.standardize or np.isnan(X).any()):
            return None
        indicators = 0 if self.columns_ is None else self.columns_.indicators
        return InputScaling.learn(X, weight, scale=bool(self.standardize), indicators=indicators)
