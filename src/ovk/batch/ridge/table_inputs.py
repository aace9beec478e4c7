"""Inputs from tables: standardisation, normal scores, missing values, and columns of words and dates."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.stats import norm

from ovk.base import (
    Array,
    Category,
    Indices,
    Instant,
    Number,
    State,
    as_word,
    calendar_features,
    guess_column,
    is_missing,
    is_missing_cell,
)

#: Largest relative deviation of a column that is constant up to rounding.
CONSTANT_DEVIATION = 1e-12
#: Columns with this skewness or excess kurtosis, and this many different values, may be replaced by normal scores.
MIN_SKEWNESS, MIN_KURTOSIS, MIN_VALUES = 1.0, 4.0, 20
#: Maximum number of quantiles between which normal scores are interpolated.
MAX_KNOTS = 200
#: Distance from the training range, in widths of that range, above which a value is reported.
MAX_DISTANCE_FROM_RANGE = 3.0


@dataclass
class InputScaling(State):
    """z = (g(x) - centre) factor for each column; 0 where x is missing, with an indicator column.

    g(x) is x, or for the columns `skewed` the normal score: Phi^-1 of the share of smaller training values, linear
    between quantiles and constant outside.
    """

    _stored = {
        "centre": "p",
        "factor": "p",
        "gaps": "k",
        "lower upper": "p inf",
        "skewed": "s int",
        "knots levels": "s q",
    }

    centre: Array  # (p,) weighted means of the observed values
    #: (p,) inverse weighted deviations; 0 for a constant column, which is ignored at new points too.
    factor: Array
    #: Columns with missing values; each has an indicator column at the end, 1 where a value is missing.
    gaps: Indices
    lower: Array  # (p,) range of the observed values; infinite without any
    upper: Array
    skewed: Indices = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    knots: Array = field(default_factory=lambda: np.empty((0, 0)))  # (s, q) quantiles, the last one repeated
    levels: Array = field(default_factory=lambda: np.empty((0, 0)))  # (s, q) their normal scores

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
        missing = np.isnan(X)
        ends = np.where(missing, np.inf, X).min(axis=0), np.where(missing, -np.inf, X).max(axis=0)
        return cls(mean if scale else np.zeros(len(mean)), factor, np.flatnonzero(missing.any(axis=0)), *ends)

    def with_normal_scores(self, X: Array, indicators: int = 0) -> InputScaling | None:
        """The same with normal scores of skewed columns and of those with heavy tails; None without such columns."""
        found = []
        for j in np.flatnonzero(self.factor[: X.shape[1] - indicators] > 0).tolist():
            seen = X[~np.isnan(X[:, j]), j]
            z = (seen - self.centre[j]) * self.factor[j]
            heavy = abs(float(np.mean(z**3))) > MIN_SKEWNESS or float(np.mean(z**4)) > 3.0 + MIN_KURTOSIS
            if heavy and len(np.unique(seen)) >= MIN_VALUES:
                found.append((j, *_normal_scores(seen)))
        if not found:
            return None
        skewed, size = np.array([j for j, _, _ in found]), max(len(one) for _, one, _ in found)
        knots = np.array([np.pad(one, (0, size - len(one)), "edge") for _, one, _ in found])
        levels = np.array([np.pad(one, (0, size - len(one)), "edge") for _, _, one in found])
        centre, factor = self.centre.copy(), self.factor.copy()
        centre[skewed], factor[skewed] = 0.0, 1.0
        return replace(self, centre=centre, factor=factor, skewed=skewed, knots=knots, levels=levels)

    def __call__(self, X: Any) -> Array:
        X = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
        missing, values = np.isnan(X), X
        if len(self.skewed):
            values = X.copy()
            for j, knots, levels in zip(self.skewed, self.knots, self.levels, strict=True):
                values[:, j] = np.interp(X[:, j], knots, levels)
        scaled: Array = np.where(missing, 0.0, (values - self.centre) * self.factor)
        return np.hstack([scaled, missing[:, self.gaps].astype(np.float64)]) if len(self.gaps) else scaled

    def slopes(self, J: Array, X: Array) -> Array:
        """Derivatives (n, d, p) with respect to the inputs X, from those with respect to the scaled inputs."""
        factor = np.tile(self.factor, (len(X), 1))
        for j, knots, levels in zip(self.skewed, self.knots, self.levels, strict=True):
            width = np.diff(knots)
            slopes = np.divide(np.diff(levels), width, out=np.zeros(len(width)), where=width > 0)
            factor[:, j] = np.pad(slopes, 1)[np.searchsorted(knots, X[:, j], side="right")]
        return np.asarray(J[:, :, : len(self.factor)] * factor[:, None, :])

    def warn_of_far_rows(self, X: Array, names: Sequence[str]) -> None:
        """Warn about the first value far outside the training range, in the first columns, which have names."""
        p = len(names)
        low, high = self.lower[:p], self.upper[:p]
        with np.errstate(invalid="ignore"):
            slack = np.where(self.factor[:p] > 0, MAX_DISTANCE_FROM_RANGE * (high - low), np.inf)
            far = np.argwhere((X[:, :p] < low - slack) | (X[:, :p] > high + slack))
        if len(far):
            rows = len(np.unique(far[:, 0]))
            i, j = far[0]
            what = f"row{'s are' if rows > 1 else ' is'} far outside the training range of X"
            value = f"{X[i, j]:.6g} (training range {low[j]:.6g} to {high[j]:.6g})"
            warnings.warn(
                f"{rows} {what}, where predictions may be wrong: first row {i}, column {names[j]} with {value}",
                stacklevel=4,
            )


def _normal_scores(values: Array) -> tuple[Array, Array]:
    """Increasing quantiles of the values, and their normal scores; ties get the score of their mean rank."""
    different, counts = np.unique(values, return_counts=True)
    ranks = np.cumsum(counts) - 0.5 * counts
    some = np.unique(np.searchsorted(ranks, np.linspace(ranks[0], ranks[-1], MAX_KNOTS)).clip(0, len(ranks) - 1))
    return different[some], np.asarray(norm.ppf(ranks[some] / len(values)))


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
            f"column {name!r} of X has dates as text, such as {readable[0]!r}: convert them with pandas.to_datetime, "
            f"then they are encoded as time of day, day of week and time of year, or drop the column; {category}"
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
            f"column {name!r} of X has {different} distinct words in {len(present)} rows, such as {present[0]!r}: "
            "they look like names, which carry no information about new rows; drop the column",
            stacklevel=2,
        )


#: Maximum number of categories encoded for a column, the most frequent ones.
MAX_CATEGORIES = 50
#: Prefixes of dtype names in pandas and polars: categories, all words, and unsupported types.
CATEGORY_TYPES = ("category", "categorical", "enum")
WORD_TYPES = (*CATEGORY_TYPES, "object", "str", "utf8")
DATE_TYPES = ("date", "datetime")
UNSUPPORTED_TYPES = ("time", "duration", "period", "interval", "list", "struct", "binary")


@dataclass
class FrameColumns(State):
    """Encodes a data frame: numbers first, then dates, then an indicator for each category of each word column.

    Dates become sines and cosines of the time of day, week and year, as on the command line. A category that is not in
    the training data, or is rare among many, is zero in all indicators.
    """

    #: For each column of the frame None for numbers, "date", or its categories; "" means missing.
    categories: list[Any]

    @classmethod
    def learn(cls, frame: Any) -> FrameColumns:
        found: list[Any] = []
        for name in frame.columns:
            if _kind(frame[name]).startswith(DATE_TYPES):
                found.append("date")
                continue
            values = column_values(frame[name], name)
            if values.dtype == np.float64:
                found.append(None)
            else:
                # With a categorical dtype the user has declared the column as categories.
                if not _kind(frame[name]).startswith(CATEGORY_TYPES):
                    check_categories(values.tolist(), name)
                found.append(sorted(category for category, _ in Counter(values.tolist()).most_common(MAX_CATEGORIES)))
        return cls(found)

    @property
    def indicators(self) -> int:
        """Number of indicator columns."""
        return sum(len(each) for each in self.categories if isinstance(each, list))

    def numbers(self, names: Sequence[Any]) -> list[str]:
        """Of the names of the frame's columns, those of numbers."""
        return [repr(name) for name, each in zip(names, self.categories, strict=True) if each is None]

    def __call__(self, frame: Any) -> Array:
        numbers, dates, words = [], [], []
        for name, categories in zip(frame.columns, self.categories, strict=True):
            if (categories == "date") != _kind(frame[name]).startswith(DATE_TYPES):
                kind = "no dates" if categories == "date" else "dates"
                raise ValueError(f"column {name!r} of X must have the same type as in training, got {kind}: convert it")
            if categories == "date":
                dates.append(calendar_features(_instants(frame[name])))
                continue
            values = column_values(frame[name], name)
            if categories is None:
                if values.dtype != np.float64:
                    raise ValueError(f"column {name!r} of X must have numbers, as in training, got words")
                numbers.append(values)
            else:
                words.append(Category(name, categories).encode([values.astype(str).tolist()]).values)
        return np.column_stack([*numbers, *dates, *words])


def is_frame(X: Any) -> bool:
    """Whether X is a data frame of pandas, polars or another library with named columns."""
    return getattr(X, "columns", None) is not None and not isinstance(X, np.ndarray)


def _kind(column: Any) -> str:
    """The name of the column's dtype in lower case."""
    return str(column.dtype).lower()


def _instants(column: Any) -> Array:
    """(n,) seconds of the local time since 1970, nan where missing."""
    if hasattr(column.dt, "tz_localize"):
        column = column.dt.tz_localize(None)
    elif getattr(column.dtype, "time_zone", None) is not None:
        column = column.dt.replace_time_zone(None)
    cells = column.to_numpy().astype("datetime64[us]")
    return np.where(np.isnat(cells), np.nan, 1e-6 * cells.astype(np.int64))


def column_values(column: Any, name: Any) -> Array:
    """A column as float64, nan if missing, or as strings, "" if missing."""
    kind = _kind(column)
    if kind.startswith(UNSUPPORTED_TYPES):
        raise ValueError(
            f"column {name!r} of X has dtype {column.dtype}: convert it to a number, for example durations to seconds"
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
    if np.isnan(X).any():
        row, column = np.argwhere(np.isnan(X))[0]
        raise ValueError(
            f"X has a missing value at row {row}, column {column}: drop the row, or set missing_inputs='impute'"
        )
    return X
