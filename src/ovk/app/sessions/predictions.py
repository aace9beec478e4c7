"""Predictions of the rows of a file with intervals, and their files, of which a checkpoint says how many are valid."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ovk.app.sessions.columns import PredictionColumns, as_text, csv_line, dates, pyarrow, safe_text, shown_name
from ovk.app.sessions.remarks import REMEMBERED
from ovk.app.tables import Batch, Preparation, Prepared
from ovk.base import Array, Indices
from ovk.evaluation import RecentErrors, Standardised
from ovk.persistence import remove_leftovers, replacing

# One part of the predictions while it grows, as CSV or as Parquet.
#
# A part that was interrupted is written again with the rows that it had, so its bytes must depend on the rows alone:
# CSV
# is text that grows, and a Parquet file is written as one row group.


class CsvPart:
    """Lines of CSV behind a header.

    Parameters
    ----------
    columns : how predictions are written
    """

    ending = ".csv"

    def __init__(self, columns: Any) -> None:
        self._columns = columns
        self._text: list[str] = []

    def add(self, found: Any) -> None:
        """Add predictions."""
        self._text.append("".join(self._columns.lines(found)))

    def restore(self, path: Path, rows: int) -> bool:
        """Begin with the first rows of a file; False if it does not hold so many."""
        text = path.read_text(encoding="utf-8")
        lines = text.removeprefix(self._columns.header).splitlines(keepends=True)[:rows]
        self._text = ["".join(lines)]
        return text.startswith(self._columns.header) and len(lines) == rows

    def begins(self, path: Path) -> bool:
        """Whether a file holds these rows, and perhaps more."""
        return path.read_bytes().startswith(self._content())

    def write(self, file: BinaryIO) -> None:
        """Write the part."""
        file.write(self._content())

    def _content(self) -> bytes:
        header: str = self._columns.header
        return (header + "".join(self._text)).encode()


class ParquetPart:
    """Rows of one Parquet file.

    Parameters
    ----------
    columns : how predictions are written
    """

    ending = ".parquet"

    def __init__(self, columns: Any) -> None:
        self._columns = columns
        self._tables: list[Any] = []

    def add(self, found: Any) -> None:
        """Add predictions."""
        self._tables.append(self._columns.table(found))

    def restore(self, path: Path, rows: int) -> bool:
        """Begin with the first rows of a file; False if it does not hold so many."""
        from pyarrow import lib, parquet

        try:
            self._tables = [parquet.read_table(path).slice(0, rows)]
        except lib.ArrowException:
            return False
        return bool(self._tables[0].num_rows == rows and self._tables[0].column_names == self._columns.names)

    def begins(self, path: Path) -> bool:
        """Whether a file holds these rows, and perhaps more."""
        from pyarrow import lib, parquet

        table = self._table()
        try:
            return bool(parquet.read_table(path).slice(0, table.num_rows).equals(table))
        except lib.ArrowException:
            return False

    def write(self, file: BinaryIO) -> None:
        """Write the part."""
        from pyarrow import parquet

        table = self._table()
        parquet.write_table(table, file, row_group_size=max(table.num_rows, 1))

    def _table(self) -> Any:
        import pyarrow

        # A column that was nowhere known in a block has no type there.
        self._tables = [pyarrow.concat_tables(self._tables, promote_options="default").combine_chunks()]
        return self._tables[0]


_NAME = re.compile(r"part-(\d{6})(\.csv|\.parquet)")

#: The file that says to which session the parts in a folder belong.
MANIFEST = "manifest.json"


class Predictions(NamedTuple):
    """Predictions of rows.

    Attributes
    ----------
    rows : number of each row in its file
    F : (n, d) predictions
    widths : (n, d) half widths of their intervals, or (d,) if all are the same; infinite before enough was seen
    Y : (n, d) outcomes, nan where missing; None if the table has none
    instants : (n,) when the rows were, in seconds since 1970, nan where not known; None for a table without times
    """

    rows: list[int]
    F: Array
    widths: Array
    Y: Array | None = None
    instants: Array | None = None


class RowPredictor:
    """Predicts the rows of a table, in their order, by what was learned, which stays as it is.

    Outputs that stand in the rows serve as lags of the rows after them.

    Parameters
    ----------
    preparation : how rows are made inputs
    scaling, model : how these are scaled, and what predicts
    recent : the last errors, for intervals

    Attributes
    ----------
    preparation, recent : as above; the preparation with lags of its own
    n_bad : rows so far that had unreadable cells
    faults : the first of them, with their faults
    """

    def __init__(self, preparation: Preparation, scaling: Standardised, model: Any, recent: RecentErrors) -> None:
        self.preparation, self.recent = preparation.fork(), recent
        self._scaling, self._model = scaling, model
        self.n_bad = 0
        self.faults: list[tuple[int, str]] = []

    def bind(self, names: Sequence[str], label: str) -> RowPredictor:
        """Say in which order the columns of the batches to come stand; targets may be missing."""
        self.preparation.bind(names, label, predict=True)
        return self

    def with_model(self, model: Any) -> Callable[[Array], Array]:
        """Outputs (n, d) of inputs (n, p) by another model of the same kind, all in the original units."""

        def predict(X: Array) -> Array:
            scaled = self._scaling.scale_inputs(X)
            return scaled.restore(model.predict(scaled.X).reshape(len(X), -1))

        return predict

    def outputs(self, X: Array) -> Array:
        """(n, d) outputs of inputs (n, p)."""
        return self.with_model(self._model)(X)

    def predict(self, batch: Batch, level: float | None = None) -> Predictions:
        """Predict rows, with intervals of that level, by default of the level that was learned with."""
        rows = self._prepared(batch)
        F = self.outputs(rows.chunk.X) if len(rows.rows) else np.empty(rows.chunk.Y.shape)
        Y = rows.chunk.Y if self.preparation.knows_outputs() else None
        widths = self.recent.widths(self.recent.level if level is None else level)
        return Predictions(rows.rows, F, widths, Y, rows.instants)

    def _prepared(self, batch: Batch) -> Prepared:
        """Inputs and outputs of rows, whose faults are counted."""
        rows = self.preparation.prepare(batch)
        self.n_bad += len(rows.bad)
        self.faults += rows.bad[: REMEMBERED - len(self.faults)]
        return rows


class OtherSession(ValueError):
    """A folder holds predictions that are not those of the session at hand.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from ovk.app.sessions import OtherSession, Parts, Predictions
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     parts = Parts(folder, ["y"], "session 1")
    ...     parts.add(Predictions([7], np.array([[0.5]]), np.array([0.25])))
    ...     parts.commit()
    ...     try:
    ...         Parts(folder, ["y"], "session 2", resumed=True)
    ...     except OtherSession:
    ...         print("refused")
    refused
    """


class Parts:
    """A folder of files part-000000.csv, part-000001.csv, ... (or .parquet), each complete or not there.

    A row holds the number of a row in its file, its time if it has one, then the predictions, the ends of their
    intervals and the outcomes. The file manifest.json says which session the parts belong to: nothing in a folder of
    another one is touched.

    The last part may be unfinished, where a session was interrupted or its file ended between two checkpoints. It is
    written again, with the lines that it has, when the session has come to its checkpoint: in the end the parts are
    those of a session that was never interrupted.

    Parameters
    ----------
    folder : where to; made if it does not exist
    outputs : names of the outputs
    session : identifier of the session
    columns : how predictions are written; default those of the outputs, without times
    done : parts that belong to the state of the session
    lines : lines of the last of them that belong to it, if that is unfinished, or else 0
    model : file of the session
    parquet : write Parquet files instead of CSV
    resumed : whether parts may be there. If none of them is known to the session, there may be one, left by a run with
        the same `model` that was killed before its first checkpoint

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from ovk.app.sessions import Parts, Predictions
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     parts = Parts(folder, ["y"], "session 1")
    ...     parts.add(Predictions([7, 8], np.array([[0.5], [1.0]]), np.array([0.25]), np.array([[0.6], [np.nan]])))
    ...     parts.commit()
    ...     with open(f"{folder}/part-00000{parts.done - 1}.csv") as file:
    ...         print(file.read())
    row,y,y low,y high,y outcome
    7,0.5,0.25,0.75,0.6
    8,1,0.75,1.25,
    <BLANKLINE>
    """

    def __init__(
        self,
        folder: str | Path,
        outputs: list[str],
        session: str,
        *,
        columns: Any = None,
        done: int = 0,
        lines: int = 0,
        model: str | Path | None = None,
        parquet: bool = False,
        resumed: bool = False,
    ) -> None:
        self.folder, self.done, self.lines = Path(folder), done, lines
        self._columns = PredictionColumns(outputs, outcomes=True) if columns is None else columns
        self._kind = ParquetPart if parquet else CsvPart
        #: Number of the part that is being written.
        self._number = done - 1 if lines else done
        place = None if model is None else os.path.abspath(model)
        numbers = self._numbers()
        if numbers:
            self._check(numbers, session, place, resumed)
        self._part: CsvPart | ParquetPart = self._kind(self._columns)
        if lines and numbers:
            self._restore()
        else:
            self.lines = 0
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(str(self.folder))
        manifest = json.dumps({"session": session, "model": place, "outputs": outputs}, indent=2) + "\n"
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

    def _check(self, numbers: list[int], session: str, place: str | None, resumed: bool) -> None:
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
        if not resumed or (not self.done and place != home):
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

    def _restore(self) -> None:
        """Go on with the rows of the unfinished part that belong to the session."""
        path = self._path()
        if not path.exists() or not self._part.restore(path, self.lines):
            raise OtherSession(
                f"{path} does not hold the {self.lines} predictions that the model knows of: it was removed or "
                "changed; give another folder"
            )

    def _path(self) -> Path:
        return self.folder / f"part-{self._number:06d}{self._kind.ending}"

    def add(self, predictions: Any) -> None:
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
        self.done = self._number + 1
        if finished:
            self._number, self.lines, self._part = self.done, 0, self._kind(self._columns)


class PrintedPredictions:
    """Predictions as lines of CSV on standard output, each as soon as it is made.

    Parameters
    ----------
    columns : how predictions are written
    """

    #: What a session keeps of a folder of predictions; there is none.
    done = lines = 0

    def __init__(self, columns: Any) -> None:
        self._columns = columns
        sys.stdout.write(self._columns.header)

    def add(self, predictions: Any) -> None:
        """Print predictions."""
        sys.stdout.writelines(self._columns.lines(predictions))
        sys.stdout.flush()

    def commit(self, *, finished: bool = True) -> None:
        """Everything is printed by now."""


# Predicted classes of the rows of a file, with their probabilities.


class ClassPredictions(NamedTuple):
    """Predicted classes of rows.

    Attributes
    ----------
    rows : number of each row in its file
    codes : (n,) numbers of the predicted labels
    P : (n, K) probabilities of the labels
    labels : the K labels
    outcomes : (n,) numbers of the labels that came, -1 where missing; None if the table has none
    instants : (n,) when the rows were, in seconds since 1970, nan where not known; None for a table without times

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.app.sessions import ClassPredictions
    >>> found = ClassPredictions([1, 2], np.array([1, 0]), np.array([[0.2, 0.8], [0.6, 0.4]]), ["no", "yes"])
    >>> [found.labels[code] for code in found.codes]
    ['yes', 'no']
    """

    rows: list[int]
    codes: Indices
    P: Array
    labels: list[str]
    outcomes: Indices | None = None
    instants: Array | None = None


def by_label(model: Any, P: Any, labels: list[str]) -> Array:
    """(n, K) probabilities in the order of the labels, from those in the order of a model's classes."""
    place = {label: k for k, label in enumerate(labels)}
    found = np.zeros((len(P), len(labels)))
    found[:, [place[str(label)] for label in model.classes_.tolist()]] = P
    return found


def label_codes(Y: Array) -> Indices:
    """(n,) numbers of labels, -1 where one is missing, from (n, 1) outputs."""
    return np.nan_to_num(Y[:, 0], nan=-1.0).astype(np.intp)


class ClassRowPredictor(RowPredictor):
    """Predicts the classes of the rows of a table by what was learned, which stays as it is."""

    def outputs(self, X: Array) -> Array:
        """(n, K) probabilities of the labels, of inputs (n, p)."""
        found = self._model.predict_proba(self._scaling.scale_inputs(X).X)
        return by_label(self._model, found, self.preparation.classes())

    def predict(self, batch: Batch, level: float | None = None) -> ClassPredictions:  # type: ignore[override]
        """Predict rows."""
        known = len(self.preparation.classes())
        rows = self._prepared(batch)
        labels = list(self.preparation.classes())
        P = np.zeros((len(rows.rows), len(labels)))
        if len(P):
            P[:, :known] = self.outputs(rows.chunk.X)[:, :known]
        outcomes = label_codes(rows.chunk.Y) if self.preparation.knows_outputs() else None
        return ClassPredictions(
            rows.rows, np.asarray(P.argmax(axis=1), dtype=np.intp), P, labels, outcomes, rows.instants
        )


class ClassColumns:
    """The columns of predicted classes: row, time, label, its probability, those of all labels, outcome.

    The columns are those of the labels that were known from the first rows; a label that came later may be predicted
    like them, and its probability is what theirs leave.

    Parameters
    ----------
    target : name of the target
    labels : those that have a column
    timed, outcomes : as in `PredictionColumns`

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.app.sessions.predictions import ClassColumns, ClassPredictions
    >>> columns = ClassColumns("y", ["a", "b"])
    >>> found = ClassPredictions([7], np.array([1]), np.array([[0.25, 0.5, 0.25]]), ["a", "b", "c"])
    >>> print(columns.header + "".join(columns.lines(found)))
    row,y,probability,y=a,y=b
    7,b,0.5,0.25,0.5
    <BLANKLINE>
    """

    def __init__(self, target: str, labels: Sequence[str], *, timed: bool = False, outcomes: bool = False) -> None:
        self._target, self._count, self._timed, self._outcomes = target, len(labels), timed, outcomes
        shares = [f"{target}={label}" for label in labels]
        last = [f"{target} outcome"] if outcomes else []
        self.names = ["row", *(["time"] if timed else []), target, "probability", *shares, *last]
        self.header = csv_line([shown_name(name) for name in self.names])

    def lines(self, found: ClassPredictions) -> Iterator[str]:
        """A line of CSV for each row."""
        for cells in self._rows(found):
            yield csv_line([_cell(cell) for cell in cells])

    def objects(self, found: ClassPredictions) -> Iterator[dict[str, Any]]:
        """An object for each row, with label and the probabilities of all labels under the name of the target."""
        for cells, shares in zip(self._rows(found), found.P.tolist(), strict=True):
            one = {"label": cells[1 + self._timed], "probability": dict(zip(found.labels, shares, strict=True))}
            outcome = {"outcome": cells[-1]} if self._outcomes else {}
            time = {"time": cells[1]} if self._timed else {}
            yield {"row": cells[0], **time, self._target: {**one, **outcome}}

    def arrays(self, found: ClassPredictions) -> dict[str, Any]:
        """(n,) arrays by the names of the columns; an unknown label is None."""
        columns: dict[str, Any] = {self.names[0]: np.array(found.rows, dtype=np.int64)}
        if self._timed:
            columns["time"] = dates(found.instants, len(found.rows))
        columns[self._target] = np.array([found.labels[code] for code in found.codes], dtype=object)
        columns["probability"] = found.P[np.arange(len(found.P)), found.codes]
        start = 3 + self._timed
        columns |= dict(zip(self.names[start : start + self._count], found.P.T, strict=False))
        if self._outcomes and found.outcomes is not None:
            came = [found.labels[code] if code >= 0 else None for code in found.outcomes.tolist()]
            columns[self.names[-1]] = np.array(came, dtype=object)
        return columns

    def table(self, found: ClassPredictions) -> Any:
        """A table of pyarrow."""
        arrow = pyarrow()
        rows = list(self._rows(found))
        columns = [arrow.array([cells[j] for cells in rows]) for j in range(len(self.names))]
        return arrow.Table.from_arrays(columns, names=self.names)

    def _rows(self, found: ClassPredictions) -> Iterator[list[Any]]:
        """The cells of each row."""
        times = as_text(found.instants, len(found.rows))
        truth = [-1] * len(found.rows) if found.outcomes is None else found.outcomes.tolist()
        every = zip(found.rows, found.codes.tolist(), found.P.tolist(), times, truth, strict=True)
        for row, code, shares, time, came in every:
            last = [found.labels[came] if came >= 0 else None] if self._outcomes else []
            when = [time or None] if self._timed else []
            yield [row, *when, found.labels[code], shares[code], *shares[: self._count], *last]


def _cell(value: Any) -> Any:
    """A cell of a CSV file."""
    if isinstance(value, str):
        return safe_text(value)
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else value
