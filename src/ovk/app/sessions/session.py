"""Sessions: streams learned from files, with checkpoints from which they resume."""

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

from ovk.app.sessions.forecasts import Forecast, HorizonErrors, TestedForecasts, forecast
from ovk.app.sessions.predictions import (
    MAX_BAD_ROWS_KEPT,
    FilePredictions,
    PredictionColumns,
    PredictionDirectory,
    Predictions,
    PrintedPredictions,
    RowPredictor,
)
from ovk.app.sessions.settings import Settings, check_bad_rows, make_model
from ovk.app.sessions.summary import (
    MAX_ROWS_KEPT,
    BadRow,
    Summary,
    column_summary,
    column_warnings,
    relevance,
    result_summary,
)
from ovk.app.tables import (
    STDIN,
    Batch,
    BrokerError,
    FrameRecords,
    Preparation,
    Prepared,
    Records,
    concatenate,
    open_records,
)
from ovk.base import Array, Label, OutputFrame, Registered, State, library_of, one_blas_thread, quoted
from ovk.evaluation import (
    EQUAL_TOLERANCE,
    Chunk,
    Evaluator,
    LastValue,
    ProgressiveResult,
    RecentErrors,
    RunningMoments,
    Standardised,
    is_frame,
)
from ovk.online import AutoStreamClassifier
from ovk.persistence import load, save

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

#: Minimum number of rows to learn from.
MIN_ROWS = 8


def check_row_count(batch: Batch, label: str) -> None:
    if len(batch.rows) < MIN_ROWS:
        bad = f", and {len(batch.bad)} unreadable rows ({batch.bad[0][1]})" if batch.bad else ""
        raise ValueError(f"{label} has {len(batch.rows)} rows to learn from{bad}; at least {MIN_ROWS} are required")


def opened(source: Any, form: str | None = None) -> Records:
    """The rows of a file or a data frame."""
    return FrameRecords(source) if is_frame(source) else open_records(source, form)


class LearnedTable(ABC):
    """A model learned from a table, a `Session` or a `TableModel`; it predicts other rows with the same columns."""

    settings: Settings
    preparation: Preparation
    recent: RecentErrors
    moments: Any
    n_rows: Any
    n_bad: int
    bad_rows: list[BadRow]
    inputs: Array | None

    def __repr__(self) -> str:
        outputs, inputs = list(self.preparation.targets), len(self.preparation.feature_names_)
        return f"{type(self).__name__}(targets={outputs}, n_inputs={inputs})"

    @abstractmethod
    def predictor(self) -> RowPredictor:
        """A predictor of tables in several batches, whose lags continue from one batch to the next."""

    @abstractmethod
    def summary(self) -> Summary:
        """Scores, column types and warnings."""

    @abstractmethod
    def _tested(self, predictor: RowPredictor) -> TestedForecasts | None:
        """Errors of forecasts several rows ahead; None if not tested."""

    def prediction_columns(self, *, outcomes: bool = True, keep: Mapping[str, int] | None = None) -> PredictionColumns:
        labels = None
        if self.settings.classify:
            (label,) = self.preparation.outputs_
            assert isinstance(label, Label)
            labels = label.levels[: label.first]
        timed = self.preparation.time_column() is not None
        return PredictionColumns(self.settings.targets, labels, timed=timed, outcomes=outcomes, keep=keep)

    def _described(self, found: Summary, n_rows: int, *, table: bool) -> Summary:
        """Add column types, warnings and bad rows to a summary."""
        found.readings = self.preparation.describe()
        if self.moments is not None:
            outputs = () if self.settings.classify else self.settings.targets
            found.columns = column_summary(self.preparation, outputs, self.moments, self.n_rows)
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
        """Forecast the next `steps` rows recursively, without changing the model.

        With lags, the forecast of the model is combined with the last value, the value one season earlier (the best
        lag) and a damped trend, with weights from the errors of past forecasts.

        `level` is the probability of the intervals, by default that of the settings. `future` is a table of the rows to
        forecast, with the inputs that are neither lags nor dates.
        """
        if self.settings.classify:
            raise ValueError("forecast() does not support classes; predict rows with known inputs instead")
        predictor = self.predictor()
        return forecast(predictor, steps, level, future, self._tested(predictor))

    def predict_file(
        self,
        path: Any,
        level: float | None = None,
        *,
        keep: str | Sequence[str] = (),
        form: str | None = None,
        max_bad: float = Settings.max_bad,
    ) -> dict[str, Any]:
        """Predict the rows of a file, as `ovk predict` does, without changing the model.

        Parameters
        ----------
        path : str, Path or data frame
            CSV, JSON lines or Parquet file, or data frame of pandas or polars, with the input columns in any order; the
            outputs may be missing.
        level : float or None, default None
            Nominal coverage of the intervals; None uses the level of the settings.
        keep : str or list of str, default ()
            Columns to copy unchanged from the file, such as an id; they come first in the result.
        form : {"csv", "jsonl", "parquet"} or None, default None
            File format; None detects it from the file name or the first character.
        max_bad : float, default 0.2
            Share of rows with unreadable cells above which an error is raised.

        Returns
        -------
        dict of (n,) arrays
            Columns by the names that `ovk predict` writes: "row", "time" if rows have one, and for each output its
            prediction, interval and outcome, such as "y", "y lower", "y upper" and "y outcome"; for classes the label
            and the probabilities. ``pandas.DataFrame(found)`` converts them to a data frame.

        Warns
        -----
        UserWarning
            If cells could not be read, or a word was never learned.
        """
        with opened(path, form) as records:
            rows = FilePredictions(self, records, level, max_bad, [keep] if isinstance(keep, str) else keep)
            found = [dict(zip(rows.columns.names, rows.columns.values(*block), strict=True)) for block in rows]
        if not any(len(block["row"]) for block in found):
            raise ValueError(f"{records.label} has no rows")
        for warning in rows.warnings():
            warnings.warn(f"{records.label}: {warning}", UserWarning, stacklevel=2)
        return {name: np.concatenate([block[name] for block in found]) for name in found[0]}

    def predict(self, X: Any, *, max_bad: float = Settings.max_bad) -> Any:
        """Predict the rows of a data frame, without changing the model.

        Parameters
        ----------
        X : data frame
            Data frame of pandas or polars with the input columns in any order; the outputs may be missing.
        max_bad : float, default 0.2
            Share of rows with unreadable cells above which an error is raised.

        Returns
        -------
        data frame
            The predicted outputs, or labels, with the index of `X`; cells that cannot be read count as missing.
            `predict_file` also returns intervals, and probabilities of classes.
        """
        library = library_of(X)
        if library is None:
            raise TypeError(
                f"X must be a data frame of pandas or polars, got {type(X).__name__}: predict_file takes a path"
            )
        found = self.predict_file(X, max_bad=max_bad)
        columns = [found[name] for name in self.settings.targets]
        missing, dtype = (None, object) if self.settings.classify else (np.nan, np.float64)
        values = np.full((len(X), len(columns)), missing, dtype=dtype)
        values[found["row"] - 1] = np.column_stack(columns)
        return OutputFrame(library, list(self.settings.targets)).named(values, X)


@dataclass(repr=False)
class Session(LearnedTable, State, Registered):
    """The state of a stream that is learned from a file: column types, model, scores and position in the file.

    A saved session resumes with bit-identical results. It contains no timestamps: two runs that learn the same rows
    write the same file.

    Parameters
    ----------
    settings : Settings
        The settings of the stream.
    preparation : Preparation
        How rows become inputs and outputs.
    evaluator : Evaluator
        The model and its baselines.
    recent : RecentErrors
        The last errors, for intervals; empty for classes, which have probabilities instead.
    moments : RunningMoments
        Moments of all inputs and outputs so far.
    id : str
        Identifier of the session, which depends on its settings and its first rows.
    offset : int
        Rows of the file that were read.
    digest : str
        Digest of the column names and these rows, by which the file is recognised.
    head : (int, str)
        Number of rows in the first block, and the digest after it, which distinguish the file from the next one.
    earlier : int
        Rows of the files that were learned before this one.
    prediction_files, prediction_lines : int
        Files of predictions that belong to this state, and lines in the last of them if it is incomplete.
    n_bad : int
        Rows that had unreadable cells.
    bad_rows : list of (int, str)
        Number and fault of the first bad rows.
    position : object
        Position of the next row in the stream of a broker; None for files.
    horizons : HorizonErrors or None
        Errors of forecasts several rows ahead; None without lags, or if the horizon is 0.
    inputs : (m, p) array or None
        Inputs of the last rows, to compute the relevance of each column.

    See Also
    --------
    learn, merge_sessions, TableModel

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.app.sessions import Settings, learn
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = os.path.join(directory, "t.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("x,y\\n" + "".join(f"{i % 7},{i % 7}\\n" for i in range(500)))
    ...     session = learn(path, Settings(["y"], warm_up=100))
    >>> session
    Session(targets=['y'], n_inputs=1)
    >>> session.offset, float(session.result().mse[0].round(2))
    (500, 0.0)
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
    _stored = {"inputs": "n p nan | None"}

    @classmethod
    def start(cls, records: Records, settings: Settings) -> StreamRun:
        """Learn the warm-up rows of a file; the run learns the rows after them."""
        settings.check()
        settings.check_no_groups("use ovk fit (fit_file), or omit groups")
        # A followed stream has no columns before its first row.
        preparation = None if records.waits else settings.preparation(records.names, records.label)
        batches = records.batches(settings.block)
        head: list[Batch] = []
        ended, known = True, (0, "")
        for batch in batches:
            if not batch.rows and not batch.bad:
                continue
            preparation = preparation or settings.preparation(records.names, records.label)
            head.append(batch)
            known = known if known[0] else (records.offset, records.digest())
            if sum(len(one.rows) for one in head) >= settings.warm_up:
                ended = False
                break
        if not (ended or records.waits or records.live):
            # Batches are full until the file ends. A file that ends soon after its warm-up counts as short, too.
            partial = len(head[-1].rows) + len(head[-1].bad) < settings.block
            ended = partial and sum(len(one.rows) for one in head) < 2 * settings.warm_up
        whole = concatenate(head, len(records.names))
        check_row_count(whole, records.label)
        assert preparation is not None
        # If the file ends within the warm-up, use a quarter of its rows for the warm-up and test on the others.
        first, rest = _split(whole, max(MIN_ROWS // 2, len(whole.rows) // 4) if ended else settings.warm_up)
        preparation.fit(first)
        rows = preparation.prepare(first)
        if len(rows.chunk.X) < 2:
            faults = "; ".join(f"row {row}: {fault}" for row, fault in rows.bad[:3])
            raise ValueError(f"too few of the first {len(first.rows)} rows of {records.label} are readable: {faults}")
        session = cls.from_warm_up(settings, preparation, rows)
        session.id, session.head = identity(repr(settings.get_params(deep=False)), records.digest()), known
        return StreamRun(session, records, chain([rest], batches))

    @classmethod
    def from_warm_up(cls, settings: Settings, preparation: Preparation, rows: Prepared) -> Self:
        d, (n, p) = len(settings.targets), rows.chunk.X.shape
        chosen = settings.model, settings.stream_kernel, settings.coupling
        model = make_model(*chosen, p, classify=settings.classify, lags=bool(settings.lags))
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
        """Continue the file after the rows that were learned."""
        records.resume_at(self.offset, int(self.settings.block), self.digest, self.position)
        return StreamRun(self, records, records.batches(int(self.settings.block)))

    def continue_with(self, records: Records) -> StreamRun:
        """Continue with the first row of another file with the same columns; lags reach back into the previous file.

        If the session is already learning this file, it resumes: no row is learned twice when an interrupted run is
        started again.
        """
        needed = [source for column in self.preparation.columns_ for source in column.sources()]
        missing = [name for name in dict.fromkeys([*needed, *self.settings.targets]) if name not in records.names]
        if missing:
            what = f"is no column {missing[0]!r}" if len(missing) == 1 else f"are no columns {quoted(missing)}"
            raise ValueError(f"there {what} in {records.label}: its columns are {quoted(records.names)}")
        self.preparation.bind(records.names, records.label)
        block = int(self.settings.block)
        size = self.head[0] or block  # a merged session has no first block
        first = next(records.batches(size), None)
        if first is None:
            raise ValueError(f"{records.label} has no rows yet")
        if (records.offset, records.digest()) == self.head:
            return self.resume(records)
        # Blocks begin at multiples of their size, so that a resumed file has the same blocks.
        rest = next(records.batches(block - records.offset), None) if size < block else None
        batch = first if rest is None else concatenate([first, rest], len(records.names))
        self.earlier += self.offset
        self.offset, self.digest, self.head, self.prediction_lines, self.position = 0, "", (0, ""), 0, None
        return StreamRun(self, records, chain([batch], records.batches(block)))

    def predict_then_learn(self, batch: Batch) -> Predictions:
        # If the rows are rejected, the session does not change.
        preparation = self.preparation.fork()
        rows = preparation.prepare(batch)
        if rows.bad:
            total = self.evaluator.n_rows + len(batch.rows) + len(batch.bad)
            bad, limit = self.n_bad + len(rows.bad), self.settings.max_bad
            check_bad_rows(bad, total, rows.bad[-1], preparation.label, limit)
        if self.settings.classify:
            labels, model = preparation.classes(), self.evaluator.model
            new = labels[len(self.preparation.classes()) :]
            if new and not isinstance(model, AutoStreamClassifier):
                raise ValueError(
                    f"class {new[0]!r} is not in the warm-up rows, and {type(model).__name__} cannot add classes "
                    "later: use the model autostream or a longer warm_up"
                )
        self.preparation = preparation
        self._count(rows)
        F, Y, instants = self._learn(rows.chunk), rows.chunk.Y, rows.instants
        if self.settings.classify:
            return Predictions(rows.rows, F, None, Y, instants, list(labels))
        return Predictions(rows.rows, F, self.recent.update(F, Y, instants), Y, instants)

    def _learn(self, chunk: Chunk) -> Array:
        """(n, d) predictions of rows, made before they are learned; updates the errors of forecasts ahead."""
        if self.horizons is None:
            return self._learn_chunk(chunk, tested=True)
        found, start = [np.empty((0, len(chunk.targets)))], 0
        predictor = self.predictor()
        while start < len(chunk.X):
            # The model for forecasts is replaced at fixed rows of the stream, independently of the blocks.
            end = start + self.horizons.room
            piece = chunk._replace(X=chunk.X[start:end], Y=chunk.Y[start:end])
            found.append(self._learn_chunk(piece, tested=True))
            self.horizons.add(piece.X, piece.Y, self.evaluator.model, predictor.with_model)
            start = end
        return np.concatenate(found)

    def _learn_chunk(self, chunk: Chunk, *, tested: bool) -> Array:
        classes = self.preparation.classes() if self.settings.classify else ()
        return self.evaluator.predict_then_learn(chunk, tested=tested, classes=classes)

    def predictor(self) -> RowPredictor:
        if not isinstance(self.evaluator.scaling, Standardised):
            raise TypeError("a session standardises its rows")
        return RowPredictor(self.preparation, self.evaluator.scaling, self.evaluator.model, self.recent)

    def _tested(self, predictor: RowPredictor) -> TestedForecasts | None:
        if self.horizons is None:
            return None
        return TestedForecasts(self.horizons.measured(predictor.with_model), self.horizons.outputs(self.horizons.Y))

    def result(self) -> ProgressiveResult:
        """The scores so far."""
        return self.evaluator.result()

    @property
    def n_rows(self) -> int:
        """Rows that were learned, including those of earlier files."""
        return self.evaluator.n_rows

    def summary(self, run: str = "") -> Summary:
        """Scores along the stream, column types and warnings; `run` is appended to the number of rows."""
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
        """The comparison with the best baseline, and a remedy if the model is worse."""
        compared, conclusion = result.against_best_baseline(), result.conclusion()
        if compared is None or compared[1] <= 1 - EQUAL_TOLERANCE:
            return conclusion
        advice = "the inputs carry little information about the outputs, or their relation drifts"
        if compared[0] == LastValue.name and not self.settings.lags:
            advice = "add earlier outputs to the inputs with --lags 1,2,3"
        return f"{conclusion.removesuffix('.')}; {advice}."

    def _count(self, rows: Prepared) -> None:
        self.n_bad += len(rows.bad)
        self.bad_rows += rows.bad[: MAX_BAD_ROWS_KEPT - len(self.bad_rows)]
        if rows.rows:
            last = rows.chunk.X[-MAX_ROWS_KEPT:]
            self.inputs = (last if self.inputs is None else np.concatenate([self.inputs, last]))[-MAX_ROWS_KEPT:]
            self.moments.before_then_add(np.hstack([rows.chunk.X, rows.chunk.Y]))


def identity(*of: str) -> str:
    # Not a random number: two runs that learn the same rows write the same file.
    return hashlib.sha256(" ".join(of).encode()).hexdigest()[:32]


def _split(batch: Batch, count: int) -> tuple[Batch, Batch]:
    end = batch.rows[count - 1]
    return (
        Batch([column[:count] for column in batch.columns], batch.rows[:count], [b for b in batch.bad if b[0] <= end]),
        Batch([column[count:] for column in batch.columns], batch.rows[count:], [b for b in batch.bad if b[0] > end]),
    )


PredictionSink = PredictionDirectory | PrintedPredictions


class SessionProgress(NamedTuple):
    """Progress of a run: its session, the rows read in this run, the rows saved to disk."""

    session: Session
    rows: int
    saved: int


class StreamRun:
    """Predicts and then learns the rows of a file in blocks, with regular checkpoints.

    A signal interrupts reading immediately; it waits while a block is learned.
    """

    def __init__(self, session: Session, records: Records, batches: Iterator[Batch]) -> None:
        self.session = session
        self._records, self._batches, self._bound = records, batches, False
        self._sink: PredictionSink | None = None
        self._path: str | Path | None = None
        # Rows at the start, at the last regular checkpoint, and when the session was last saved.
        self._start = self._saved = self._safe = session.offset

    def read(self) -> Batch | None:
        """The next block, None at the end of the file; the session does not change."""
        return next(self._batches, None)

    def learn_block(self, batch: Batch) -> Predictions:
        session, records = self.session, self._records
        if not self._bound:
            # Not earlier: the stream of a broker has no columns before its first row.
            session.preparation.bind(records.names, records.label)
            self._bound = True
        predictions = session.predict_then_learn(batch)
        self._mark()
        if not session.head[0]:
            session.head = (session.offset, session.digest)
        return predictions

    def _mark(self) -> None:
        """Record the position in the file up to which rows are learned."""
        session, records = self.session, self._records
        session.offset, session.digest, session.position = records.offset, records.digest(), records.position()

    def learn(
        self,
        sink: PredictionSink | None,
        path: str | Path | None,
        on_progress: Callable[[SessionProgress], None],
        stop: StopSignals,
    ) -> Session:
        """Learn to the end, or to the end of the current block after a signal; save the session to `path`."""
        self._sink, self._path = sink, path
        try:
            self._learn_blocks(on_progress, stop)
            with stop.held():
                self._checkpoint()
        except BrokerError:
            # The server is unreachable or has lost messages: save what was learned so far.
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
                    # A followed stream pauses, or no rows follow the warm-up: save what was learned.
                    self._mark()
                    self._save_new()
                    continue
                before, found = self.session.offset, self.learn_block(batch)
                if self._sink is not None:
                    self._sink.add(found)
                # Checkpoints depend on rows, not on time: an interrupted run writes the same files as any other.
                offset = self.session.offset
                if offset // every > before // every:
                    self._checkpoint(finished=True)
                on_progress(SessionProgress(self.session, offset - self._start, self._saved))

    def _checkpoint(self, *, finished: bool = False) -> None:
        """Write the predictions, then the session, atomically; `finished` completes the file of predictions.

        Before the first block, including the rest of the warm-up, the session cannot be resumed and is not saved.
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
    """Learn from the stream in a file until it ends, with regular checkpoints.

    A checkpoint is a complete session in one file, written atomically after the predictions that belong to it: a
    killed run resumes from its last checkpoint with bit-identical results. BLAS uses one thread, since blocks are small
    and the order of summation must not vary.

    Parameters
    ----------
    records : str, Path or Records
        The file to learn.
    settings : Settings or None, default None
        How to learn it; None uses the settings of the resumed session.
    save_to : str, Path or None, default None
        File of the session; None uses that of `resume` or `continue_with`, if any.
    resume : str, Path or None, default None
        File of a session to resume. If it does not exist, `settings` or `template` start a new session.
    continue_with : str, Path or None, default None
        File of a session that has learned other files; it continues with the first row of this one, or resumes if it is
        already learning this file.
    template : Session, str, Path or None, default None
        Session, or its file, from which a new session copies columns, scaling, kernel and features, so that both can be
        merged (`merge_sessions`).
    predictions : str, Path or None, default None
        Directory for the files of predictions, or ``-`` to print them.
    parquet : bool, default False
        Write predictions as Parquet files instead of CSV.
    on_progress : callable, optional
        Called with a `SessionProgress` after every block.
    stop : StopSignals or None, default None
        An open context: after a signal, the run ends with a checkpoint after the current block.

    Returns
    -------
    Session
        The session at the end of the file.

    Raises
    ------
    Interrupted
        If `stop` receives a signal; everything learned so far is saved.

    See Also
    --------
    Settings, Session, merge_sessions, fit_file

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.app.sessions import Settings, learn
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path, model = os.path.join(directory, "t.csv"), os.path.join(directory, "model.ovk")
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
        raise ValueError("resume and continue_with cannot be combined")
    if parquet and str(predictions) == STDIN:
        raise ValueError("parquet=True requires a directory for predictions, got '-'")
    path = resume if continue_with is None else continue_with
    save_to = path if save_to is None else save_to
    opening = open_records(records) if isinstance(records, str | Path) else nullcontext(records)
    with opening as table, one_blas_thread(tiles=1):

        def sink(session: Session) -> PredictionSink | None:
            if predictions is None:
                return None
            columns = session.prediction_columns()
            if str(predictions) == STDIN:
                return PrintedPredictions(columns)
            known = {"files": session.prediction_files, "lines": session.prediction_lines}
            place = {"model": save_to, "parquet": parquet, "resumed": path is not None}
            return PredictionDirectory(predictions, columns, session.id, **known, **place)  # type: ignore[arg-type]

        begins = settings is not None or template is not None
        if path is None or (continue_with is None and begins and not Path(path).exists()):
            if template is not None:
                # It imports this module.
                from ovk.app.sessions.merging import start_from

                other = template if isinstance(template, Session) else load_session(template)
                check_settings(other, settings, "the template")
                run = start_from(other, table)
            elif settings is None:
                raise ValueError("learn() requires settings, a template, or a session to resume")
            else:
                run = Session.start(table, settings)
            written = sink(run.session)
        else:
            session = load_session(path)
            check_settings(session, settings, path)
            if continue_with is not None:
                run = session.continue_with(table)
                written = sink(session)
            else:
                # Reject a wrong directory before rows are read again, which may take hours.
                written = sink(session)
                run = session.resume(table)
        session = run.learn(written, save_to, on_progress, StopSignals() if stop is None else stop)
        if not session.offset:
            raise ValueError(f"{table.label} has no rows yet")
        return session


def check_settings(session: Session, settings: Settings | None, path: str | Path) -> None:
    if settings is not None and (names := session.settings.differences(settings)):
        found = ", ".join(f"{name}={getattr(session.settings, name)!r}" for name in names)
        raise ValueError(f"{path} was learned with different settings ({found}): omit them, or start a new session")


def load_session(path: str | Path) -> Session:
    session = load(path)
    if not isinstance(session, Session):
        raise ValueError(f"{path} contains a {type(session).__name__}, not a Session saved by `ovk stream`")
    return session


#: Delay in seconds before a signal is sent again that was raised where Python ignores exceptions.
SECONDS_UNTIL_RESENT = 0.02


class Interrupted(KeyboardInterrupt):
    """A signal interrupted a run; the last block was learned completely.

    Parameters
    ----------
    signal : int
        Number of the signal.
    saved : int or None, default None
        Rows of the file that are saved to disk, None if nothing was saved.

    See Also
    --------
    StopSignals, learn

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
    """A context in which SIGINT and SIGTERM raise `Interrupted`, but only between blocks.

    A signal takes effect immediately while nothing changes, for example while waiting for rows; inside `held` it takes
    effect at the end. A second signal always raises `KeyboardInterrupt` immediately. Python ignores exceptions in
    finalisers and in callbacks from C: a signal raised there is sent again. Signals that are ignored (``nohup``) stay
    ignored. Only the main thread receives signals: in other threads this context does nothing.

    See Also
    --------
    Interrupted, learn

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

    #: The first signal received.
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
        """A block in which the first signal is delayed until the end."""
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
        """Send a signal again if Python ignored the exception that it raised."""
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
    # To the main thread, which wakes up for it where the system supports that.
    if sys.platform == "win32":
        import _thread

        _thread.interrupt_main(number)
    else:
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, number)
