"""Predictions of rows: how they are made, written as columns, and kept in files that a checkpoint can trust."""

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
from ovk.evaluation import CLASSIFICATION, REGRESSION, RecentErrors, Standardised, rows_needed
from ovk.persistence import remove_leftovers, replacing

#: Bad rows that are remembered with what is wrong in them; of the others only the number.
MAX_BAD_ROWS_KEPT = 200


class Predictions(NamedTuple):
    """Predictions of rows: numbers, or probabilities of classes.

    rows : number of each row in its file
    F : (n, d) predictions; of classes the (n, K) probabilities of the labels, nan in rows that were skipped
    widths : (n, d) half widths of their intervals, or (d,) if all are the same; infinite before enough was seen; None
        for classes
    Y : (n, d) outcomes, nan where missing; of classes (n, 1) numbers of the labels; None if the table has none
    instants : (n,) when the rows were, in seconds since 1970, nan where not known; None for a table without times
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


class RowPredictor:
    """Predicts the rows of a table, in their order, by what was learned, which stays as it is.

    Outputs that stand in the rows serve as lags of the rows after them: the preparation is a copy. `n_bad` rows so far
    had unreadable cells; `bad_rows` are the first of them.
    """

    def __init__(self, preparation: Preparation, scaling: Standardised, model: Any, recent: RecentErrors) -> None:
        self.preparation, self.recent = preparation.fork(), recent
        self._scaling, self._model = scaling, model
        self.n_bad = 0
        self.bad_rows: list[tuple[int, str]] = []

    def bind(self, names: Sequence[str], label: str) -> RowPredictor:
        """Say in which order the columns of the batches to come stand; targets may be missing."""
        self.preparation.bind(names, label, predict=True)
        return self

    def with_model(self, model: Any) -> Callable[[Array], Array]:
        """(n, d) outputs, or (n, K) probabilities, of inputs (n, p) by another model of the same kind."""

        def predict(X: Array) -> Array:
            scaled = self._scaling.scale_inputs(X)
            if self.preparation.classify:
                return CLASSIFICATION.predict(model, scaled.X, self.preparation.classes())
            return scaled.restore(REGRESSION.predict(model, scaled.X))

        return predict

    def outputs(self, X: Array) -> Array:
        """(n, d) outputs of inputs (n, p), in the original units; of classes (n, K) probabilities of the labels."""
        return self.with_model(self._model)(X)

    def predict(self, batch: Batch, level: float | None = None) -> Predictions:
        """Predict rows, numbers with intervals of that level, by default of the level that was learned with."""
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


# Predictions as columns with names: lines of CSV, objects of JSON lines, a Parquet file.

#: Beginnings of a name that spreadsheets take for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class PredictionColumns:
    """The columns of predictions: row, time, and for each output its prediction, the ends of its interval, its outcome.

    Of classes there are the label, its probability, those of all labels, and the outcome. The labels with a column are
    those that were known from the first rows; one that came later may be predicted like them, and its probability is
    what theirs leave.

    In CSV, predictions have 7 digits and outcomes up to 9, what is not known is an empty cell, and a name that a
    spreadsheet would run as a formula begins with a quotation mark. `first` is the name of the first column, the number
    of a row; `keep` has the columns of the file that are copied before it, by name, with their places in a batch.
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
        last = [" outcome"] if outcomes else []
        if labels is None:
            ends, forms = ["", " low", " high", *last], ["%.7g"] * 3 + ["%.9g"] * outcomes
        else:
            ends = ["", *(f"={label}" for label in labels), *last]
            forms = ["%s"] + ["%.6g"] * (1 + len(labels)) + ["%s"] * outcomes
        names = [f"{name}{end}" for name in outputs for end in ends]
        if labels is not None:
            names.insert(1, "probability")
        self.names = [*self._keep, first, *(["time"] if timed else []), *names]
        kept = [safe_text(name) for name in self._keep]
        self.header = csv_line([*kept, *(shown_name(name) for name in self.names[len(kept) :])])
        self._forms = [*["%s"] * len(kept), "%d", *(["%s"] if timed else []), *forms * len(self.outputs)]

    def values(self, found: Predictions, batch: Batch | None = None) -> list[Any]:
        """(n,) arrays of the columns, in the order of the names: unknown numbers are not finite, labels None.

        `batch` are the rows of the file, where columns of it are kept.
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
        codes = found.codes
        columns += [_labels(found.labels, codes), found.F[np.arange(n), codes], *found.F[:, : self._count].T]
        if self._outcomes:
            known = np.full(n, -1.0) if found.Y is None else np.nan_to_num(found.Y[:, 0], nan=-1.0)
            columns.append(_labels(found.labels, known.astype(np.intp)))
        return columns

    def lines(self, *found: Any) -> Iterator[str]:
        """A line of CSV for each row of `Predictions`, with their batch where columns of it are kept."""
        pairs = [_csv_cells(*pair) for pair in zip(self.values(*found), self._forms, strict=True)]
        line = ",".join(form for _, form in pairs) + "\n"
        return (line % cells for cells in zip(*(cells for cells, _ in pairs), strict=True))

    def objects(self, found: Predictions, batch: Batch | None = None) -> Iterator[dict[str, Any]]:
        """An object for each row, with one of its own for each output; what is not known is None."""
        columns = [_json_cells(column) for column in self.values(found, batch)]
        lead = len(self._keep) + 1 + self._timed
        names = ["prediction", "low", "high", *(["outcome"] if self._outcomes else [])]
        for i, cells in enumerate(zip(*columns, strict=True)):
            if found.labels is None:
                each = iter(cells[lead:])
                outputs: dict[str, Any] = {output: {name: next(each) for name in names} for output in self.outputs}
            else:
                shares = dict(zip(found.labels, found.F[i].tolist(), strict=True))
                outcome = {"outcome": cells[-1]} if self._outcomes else {}
                outputs = {self.outputs[0]: {"label": cells[lead], "probability": shares, **outcome}}
            yield {**dict(zip(self.names[:lead], cells, strict=False)), **outputs}

    def arrays(self, *found: Any) -> dict[str, Any]:
        """(n,) arrays by the names of the columns, nan where nothing is known; kept cells are as in the file."""
        return dict(zip(self.names, self.values(*found), strict=True))

    def table(self, *found: Any) -> Any:
        """A table of pyarrow."""
        with required("Parquet files", "files"):
            import pyarrow as arrow
        # By position: an output may be called "row". Not finite is not known, as in CSV.
        columns = [_arrow_column(arrow, column) for column in self.values(*found)]
        return arrow.Table.from_arrays(columns, names=self.names)


def _as_array(cells: Sequence[Any]) -> Any:
    """(n,) cells, of texts or of whatever they are."""
    if all(isinstance(cell, str) for cell in cells):
        return np.array(list(cells), dtype=np.str_)
    array = np.empty(len(cells), dtype=object)
    array[:] = list(cells)
    return array


def _labels(labels: list[str], codes: Indices) -> Any:
    """(n,) labels by their numbers, None for -1."""
    return np.array([*labels, None], dtype=object)[codes]


def _csv_cells(values: Any, form: str) -> tuple[list[Any], str]:
    """The cells of a column, and how each is written: as text where one is not known."""
    if values.dtype.kind == "f":
        known = np.isfinite(values)
        if known.all():
            return values.tolist(), form
        return [form % value if seen else "" for value, seen in zip(values.tolist(), known, strict=True)], "%s"
    if values.dtype.kind in "OU":
        text = {cell: csv_line([safe_text(cell), ""])[:-2] for cell in {*map(str, values.tolist())}}
        return ["" if cell is None else text[str(cell)] for cell in values.tolist()], form
    if values.dtype.kind == "M":
        return ["" if text == "NaT" else text for text in np.datetime_as_string(values).tolist()], form
    return values.tolist(), form


def _json_cells(values: Any) -> list[Any]:
    """The cells of a column, None where one is not known."""
    if values.dtype.kind == "M":
        return [None if text == "NaT" else text for text in np.datetime_as_string(values).tolist()]
    if values.dtype.kind == "f":
        return [value if known else None for value, known in zip(values.tolist(), np.isfinite(values), strict=True)]
    return list(values.tolist())


def _arrow_column(arrow: Any, values: Any) -> Any:
    if values.dtype.kind == "f":
        return arrow.array(values, mask=~np.isfinite(values))
    if values.dtype.kind in "OU":
        return arrow.array([None if cell is None else str(cell) for cell in values.tolist()], arrow.string())
    return arrow.array(values.astype("datetime64[ms]") if values.dtype.kind == "M" else values)


def csv_line(cells: Sequence[Any]) -> str:
    """A line of CSV, quoted where that is needed."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


def shown_name(name: str) -> str:
    """A name that no spreadsheet runs as a formula."""
    return f"'{name}" if name.startswith(_FORMULA) else name


def safe_text(cell: str) -> str:
    """A cell that no spreadsheet runs as a formula; -1 is a number, and no formula.

    >>> safe_text("=1+1"), safe_text("-1")
    ("'=1+1", '-1')
    """
    return cell if not read_numbers([cell]).bad[0] else shown_name(cell)


# The rows of a whole file, with what could not be read in it or was never learned.

#: Rows read at a time.
BLOCK = 4096

#: Unknown words of a column that are named.
MAX_WORDS_NAMED = 5


class FilePredictions:
    """The rows of an opened file with their predictions, batch by batch, once; `columns` say how they are written.

    The `model` is a `LearnedTable`, the other arguments are those of its `predict_file`.
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
                raise ValueError(f"keep {name!r}: the predictions have a column of that name already")
        self._unknown: dict[str, Counter[str]] = {}

    def __iter__(self) -> Iterator[tuple[Predictions, Batch]]:
        total = 0
        for batch in self._records.batches(BLOCK):
            found = self._predictor.predict(batch, self._level)
            total += len(batch.rows) + len(batch.bad)
            if self._predictor.n_bad:
                last = self._predictor.bad_rows[-1]
                check_bad_rows(self._predictor.n_bad, total, last, self._records.label, self._max_bad)
            for name, words in self._preparation.unknown_words(batch).items():
                self._unknown.setdefault(name, Counter()).update(words)
            yield found, batch

    def warnings(self) -> list[str]:
        """What was unreadable or unknown in the rows so far, in sentences."""
        predictor = self._predictor
        return [
            *([bad_rows_note(predictor.n_bad, predictor.bad_rows)] if predictor.n_bad else []),
            *(_unknown_words(name, words) for name, words in self._unknown.items()),
            *self._unknown_intervals(),
        ]

    def _unknown_intervals(self) -> Iterator[str]:
        """Of which outputs the intervals are unknown, for want of errors."""
        settings, recent = self._model.settings, self._model.recent
        if settings.classify:
            return
        level = recent.level if self._level is None else self._level
        unknown = ~np.isfinite(recent.widths(level))
        if unknown.any():
            names = ", ".join(repr(str(name)) for name in np.asarray(self._preparation.targets)[unknown])
            of = "errors of rows that were not learned yet" if settings.groups is None else "groups"
            yield (
                f"Intervals of {100 * level:g}% need at least {rows_needed(level):,} {of}, and there are fewer for "
                f"{names}: their bounds are empty. Learn more rows, or ask for a lower level (level, --level)."
            )


def _unknown_words(name: str, words: Counter[str]) -> str:
    """Which words of a column of categories were never learned."""
    more = ", ..." if len(words) > MAX_WORDS_NAMED else ""
    shown = ", ".join(repr(word[:40]) for word, _ in words.most_common(MAX_WORDS_NAMED)) + more
    rows = words.total()
    some = f"{rows:,} row{'s' if rows > 1 else ''}"
    return (
        f"Column {name!r} holds {shown} in {some}, which {'is' if len(words) == 1 else 'are'} not among the categories "
        f"that were learned: {'these rows were' if rows > 1 else 'this row was'} predicted without a category."
    )


# A folder of predictions, in parts: files of which a checkpoint says how many are valid.
#
# A part that was interrupted is written again with the rows that it had, so its bytes must depend on the rows alone:
# CSV is text that grows, and a Parquet file is written as one row group.


class CsvPart:
    """Lines of CSV after a header."""

    ending = ".csv"

    def __init__(self, columns: PredictionColumns) -> None:
        self._columns, self._text = columns, [columns.header]

    def add(self, found: Predictions) -> None:
        self._text += self._columns.lines(found)

    def restore(self, path: Path, rows: int) -> bool:
        """Begin with the first rows of a file; False if it does not hold so many."""
        text, header = path.read_text(encoding="utf-8"), self._columns.header
        lines = text.removeprefix(header).splitlines(keepends=True)[:rows]
        self._text = [header, *lines]
        return text.startswith(header) and len(lines) == rows

    def begins(self, path: Path) -> bool:
        """Whether a file holds these rows, and perhaps more."""
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

        # A column that was nowhere known in a block has no type there.
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

#: The file that says to which session the parts in a folder belong.
MANIFEST = "manifest.json"


class OtherSession(ValueError):
    """A folder holds predictions that are not those of the session at hand."""


class PredictionFolder:
    """A folder of files part-000000.csv, part-000001.csv, ... (or .parquet), each complete or not there.

    A row holds the number of a row in its file, its time if it has one, then the predictions, the ends of their
    intervals and the outcomes. The file manifest.json says which session the parts belong to: nothing in a folder of
    another one is touched.

    The last part may be unfinished, where a session was interrupted or its file ended between two checkpoints. It is
    written again, with the lines that it has, when the session has come to its checkpoint: in the end the parts are
    those of a session that was never interrupted.

    `session` is its identifier, `model` its file; `files` parts belong to its state, and `lines` of the last of them if
    that is unfinished. Only a session that is `resumed` may find parts in the folder: if it knows none, there may be
    one, left by a run with the same `model` that was killed before its first checkpoint.
    """

    def __init__(
        self,
        folder: str | Path,
        columns: PredictionColumns,
        session: str,
        *,
        files: int = 0,
        lines: int = 0,
        model: str | Path | None = None,
        parquet: bool = False,
        resumed: bool = False,
    ) -> None:
        self.folder, self.files, self.lines = Path(folder), files, lines
        self._columns = columns
        self._kind = ParquetPart if parquet else CsvPart
        #: Number of the part that is being written.
        self._number = files - 1 if lines else files
        path = None if model is None else os.path.abspath(model)
        numbers = self._numbers()
        if numbers:
            self._check(numbers, session, path, resumed)
        self._part: CsvPart | ParquetPart = self._kind(self._columns)
        if lines and numbers:
            # Go on with the rows of the unfinished part that belong to the session.
            if not self._path().exists() or not self._part.restore(self._path(), lines):
                raise OtherSession(
                    f"{self._path()} does not hold the {lines} predictions that the model knows of: it was removed or "
                    "changed; give another folder"
                )
        else:
            self.lines = 0
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(str(self.folder))
        manifest = json.dumps({"session": session, "model": path, "outputs": columns.outputs}, indent=2) + "\n"
        with replacing(str(self.folder / MANIFEST)) as file:
            file.write(manifest.encode())

    def _numbers(self) -> list[int]:
        """Numbers of the parts that are there; an error where they are of the other kind."""
        names = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        found = [match for match in map(_NAME.fullmatch, names) if match]
        if any(match[2] != self._kind.ending for match in found):
            cure = "give --parquet (parquet=True)" if self._kind is CsvPart else "leave --parquet (parquet=True) out"
            raise OtherSession(f"{self.folder} holds parts of the other kind, such as {found[0][0]}: {cure}")
        return sorted(int(match[1]) for match in found)

    def _check(self, numbers: list[int], session: str, path: str | None, resumed: bool) -> None:
        """Refuse a folder whose parts do not belong to this state of this session."""
        try:
            manifest = json.loads((self.folder / MANIFEST).read_text(encoding="utf-8"))
            owner, home = manifest["session"], manifest["model"]
        except (OSError, ValueError, KeyError, TypeError):
            owner, home = None, None
        belongs = f" of {home}" if home else ""
        if owner != session:
            raise OtherSession(
                f"{self.folder} holds the predictions of another session{belongs}: check the names of the model and "
                "of the folder, or give another folder"
            )
        if not resumed or (not self.files and path != home):
            raise OtherSession(
                f"{self.folder} holds predictions already{belongs}: give another folder, or go on with the model they "
                "belong to (--resume)"
            )
        # A run that is killed leaves at most the one part that it wrote last, before it could save the model.
        if numbers[-1] > self._number:
            raise OtherSession(
                f"{self.folder} holds {numbers[-1] - self._number} parts more than the model knows of: it belongs to a "
                f"later state of the model{belongs}; go on with that, or give another folder"
            )

    def _path(self) -> Path:
        return self.folder / f"part-{self._number:06d}{self._kind.ending}"

    def add(self, predictions: Predictions) -> None:
        """Add predictions to the part that is being written."""
        self._part.add(predictions)
        self.lines += len(predictions.rows)

    def commit(self, *, finished: bool = True) -> None:
        """Write the part, if there is anything in it. An unfinished one is gone on with."""
        if not self.lines:
            return
        path = self._path()
        # What is there already may be longer, by a run that was killed later than this one is interrupted.
        if finished or not path.exists() or not self._part.begins(path):
            with replacing(str(path)) as file:
                self._part.write(file)
        self.files = self._number + 1
        if finished:
            self._number, self.lines, self._part = self.files, 0, self._kind(self._columns)


class PrintedPredictions:
    """Predictions as lines of CSV on standard output, each as soon as it is made."""

    #: What a session keeps of a folder of predictions; there is none.
    files = lines = 0

    def __init__(self, columns: PredictionColumns) -> None:
        self._columns = columns
        sys.stdout.write(self._columns.header)

    def add(self, predictions: Predictions) -> None:
        """Print predictions."""
        sys.stdout.writelines(self._columns.lines(predictions))
        sys.stdout.flush()

    def commit(self, *, finished: bool = True) -> None:
        """Everything is printed by now."""
