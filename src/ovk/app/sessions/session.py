"""What is known of a table that is being learned, in one object that can be saved."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Self

import numpy as np

from ovk.app.sessions.columns import PredictionColumns
from ovk.app.sessions.file_predictions import TableModel
from ovk.app.sessions.forecasts import Forecast, HorizonErrors, forecast
from ovk.app.sessions.input_relevance import ROWS, relevance
from ovk.app.sessions.predictions import (
    ClassColumns,
    ClassPredictions,
    ClassRowPredictor,
    Predictions,
    RowPredictor,
    label_codes,
)
from ovk.app.sessions.remarks import REMEMBERED, ColumnRow, bad_rows_note, column_summary
from ovk.app.sessions.settings import Settings, make_model
from ovk.app.tables import Batch, Label, Preparation, Prepared, Records, concatenate
from ovk.base import Array, Registered, State
from ovk.evaluation import (
    Chunk,
    Evaluator,
    LastValue,
    ProgressiveResult,
    RecentErrors,
    RunningMean,
    RunningMoments,
    Standardised,
    quoted,
)
from ovk.online import AutoStreamClassifier

#: Fewest rows to learn from.
FEWEST = 8


@dataclass(repr=False)
class Session(TableModel, State, Registered):
    """A table on its way through a learner: how its columns are read, the model, its errors, and how far it is.

    Saved and loaded it goes on with the same bits. It holds no times, so that two runs that learned the same rows make
    the same file.

    Attributes
    ----------
    settings : `Settings`
    preparation : how rows are made inputs and outputs
    evaluator : the model beside its baselines
    recent : the last errors, for intervals
    moments : mean and deviation of all inputs and outputs so far
    id : what tells the session from those of other files or settings
    offset : rows of the file that were read
    digest : digest of the names of its columns and of these rows, by which the file is recognised
    head : number of the rows that were read first, and the digest up to there, by which the file is told from the next
    earlier : rows of the files that were learned before this one
    parts : files of predictions that belong to this state
    lines : lines of predictions in the last of them, if it is unfinished
    n_bad : rows that had unreadable cells
    faults : the first of them, with their faults
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
    faults: list[tuple[int, str]] = field(default_factory=list)
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
        """None whenever the warm-up still waits for rows, and the rows behind it at last."""
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
        if n < FEWEST:
            bad = f", and {len(whole.bad)} more cannot be read ({whole.bad[0][1]})" if whole.bad else ""
            raise ValueError(f"{records.label} has {n} rows to learn from{bad}: at least {FEWEST} are needed")
        assert preparation is not None
        # A file that ends within the warm-up keeps most of its rows for the test.
        first, rest = _split(whole, max(FEWEST // 2, n // 4) if ended else settings.warm_up)
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
        lags = bool(settings.lags)
        model = make_model(settings.model, settings.stream_kernel, settings.coupling, p, lags=lags)
        scaling = Standardised(running=False, robust=True)
        evaluator = Evaluator.start(model, [LastValue(), RunningMean()], scaling, rows.chunk)
        session = cls(
            settings, preparation, evaluator, RecentErrors.empty(d, level=settings.level), RunningMoments(p + d)
        )
        session._count(rows)
        evaluator.predict_then_learn(rows.chunk, tested=False)
        if settings.horizon and settings.lags:
            past = preparation.lags_.past_
            session.horizons = HorizonErrors.start(int(settings.horizon), settings.lags, past, evaluator.model, n, p)
        return session

    def resume(self, records: Records) -> BlockReader:
        """Go on in the file, behind the rows that were learned already."""
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
        self.preparation, rows = self._prepared(batch)
        self._count(rows)
        F = self._learn(rows.chunk)
        Y, instants = rows.chunk.Y, rows.instants
        return Predictions(rows.rows, F, self.recent.update(F, Y, instants), Y, instants)

    def _prepared(self, batch: Batch) -> tuple[Preparation, Prepared]:
        """Inputs and outputs of rows, and the preparation that has read them; the session stays as it is."""
        preparation = self.preparation.fork()
        rows = preparation.prepare(batch)
        if rows.bad:
            total = self.evaluator.n_rows + len(batch.rows) + len(batch.bad)
            self.settings.check_bad_rows(self.n_bad + len(rows.bad), total, rows.bad[-1], preparation.label)
        return preparation, rows

    def _learn(self, chunk: Chunk) -> Array:
        """(n, d) predictions of rows that are learned then, and tested in forecasts several rows ahead."""
        if self.horizons is None:
            return self.evaluator.predict_then_learn(chunk, tested=True)
        found, start = [np.empty((0, len(chunk.targets)))], 0
        predictor = self.predictor()
        while start < len(chunk.X):
            # Another model is kept at fixed rows of the stream, wherever blocks end.
            end = start + self.horizons.room
            part = chunk._replace(X=chunk.X[start:end], Y=chunk.Y[start:end])
            found.append(self.evaluator.predict_then_learn(part, tested=True))
            self.horizons.add(part.X, part.Y, self.evaluator.model, predictor.with_model)
            start = end
        return np.concatenate(found)

    def predictor(self) -> RowPredictor:
        """What predicts a table of several batches, each with the lags that those before it leave."""
        if not isinstance(self.evaluator.scaling, Standardised):
            raise TypeError("a session standardises its rows")
        return RowPredictor(self.preparation, self.evaluator.scaling, self.evaluator.model, self.recent)

    def forecast(self, steps: int, level: float | None = None, future: Records | None = None) -> Forecast:
        """Forecast the rows that follow, each from the forecasts before it; nothing changes.

        Parameters
        ----------
        steps : how many rows
        level : how often an interval should hold the outcome; by default as in the settings
        future : a table of the rows to forecast, with the inputs that are neither lags nor the calendar
        """
        predictor = self.predictor()
        errors = None if self.horizons is None else self.horizons.measured(predictor.with_model)
        return forecast(predictor, steps, level, future, errors)

    def prediction_columns(self, *, outcomes: bool = True) -> Any:
        """How predictions are written."""
        return PredictionColumns(self.settings.targets, timed=self.preparation.clock() is not None, outcomes=outcomes)

    def result(self) -> ProgressiveResult:
        """Errors so far."""
        return self.evaluator.result()

    def for_report(self, label: str | None = None) -> dict[str, Any]:
        """What `ovk.report` shows of a session besides its errors; `label` names the file that was learned."""
        before = f", after {self.earlier:,} of earlier files" if self.earlier else ""
        notes = [f"{self.offset:,} rows{f' of {label}' if label else ''} were read{before}."]
        if self.n_bad:
            notes.append(bad_rows_note(self.n_bad, self.faults))
        notes += [f"Column {name!r} is not used: {why}." for name, why in self.preparation.left_out_.items()]
        settings = {**self.settings.get_params(deep=False), "learner": repr(self.evaluator.model)}
        return {
            "title": f"What was learned from {label}" if label else "What was learned",
            "summary": self.columns(),
            "recent": self.recent,
            "relevance": relevance(self.predictor(), self.inputs),
            "settings": settings,
            "notes": notes,
        }

    def columns(self) -> list[ColumnRow]:
        """Name and role of each column, share of its values that were observed, their mean and standard deviation."""
        return column_summary(self.preparation, self.evaluator.outputs, self.moments, self.evaluator.n_rows)

    def _count(self, rows: Prepared) -> None:
        """Add rows to the moments and to the number of faulty ones."""
        self.n_bad += len(rows.bad)
        self.faults += rows.bad[: REMEMBERED - len(self.faults)]
        if rows.rows:
            last = rows.chunk.X[-ROWS:]
            self.inputs = (last if self.inputs is None else np.concatenate([self.inputs, last]))[-ROWS:]
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


# A stream of classes that is being learned, in one object that can be saved.


@dataclass(repr=False)
class ClassSession(Session):
    """A session whose target holds classes.

    Attributes
    ----------
    recent : nothing; classes have probabilities instead of intervals

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.app.sessions import ClassSession, Settings
    >>> from ovk.app.tables import open_records
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "t.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("x,y\\n" + "".join(f"{i % 7},{'big' if i % 7 > 3 else 'small'}\\n" for i in range(500)))
    ...     with open_records(path) as records:
    ...         session, batches = ClassSession.start(records, Settings(["y"], warm_up=100, classify=True))
    ...         for predictions in batches:
    ...             pass
    >>> predictions.labels, session.result().model.accuracy > 0.9
    (['big', 'small'], True)
    """

    @classmethod
    def from_warm_up(cls, settings: Settings, preparation: Preparation, rows: Prepared) -> Self:
        p = rows.chunk.X.shape[1]
        model = make_model(settings.model, settings.stream_kernel, settings.coupling, p, classify=True)
        evaluator = Evaluator.start(model, None, Standardised(running=False, robust=True), rows.chunk)
        session = cls(settings, preparation, evaluator, RecentErrors.empty(1), RunningMoments(p + 1))
        session._learn_classes(rows, tested=False)
        return session

    def predict_then_learn(self, batch: Batch) -> ClassPredictions:  # type: ignore[override]
        """Predict rows, then learn them."""
        preparation, rows = self._prepared(batch)
        labels = preparation.classes()
        model = self.evaluator.model
        if len(labels) > len(self.preparation.classes()) and not isinstance(model, AutoStreamClassifier):
            raise ValueError(
                f"the label {labels[len(self.preparation.classes())]!r} did not come in the warm-up, and "
                f"{type(model).__name__} must know all classes at the start: use the model autostream, or a longer "
                "warm_up"
            )
        self.preparation = preparation
        P = self._learn_classes(rows, tested=True)
        return ClassPredictions(rows.rows, P.argmax(axis=1), P, list(labels), label_codes(rows.chunk.Y), rows.instants)

    def _learn_classes(self, rows: Prepared, *, tested: bool) -> Array:
        self._count(rows)
        return self.evaluator.predict_then_learn(rows.chunk, tested=tested, classes=self.preparation.classes())

    def predictor(self) -> ClassRowPredictor:
        if not isinstance(self.evaluator.scaling, Standardised):
            raise TypeError("a session standardises its rows")
        return ClassRowPredictor(self.preparation, self.evaluator.scaling, self.evaluator.model, self.recent)

    def forecast(self, steps: int, level: float | None = None, future: Records | None = None) -> Forecast:
        raise ValueError("forecasts are of numbers, and this session learns classes: predict rows with known inputs")

    def prediction_columns(self, *, outcomes: bool = True) -> Any:
        (label,) = self.preparation.outputs_
        assert isinstance(label, Label)
        timed = self.preparation.clock() is not None
        return ClassColumns(label.name, label.levels[: label.first], timed=timed, outcomes=outcomes)

    def columns(self) -> list[ColumnRow]:
        return column_summary(self.preparation, (), self.moments, self.evaluator.n_rows)
