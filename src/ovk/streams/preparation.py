"""Rows for a learner out of the rows of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np

from ovk._params import Parameters
from ovk._validation import whole
from ovk.streams.cells import is_missing, read_numbers
from ovk.streams.chunks import Chunk
from ovk.streams.columns import Column, Number, guess, instant
from ovk.streams.lags import Lags
from ovk.streams.records import Batch


class Prepared(NamedTuple):
    """Rows for a learner.

    Attributes
    ----------
    chunk : inputs and outputs, nan where missing
    rows : number of each row in its file
    bad : number and fault of the rows that could not be read
    """

    chunk: Chunk
    rows: list[int]
    bad: list[tuple[int, str]]


class Preparation(Parameters):
    """Turns the columns of a table into inputs and outputs: numbers, categories, dates, calendar, lagged outputs.

    What a column holds is told by the first rows (`fit`) and then stays. Words become indicators of the most frequent
    ones, dates their place in the day, the week and the year.

    Parameters
    ----------
    targets : names of the output columns
    features : names of the input columns; default all others
    time : names of the columns that hold the time of a row, such as ``("Date", "Time")``: they become calendar inputs
    lags : outputs of so many rows before become inputs
    max_levels : most indicators of a column of words

    Attributes
    ----------
    columns_ : how each input is made
    outputs_ : how each output is read
    lags_ : the last outputs
    left_out_ : columns that are no inputs, with the reason
    feature_names_ : names of the inputs

    Examples
    --------
    >>> from ovk.streams import Batch, Preparation
    >>> batch = Batch([["a", "b", "a", "b"], ["1", "2", "?", "4"]], [1, 2, 3, 4], [])
    >>> preparation = Preparation(["y"], lags=[1]).bind(["word", "y"]).fit(batch)
    >>> preparation.feature_names_
    ['word=a', 'word=b', 'y lag 1']
    >>> preparation.take(batch).chunk.X.tolist()
    [[1.0, 0.0, nan], [0.0, 1.0, 1.0], [1.0, 0.0, 2.0], [0.0, 1.0, 2.0]]
    """

    def __init__(
        self,
        targets: Sequence[str],
        features: Sequence[str] | None = None,
        time: Sequence[str] = (),
        lags: Sequence[int] = (),
        max_levels: int = 20,
    ) -> None:
        self.targets = targets
        self.features = features
        self.time = time
        self.lags = lags
        self.max_levels = max_levels

    def bind(self, names: Sequence[str], label: str = "the table", *, predict: bool = False) -> Preparation:
        """Say in which order the columns of the batches to come stand; all that are needed must be there.

        With `predict`, targets may be missing: then they are not known.
        """
        self._label, self._names = label, list(names)
        self._place = {name: j for j, name in enumerate(self._names)}
        wanted = [*self.time, *(self.features or [])]
        if hasattr(self, "columns_"):
            wanted = [source for column in self.columns_ for source in column.sources()]
        find_columns([*wanted, *([] if predict else self.targets)], self._names, label)
        if predict:
            return self
        if not self.targets:
            raise ValueError(f"there must be at least one target: name a column of {label}, out of {some(names)}")
        inputs = [*(self.features or []), *self.time]
        both = [name for name in self.targets if name in inputs]
        if both:
            raise ValueError(
                f"column {both[0]!r} is a target and a feature: a row's own output cannot be known before it; "
                "take it out of one of them, or use lags for earlier outputs"
            )
        for group in (self.targets, self.features or [], self.time):
            if len(set(group)) < len(group):
                twice = next(name for name in group if list(group).count(name) > 1)
                raise ValueError(f"column {twice!r} is asked for twice: name it once")
        return self

    def fit(self, batch: Batch) -> Preparation:
        """Tell by the first rows what the columns hold."""
        most = whole(self.max_levels, "max_levels")
        self.left_out_: dict[str, str] = {}
        self.columns_: list[Column] = []
        features = self.features
        if features is None:
            used = {*self.targets, *self.time}
            features = []
            counts = Counter(self._names)
            for name in self._names:
                if name in used:
                    continue
                if not name or counts[name] > 1:
                    self.left_out_[name] = "it has no name" if not name else "its name stands there twice"
                else:
                    features.append(name)
        for name in features:
            column = guess(name, self._cells(batch, name), most)
            if column is None:
                self.left_out_[name] = "its words never repeat in the first rows"
            else:
                self.columns_.append(column)
        if self.time:
            self.columns_.append(self._calendar(batch))
        self.outputs_ = [self._output(batch, name) for name in self.targets]
        self.lags_ = Lags(tuple(self.lags))
        self.lags_.checked()
        self.feature_names_ = [name for column in self.columns_ for name in column.names()]
        self.feature_names_ += self.lags_.names(list(self.targets))
        if not self.feature_names_:
            others = ", ".join(f"{name!r} ({why})" for name, why in self.left_out_.items())
            raise ValueError(
                f"{self._label} gives no inputs" + (f" (left out: {others})" if others else "") + ": name columns as "
                "features, or use lags of the targets, or the time of the rows"
            )
        return self

    def _calendar(self, batch: Batch) -> Column:
        """The time of the rows, which must be readable in nearly all of them."""
        cells = [self._cells(batch, name) for name in self.time]
        column = instant(list(self.time), cells)
        bad = column.encode(cells).bad
        if len(bad) and bad.mean() > 0.5:
            first = int(bad.argmax())
            found = " ".join(str(column[first]) for column in cells)
            raise ValueError(
                f"row {batch.rows[first]} of {self._label} holds {found!r} in {' and '.join(map(repr, self.time))}, "
                "which is not a time: write it as 2006-12-16 17:24:00 or 16/12/2006 17:24:00, or name other columns"
            )
        return column

    def _output(self, batch: Batch, name: str) -> Number:
        """How to read an output, which must hold numbers."""
        cells = self._cells(batch, name)
        column = guess(name, cells, 1)
        if isinstance(column, Number):
            return column
        i = next(i for i, cell in enumerate(cells) if not is_missing(cell) and read_numbers([cell]).bad[0])
        raise ValueError(
            f"column {name!r} of {self._label} is a target but holds {cells[i]!r} in row {batch.rows[i]}: targets must "
            "hold numbers; choose another column, or encode it"
        )

    def _cells(self, batch: Batch, name: str) -> Sequence[object]:
        return batch.columns[self._place[name]]

    def take(self, batch: Batch) -> Prepared:
        """Inputs and outputs of the rows; their outputs become the lags of the rows to come.

        A row in which a number or a date cannot be read is left out, and named with its fault.
        """
        n = len(batch.rows)
        X = np.empty((n, len(self.feature_names_)))
        Y = np.full((n, len(self.targets)), np.nan)
        faults: dict[int, str] = {}
        end = 0
        for column in self.columns_:
            cells = [self._cells(batch, source) for source in column.sources()]
            values, bad = column.encode(cells)
            start, end = end, end + values.shape[1]
            X[:, start:end] = values
            for i in np.flatnonzero(bad).tolist():
                faults.setdefault(i, self._fault(column, [part[i] for part in cells]))
        for q, output in enumerate(self.outputs_):
            if output.name in self._place:
                cells = [self._cells(batch, output.name)]
                values, bad = output.encode(cells)
                Y[:, q] = values[:, 0]
                for i in np.flatnonzero(bad).tolist():
                    faults.setdefault(i, self._fault(output, [cells[0][i]]))
        rows = batch.rows
        if faults:
            fine = np.array([i not in faults for i in range(n)], dtype=bool)
            X, Y = X[fine], Y[fine]
            rows = [row for row, keep in zip(rows, fine, strict=True) if keep]
        if self.lags:
            X[:, end:] = self.lags_.take(Y)
        named = [(batch.rows[i], fault) for i, fault in faults.items()]
        chunk = Chunk(X, Y, tuple(self.feature_names_), tuple(self.targets))
        return Prepared(chunk, rows, sorted([*batch.bad, *named]))

    @staticmethod
    def _fault(column: Column, cells: Sequence[object]) -> str:
        names = " and ".join(map(repr, column.sources()))
        return f"{' '.join(map(str, cells))[:40]!r} in column {names} cannot be read"


def find_columns(wanted: Iterable[str], names: Sequence[str], label: str) -> None:
    """Refuse names that are not, or not only once, among the columns of a table."""
    counts = Counter(names)
    for name in wanted:
        count = counts[name]
        if count == 0:
            close = get_close_matches(name, names, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"its columns are {some(names)}"
            raise ValueError(f"there is no column {name!r} in {label}: {hint}")
        if count > 1:
            raise ValueError(f"column {name!r} stands {count} times in {label}: give each its own name")


def some(names: Iterable[str]) -> str:
    """Names for a message, not too many of them."""
    names = [repr(name) for name in names]
    return ", ".join(names if len(names) <= 12 else [*names[:10], "...", names[-1]])
