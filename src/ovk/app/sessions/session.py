"""A stream that is learned from a file, in one object that can be saved, and the run that learns it to its end."""

from __future__ import annotations

import hashlib
import signal
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from ovk.app.sessions.forecasts import Forecast, HorizonErrors, forecast
from ovk.app.sessions.predictions import (
    MAX_BAD_ROWS_KEPT,
    FilePredictions,
    PredictionColumns,
    PredictionFolder,
    Predictions,
    PrintedPredictions,
    RowPredictor,
)
from ovk.app.sessions.settings import Settings, check_bad_rows, make_model
from ovk.app.sessions.summary import (
    MAX_ROWS_KEPT,
    BadRow,
    ColumnRow,
    Summary,
    column_summary,
    column_warnings,
    relevance,
    result_summary,
)
from ovk.app.tables import STDIN, Batch, BrokerError, Preparation, Prepared, Records, concatenate, open_records
from ovk.base import Array, Label, Registered, State, one_blas_thread, quoted
from ovk.evaluation import (
    ALIKE,
    Chunk,
    Evaluator,
    LastValue,
    ProgressiveResult,
    RecentErrors,
    RunningMoments,
    Standardised,
)
from ovk.online import AutoStreamClassifier
from ovk.persistence import load, save

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

#: Fewest rows to learn from.
MIN_ROWS = 8


class LearnedTable(ABC):
    """What was learned from a table: a `Session` or a `TableModel`. It predicts other rows with the same columns."""

    settings: Settings
    preparation: Preparation
    recent: RecentErrors
    moments: Any
    n_rows: Any
    n_bad: int
    bad_rows: list[BadRow]
    inputs: Array | None

    def __repr__(self) -> str:
        # The arrays that it holds fill pages.
        outputs, inputs = list(self.preparation.targets), len(self.preparation.feature_names_)
        return f"{type(self).__name__}(targets={outputs}, n_inputs={inputs})"

    @abstractmethod
    def predictor(self) -> RowPredictor:
        """What predicts a table of several batches, each with the lags that those before it leave."""

    @abstractmethod
    def summary(self) -> Summary:
        """How good the model is, how columns are read, and what may be wrong."""

    @abstractmethod
    def _horizon_errors(self, predictor: RowPredictor) -> Array | None:
        """(k, horizon, d) errors of forecasts several rows ahead; None if they were not tested."""

    def prediction_columns(self, *, outcomes: bool = True, keep: Mapping[str, int] | None = None) -> PredictionColumns:
        """How predictions are written."""
        labels = None
        if self.settings.classify:
            (label,) = self.preparation.outputs_
            assert isinstance(label, Label)
            labels = label.levels[: label.first]
        timed = self.preparation.time_column() is not None
        return PredictionColumns(self.settings.targets, labels, timed=timed, outcomes=outcomes, keep=keep)

    def columns(self) -> list[ColumnRow]:
        """Name and role of each column, share of its values that were observed, their mean and standard deviation."""
        if self.moments is None:
            return []
        outputs = () if self.settings.classify else self.settings.targets
        return column_summary(self.preparation, outputs, self.moments, self.n_rows)

    def _described(self, found: Summary, n_rows: int, *, table: bool) -> Summary:
        """Add to a summary what is known of the table."""
        found.columns, found.readings = self.columns(), self.preparation.describe()
        found.warnings = column_warnings(self.preparation, found.columns, table=table)
        found.targets, found.n_rows, found.n_bad = list(self.settings.targets), n_rows, self.n_bad
        found.bad_rows = self.bad_rows
        found.relevance = lambda: relevance(self.predictor(), self.inputs)
        found.facts |= {
            "outputs": found.targets,
            "unreadable_rows": self.n_bad,
            "bad_rows": [{"row": row, "error": error} for row, error in self.bad_rows[:10]],
            "columns": found.readings,
            "warnings": found.warnings,
            "conclusion": found.conclusion,
        }
        return found

    def forecast(self, steps: int, level: float | None = None, future: Records | None = None) -> Forecast:
        """Forecast the rows that follow, each from the forecasts before it; nothing changes.

        Parameters
        ----------
        steps : how many rows
        level : how often an interval should hold the outcome; by default as in the settings
        future : a table of the rows to forecast, with the inputs that are neither lags nor the calendar
        """
        if self.settings.classify:
            raise ValueError("forecasts are of numbers, and the target holds classes: predict rows with known inputs")
        predictor = self.predictor()
        return forecast(predictor, steps, level, future, self._horizon_errors(predictor))

    def predict(self, batch: Batch, level: float | None = None) -> Predictions:
        """Predict rows that follow those that were learned, with intervals of that level; nothing changes.

        The columns of the batch stand in the order that was bound last (``preparation.bind``). `predict_file` reads
        a file with the columns in any order.
        """
        return self.predictor().predict(batch, level)

    def predict_file(
        self,
        path: str | Path,
        level: float | None = None,
        *,
        keep: str | Sequence[str] = (),
        form: str | None = None,
        max_bad: float = Settings.max_bad,
    ) -> dict[str, Any]:
        """Predict the rows of a file, as `ovk predict` does; nothing changes.

        Parameters
        ----------
        path : CSV, JSON lines or Parquet with the input columns in any order; the outputs may be missing
        level : probability with which an interval should contain the outcome; by default that of the settings, 0.9
            unless another one was asked for
        keep : columns of the file, such as an id, that stand first in the result, as they are in the file
        form : "csv", "jsonl" or "parquet"; by default told by the ending of the name or the first character
        max_bad : share of rows with unreadable cells above which the file is refused

        Returns
        -------
        (n,) arrays by the names that `ovk predict` writes: "row", "time" where rows have one, and for each output its
        prediction, the ends of its interval and its outcome, such as "y", "y low", "y high" and "y outcome"; for
        classes the label and the probabilities. ``pandas.DataFrame(found)`` makes a data frame of them.

        Warns
        -----
        UserWarning
            With the columns whose cells could not be read, and with words that were never learned.
        """
        with open_records(path, form) as records:
            rows = FilePredictions(self, records, level, max_bad, [keep] if isinstance(keep, str) else keep)
            found = [rows.columns.arrays(*block) for block in rows]
        if not any(len(block["row"]) for block in found):
            raise ValueError(f"{records.label} has no rows to predict: check the path and the format")
        for warning in rows.warnings():
            warnings.warn(f"{records.label}: {warning}", UserWarning, stacklevel=2)
        return {name: np.concatenate([block[name] for block in found]) for name in found[0]}


@dataclass(repr=False)
class Session(LearnedTable, State, Registered):
    """A table on its way through a learner: how its columns are read, the model, its errors, and how far it is.

    Saved and loaded it goes on with the same bits. It holds no times, so that two runs that learned the same rows make
    the same file.

    Attributes
    ----------
    settings : `Settings`
    preparation : how rows are made inputs and outputs
    evaluator : the model beside its baselines
    recent : the last errors, for intervals; empty for classes, which have probabilities instead
    moments : mean and deviation of all inputs and outputs so far
    id : what tells the session from those of other files or settings
    offset : rows of the file that were read
    digest : digest of the names of its columns and of these rows, by which the file is recognised
    head : number of the rows that were read first, and the digest up to there, which distinguish the file from the next
    earlier : rows of the files that were learned before this one
    prediction_files : files of predictions that belong to this state
    prediction_lines : lines in the last of them, if it is unfinished
    n_bad : rows that had unreadable cells
    bad_rows : the first of them, with what is wrong
    position : where in the stream of a broker the next row is; None for files
    horizons : errors of forecasts several rows ahead; None without lags, or with a horizon of 0
    inputs : (m, p) inputs of the last rows, to tell which of them matter

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.app.sessions import Settings, learn
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "t.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("x,y\\n" + "".join(f"{i % 7},{i % 7}\\n" for i in range(500)))
    ...     session = learn(path, Settings(["y"], warm_up=100))
    >>> session.offset, session.evaluator.n_rows, bool(session.result().mse[0] < 0.1)
    (500, 500, True)
    """

    settings: Settings
    preparation: Preparation
    evaluator: Evaluator
    recent: RecentErrors
    moments: RunningMoments
    id: str = ""
    offset: int = 0
    digest: str = ""
    head: tuple[int, str] = (0, "")
    earlier: int = 0
    prediction_files: int = 0
    prediction_lines: int = 0
    n_bad: int = 0
    bad_rows: list[tuple[int, str]] = field(default_factory=list)
    position: Any = None
    horizons: HorizonErrors | None = None
    inputs: Array | None = None

    _state_classes = {"moments": RunningMoments, "horizons": HorizonErrors}

    @classmethod
    def start(cls, records: Records, settings: Settings) -> StreamRun:
        """Learn the warm-up of a file; the run learns the rows after it."""
        settings.check()
        settings.refuse_groups("use ovk fit (fit_file), or leave groups out")
        # Before there are rows, a stream that is waited for has no columns.
        preparation = None if records.waits else settings.preparation(records)
        batches = records.batches(settings.block)
        head: list[Batch] = []
        ended, known = True, (0, "")
        for batch in batches:
            if not batch.rows and not batch.bad:
                continue
            preparation = preparation or settings.preparation(records)
            head.append(batch)
            known = known if known[0] else (records.offset, records.digest())
            if sum(len(one.rows) for one in head) >= settings.warm_up:
                ended = False
                break
        if not (ended or records.waits or records.live):
            # Batches are full until the file ends: one that ends soon after its warm-up is short as well.
            partial = len(head[-1].rows) + len(head[-1].bad) < settings.block
            ended = partial and sum(len(one.rows) for one in head) < 2 * settings.warm_up
        whole = concatenate(head, len(records.names))
        n = len(whole.rows)
        if n < MIN_ROWS:
            bad = f", and {len(whole.bad)} more cannot be read ({whole.bad[0][1]})" if whole.bad else ""
            raise ValueError(f"{records.label} has {n} rows to learn from{bad}: at least {MIN_ROWS} are needed")
        assert preparation is not None
        # A file that ends within the warm-up keeps most of its rows for the test.
        first, rest = _split(whole, max(MIN_ROWS // 2, n // 4) if ended else settings.warm_up)
        preparation.fit(first)
        rows = preparation.prepare(first)
        if len(rows.chunk.X) < 2:
            raise ValueError(
                f"hardly any of the first {len(first.rows)} rows of {records.label} can be read: "
                + "; ".join(f"row {row}: {fault}" for row, fault in rows.bad[:3])
            )
        session = cls.from_warm_up(settings, preparation, rows)
        session.id, session.head = identity(repr(settings.get_params(deep=False)), records.digest()), known
        return StreamRun(session, records, chain([rest], batches))

    @classmethod
    def from_warm_up(cls, settings: Settings, preparation: Preparation, rows: Prepared) -> Self:
        """A session that has learned the rows of its warm-up."""
        d, (n, p) = len(settings.targets), rows.chunk.X.shape
        asked = settings.model, settings.stream_kernel, settings.coupling
        model = make_model(*asked, p, classify=settings.classify, lags=bool(settings.lags))
        scaling = Standardised(running=False, robust=True)
        evaluator = Evaluator.start(model, None, scaling, rows.chunk, task=settings.task)
        recent, moments = RecentErrors.empty(d, level=settings.level), RunningMoments(p + d)
        session = cls(settings, preparation, evaluator, recent, moments)
        session._count(rows)
        session._learn_chunk(rows.chunk, tested=False)
        if settings.horizon and settings.lags:
            past = preparation.lags_.past_
            session.horizons = HorizonErrors.start(int(settings.horizon), settings.lags, past, evaluator.model, n, p)
        return session

    def resume(self, records: Records) -> StreamRun:
        """Go on in the file, after the rows that were learned already."""
        records.resume_at(self.offset, int(self.settings.block), self.digest, self.position)
        return StreamRun(self, records, records.batches(int(self.settings.block)))

    def continue_with(self, records: Records) -> StreamRun:
        """Go on with the first row of another file that has the same columns; its lags are the last rows of this one.

        If it is the file that is being learned already, it is resumed: no row is learned twice when a run that
        continued with a file is interrupted and called again.
        """
        known = {*records.names}
        needed = [source for column in self.preparation.columns_ for source in column.sources()]
        missing = [name for name in dict.fromkeys([*needed, *self.settings.targets]) if name not in known]
        if missing:
            raise ValueError(
                f"{records.label} lacks the columns {quoted(missing)}, which the model learns from: its columns are "
                f"{quoted(records.names)}"
            )
        self.preparation.bind(records.names, records.label)
        block = int(self.settings.block)
        # A session that was merged is not learning any file.
        size = self.head[0] or block
        first = next(records.batches(size), None)
        if first is None:
            raise ValueError(f"{records.label} has no rows yet: there is nothing to go on with")
        if (records.offset, records.digest()) == self.head:
            return self.resume(records)
        # Blocks begin at multiples of their size, so that they are the same when the file is resumed.
        rest = next(records.batches(block - records.offset), None) if size < block else None
        batch = first if rest is None else concatenate([first, rest], len(records.names))
        self.earlier += self.offset
        self.offset, self.digest, self.head, self.prediction_lines, self.position = 0, "", (0, ""), 0, None
        return StreamRun(self, records, chain([batch], records.batches(block)))

    def predict_then_learn(self, batch: Batch) -> Predictions:
        """Predict rows, then learn them."""
        # The session stays as it is if the rows are refused.
        preparation = self.preparation.fork()
        rows = preparation.prepare(batch)
        if rows.bad:
            total = self.evaluator.n_rows + len(batch.rows) + len(batch.bad)
            bad, limit = self.n_bad + len(rows.bad), self.settings.max_bad
            check_bad_rows(bad, total, rows.bad[-1], preparation.label, limit)
        if self.settings.classify:
            self._check_classes(preparation.classes())
        self.preparation = preparation
        self._count(rows)
        F, Y, instants = self._learn(rows.chunk), rows.chunk.Y, rows.instants
        if self.settings.classify:
            return Predictions(rows.rows, F, None, Y, instants, list(preparation.classes()))
        return Predictions(rows.rows, F, self.recent.update(F, Y, instants), Y, instants)

    def _check_classes(self, labels: list[str]) -> None:
        """Refuse a label that the model cannot learn any more."""
        known, model = len(self.preparation.classes()), self.evaluator.model
        if len(labels) > known and not isinstance(model, AutoStreamClassifier):
            raise ValueError(
                f"the label {labels[known]!r} did not come in the warm-up, and {type(model).__name__} must know all "
                "classes at the start: use the model autostream, or a longer warm_up"
            )

    def _learn(self, chunk: Chunk) -> Array:
        """(n, d) predictions of rows that are learned then, and tested in forecasts several rows ahead."""
        if self.horizons is None:
            return self._learn_chunk(chunk, tested=True)
        found, start = [np.empty((0, len(chunk.targets)))], 0
        predictor = self.predictor()
        while start < len(chunk.X):
            # Another model is kept at fixed rows of the stream, wherever blocks end.
            end = start + self.horizons.room
            piece = chunk._replace(X=chunk.X[start:end], Y=chunk.Y[start:end])
            found.append(self._learn_chunk(piece, tested=True))
            self.horizons.add(piece.X, piece.Y, self.evaluator.model, predictor.with_model)
            start = end
        return np.concatenate(found)

    def _learn_chunk(self, chunk: Chunk, *, tested: bool) -> Array:
        """(n, d) predictions of rows, or (n, K) probabilities of classes."""
        classes = self.preparation.classes() if self.settings.classify else ()
        return self.evaluator.predict_then_learn(chunk, tested=tested, classes=classes)

    def predictor(self) -> RowPredictor:
        if not isinstance(self.evaluator.scaling, Standardised):
            raise TypeError("a session standardises its rows")
        return RowPredictor(self.preparation, self.evaluator.scaling, self.evaluator.model, self.recent)

    def _horizon_errors(self, predictor: RowPredictor) -> Array | None:
        return None if self.horizons is None else self.horizons.measured(predictor.with_model)

    def result(self) -> ProgressiveResult:
        """Scores so far."""
        return self.evaluator.result()

    @property
    def n_rows(self) -> int:
        """Rows that were learned, those of earlier files among them."""
        return self.evaluator.n_rows

    def summary(self, run: str = "") -> Summary:
        """Scores along the stream, how columns are read, and what may be wrong; `run` tells of this run."""
        result, d = self.result(), len(self.settings.targets)
        sd = np.where(self.moments.constant[-d:], np.nan, self.moments.sd[-d:])
        found = result_summary(result, self.recent, sd)
        if self.settings.task.numeric:
            found.conclusion = self._conclusion(result)
        before = f" after {self.earlier:,} of earlier files" if self.earlier else ""
        found.sentences.insert(0, f"{self.offset:,} rows read{before}{run}")
        found.facts |= {
            "rows": self.offset,
            "rows_of_earlier_files": self.earlier,
            "inputs": len(self.preparation.feature_names_),
        }
        found.settings = {**self.settings.get_params(deep=False), "learner": repr(self.evaluator.model)}
        return self._described(found, self.earlier + self.offset, table=False)

    def _conclusion(self, result: ProgressiveResult) -> str:
        """How the model compares with its best baseline, and what to do if it loses."""
        compared, said = result.against_best_baseline(), result.conclusion()
        if compared is None or compared[1] <= 1 - ALIKE:
            return said
        cure = "the inputs say little about the outputs, or they drift"
        if compared[0] == LastValue.name and not self.settings.lags:
            cure = "add earlier outputs to the inputs, with --lags 1,2,3"
        return f"{said.removesuffix('.')}; {cure}."

    def _count(self, rows: Prepared) -> None:
        """Add rows to the moments and to the number of bad ones."""
        self.n_bad += len(rows.bad)
        self.bad_rows += rows.bad[: MAX_BAD_ROWS_KEPT - len(self.bad_rows)]
        if rows.rows:
            last = rows.chunk.X[-MAX_ROWS_KEPT:]
            self.inputs = (last if self.inputs is None else np.concatenate([self.inputs, last]))[-MAX_ROWS_KEPT:]
            self.moments.add(np.hstack([rows.chunk.X, rows.chunk.Y]))


def identity(*of: str) -> str:
    """The id of a session. Not a random number: two runs that learned the same rows make the same file."""
    return hashlib.sha256(" ".join(of).encode()).hexdigest()[:32]


def _split(batch: Batch, count: int) -> tuple[Batch, Batch]:
    """The first `count` rows, and the others."""
    end = batch.rows[count - 1]
    return (
        Batch([column[:count] for column in batch.columns], batch.rows[:count], [b for b in batch.bad if b[0] <= end]),
        Batch([column[count:] for column in batch.columns], batch.rows[count:], [b for b in batch.bad if b[0] > end]),
    )


# Learning a stream to its end.

#: Where predictions go.
PredictionSink = PredictionFolder | PrintedPredictions


class SessionProgress(NamedTuple):
    """How far a run is: its session, rows read in this run, rows safe on the disk."""

    session: Session
    rows: int
    saved: int


class StreamRun:
    """The rows of a file, in blocks that are predicted and then learned, with a checkpoint now and then.

    Reading and learning are two steps: a signal may end the one at any moment, and waits for the other.
    """

    def __init__(self, session: Session, records: Records, batches: Iterator[Batch]) -> None:
        self.session = session
        self._records, self._batches, self._bound = records, batches, False
        self._sink: PredictionSink | None = None
        self._path: str | Path | None = None
        #: Rows at the start, at the last checkpoint, and at the last time that anything was saved.
        self._start = self._saved = self._safe = session.offset

    def __iter__(self) -> Iterator[Predictions]:
        while (batch := self.read()) is not None:
            yield self.learn_block(batch)

    def read(self) -> Batch | None:
        """The rows to come, None at the end of the file; the session stays as it is."""
        return next(self._batches, None)

    def learn_block(self, batch: Batch) -> Predictions:
        """Predict rows that were read, then learn them."""
        session, records = self.session, self._records
        if not self._bound:
            # Only now: the stream of a broker has no columns before its first row.
            session.preparation.bind(records.names, records.label)
            self._bound = True
        predictions = session.predict_then_learn(batch)
        self._mark()
        if not session.head[0]:
            session.head = (session.offset, session.digest)
        return predictions

    def _mark(self) -> None:
        """Let the session know that the rows up to here are learned."""
        session, records = self.session, self._records
        session.offset, session.digest, session.position = records.offset, records.digest(), records.position()

    def learn(
        self,
        sink: PredictionSink | None,
        path: str | Path | None,
        on_progress: Callable[[SessionProgress], None],
        stop: StopSignals,
    ) -> Session:
        """Learn to the end, or to the end of the block at hand when a signal comes; the session is saved to `path`."""
        self._sink, self._path = sink, path
        try:
            self._learn_blocks(on_progress, stop)
            with stop.held():
                self._checkpoint()
        except BrokerError:
            # A server that stays away, or has lost messages: what was learned until then is safe.
            self._save_new()
            raise
        except Interrupted as error:
            with stop.held():
                self._checkpoint()
            error.saved = None if path is None else self._safe or None
            raise
        return self.session

    def _learn_blocks(self, on_progress: Callable[[SessionProgress], None], stop: StopSignals) -> None:
        every = int(self.session.settings.every)
        while (batch := self.read()) is not None:
            with stop.held():
                if not batch.rows and not batch.bad:
                    # A stream that is followed pauses, or the warm-up has left nothing over: a good moment to bring
                    # what is learned to safety.
                    self._mark()
                    self._save_new()
                    continue
                found = self.learn_block(batch)
                if self._sink is not None:
                    self._sink.add(found)
                # A matter of rows, not of time: an interrupted run makes the same files as another.
                offset = self.session.offset
                if offset // every > self._saved // every:
                    self._checkpoint(finished=True)
                on_progress(SessionProgress(self.session, offset - self._start, self._saved))

    def _checkpoint(self, *, finished: bool = False) -> None:
        """Write the predictions, whose file may be finished, then the session, as a whole, by one rename.

        A session of which no block was learned yet, not even the rest of its warm-up, cannot be resumed: it is left.
        """
        session = self.session
        if not session.offset:
            return
        if self._sink is not None:
            self._sink.commit(finished=finished)
            session.prediction_files, session.prediction_lines = self._sink.files, self._sink.lines
        self._safe = session.offset
        if finished:
            self._saved = self._safe
        if self._path is not None:
            save(session, self._path)

    def _save_new(self) -> None:
        """Write what was learned since the last time, if anything."""
        if self.session.offset > self._safe:
            self._checkpoint()


def learn(
    records: Records | str | Path,
    settings: Settings | None = None,
    *,
    save_to: str | Path | None = None,
    resume: str | Path | None = None,
    continue_with: str | Path | None = None,
    template: Session | str | Path | None = None,
    predictions: str | Path | None = None,
    parquet: bool = False,
    on_progress: Callable[[SessionProgress], None] = lambda progress: None,
    stop: StopSignals | None = None,
) -> Session:
    """Learn a file to its end, saving the session now and then.

    A checkpoint is a whole session in one file, written atomically after the part of the predictions that belongs to
    it: whenever the process is killed, the file on the disk is one from which it goes on as if nothing had happened.
    BLAS uses one thread: its blocks are small, and the same sums in the same order give the same bits.

    Parameters
    ----------
    records : the path of a file, or an opened one
    settings : how to learn it; None takes those of the session that is resumed
    save_to : file of the session; default that of `resume` or `continue_with`, or none
    resume : file of a session to go on with; where there is none yet, with `settings` or `template`, it begins at the
        first row
    continue_with : file of a session that has learned other files before: it goes on with the first row of this one.
        If it is this one that it was learning, it is resumed
    template : session, or its file, whose columns, scaling, kernel and features a new session takes instead of learning
        them from its first rows, so that the two can be merged (`merge_sessions`)
    predictions : folder for the predictions, in parts, or ``-`` to print them
    parquet : write the parts as Parquet files instead of CSV
    on_progress : called after every block
    stop : an open `StopSignals`: a signal then ends the run after the block at hand, with a checkpoint

    Raises
    ------
    Interrupted
        if `stop` has received a signal; what was learned until then is saved.

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.app.sessions import Settings, learn
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path, model = os.path.join(folder, "t.csv"), os.path.join(folder, "model.ovk")
    ...     with open(path, "w") as file:
    ...         _ = file.write("x,y\\n" + "".join(f"{i % 7},{i % 7}\\n" for i in range(500)))
    ...     first = learn(path, Settings(["y"], warm_up=100), save_to=model)
    ...     with open(path, "a") as file:
    ...         _ = file.write("3,3\\n4,4\\n")
    ...     again = learn(path, resume=model)
    >>> first.offset, again.offset
    (500, 502)
    """
    if resume is not None and continue_with is not None:
        raise ValueError("resume and continue_with exclude each other: give one of them")
    path = resume if continue_with is None else continue_with
    save_to = path if save_to is None else save_to
    opening = open_records(records) if isinstance(records, str | Path) else nullcontext(records)
    with opening as table, one_blas_thread(tiles=1):

        def sink(session: Session) -> PredictionSink | None:
            if predictions is None:
                return None
            return prediction_sink(predictions, session, save_to, parquet, resumed=path is not None)

        begins = settings is not None or template is not None
        if path is None or (continue_with is None and begins and not Path(path).exists()):
            run = _start(table, settings, template)
            written = sink(run.session)
        else:
            session = load_session(path)
            check_settings(session, settings, path)
            if continue_with is not None:
                run = session.continue_with(table)
                written = sink(session)
            else:
                # A wrong folder should be found before hours of rows are read again.
                written = sink(session)
                run = session.resume(table)
        session = run.learn(written, save_to, on_progress, StopSignals() if stop is None else stop)
        if not session.offset:
            raise ValueError(f"{table.label} has no rows yet: there is nothing to learn")
        return session


def _start(records: Records, settings: Settings | None, template: Session | str | Path | None) -> StreamRun:
    """A new session, after its warm-up, which one that starts from a template does not need."""
    if template is not None:
        # It imports this module.
        from ovk.app.sessions.merging import start_from

        other = template if isinstance(template, Session) else load_session(template)
        check_settings(other, settings, "the template")
        return start_from(other, records)
    if settings is None:
        raise ValueError("there are neither settings to start with nor a session to resume: give one of them")
    return Session.start(records, settings)


def prediction_sink(
    folder: str | Path, session: Session, model: str | Path | None, parquet: bool, *, resumed: bool
) -> PredictionSink:
    """Where the predictions of a session go: into a folder, or with ``-`` to standard output."""
    columns = session.prediction_columns()
    if str(folder) == STDIN:
        if parquet:
            raise ValueError("Parquet files go into a folder, and predictions are printed: leave parquet out")
        return PrintedPredictions(columns)
    known = {"files": session.prediction_files, "lines": session.prediction_lines}
    return PredictionFolder(folder, columns, session.id, model=model, parquet=parquet, resumed=resumed, **known)


def check_settings(session: Session, settings: Settings | None, path: str | Path) -> None:
    """Refuse settings that are not those of a session."""
    if settings is not None and (names := session.settings.differences(settings)):
        found = ", ".join(f"{name}={getattr(session.settings, name)!r}" for name in names)
        raise ValueError(f"{path} was learned with other settings ({found}): leave them out, or start anew")


def load_session(path: str | Path) -> Session:
    """The session in a file."""
    session = load(path)
    if not isinstance(session, Session):
        what = "what `ovk fit` learned" if isinstance(session, LearnedTable) else f"a {type(session).__name__}"
        raise ValueError(f"{path} holds {what}, not a stream that was learned: give what `ovk stream` saved")
    return session


# Ctrl-C and SIGTERM that wait for a good moment.

#: Seconds until a signal is sent again that was raised where Python ignores exceptions.
SECONDS_UNTIL_RESENT = 0.02


class Interrupted(KeyboardInterrupt):
    """A run was interrupted by a signal, after the last block that was learned.

    Attributes
    ----------
    signal : number of the signal
    saved : rows of the file that are safe on the disk, None if nothing was saved

    Examples
    --------
    >>> import signal
    >>> from ovk.app.sessions import Interrupted, StopSignals
    >>> with StopSignals():
    ...     try:
    ...         signal.raise_signal(signal.SIGTERM)
    ...     except Interrupted as error:
    ...         print(error.signal == signal.SIGTERM, error.saved)
    True None
    """

    def __init__(self, signal: int, saved: int | None = None) -> None:
        super().__init__(signal)
        self.signal, self.saved = signal, saved


class StopSignals:
    """While this context is open, SIGINT and SIGTERM raise `Interrupted`, but only between two blocks.

    A signal that comes while nothing changes, such as in the midst of waiting for rows, takes effect at once; one that
    comes inside `held` does so at its end. A second signal raises `KeyboardInterrupt` wherever the process is. Python
    ignores exceptions in finalisers and in functions that C code calls: a signal that is raised there comes again.
    Signals that were ignored before (``nohup``) are ignored still. Only the main thread of a process hears of signals:
    in others this does nothing.

    Examples
    --------
    >>> import signal
    >>> from ovk.app.sessions import Interrupted, StopSignals
    >>> with StopSignals() as stop:
    ...     try:
    ...         with stop.held():
    ...             signal.raise_signal(signal.SIGTERM)
    ...             print("the block is finished")
    ...     except Interrupted as error:
    ...         print("then", signal.Signals(error.signal).name)
    the block is finished
    then SIGTERM
    """

    #: The first signal that came.
    received: int | None = None

    def __init__(self) -> None:
        self._held = False
        self._before: dict[int, Any] = {}
        self._hook_before: Callable[[UnraisableHookArgs], object] | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._handle)
            self._hook_before, sys.unraisablehook = sys.unraisablehook, self._ignored
        return self

    def __exit__(self, *error: object) -> None:
        if self._hook_before is not None:
            sys.unraisablehook = self._hook_before
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside, a signal waits; at the end it takes effect, if it is the first."""
        before = self.received
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if before is None and self.received is not None:
            raise Interrupted(self.received)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        first = self.received is None
        self.received = number
        if not first:
            raise KeyboardInterrupt
        if not self._held:
            raise Interrupted(number)

    def _ignored(self, ignored: UnraisableHookArgs) -> None:
        """Python has swallowed an exception: one that came from a signal is raised again, out of here."""
        if not isinstance(ignored.exc_value, KeyboardInterrupt) or self.received is None:
            assert self._hook_before is not None
            self._hook_before(ignored)
            return
        again = threading.Timer(SECONDS_UNTIL_RESENT, _send, [self.received])
        again.daemon = True
        if isinstance(ignored.exc_value, Interrupted):
            self.received = None
        again.start()


def _send(number: int) -> None:
    """Send a signal to the main thread, which wakes up for it where the system can do that."""
    if sys.platform == "win32":
        import _thread

        _thread.interrupt_main(number)
    else:
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, number)
