"""The partitions of a stream learned side by side, each with its position, and merged whenever they are saved.

The first rows of all partitions tell columns, scaling, kernel and features, and are learned by a session of their own,
the warm-up. Each partition goes on behind its share of them, with a session that begins like the warm-up and learns the
rows of that partition alone. So nothing depends on which partition was read when; the sum of all sessions is the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from ovk.app.sessions.learning import beginning, check_settings, load_session
from ovk.app.sessions.merging import before_any_row, merge_sessions, start_like
from ovk.app.sessions.runs import (
    ModelFile,
    PredictionSink,
    Run,
    SessionProgress,
    StopSignals,
    learn_runs,
    prediction_sink,
)
from ovk.app.sessions.session import FEWEST, Learning, Session, TooFewRows, identity
from ovk.app.sessions.settings import Settings
from ovk.app.tables import Batch, BrokerRecords, NoColumns, Partitions, Prepared, concatenate
from ovk.base import one_blas_thread
from ovk.evaluation import Chunk, quoted
from ovk.online import PKAWV

#: The name of the warm-up among the sessions of a file.
WARM_UP = "warm-up"


def learn_partitions(
    partitions: Partitions,
    settings: Settings | None,
    *,
    save_to: str | Path | None = None,
    resume: str | Path | None = None,
    like: Session | str | Path | None = None,
    predictions: str | Path | None = None,
    parquet: bool = False,
    watch: Callable[[SessionProgress], None] = lambda progress: None,
    stop: StopSignals | None = None,
) -> Session | dict[str, Session]:
    """Learn the partitions of a topic to their ends, saving all of them now and then.

    A learner that can be merged (PKAWV) gives one session, whose model has learned the rows of all partitions. Its file
    holds the session of each partition with its position as well, written by the same rename; a partition that is new
    when it is resumed begins like the others. Every row is predicted by the model of its own partition, before that
    learns it, so that predictions and model do not depend on the order in which partitions were read.

    Other learners, and those of classes, stay one a partition, each in a file of its own, ``model-0.ovk`` and so on,
    just as if it were learned alone.

    Parameters
    ----------
    partitions : those of `ovk.app.tables.open_partitions`
    predictions : folder for the predictions, with a folder for each partition; or ``nats://host:4222/SUBJECT``
    settings, save_to, resume, like, parquet, watch, stop : as in `learn`

    Returns
    -------
    The session of all partitions, or those of each by its name. A partition with too few rows to begin with is missing.

    Examples
    --------
    >>> from ovk.app.sessions import Settings, learn_partitions
    >>> from ovk.app.tables import BrokerError, open_partitions
    >>> try:
    ...     with open_partitions("kafka://127.0.0.1:9092/readings?partition=0&partition=0") as partitions:
    ...         session = learn_partitions(partitions, Settings(["y"]), resume="model.ovk")
    ... except BrokerError as error:
    ...     print(error)
    'kafka://127.0.0.1:9092/readings?partition=0&partition=0' names partition '0' twice: name it once
    """
    place = resume if save_to is None else save_to
    stop = StopSignals() if stop is None else stop
    parts = dict(zip(partitions.names, partitions, strict=True))

    def sink(name: str, model: str | Path | None) -> Callable[[Session], PredictionSink | None]:
        def opened(session: Session) -> PredictionSink | None:
            if predictions is None:
                return None
            label = parts[name].label
            return prediction_sink(predictions, session, model, parquet, label, name, resumed=resume is not None)

        return opened

    with one_blas_thread(tiles=1):
        resumed = resume is not None and Path(resume).exists()
        if resume is not None and resumed:
            known = load_session(resume)
            check_settings(known, settings, resume)
            warm_up, learnings = _resumed(partitions, known, str(resume))
        elif like is not None:
            other = like if isinstance(like, Session) else load_session(like)
            check_settings(other, settings, "the session to begin like")
            warm_up, learnings = None, [_like(records, other) for records in partitions]
        elif settings is None or not mergeable(settings):
            return _learn_apart(parts, settings, sink, resume, place, watch, stop)
        else:
            warm_up, learnings = start_together(partitions, settings)
        runs = [Run([learning], sink(name, place)) for name, learning in zip(parts, learnings, strict=True)]
        for run in runs:
            run.begin()
            if not resumed:
                # The rows of the warm-up were read in this run, too.
                run.start = 0
        streams = [records.broker.identity for records in partitions]
        file = ModelFile(runs, place, lambda sessions: _merged(warm_up, dict(zip(streams, sessions, strict=True))))
        learn_runs([file], watch, stop)
        return file.session()


def mergeable(settings: Settings) -> bool:
    """Whether the learner of these settings can be merged; that of "auto" can, unless there are many inputs.

    >>> mergeable(Settings(["y"])), mergeable(Settings(["y"], model="olok"))
    (True, False)
    """
    return settings.model in ("auto", "pkawv") and not settings.classify


def partition_file(path: str | Path, name: str) -> Path:
    """The file of one partition's learner.

    >>> partition_file("models/m.ovk", "2").as_posix()
    'models/m-2.ovk'
    """
    path = Path(path)
    return path.with_name(f"{path.stem}-{name}{path.suffix}")


def start_together(partitions: Partitions, settings: Settings) -> tuple[Session, list[Learning]]:
    """Learn a warm-up of the first rows of all partitions; that session, and the rows behind it of each."""
    settings.check()
    settings.refuse_groups("use ovk fit (fit_file), or leave groups out")
    places = [records.position() for records in partitions]
    counts = _shares(partitions, int(settings.warm_up))
    heads: list[tuple[BrokerRecords, Batch]] = []
    for records, place, count in zip(partitions, places, counts, strict=True):
        records.resume_at(0, 0, "", place)
        heads.append((records, _first_rows(records, count)))
    known = [(records, batch) for records, batch in heads if batch.rows]
    if not known:
        raise TooFewRows(f"{partitions.label} has no rows to learn from: at least {FEWEST} are needed")
    names = known[0][0].names
    # A column that a partition lacks is refused by its name below, if it is needed.
    aligned = [Batch([_column(one, batch, name) for name in names], batch.rows, []) for one, batch in known]
    pooled = concatenate(aligned, len(names))
    preparation = settings.preparation(known[0][0]).fit(pooled._replace(rows=list(range(1, len(pooled.rows) + 1))))
    own = [before_any_row(preparation) for _ in heads]
    rows = [
        one.bind(records.names, records.label).prepare(batch)
        for one, (records, batch) in zip(own, heads, strict=True)
        if batch.rows or batch.bad
    ]
    # Forecasts are tested row by row, and rows of several partitions do not follow each other.
    alone = clone(settings).set_params(horizon=0)
    warm_up = Session.from_warm_up(alone, preparation, _joined(rows), mergeable=True)
    warm_up.settings, warm_up.id = settings, identity(settings, [records.digest() for records in partitions])
    if not isinstance(warm_up.evaluator.model, PKAWV):
        raise ValueError(
            f"{partitions.label} has {len(partitions)} partitions and {len(warm_up.evaluator.features)} inputs, too "
            "many for a learner that can be merged: for one learner a partition, give --model olok (model='olok')"
        )
    learnings = [_like(records, warm_up) for records in partitions]
    for learning, preparation in zip(learnings, own, strict=True):
        learning.session.preparation = preparation
    return warm_up, learnings


def _like(records: BrokerRecords, other: Session) -> Learning:
    """A partition that begins like another session, where it is read next: it can be saved before it has learned."""
    learning = start_like(records, other)[1]
    learning.mark()
    return learning


def _shares(partitions: Partitions, warm_up: int) -> list[int]:
    """How many of its first rows each partition gives to the warm-up: some make up for what others do not have."""
    share = -(-warm_up // len(partitions))
    batches = {i: records.batches(share) for i, records in enumerate(partitions)}
    counts = [0] * len(partitions)
    while batches and sum(counts) < warm_up:
        for i, some in list(batches.items()):
            batch = next(some, None)
            if batch is None:
                del batches[i]
            else:
                counts[i] += len(batch.rows) + len(batch.bad)
    if sum(counts) < FEWEST:
        raise TooFewRows(f"{partitions.label} has {sum(counts)} rows to learn from: at least {FEWEST} are needed")
    # A topic that ends within the warm-up keeps most of its rows for the test.
    return counts if batches else [-(-count // 4) for count in counts]


def _first_rows(records: BrokerRecords, count: int) -> Batch:
    """So many rows from the beginning of a stream, which has them."""
    found = []
    while records.offset < count and (batch := next(records.batches(count), None)) is not None:
        found += [batch] if batch.rows or batch.bad else []
    return concatenate(found, len(records.names)) if found else Batch([], [], [])


def _column(records: BrokerRecords, batch: Batch, name: str) -> Sequence[Any]:
    """The cells of a column, missing where the partition does not have it."""
    return batch.columns[records.names.index(name)] if name in records.names else [None] * len(batch.rows)


def _joined(rows: list[Prepared]) -> Prepared:
    """Rows of several partitions in one chunk."""
    first = rows[0].chunk
    X, Y = (np.concatenate([getattr(one.chunk, name) for one in rows]) for name in ("X", "Y"))
    numbers = [number for one in rows for number in one.rows]
    return Prepared(Chunk(X, Y, first.features, first.targets), numbers, [bad for one in rows for bad in one.bad])


def _resumed(partitions: Partitions, known: Session, place: str) -> tuple[Session | None, list[Learning]]:
    """The warm-up of a session, and the rows to come of each partition; a new one begins like the first."""
    sessions = dict(known.partitions)
    warm_up = sessions.pop(WARM_UP, None)
    if not sessions:
        # A topic that had one partition when it was begun.
        stream = (known.position or {}).get("stream", place)
        sessions = {stream: known}
    streams = {records.broker.identity for records in partitions}
    if missing := [stream for stream in sessions if stream not in streams]:
        raise ValueError(
            f"{place} was learning {quoted(missing)}, which {partitions.label} does not have: give the topic that it "
            "was learning, with all its partitions"
        )
    first = next(iter(sessions.values()))
    return warm_up, [
        sessions[stream].resume(records) if (stream := records.broker.identity) in sessions else _late(records, first)
        for records in partitions
    ]


def _late(records: BrokerRecords, first: Session) -> Learning:
    """A partition that was not there when the others began."""
    if records.broker.origin is not None:
        records.resume_at(0, 0, "", {**records.position(), "message": records.broker.origin})
    return _like(records, first)


def _merged(warm_up: Session | None, sessions: dict[str, Session]) -> Session:
    """The session of all rows, which holds those of the partitions."""
    every = [session for session in [warm_up, *sessions.values()] if session is not None and session.evaluator.n_rows]
    whole = merge_sessions(every or list(sessions.values())[:1])
    return replace(
        whole,
        offset=sum(session.offset for session in sessions.values()),
        earlier=sum(session.earlier for session in sessions.values()),
        partitions=sessions if warm_up is None else {WARM_UP: warm_up, **sessions},
    )


def _learn_apart(
    parts: dict[str, BrokerRecords],
    settings: Settings | None,
    sink: Callable[[str, str | Path | None], Callable[[Session], PredictionSink | None]],
    resume: str | Path | None,
    place: str | Path | None,
    watch: Callable[[SessionProgress], None],
    stop: StopSignals,
) -> dict[str, Session]:
    """Learn each partition by itself, in a file of its own."""
    if settings is None and resume is not None:
        begun = [path for name in parts if (path := partition_file(resume, name)).exists()]
        settings = load_session(begun[0]).settings if begun else None
    files = {}
    for name, records in parts.items():
        to, before = (None if path is None else partition_file(path, name) for path in (place, resume))
        files[name] = ModelFile([Run(_alone(records, settings, before), sink(name, to))], to)
    learn_runs(list(files.values()), watch, stop)
    found = {name: file.session() for name, file in files.items() if file.runs[0].learning is not None}
    if not found:
        raise TooFewRows(f"no partition has rows enough to learn from: at least {FEWEST} are needed")
    return found


def _alone(records: BrokerRecords, settings: Settings | None, place: Path | None) -> Iterator[Learning | None]:
    """The beginning of a partition's own session; nothing while there are too few rows."""
    if place is not None and place.exists():
        session = load_session(place)
        check_settings(session, settings, place)
        yield session.resume(records)
        return
    if not records.empty:
        try:
            yield from beginning(records, settings, None)
        except (TooFewRows, NoColumns):
            return
