"""What is known of a table that is being learned, in one object that can be saved."""

from __future__ import annotations

import hashlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np

from ovk.app.sessions.file_predictions import FilePredictions
from ovk.app.sessions.forecasts import Forecast, HorizonErrors, forecast
from ovk.app.sessions.predictions import MAX_BAD_ROWS_KEPT, PredictionColumns, Predictions, RowPredictor
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
from ovk.app.tables import Batch, Preparation, Prepared, Records, concatenate, open_records
from ovk.base import Array, Label, Registered, State, quoted
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

#: Fewest rows to learn from.
MIN_ROWS = 8


#: Share of rows with unreadable cells above which a file is refused.
MAX_BAD: Any = next(one.default for one in Settings.declared() if one.name == "max_bad")


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
        timed = self.preparation.clock() is not None
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
            "faults": [{"row": row, "fault": fault} for row, fault in self.bad_rows[:10]],
            "columns": found.readings,
            "remarks": found.warnings,
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
        max_bad: float = MAX_BAD,
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
    parts : files of predictions that belong to this state
    lines : lines of predictions in the last of them, if it is unfinished
    n_bad : rows that had unreadable cells
    bad_rows : the first of them, with what is wrong
    position : where in the stream of a broker the next row is; None for files
    horizons : errors of forecasts several rows ahead; None without lags, or with a horizon of 0
    inputs : (m, p) inputs of the last rows, to tell which of them matter

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.app.sessions import Session, Settings
    >>> from ovk.app.tables import open_records
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "t.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("x,y\\n" + "".join(f"{i % 7},{i % 7}\\n" for i in range(500)))
    ...     with open_records(path) as records:
    ...         session, batches = Session.start(records, Settings(["y"], warm_up=100))
    ...         for predictions in batches:
    ...             pass
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
    parts: int = 0
    lines: int = 0
    n_bad: int = 0
    bad_rows: list[tuple[int, str]] = field(default_factory=list)
    position: Any = None
    horizons: HorizonErrors | None = None
    inputs: Array | None = None

    _state_classes = {"moments": RunningMoments, "horizons": HorizonErrors}

    @classmethod
    def start(cls, records: Records, settings: Settings) -> tuple[Session, BlockReader]:
        """Learn the warm-up of a file; the session, and the predictions of all rows to come, learned one by one."""
        learning = next(learning for learning in cls.starting(records, settings) if learning is not None)
        return learning.session, learning

    @classmethod
    def starting(cls, records: Records, settings: Settings) -> Iterator[BlockReader | None]:
        """None whenever the warm-up still waits for rows, and the rows after it at last."""
        settings.check()
        settings.refuse_groups("use ovk fit (fit_file), or leave groups out")
        # Before there are rows, a stream that is waited for has no columns.
        preparation = None if records.waits else settings.preparation(records)
        batches = records.batches(settings.block)
        head: list[Batch] = []
        ended = True
        known = (0, "")
        for batch in batches:
            if not batch.rows and not batch.bad:
                yield None
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
        session.id, session.head = _identity(settings, records.digest()), known
        yield BlockReader(session, records, chain([rest], batches))

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

    def resume(self, records: Records) -> BlockReader:
        """Go on in the file, after the rows that were learned already."""
        records.resume_at(self.offset, int(self.settings.block), self.digest, self.position)
        return BlockReader(self, records, records.batches(int(self.settings.block)))

    def continue_with(self, records: Records) -> BlockReader:
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
        self.offset, self.digest, self.head, self.lines, self.position = 0, "", (0, ""), 0, None
        return BlockReader(self, records, chain([batch], records.batches(block)))

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


class BlockReader:
    """The rows of a file, in blocks, each predicted and then learned.

    To read and to learn are two steps, so that a signal may end the one at any moment and wait for the other.
    """

    def __init__(self, session: Session, records: Records, batches: Iterator[Batch]) -> None:
        self.session, self.records = session, records
        self._batches, self._bound = batches, False

    def __iter__(self) -> Iterator[Predictions]:
        while (batch := self.read()) is not None:
            yield self.learn(batch)

    def read(self) -> Batch | None:
        """The rows to come, None at the end of the file; the session stays as it is."""
        return next(self._batches, None)

    def learn(self, batch: Batch) -> Predictions:
        """Predict rows that were read, then learn them."""
        session, records = self.session, self.records
        if not self._bound:
            # Only now: the stream of a broker has no columns before its first row.
            session.preparation.bind(records.names, records.label)
            self._bound = True
        predictions = session.predict_then_learn(batch)
        self.mark()
        if not session.head[0]:
            session.head = (session.offset, session.digest)
        return predictions

    def mark(self) -> None:
        """Let the session know that the rows up to here are learned."""
        session, records = self.session, self.records
        session.offset, session.digest, session.position = records.offset, records.digest(), records.position()


def _identity(settings: Settings, digest: str) -> str:
    """The id of a session. Not a random number: two runs that learned the same rows make the same file."""
    return hashlib.sha256(f"{settings.get_params(deep=False)!r} {digest}".encode()).hexdigest()[:32]


def _split(batch: Batch, count: int) -> tuple[Batch, Batch]:
    """The first `count` rows, and the others."""
    end = batch.rows[count - 1]
    return (
        Batch([column[:count] for column in batch.columns], batch.rows[:count], [b for b in batch.bad if b[0] <= end]),
        Batch([column[count:] for column in batch.columns], batch.rows[count:], [b for b in batch.bad if b[0] > end]),
    )
