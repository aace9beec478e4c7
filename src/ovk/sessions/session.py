"""What is known of a table that is being learned, in one object that can be saved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from ovk._params import Registered
from ovk.evaluation import LastValue, ProgressiveResult, Race, Recent, RunningMean
from ovk.evaluation.scaling import RunningMoments, Standardised
from ovk.sessions.models import make_model
from ovk.sessions.predictions import Predictions, predicted
from ovk.sessions.settings import Settings
from ovk.streams import Batch, Chunk, Preparation, Records

#: Faulty rows that are remembered with their fault; of the others only the number.
REMEMBERED = 10

#: Level of the intervals that are written beside predictions.
LEVEL = 0.9

#: Rows after which the widths of intervals are brought up to date.
STEP = 256

#: Fewest rows to learn from.
FEWEST = 8


@dataclass
class Session(Registered):
    """A table on its way through a learner: how its columns are read, the model, its errors, and how far it is.

    Saved and loaded it goes on with the same bits. It holds no times, so that two runs that learned the same rows make
    the same file.

    Attributes
    ----------
    settings : `Settings`
    preparation : how rows are made inputs and outputs
    race : the model beside its baselines
    recent : the last errors, for intervals
    moments : mean and deviation of all inputs and outputs so far
    offset : rows of the file that were read
    last : text of the last of them, by which the file is recognised
    parts : files of predictions that belong to this state
    n_bad : rows that could not be read
    faults : the first of them, with their faults

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.sessions import Session, Settings
    >>> from ovk.streams import open_records
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "t.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("x,y\\n" + "".join(f"{i % 7},{i % 7}\\n" for i in range(500)))
    ...     with open_records(path) as records:
    ...         session, batches = Session.begin(records, Settings(["y"], warm_up=100))
    ...         for predictions in batches:
    ...             pass
    >>> session.offset, session.race.n_rows, bool(session.result().mse[0] < 0.1)
    (500, 500, True)
    """

    settings: Settings
    preparation: Preparation
    race: Race
    recent: Recent
    moments: RunningMoments
    offset: int = 0
    last: str = ""
    parts: int = 0
    n_bad: int = 0
    faults: list[tuple[int, str]] = field(default_factory=list)

    @classmethod
    def begin(cls, records: Records, settings: Settings) -> tuple[Session, Learning]:
        """Learn the warm-up of a file; the session, and the predictions of all rows to come, learned one by one."""
        preparation = settings.preparation(records)
        batches = records.batches(settings.block)
        head: list[Batch] = []
        ended = True
        for batch in batches:
            head.append(batch)
            if sum(len(one.rows) for one in head) >= settings.warm_up:
                ended = False
                break
        whole = joined(head, len(records.names))
        n = len(whole.rows)
        if n < FEWEST:
            bad = f", and {len(whole.bad)} more cannot be read ({whole.bad[0][1]})" if whole.bad else ""
            raise ValueError(f"{records.label} has {n} rows to learn from{bad}: at least {FEWEST} are needed")
        # A file that ends within the warm-up keeps most of its rows for the test.
        first, rest = _split(whole, max(FEWEST // 2, n // 4) if ended else settings.warm_up)
        preparation.fit(first)
        rows = preparation.take(first)
        if len(rows.chunk.X) < 2:
            raise ValueError(
                f"hardly any of the first {len(first.rows)} rows of {records.label} can be read: "
                + "; ".join(f"row {row}: {fault}" for row, fault in rows.bad[:3])
            )
        model = make_model(settings.model, settings.kernel, settings.coupling, rows.chunk.X.shape[1])
        scaling = Standardised(running=False, robust=True)
        race = Race.of(model, [LastValue(), RunningMean()], scaling, rows.chunk)
        moments = RunningMoments(rows.chunk.X.shape[1] + rows.chunk.Y.shape[1])
        session = cls(settings, preparation, race, Recent.empty(len(settings.targets)), moments)
        session._note(rows.bad)
        session._see(rows.chunk)
        race.take(rows.chunk, tested=False)
        return session, Learning(session, records, chain([rest], batches))

    def resume(self, records: Records) -> Learning:
        """Go on in the file, behind the rows that were learned already."""
        self.preparation.bind(records.names, records.label)
        records.skip(self.offset, int(self.settings.block))
        if records.last != self.last:
            raise ValueError(
                f"row {self.offset} of {records.label} is not the one that was learned: it is not the file that the "
                "model was learning from, or it was changed"
            )
        return Learning(self, records, records.batches(int(self.settings.block)))

    def take(self, batch: Batch) -> Predictions:
        """Predict rows, then learn them."""
        rows = self.preparation.take(batch)
        self._note(rows.bad)
        self._see(rows.chunk)
        F = self.race.take(rows.chunk, tested=True)
        widths = np.empty(F.shape)
        for start in range(0, len(F), STEP):
            some = slice(start, start + STEP)
            widths[some] = self.recent.step(F[some], rows.chunk.Y[some], LEVEL)
        return Predictions(rows.rows, F, widths)

    def predict(self, batch: Batch, level: float = LEVEL) -> Predictions:
        """Predict rows without learning them. Their outputs, where they are known, still serve as lags."""
        rows = self.preparation.take(batch)
        self._note(rows.bad)
        if not isinstance(self.race.scaling, Standardised):
            raise TypeError("a session standardises its rows")
        return predicted(rows, self.race.scaling, self.race.model, self.recent, level)

    def result(self) -> ProgressiveResult:
        """Errors so far."""
        return self.race.result()

    def for_report(self, label: str) -> dict[str, Any]:
        """What `ovk.plotting.report` shows of a session besides its errors."""
        moments = self.moments
        roles = [*(["input"] * len(self.race.features)), *(["output"] * len(self.race.outputs))]
        names = [*self.race.features, *self.race.outputs]
        seen = moments.count / max(self.race.n_rows, 1)
        # Outputs first: there are fewer of them.
        rows = zip(names, roles, seen, moments.mean, moments.sd, strict=True)
        summary = sorted(rows, key=lambda row: row[1] == "input")
        notes = [f"{self.offset:,} rows of {label} were read."]
        if self.n_bad:
            first = "; ".join(f"row {row}: {fault}" for row, fault in self.faults[:3])
            notes.append(f"{self.n_bad:,} rows could not be read and were left out ({first}).")
        notes += [f"Column {name!r} is not used: {why}." for name, why in self.preparation.left_out_.items()]
        settings = {**self.settings.get_params(deep=False), "learner": repr(self.race.model)}
        return {
            "title": f"What was learned from {label}",
            "summary": summary,
            "recent": self.recent,
            "settings": settings,
            "notes": notes,
        }

    def _see(self, chunk: Chunk) -> None:
        if len(chunk.X):
            self.moments.take(np.hstack([chunk.X, chunk.Y]))

    def _note(self, bad: list[tuple[int, str]]) -> None:
        self.n_bad += len(bad)
        self.faults += bad[: REMEMBERED - len(self.faults)]


class Learning:
    """Predictions of the rows of a file, each learned after it was predicted."""

    def __init__(self, session: Session, records: Records, batches: Iterator[Batch]) -> None:
        self.session, self.records = session, records
        self._batches = batches

    def __iter__(self) -> Learning:
        return self

    def __next__(self) -> Predictions:
        predictions = self.session.take(next(self._batches))
        self.session.offset, self.session.last = self.records.offset, self.records.last
        return predictions


def joined(batches: list[Batch], width: int) -> Batch:
    """All rows of the batches in one."""
    columns: list[Sequence[Any]] = [
        list(chain.from_iterable(batch.columns[j] for batch in batches)) for j in range(width)
    ]
    rows = list(chain.from_iterable(batch.rows for batch in batches))
    return Batch(columns, rows, list(chain.from_iterable(batch.bad for batch in batches)))


def _split(batch: Batch, count: int) -> tuple[Batch, Batch]:
    """The first `count` rows, and the others."""
    end = batch.rows[count - 1]
    return (
        Batch([column[:count] for column in batch.columns], batch.rows[:count], [b for b in batch.bad if b[0] <= end]),
        Batch([column[count:] for column in batch.columns], batch.rows[count:], [b for b in batch.bad if b[0] > end]),
    )
