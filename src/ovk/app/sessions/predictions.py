"""Predictions of rows, their columns, and directories of predictions that match a checkpoint."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ovk._extras import required
from ovk.app.sessions.settings import check_bad_rows
from ovk.app.sessions.summary import bad_rows_note
from ovk.app.tables import Batch, Preparation, Prepared, Records, find_columns
from ovk.base import Array, Indices, as_dates, read_numbers
from ovk.evaluation import CLASSIFICATION, REGRESSION, RecentErrors, Standardised, printable, rows_needed
from ovk.persistence import remove_leftovers, replacing

#: Maximum number of bad rows kept with their faults; the others are only counted.
MAX_BAD_ROWS_KEPT = 200


class Predictions(NamedTuple):
    """Predictions of rows: numbers, or probabilities of classes.

    rows : number of each row in its file
    F : (n, d) predictions; for classes (n, K) probabilities of the labels, nan in rows that were skipped
    widths : (n, d) or (d,) half widths of the intervals, infinite after too few rows; None for classes
    Y : (n, d) outcomes, nan where missing; for classes (n, 1) numbers of the labels; None if the table has none
    instants : (n,) times of the rows in seconds since 1970, nan where unknown; None for a table without times
    labels : the K labels of classes; None for numbers
    """

    rows: list[int]
    F: Array
    widths: Array | None = None
    Y: Array | None = None
    instants: Array | None = None
    labels: list[str] | None = None

    @property
    def codes(self) -> Indices:
        """(n,) numbers of the predicted labels, -1 in rows that were skipped."""
        return CLASSIFICATION.compact(self.F).astype(np.intp)


def relative_to_lag(X: Array, preparation: Preparation, reference: int) -> tuple[Array, Array]:
    """Inputs X (n, p) with their lagged outputs as differences from the outputs `reference` rows earlier, and these.

    The latter are (n, d), nan where unknown. With reference 0, X and zeros. A function of the result is learned for the
    differences y_t - y_{t-r}:  f(u_t, y_{t-l}) = y_{t-r} + g(u_t, y_{t-l} - y_{t-r}).
    """
    lags, d = list(preparation.lags), len(preparation.targets)
    if not reference:
        return X, np.zeros((len(X), 1))
    start = X.shape[1] - d * len(lags)
    first = start + d * lags.index(reference)
    base = X[:, first : first + d]
    return np.hstack([X[:, :start], X[:, start:] - np.tile(np.nan_to_num(base), len(lags))]), base


class RowPredictor:
    """Predicts the rows of a table in order, without changing the model.

    Outputs in the rows are lags of the following rows: the preparation is a copy. `n_bad` rows so far had unreadable
    cells; `bad_rows` are the first of them. With a `reference` lag, the model learned differences from it.
    """

    def __init__(
        self, preparation: Preparation, scaling: Standardised, model: Any, recent: RecentErrors, reference: int = 0
    ) -> None:
        self._reference = reference
        self.preparation, self.recent = preparation.fork(), recent
        self._scaling, self._model = scaling, model
        self.n_bad = 0
        self.bad_rows: list[tuple[int, str]] = []

    def bind(self, names: Sequence[str], label: str) -> RowPredictor:
        """Set the order of the columns in the next batches; targets may be missing."""
        self.preparation.bind(names, label, predict=True)
        return self

    def with_model(self, model: Any) -> Callable[[Array], Array]:
        """A function from inputs (n, p) to outputs (n, d), or probabilities (n, K), by another model."""

        def predict(X: Array) -> Array:
            X, base = relative_to_lag(X, self.preparation, self._reference)
            scaled = self._scaling.scale_inputs(X)
            if self.preparation.classify:
                return CLASSIFICATION.predict(model, scaled.X, self.preparation.classes())
            return scaled.restore(REGRESSION.predict(model, scaled.X)) + np.nan_to_num(base)

        return predict

    def outputs(self, X: Array) -> Array:
        """(n, d) outputs of inputs (n, p) in the original units; for classes (n, K) probabilities of the labels."""
        return self.with_model(self._model)(X)

    def predict(self, batch: Batch, level: float | None = None) -> Predictions:
        """Predict rows; `level` is that of the intervals, by default the level of the settings."""
        rows: Prepared = self.preparation.prepare(batch)
        self.n_bad += len(rows.bad)
        self.bad_rows += rows.bad[: MAX_BAD_ROWS_KEPT - len(self.bad_rows)]
        labels, widths = None, None
        if self.preparation.classify:
            labels = list(self.preparation.classes())
        else:
            widths = self.recent.widths(self.recent.level if level is None else level)
        count = len(rows.chunk.targets) if labels is None else len(labels)
        F = self.outputs(rows.chunk.X) if len(rows.rows) else np.empty((0, count))
        Y = rows.chunk.Y if self.preparation.has_targets() else None
        return Predictions(rows.rows, F, widths, Y, rows.instants, labels)


#: Prefixes of a cell that spreadsheets interpret as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class PredictionColumns:
    """The columns of predictions: row, time, and for each output its prediction, interval and outcome.

    For classes: the label, its probability, the probabilities of all labels of the first rows, and the outcome. A label
    that occurs first in later rows can be predicted, but has no column.

    In CSV, predictions have 7 digits and outcomes up to 9, unknown values are empty cells, and a name that a
    spreadsheet would run as a formula gets an apostrophe as prefix. `first` is the name of the first column, the number
    of a row; `keep` maps columns of the file that are copied before it to their positions in a batch.
    """

    def __init__(
        self,
        outputs: Sequence[str],
        labels: Sequence[str] | None = None,
        *,
        timed: bool = False,
        outcomes: bool = False,
        first: str = "row",
        keep: Mapping[str, int] | None = None,
    ) -> None:
        self._keep = dict(keep or {})
        self.outputs, self._timed, self._outcomes = list(outputs), timed, outcomes
        self._count = 0 if labels is None else len(labels)
        columns = [*((name, "%s") for name in self._keep), (first, "%d"), *([("time", "%s")] if timed else [])]
        for name in outputs:
            if labels is None:
                columns += [(name, "%.7g"), (f"{name} lower", "%.7g"), (f"{name} upper", "%.7g")]
            else:
                columns += [(name, "%s"), ("probability", "%.6g"), *((f"{name}={label}", "%.6g") for label in labels)]
            if outcomes:
                columns.append((f"{name} outcome", "%.9g" if labels is None else "%s"))
        self.names, self._forms = ([*part] for part in zip(*columns, strict=True))
        kept = [safe_text(name) for name in self._keep]
        # Names of classes come from the data; an escape sequence in one would reach the terminal.
        shown = map(printable, [*kept, *(escape_formula(name) for name in self.names[len(kept) :])])
        self.header = csv_line(list(shown))

    def values(self, found: Predictions, batch: Batch | None = None) -> list[Any]:
        """(n,) arrays in the order of the names; unknown numbers are not finite, unknown labels are None.

        `batch` are the rows of the file, of which columns are copied.
        """
        n = len(found.rows)
        columns = [] if batch is None else [_as_array(batch.columns[place]) for place in self._keep.values()]
        columns.append(np.array(found.rows, dtype=np.int64))
        if self._timed:
            columns.append(as_dates(np.full(n, np.nan) if found.instants is None else found.instants))
        if found.labels is None:
            assert found.widths is not None
            numbers = [found.F, found.F - found.widths, found.F + found.widths]
            if self._outcomes:
                numbers.append(np.full(found.F.shape, np.nan) if found.Y is None else found.Y)
            return columns + list(np.stack(numbers, axis=-1).reshape(n, -1).T)
        codes, labels = found.codes, np.array([*found.labels, None], dtype=object)
        columns += [labels[codes], found.F[np.arange(n), codes], *found.F[:, : self._count].T]
        if self._outcomes:
            known = np.full(n, -1.0) if found.Y is None else np.nan_to_num(found.Y[:, 0], nan=-1.0)
            columns.append(labels[known.astype(np.intp)])
        return columns

    def lines(self, *found: Any) -> Iterator[str]:
        """A line of CSV for each row; the arguments are those of `values`."""
        pairs = [_csv_cells(*pair) for pair in zip(self.values(*found), self._forms, strict=True)]
        line = ",".join(form for _, form in pairs) + "\n"
        return (line % cells for cells in zip(*(cells for cells, _ in pairs), strict=True))

    def objects(self, found: Predictions, batch: Batch | None = None) -> Iterator[dict[str, Any]]:
        """A dict for each row, with a nested dict for each output; unknown values are None."""
        columns = [_cells(column) for column in self.values(found, batch)]
        lead = len(self._keep) + 1 + self._timed
        names = ["prediction", "lower", "upper", *(["outcome"] if self._outcomes else [])]
        for i, cells in enumerate(zip(*columns, strict=True)):
            if found.labels is None:
                each = iter(cells[lead:])
                outputs: dict[str, Any] = {output: {name: next(each) for name in names} for output in self.outputs}
            else:
                shares = dict(zip(found.labels, found.F[i].tolist(), strict=True))
                outcome = {"outcome": cells[-1]} if self._outcomes else {}
                outputs = {self.outputs[0]: {"label": cells[lead], "probability": shares, **outcome}}
            yield {**dict(zip(self.names[:lead], cells, strict=False)), **outputs}

    def table(self, *found: Any) -> Any:
        with required("Parquet files", "files"):
            import pyarrow as arrow
        # By position: an output may be named "row".
        columns = [_arrow_column(arrow, column) for column in self.values(*found)]
        return arrow.Table.from_arrays(columns, names=self.names)


def _as_array(cells: Sequence[Any]) -> Any:
    if all(isinstance(cell, str) for cell in cells):
        return np.array(list(cells), dtype=np.str_)
    array = np.empty(len(cells), dtype=object)
    array[:] = list(cells)
    return array


def _cells(values: Any) -> list[Any]:
    """The cells of a column: numbers and texts, None where unknown."""
    if values.dtype.kind == "M":
        return [None if text == "NaT" else text for text in np.datetime_as_string(values).tolist()]
    if values.dtype.kind == "f" and not (known := np.isfinite(values)).all():
        return [value if seen else None for value, seen in zip(values.tolist(), known, strict=True)]
    return list(values.tolist())


def _csv_cells(values: Any, form: str) -> tuple[list[Any], str]:
    """The cells of a column and the format of each: text if any is unknown."""
    cells = _cells(values)
    if values.dtype.kind in "OU":
        text = {cell: csv_line([safe_text(cell), ""])[:-2] for cell in {*map(str, cells)}}
        cells = [None if cell is None else text[str(cell)] for cell in cells]
    if None in cells:
        return ["" if cell is None else form % cell for cell in cells], "%s"
    return cells, form


def _arrow_column(arrow: Any, values: Any) -> Any:
    if values.dtype.kind == "f":
        return arrow.array(values, mask=~np.isfinite(values))
    if values.dtype.kind in "OU":
        return arrow.array([None if cell is None else str(cell) for cell in values.tolist()], arrow.string())
    return arrow.array(values.astype("datetime64[ms]") if values.dtype.kind == "M" else values)


def csv_line(cells: Sequence[Any]) -> str:
    text = io.StringIO()
    # Before Python 3.13 a carriage return is quoted only if it ends lines.
    csv.writer(text, lineterminator="\r\n").writerow(cells)
    return text.getvalue()[:-2] + "\n"


def escape_formula(cell: str) -> str:
    """A cell that no spreadsheet runs as a formula."""
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def safe_text(cell: str) -> str:
    # -1 is a number, not a formula.
    return cell if not read_numbers([cell]).bad[0] else escape_formula(cell)


#: Rows of a file that are predicted at a time.
PREDICTED_BLOCK = 4096

#: Maximum number of unknown words of a column that a warning lists.
MAX_WORDS_LISTED = 5


class FilePredictions:
    """Iterates once over the batches of an opened file and their predictions; `columns` describes the predictions.

    `model` is a `LearnedTable`; the other arguments are those of its `predict_file`.
    """

    def __init__(
        self, model: Any, records: Records, level: float | None, max_bad: float, keep: Sequence[str] = ()
    ) -> None:
        self._model, self._predictor = model, model.predictor().bind(records.names, records.label)
        self._records, self._level, self._max_bad = records, level, max_bad
        self._preparation: Preparation = self._predictor.preparation
        find_columns(keep, records.names, records.label)
        places = {name: list(records.names).index(name) for name in keep}
        self.columns = model.prediction_columns(outcomes=self._preparation.has_targets(), keep=places)
        for name in keep:
            if self.columns.names.count(name) > 1:
                raise ValueError(f"keep {name!r} clashes with a column of the predictions")
        self._unknown: dict[str, Counter[str]] = {}

    def __iter__(self) -> Iterator[tuple[Predictions, Batch]]:
        total = 0
        for batch in self._records.batches(PREDICTED_BLOCK):
            found = self._predictor.predict(batch, self._level)
            total += len(batch.rows) + len(batch.bad)
            if self._predictor.n_bad:
                last = self._predictor.bad_rows[-1]
                check_bad_rows(self._predictor.n_bad, total, last, self._records.label, self._max_bad)
            for name, words in self._preparation.unknown_words(batch).items():
                self._unknown.setdefault(name, Counter()).update(words)
            yield found, batch

    def warnings(self) -> list[str]:
        """Sentences about unreadable cells, unknown words and unknown intervals in the rows so far."""
        predictor = self._predictor
        return [
            *([bad_rows_note(predictor.n_bad, predictor.bad_rows)] if predictor.n_bad else []),
            *(_unknown_words(name, words) for name, words in self._unknown.items()),
            *([] if self._model.settings.classify else self._unknown_intervals()),
        ]

    def _unknown_intervals(self) -> Iterator[str]:
        settings, recent = self._model.settings, self._model.recent
        level = recent.level if self._level is None else self._level
        unknown = ~np.isfinite(recent.widths(level))
        if unknown.any():
            names = ", ".join(repr(str(name)) for name in np.asarray(self._preparation.targets)[unknown])
            of = "errors on unseen rows" if settings.groups is None else "groups"
            yield (
                f"{100 * level:g}% intervals require at least {rows_needed(level):,} {of}: the bounds of {names} are "
                "empty. Learn more rows, or pass a lower level (level, --level)."
            )


def _unknown_words(name: str, words: Counter[str]) -> str:
    more = ", ..." if len(words) > MAX_WORDS_LISTED else ""
    shown = ", ".join(repr(word[:40]) for word, _ in words.most_common(MAX_WORDS_LISTED)) + more
    rows = words.total()
    return (
        f"Column {name!r} contains categories that were never learned ({shown}) in {rows:,} "
        f"row{'s' if rows > 1 else ''}, predicted without a category."
    )


# A directory of predictions consists of files, called parts; a checkpoint records how many of them are valid. An
# incomplete part is written again with the rows that it had, so its bytes must depend on the rows alone: CSV is
# appended to, and a Parquet file is written as one row group.


class CsvPart:
    ending = ".csv"

    def __init__(self, columns: PredictionColumns) -> None:
        self._columns, self._text = columns, [columns.header]

    def add(self, found: Predictions) -> None:
        self._text += self._columns.lines(found)

    def restore(self, path: Path, rows: int) -> bool:
        """Start with the first rows of a file; False if it has fewer."""
        text, header = path.read_text(encoding="utf-8"), self._columns.header
        lines = text.removeprefix(header).splitlines(keepends=True)[:rows]
        self._text = [header, *lines]
        return text.startswith(header) and len(lines) == rows

    def begins(self, path: Path) -> bool:
        """Whether a file starts with these rows."""
        return path.read_bytes().startswith("".join(self._text).encode())

    def write(self, file: BinaryIO) -> None:
        file.write("".join(self._text).encode())


class ParquetPart:
    """Rows of one Parquet file, with the methods of `CsvPart`."""

    ending = ".parquet"

    def __init__(self, columns: PredictionColumns) -> None:
        self._columns = columns
        self._tables: list[Any] = []

    def add(self, found: Predictions) -> None:
        self._tables.append(self._columns.table(found))

    def restore(self, path: Path, rows: int) -> bool:
        found = _first_rows(path, rows)
        self._tables = [found]
        return found is not None and found.num_rows == rows and found.column_names == self._columns.names

    def begins(self, path: Path) -> bool:
        table = self._table()
        found = _first_rows(path, table.num_rows)
        return found is not None and bool(found.equals(table))

    def write(self, file: BinaryIO) -> None:
        from pyarrow import parquet

        table = self._table()
        parquet.write_table(table, file, row_group_size=max(table.num_rows, 1))

    def _table(self) -> Any:
        import pyarrow

        # In a block without known values, a column has no type.
        self._tables = [pyarrow.concat_tables(self._tables, promote_options="default").combine_chunks()]
        return self._tables[0]


def _first_rows(path: Path, rows: int) -> Any:
    """The first rows of a Parquet file; None if it is damaged."""
    from pyarrow import lib, parquet

    try:
        return parquet.read_table(path).slice(0, rows)
    except lib.ArrowException:
        return None


_NAME = re.compile(r"part-(\d{6})(\.csv|\.parquet)")

#: The file that identifies the session to which the parts in a directory belong.
MANIFEST = "manifest.json"


class SessionMismatchError(ValueError):
    """Raised when a directory contains predictions of another session.

    See Also
    --------
    learn

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.app.sessions import SessionMismatchError, Settings, learn
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     for name in "ab":
    ...         with open(path := os.path.join(directory, f"{name}.csv"), "w") as file:
    ...             _ = file.write(f"x,y\\n1,{ord(name)}\\n" + "".join(f"{i},{i}\\n" for i in range(50)))
    ...         try:
    ...             _ = learn(path, Settings(["y"]), predictions=os.path.join(directory, "found"))
    ...         except SessionMismatchError as error:
    ...             print(str(error).split(": ")[-1])
    check the names of model and directory, or use another directory
    """


class PredictionDirectory:
    """A directory of files part-000000.csv, part-000001.csv, ... (or .parquet), each written atomically.

    The file manifest.json identifies the session of the parts; a directory of another session is not changed.

    The last part may be incomplete, if a session was interrupted or its file ended between two checkpoints. It is
    written again at the next checkpoint, so that the final parts are those of a session that was never interrupted.

    `session` is the identifier of the session, `model` its file; `files` parts belong to its state, with `lines` rows
    in the last one if it is incomplete. Only a `resumed` session may find parts in the directory: if it has none yet,
    there may be one, left by a run with the same `model` that was killed before its first checkpoint.
    """

    def __init__(
        self,
        directory: str | Path,
        columns: PredictionColumns,
        session: str,
        *,
        files: int = 0,
        lines: int = 0,
        model: str | Path | None = None,
        parquet: bool = False,
        resumed: bool = False,
    ) -> None:
        self.directory, self.files, self.lines = Path(directory), files, lines
        self._columns = columns
        self._kind = ParquetPart if parquet else CsvPart
        # Number of the part that is being written.
        self._number = files - 1 if lines else files
        path = None if model is None else os.path.abspath(model)
        numbers = self._numbers()
        if numbers:
            self._check(numbers, session, path, resumed)
        self._part: CsvPart | ParquetPart = self._kind(self._columns)
        if lines and numbers:
            # Continue with the rows of the incomplete part that belong to the session.
            if not self._path().exists() or not self._part.restore(self._path(), lines):
                raise SessionMismatchError(
                    f"{self._path()} was removed or changed: it does not contain the {lines} predictions of the model; "
                    "use another directory"
                )
        else:
            self.lines = 0
        self.directory.mkdir(parents=True, exist_ok=True)
        remove_leftovers(str(self.directory))
        manifest = json.dumps({"session": session, "model": path, "outputs": columns.outputs}, indent=2) + "\n"
        with replacing(str(self.directory / MANIFEST)) as file:
            file.write(manifest.encode())

    def _numbers(self) -> list[int]:
        """Numbers of the existing parts, which must have the right format."""
        names = [path.name for path in self.directory.iterdir()] if self.directory.is_dir() else []
        found = [match for match in map(_NAME.fullmatch, names) if match]
        if any(match[2] != self._kind.ending for match in found):
            advice = f"{'pass' if self._kind is CsvPart else 'omit'} --parquet (parquet=True)"
            raise SessionMismatchError(
                f"{self.directory} contains files of the other format, such as {found[0][0]}: {advice}"
            )
        return sorted(int(match[1]) for match in found)

    def _check(self, numbers: list[int], session: str, path: str | None, resumed: bool) -> None:
        try:
            manifest = json.loads((self.directory / MANIFEST).read_text(encoding="utf-8"))
            owner, home = manifest["session"], manifest["model"]
        except (OSError, ValueError, KeyError, TypeError):
            owner, home = None, None
        belongs = f" of {home}" if home else ""
        if owner != session:
            raise SessionMismatchError(
                f"{self.directory} contains predictions of another session{belongs}: check the names of model and "
                "directory, or use another directory"
            )
        if not resumed or (not self.files and path != home):
            raise SessionMismatchError(
                f"{self.directory} already contains predictions{belongs}: use another directory, or resume that model "
                "(--resume)"
            )
        # A killed run leaves at most one part more than its model records.
        if numbers[-1] > self._number:
            raise SessionMismatchError(
                f"{self.directory} contains {numbers[-1] - self._number} more files than the model has written, from a "
                f"later state{belongs}: resume that state, or use another directory"
            )

    def _path(self) -> Path:
        return self.directory / f"part-{self._number:06d}{self._kind.ending}"

    def add(self, predictions: Predictions) -> None:
        self._part.add(predictions)
        self.lines += len(predictions.rows)

    def commit(self, *, finished: bool = True) -> None:
        """Write the current part if it has rows; a `finished` one is complete."""
        if not self.lines:
            return
        path = self._path()
        # The existing file may be longer, if a previous run was killed after this point.
        if finished or not path.exists() or not self._part.begins(path):
            with replacing(str(path)) as file:
                self._part.write(file)
        self.files = self._number + 1
        if finished:
            self._number, self.lines, self._part = self.files, 0, self._kind(self._columns)


class PrintedPredictions:
    """Prints predictions as CSV to standard output."""

    files = lines = 0

    def __init__(self, columns: PredictionColumns) -> None:
        self._columns = columns
        sys.stdout.write(self._columns.header)

    def add(self, predictions: Predictions) -> None:
        sys.stdout.writelines(self._columns.lines(predictions))
        sys.stdout.flush()

    def commit(self, *, finished: bool = True) -> None:
        """Nothing remains to be written."""
