"""Predictions as columns with names: lines of CSV, objects of JSON lines, a Parquet file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ovk._extras import required
from ovk.app.tables import Batch, find_columns
from ovk.base import Array, as_dates, read_numbers

if TYPE_CHECKING:
    from ovk.app.sessions.predictions import Predictions


#: Beginnings of a name that spreadsheets take for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class PredictionColumns:
    """The columns of predictions: row, time, and for each output its prediction, the ends of its interval, its outcome.

    Predictions have 7 digits, outcomes up to 9.

    In CSV, what is not known is an empty cell, and a name that a spreadsheet would run as a formula begins with a
    quotation mark.

    Parameters
    ----------
    outputs : names of the outputs
    timed : whether rows have a time
    outcomes : whether outcomes are told
    first : name of the first column, the number of a row

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.app.sessions import Predictions
    >>> columns = PredictionColumns(["y"], timed=True)
    >>> found = Predictions([7], np.array([[0.5]]), np.array([0.25]), instants=np.array([0.0]))
    >>> print(columns.header + "".join(columns.lines(found)))
    row,time,y,y low,y high
    7,1970-01-01T00:00:00,0.5,0.25,0.75
    <BLANKLINE>
    """

    def __init__(
        self, outputs: Sequence[str], *, timed: bool = False, outcomes: bool = False, first: str = "row"
    ) -> None:
        self._outputs, self._timed, self._outcomes = list(outputs), timed, outcomes
        ends = ["", " low", " high", *([" outcome"] if outcomes else [])]
        numbers = [f"{name}{end}" for name in outputs for end in ends]
        self.names = [first, *(["time"] if timed else []), *numbers]
        self.header = csv_line([shown_name(name) for name in self.names])
        self._line = "%d" + (",%s" if timed else "") + (",%.7g" * 3 + ",%.9g" * outcomes) * len(self._outputs) + "\n"

    def _numbers(self, found: Predictions) -> Array:
        """(n, columns) all numbers of the rows, in the order of the names."""
        F, widths = found.F, found.widths
        parts = [F, F - widths, F + widths]
        if self._outcomes:
            parts.append(np.full(F.shape, np.nan) if found.Y is None else found.Y)
        return np.stack(parts, axis=-1).reshape(len(F), -1)

    def _times(self, found: Predictions) -> list[str]:
        """Times as text, empty where not known."""
        return as_text(found.instants, len(found.rows))

    def lines(self, found: Predictions) -> Iterator[str]:
        """A line of CSV for each row."""
        numbers = self._numbers(found)
        clean = np.isfinite(numbers).all()
        times: Iterable[tuple[str, ...]] = zip(self._times(found)) if self._timed else ((),) * len(found.rows)
        for row, time, values in zip(found.rows, times, numbers.tolist(), strict=True):
            line = self._line % (row, *time, *values)
            yield line if clean else line.replace("nan", "").replace("-inf", "").replace("inf", "")

    def objects(self, found: Predictions) -> Iterator[dict[str, Any]]:
        """An object for each row, with one of its own for each output; what is not known is None."""
        numbers = self._numbers(found)
        parts = ["prediction", "low", "high", "outcome"][: 3 + self._outcomes]
        times = self._times(found) if self._timed else []
        for i, (row, values) in enumerate(zip(found.rows, numbers.tolist(), strict=True)):
            known = [value if np.isfinite(value) else None for value in values]
            each = iter(known)
            outputs = {name: {part: next(each) for part in parts} for name in self._outputs}
            yield {self.names[0]: row, **({"time": times[i] or None} if self._timed else {}), **outputs}

    def arrays(self, found: Predictions) -> dict[str, Any]:
        """(n,) arrays by the names of the columns, nan where nothing is known."""
        columns: dict[str, Any] = {self.names[0]: np.array(found.rows, dtype=np.int64)}
        if self._timed:
            columns["time"] = dates(found.instants, len(found.rows))
        return columns | dict(zip(self.names[len(columns) :], self._numbers(found).T, strict=True))

    def table(self, found: Predictions) -> Any:
        """A table of pyarrow."""
        arrow = pyarrow()
        columns: list[Any] = [arrow.array(found.rows, arrow.int64())]
        if self._timed:
            columns.append(arrow.array(dates(found.instants, len(found.rows)).astype("datetime64[ms]")))
        numbers = self._numbers(found)
        # Not finite is not known, as in CSV.
        columns += [arrow.array(column, mask=~np.isfinite(column)) for column in numbers.T]
        # By position: an output may be called "row".
        return arrow.Table.from_arrays(columns, names=self.names)


def pyarrow() -> Any:
    """The module pyarrow, or a message that says what to install."""
    with required("Parquet files", "files"):
        import pyarrow as module
    return module


def csv_line(cells: Sequence[Any]) -> str:
    """A line of CSV, quoted where that is needed."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


def shown_name(name: str) -> str:
    """A name that no spreadsheet runs as a formula.

    >>> shown_name("=1+1"), shown_name("y")
    ("'=1+1", 'y')
    """
    return f"'{name}" if name.startswith(_FORMULA) else name


def safe_text(cell: str) -> str:
    """A cell that no spreadsheet runs as a formula; -1 is a number, and no formula.

    >>> safe_text("=1+1"), safe_text("-1")
    ("'=1+1", '-1')
    """
    return cell if not read_numbers([cell]).bad[0] else shown_name(cell)


def dates(instants: Array | None, n: int) -> Any:
    """(n,) times as NumPy's dates, NaT where not known."""
    return as_dates(np.full(n, np.nan) if instants is None else instants)


def as_text(instants: Array | None, n: int) -> list[str]:
    """Times of n rows as text, empty where not known."""
    if instants is None:
        return [""] * n
    return ["" if text == "NaT" else text for text in np.datetime_as_string(as_dates(instants)).tolist()]


# Columns of a file beside the predictions that were made from it.


class KeptColumns:
    """Predictions with columns of the file that they were made from, which stand first.

    Parameters
    ----------
    columns : those of the predictions
    keep : names of the columns to copy
    names, label : columns of the file, and its name
    """

    def __init__(self, columns: Any, keep: Sequence[str], names: Sequence[str], label: str) -> None:
        find_columns(keep, names, label)
        for name in keep:
            if name in columns.names:
                raise ValueError(f"keep {name!r}: the predictions have a column of that name already")
        self._columns, self._keep = columns, list(keep)
        self._places = [list(names).index(name) for name in keep]
        self.header = _before(keep, columns.header)

    def _cells(self, batch: Batch) -> list[Sequence[Any]]:
        return [batch.columns[place] for place in self._places]

    def lines(self, found: tuple[Any, Batch]) -> Iterator[str]:
        """A line of CSV for each row."""
        kept = zip(*self._cells(found[1]), strict=True)
        return (_before(cells, line) for cells, line in zip(kept, self._columns.lines(found[0]), strict=True))

    def objects(self, found: tuple[Any, Batch]) -> Iterator[dict[str, Any]]:
        """An object for each row."""
        kept = zip(*self._cells(found[1]), strict=True)
        for cells, row in zip(kept, self._columns.objects(found[0]), strict=True):
            yield {**dict(zip(self._keep, cells, strict=True)), **row}

    def arrays(self, found: tuple[Any, Batch]) -> dict[str, Any]:
        """(n,) arrays by the names of the columns; cells that are kept are as they stand in the file."""
        kept = {name: _as_array(cells) for name, cells in zip(self._keep, self._cells(found[1]), strict=True)}
        return {**kept, **self._columns.arrays(found[0])}

    def table(self, found: tuple[Any, Batch]) -> Any:
        """A table of pyarrow."""
        table = self._columns.table(found[0])
        for k, (name, cells) in enumerate(zip(self._keep, self._cells(found[1]), strict=True)):
            words = [None if cell is None else str(cell) for cell in cells]
            table = table.add_column(k, name, pyarrow().array(words, pyarrow().string()))
        return table


def _before(cells: Sequence[Any], line: str) -> str:
    """A line of CSV with cells before it."""
    return f"{csv_line([safe_text(cell) if isinstance(cell, str) else cell for cell in cells])[:-1]},{line}"


def _as_array(cells: Sequence[Any]) -> Any:
    """(n,) cells, of texts or of whatever they are."""
    if all(isinstance(cell, str) for cell in cells):
        return np.array(list(cells), dtype=np.str_)
    array = np.empty(len(cells), dtype=object)
    array[:] = list(cells)
    return array
