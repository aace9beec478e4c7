"""Inputs and outputs from the rows of a table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ovk.app.tables.records import Batch, line_ends
from ovk.base import (
    INSTANTS_FOR_STEP,
    Array,
    Category,
    Column,
    Instant,
    Label,
    Number,
    Parameters,
    as_word,
    check_int,
    closest_names,
    few_whole_numbers,
    guess_column,
    guess_labels,
    in_comma_table,
    is_missing_cell,
    quoted,
    read_numbers,
)
from ovk.evaluation import Chunk


def find_columns(wanted: Iterable[str], names: Sequence[str], label: str) -> None:
    """Reject names that do not occur, or occur more than once, among the columns of a table."""
    wanted = list(wanted)
    check_present(wanted, names, label)
    counts = Counter(names)
    for name in wanted:
        if counts[name] > 1:
            raise ValueError(f"column {name!r} occurs {counts[name]} times in {label}: rename the columns")


def check_present(wanted: Sequence[str], names: Sequence[str], label: str) -> None:
    """Reject names that are not among the columns of a table, with suggestions for all of them."""
    missing = list(dict.fromkeys(name for name in wanted if name not in names))
    if not missing:
        return
    meant = closest_names(missing, [name for name in names if name not in wanted])
    hint = f"its columns are {quoted(names)}"
    if len(names) == 1 and all(name in names[0] for name in missing):
        hint = f"its only column is {quoted(names)}; separate cells by commas, semicolons, tabs or |"
    elif len(missing) == len(meant) == 1:
        hint = f"did you mean {meant[missing[0]]!r}?"
    elif len(meant) == len(missing):
        hint = f"did you mean {_pairs(meant)}?"
    elif meant:
        hint = f"did you mean {_pairs(meant)}? Its columns are {quoted(names)}"
    what = f"is no column {missing[0]!r}" if len(missing) == 1 else f"are no columns {quoted(missing)}"
    raise ValueError(f"there {what} in {label}: {hint}")


def _pairs(meant: dict[str, str]) -> str:
    *first, last = [f"{found!r} for {name!r}" for name, found in meant.items()]
    return f"{', '.join(first)} and {last}" if first else last


#: Minimum number of distinct words in a column for a warning about them.
MIN_WORDS = 10

#: Share of cells that look like numbers, or of rows with a unique word, above which there is a warning.
WARNING_SHARE = 0.5

#: Minimum mean number of rows per value of a column that may identify units.
MIN_ROWS_PER_UNIT = 3

#: A number with a sign before it and a unit after it: <0,5 and EUR 12.50 and 12 kg and (1,234).
_LIKE_NUMBER = re.compile(
    r"(?:[<>=~\u2264\u2265\u2248(]+|[^\w\s]|[A-Z]{3})?\s*"
    r"[+\u2212-]?\d[\d.,'\u2019\s]*(?:[eE*x][+-]?[\d^-]+)?\s*\)?\s*"
    r"[^\W\d_]{0,5}[%\u2030/\u00b0\u00b2\u00b3$\u20ac]?[^\W\d_]{0,3}"
)

#: Words in the name of a column that identifies units, such as patients.
_UNITS = re.compile(
    r"id|ids|identifier|uuid|guid|(patient|subject|participant|person|user|customer|client|student|animal|household"
    r"|hospital|school|site|station|device|machine|vehicle|donor|specimen)s?"
)


def column_warning(name: str, column: Column | None, cells: Sequence[Any]) -> str | None:
    """A warning about a column that may have the wrong type or identify rows; None if there is no doubt.

    `column` is None for an unused one, whose words never repeat.
    """
    advice = f"exclude the column (--ignore; ignore=[{name!r}] in Python)"
    if isinstance(column, Number):
        different = _count_values(name, column, cells)
        if different < MIN_WORDS or different < sum(not is_missing_cell(cell) for cell in cells):
            return None
        return f"Column {name!r} has a different whole number in every row. If it identifies the rows, {advice}."
    if not (column is None or isinstance(column, Category)):
        return None
    words = [as_word(cell) for cell in cells if not is_missing_cell(cell)]
    different = len(set(words))
    if different < MIN_WORDS:
        return None
    like = [word for word in words if _LIKE_NUMBER.fullmatch(word)]
    if len(like) > WARNING_SHARE * len(words):
        used = "is read as words" if column is not None else "is not used because its words never repeat"
        return (
            f"Column {name!r} {used}, but most of its cells look like numbers, such as {like[0][:40]!r}: write them as "
            f"plain numbers (0.5 or 0,5), or {advice}."
        )
    if column is not None and different > WARNING_SHARE * len(words):
        return (
            f"Column {name!r} has {different:,} distinct words in {len(words):,} rows, such as {words[0][:40]!r}; only "
            f"{len(column.levels)} are frequent enough to learn from. If they are names, {advice}."
        )
    return None


def count_units(name: str, column: Column | None, cells: Sequence[Any]) -> int:
    """Number of units, each with several rows, that a column identifies according to its name; otherwise 0."""
    different = _count_values(name, column, cells)
    return different if 2 < different <= sum(not is_missing_cell(cell) for cell in cells) / MIN_ROWS_PER_UNIT else 0


def _count_values(name: str, column: Column | None, cells: Sequence[Any]) -> int:
    """Number of distinct words or whole numbers, 0 if others occur or if the name is not that of an identifier."""
    tokens = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    if not isinstance(column, (Number, Category)) or not any(_UNITS.fullmatch(token.lower()) for token in tokens):
        return 0
    present = [cell for cell in cells if not is_missing_cell(cell)]
    if isinstance(column, Number):
        values = column.encode([present]).values[:, 0]
        values = values[np.isfinite(values)]
        if (values != np.round(values)).any():
            return 0
        return len(np.unique(values))
    return len(set(map(as_word, present)))


def fill_forward(A: Array) -> Array:
    """(n, d) with each missing value replaced by the last value above it, nan where there is none."""
    rows = np.where(np.isnan(A), 0, np.arange(len(A))[:, None])
    return np.take_along_axis(A, np.maximum.accumulate(rows, axis=0), axis=0)


@dataclass(eq=False, repr=False)
class Lags(Parameters):
    """Each output 1, 2, ... rows earlier or, where it was missing, its last value before that.

    `past_`, (longest lag, d), are the last rows with missing values filled; nan where there was no value yet.
    """

    _stored = {"past_": "k d nan"}

    lags: Sequence[int]

    def checked(self) -> list[int]:
        """The lags, if they are distinct positive integers."""
        lags = [check_int(lag, "each of lags") for lag in self.lags]
        if len(set(lags)) < len(lags):
            raise ValueError(f"lags must be distinct, got {lags}")
        return lags

    def names(self, outputs: Sequence[str]) -> list[str]:
        return [f"{output} lag {lag}" for lag in self.lags for output in outputs]

    def inputs_then_update(self, Y: Any) -> Array:
        """(n, d n_lags) inputs of the rows with outputs Y (n, d), nan where missing; then add these rows to `past_`."""
        Y = np.asarray(Y, dtype=np.float64)
        lags = self.checked()
        longest = max(lags, default=0)
        if not hasattr(self, "past_"):
            self.past_ = np.full((longest, Y.shape[1]), np.nan)
        A = fill_forward(np.vstack([self.past_, Y]))
        X = np.hstack([A[longest - lag : len(A) - lag] for lag in lags]) if lags else np.empty((len(Y), 0))
        self.past_ = A[len(A) - longest :].copy()
        return X


#: Maximum indicators of a column of words for batch learners; for stream learners each input costs time in every row.
MAX_TABLE_LEVELS = 100

#: Prefix of the description of an unused column.
UNUSED = "not used: "


class Prepared(NamedTuple):
    chunk: Chunk
    rows: list[int]  # number of each row in its file
    bad: list[tuple[int, str]]  # numbers and faults of rows that could not be read completely
    instants: Array | None = None  # (n,) seconds since 1970, nan where unknown; None for a table without times


@dataclass(eq=False, repr=False)
class Preparation(Parameters):
    """Turns the columns of a table into inputs and outputs: numbers, categories, dates, calendar, lagged outputs.

    The first rows (`fit`) determine the type of a column. Dates become time of day, day of week and time of year, as do
    the columns of `time`, such as ``("Date", "Time")``. The `max_levels` most frequent words of a column become
    indicators; beyond the first 20, only words of at least 5 rows. With `classify`, the target has class labels (words
    or few whole numbers), which become class numbers; later labels are added.
    """

    _state_classes = {"columns_": Column, "outputs_": Column}
    _stored = {
        "columns_ outputs_": list[Column],
        "feature_names_": list[str],
        "lags_": Lags,
        "unused_": dict[str, str],
        "instants_": "n nan | None",
    }

    targets: Sequence[str]
    features: Sequence[str] | None = None
    time: Sequence[str] = ()
    lags: Sequence[int] = ()
    max_levels: int = 50
    classify: bool = False
    ignore: Sequence[str] = ()

    def bind(self, names: Sequence[str], label: str = "the table", *, predict: bool = False) -> Preparation:
        """Set the column names of the following batches; with `predict`, targets may be absent."""
        self.label, self._names = label, list(names)
        self._place = {name: j for j, name in enumerate(self._names)}
        wanted = [*self.time, *(self.features or [])]
        if hasattr(self, "columns_"):
            wanted = [source for column in self.columns_ for source in column.sources()]
        find_columns([*wanted, *([] if predict else self.targets)], self._names, label)
        if predict:
            return self
        check_present(self.ignore, self._names, label)
        if not self.targets:
            raise ValueError(f"targets must name at least one column of {label}: its columns are {quoted(names)}")
        self.check_roles()
        return self

    def check_roles(self) -> None:
        """Reject columns with two roles."""
        if self.classify and len(self.targets) > 1:
            raise ValueError("classification requires exactly one target")
        if self.classify and self.lags:
            raise ValueError("lags are for numbers, not classes: omit them (the model auto uses the last label)")
        inputs = [*(self.features or []), *self.time]
        both = [name for name in self.targets if name in inputs]
        if both:
            raise ValueError(
                f"column {both[0]!r} is a target and a feature: remove it from one of them, or use lags for earlier "
                "outputs"
            )
        asked = [name for name in self.ignore if name in (*self.targets, *inputs)]
        if asked:
            raise ValueError(f"column {asked[0]!r} is both ignored and used: remove it from one of them")
        for group in (self.targets, self.features or [], self.time):
            if len(set(group)) < len(group):
                twice = next(name for name in group if list(group).count(name) > 1)
                raise ValueError(f"column {twice!r} is named twice: name it once")

    def fit(self, batch: Batch) -> Preparation:
        """Determine the types of the columns from the first rows."""
        most = check_int(self.max_levels, "max_levels")
        #: Unused columns, with the reason.
        self.unused_: dict[str, str] = {}
        self.columns_: list[Column] = []
        features = self.features
        if features is None:
            used = {*self.targets, *self.time}
            self.unused_ |= dict.fromkeys(self.ignore, "ignored as requested")
            features = []
            counts = Counter(self._names)
            for name in self._names:
                if name in used or name in self.unused_:
                    continue
                if name and counts[name] == 1:
                    features.append(name)
                else:
                    self.unused_[name] = "its name is not unique" if name else "it has no name"
        self._read_columns(features, batch, most)
        if self.time:
            self.columns_.append(self._calendar(batch))
        #: Outputs whose numbers look like classes, and these numbers.
        self.class_like_: dict[str, list[str]] = {}
        self.outputs_: list[Column] = [self._output(batch, name) for name in self.targets]
        self._unify_decimal_marks(batch)
        self.lags_ = Lags(tuple(self.lags))
        self.lags_.checked()
        #: (m,) times of the last rows, in seconds since 1970.
        self.instants_ = np.empty(0)
        self.feature_names_ = [name for column in self.columns_ for name in column.names()]
        self.feature_names_ += self.lags_.names(list(self.targets))
        if not self.feature_names_:
            others = ", ".join(f"{name!r} ({why})" for name, why in self.unused_.items())
            why = f" (not used: {others})" if others else ""
            raise ValueError(f"{self.label} has no inputs{why}: name columns as features, or use lags or time")
        return self

    def _read_columns(self, features: Sequence[str], batch: Batch, most: int) -> None:
        self.warnings_: dict[str, str] = {}
        #: Inputs that seem to identify units such as patients, and the number of units.
        self.id_like_: dict[str, int] = {}
        for name in features:
            cells = self._cells(batch, name)
            column = guess_column(name, cells, most)
            if column is None:
                self.unused_[name] = "its words never repeat in the first rows"
            else:
                self.columns_.append(column)
            if found := column_warning(name, column, cells):
                self.warnings_[name] = found
            # A column that the user names as a feature needs no warning.
            if self.features is None and (units := count_units(name, column, cells)):
                self.id_like_[name] = units

    def _unify_decimal_marks(self, batch: Batch) -> None:
        """In a table with decimal commas, read points as thousands separators in all columns."""
        if any(isinstance(column, Number) and column.decimal == "," for column in (*self.columns_, *self.outputs_)):
            for columns in (self.columns_, self.outputs_):
                for j, column in enumerate(columns):
                    if isinstance(column, Number):
                        columns[j] = in_comma_table(column, self._cells(batch, column.name))

    def _calendar(self, batch: Batch) -> Column:
        """The time column, which must be readable in at least half of the rows."""
        cells = [self._cells(batch, name) for name in self.time]
        column = Instant.guess(self.time, cells)
        bad = column.encode(cells).bad
        if len(bad) and bad.mean() > 0.5:
            first = int(bad.argmax())
            found = " ".join(str(column[first]) for column in cells)
            raise ValueError(
                f"row {batch.rows[first]} of {self.label} has {found!r} in {' and '.join(map(repr, self.time))}, which "
                "is not a time: write it as 2006-12-16 17:24:00 or 16/12/2006 17:24:00, or name other columns"
            )
        return column

    def _output(self, batch: Batch, name: str) -> Column:
        cells = self._cells(batch, name)
        if self.classify:
            return guess_labels(name, cells, self.label)
        column = guess_column(name, cells, 1)
        if isinstance(column, Number):
            if few := few_whole_numbers(cells):
                self.class_like_[name] = few
            return column
        i = next(i for i, cell in enumerate(cells) if not is_missing_cell(cell) and read_numbers([cell]).bad[0])
        raise ValueError(
            f"column {name!r} of {self.label} is a target and must contain numbers, got {cells[i]!r} in row "
            f"{batch.rows[i]}: name another column, or predict classes (--classify; classify=True in Python)"
        )

    def _cells(self, batch: Batch, name: str) -> Sequence[object]:
        return batch.columns[self._place[name]]

    def _sources(self, batch: Batch, column: Column) -> list[Sequence[object]]:
        return [self._cells(batch, name) for name in column.sources()]

    def prepare(self, batch: Batch) -> Prepared:
        """Inputs and outputs of the rows; the outputs become lags of later rows.

        A number or date that cannot be read is missing, and its row is reported.
        """
        self._check_width(batch)
        faults: dict[int, str] = {}
        X = self._encoded(self.columns_, batch, np.empty((len(batch.rows), len(self.feature_names_))), faults)
        Y = self._encoded(self.outputs_, batch, np.full((len(batch.rows), len(self.targets)), np.nan), faults)
        if self.lags:
            lagged = self._lagged(batch, Y)
            X[:, X.shape[1] - lagged.shape[1] :] = lagged
        named = [
            (batch.rows[i], fault)
            for i, fault in faults.items()
            for _ in range(1 + line_ends([cells[i] for cells in batch.columns]))
        ]
        chunk = Chunk(X, Y, tuple(self.feature_names_), tuple(self.targets))
        time, instants = self.time_column(), None
        if time is not None:
            instants = time.instants(self._sources(batch, time))
            self.instants_ = np.concatenate([self.instants_, instants])[-INSTANTS_FOR_STEP:]
        return Prepared(chunk, batch.rows, sorted([*batch.bad, *named]), instants)

    def _encoded(self, columns: Sequence[Column], batch: Batch, values: Array, faults: dict[int, str]) -> Array:
        """Fill `values` with the columns that the table has, and `faults` with the cells that cannot be read."""
        end = 0
        for column in columns:
            start, end = end, end + len(column.names())
            if not all(name in self._place for name in column.sources()):
                continue
            cells = self._sources(batch, column)
            values[:, start:end], bad = column.encode(cells)
            for i in np.flatnonzero(bad).tolist():
                found, where = " ".join(str(part[i]) for part in cells), " and ".join(map(repr, column.sources()))
                faults.setdefault(i, f"{found[:40]!r} in column {where} cannot be read (treated as missing)")
        return values

    def _check_width(self, batch: Batch) -> None:
        names = getattr(self, "_names", None)
        if names is None or len(batch.columns) != len(names):
            bound = "no columns" if names is None else f"{len(names)} columns ({quoted(names)})"
            raise ValueError(
                f"the batch has {len(batch.columns)} columns, but {bound} are bound: call bind(names) with its column "
                "names first, or predict a file with predict_file"
            )

    def unknown_words(self, batch: Batch) -> dict[str, list[str]]:
        """Words without a level, by column name."""
        found = {}
        for column in self.columns_:
            if unknown := column.unknown(self._sources(batch, column)):
                found[column.sources()[0]] = unknown
        return found

    def has_targets(self) -> bool:
        """Whether the table has at least one target."""
        return any(name in self._place for name in self.targets)

    def time_column(self) -> Instant | None:
        """The time of the rows: the columns of `time`, or the only column of dates."""
        dates = [column for column in self.columns_ if isinstance(column, Instant)]
        # `fit` appends the columns of `time` last.
        return dates[-1] if dates and (self.time or len(dates) == 1) else None

    def _lagged(self, batch: Batch, Y: Array) -> Array:
        """Lagged outputs. A row that cannot be read counts, with missing outputs."""
        if not batch.bad:
            return self.lags_.inputs_then_update(Y)
        numbers = np.array(sorted({*batch.rows, *(row for row, _ in batch.bad)}))
        places = np.searchsorted(numbers, batch.rows)
        every = np.full((len(numbers), Y.shape[1]), np.nan)
        every[places] = Y
        return np.asarray(self.lags_.inputs_then_update(every)[places])

    def fork(self) -> Preparation:
        """A copy with independent lags and labels."""
        other = copy(self)
        if hasattr(self, "lags_"):
            other.lags_, other.outputs_ = copy(self.lags_), [copy(output) for output in self.outputs_]
        return other

    def classes(self) -> list[str]:
        """The labels so far, in the order of their numbers."""
        label = self.outputs_[0]
        if not isinstance(label, Label):
            raise ValueError(f"{self.targets[0]!r} contains numbers, not classes: use classify=True")
        return label.levels

    def describe(self) -> dict[str, str]:
        """The type of each column, in words."""
        known = {source: column.describe() for column in self.columns_ for source in column.sources()}
        outputs = {column.sources()[0]: column.describe() for column in self.outputs_}
        return {**known, **outputs, **{name: f"{UNUSED}{why}" for name, why in self.unused_.items()}}
