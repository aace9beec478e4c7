"""Predictions of the rows of a file with intervals, and their files, of which a checkpoint says how many are valid."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ovk._types import Array
from ovk.evaluation import Recent
from ovk.evaluation.running import Standardised
from ovk.persistence.atomic import remove_leftovers, replacing
from ovk.sessions.columns import PredictionColumns
from ovk.sessions.faults import REMEMBERED
from ovk.sessions.part_files import CsvPart, ParquetPart
from ovk.streams import Batch, Preparation, Prepared

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

    def __init__(self, preparation: Preparation, scaling: Standardised, model: Any, recent: Recent) -> None:
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
    >>> from ovk.sessions import OtherSession, Parts, Predictions
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
    >>> from ovk.sessions import Parts, Predictions
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

    def close(self) -> None:
        """Nothing is open between two commits."""
