"""A file learned to its end, with checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ovk._threads import one_blas_thread
from ovk.persistence import load, save
from ovk.sessions.classes import ClassSession
from ovk.sessions.interrupts import Interrupted, StopSignals
from ovk.sessions.merging import start_like
from ovk.sessions.predictions import Parts
from ovk.sessions.publishing import PrintedPredictions, PublishedPredictions
from ovk.sessions.session import Learning, Session
from ovk.sessions.settings import Settings
from ovk.streams import BrokerError, Records, is_address
from ovk.streams.text import STDIN

#: Where predictions go.
PredictionSink = Parts | PublishedPredictions | PrintedPredictions


class SessionProgress(NamedTuple):
    """How far a session is: the session, rows read in this run, rows safe on the disk."""

    session: Session
    rows: int
    saved: int


def learn(
    records: Records,
    settings: Settings | None,
    *,
    save_to: str | Path | None = None,
    resume: str | Path | None = None,
    continue_with: str | Path | None = None,
    like: Session | str | Path | None = None,
    predictions: str | Path | None = None,
    parquet: bool = False,
    watch: Callable[[SessionProgress], None] = lambda progress: None,
    stop: StopSignals | None = None,
) -> Session:
    """Learn a file to its end, saving the session now and then.

    A checkpoint is a whole session in one file, written atomically after the part of the predictions that belongs to
    it: whenever the process is killed, the file on the disk is one from which it goes on as if nothing had happened.
    BLAS uses one thread: its blocks are small, and the same sums in the same order give the same bits.

    Parameters
    ----------
    records : an opened file
    settings : how to learn it; None takes those of the session that is resumed
    save_to : file of the session; default that of `resume` or `continue_with`, or none
    resume : file of a session to go on with; where there is none yet, with `settings` or `like`, it begins at the
        first row
    continue_with : file of a session that has learned other files before: it goes on with the first row of this one.
        If it is this one that it was learning, it is resumed
    like : session, or its file, whose columns, scaling, kernel and features a new session takes instead of learning
        them from its first rows, so that the two can be merged (`merge_sessions`)
    predictions : folder for the predictions, in parts, ``-`` to print them, or ``nats://host:4222/SUBJECT`` to publish
        them
    parquet : write the parts as Parquet files instead of CSV
    watch : called after every block
    stop : an open `StopSignals`: a signal then ends the run after the block at hand, with a checkpoint

    Raises
    ------
    Interrupted
        if `stop` has received a signal; what was learned until then is saved.

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.sessions import Settings, learn
    >>> from ovk.streams import open_records
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path, model = os.path.join(folder, "t.csv"), os.path.join(folder, "model.ovk")
    ...     with open(path, "w") as file:
    ...         _ = file.write("x,y\\n" + "".join(f"{i % 7},{i % 7}\\n" for i in range(500)))
    ...     with open_records(path) as records:
    ...         first = learn(records, Settings(["y"], warm_up=100), save_to=model)
    ...     with open(path, "a") as file:
    ...         _ = file.write("3,3\\n4,4\\n")
    ...     with open_records(path) as records:
    ...         again = learn(records, None, resume=model)
    >>> first.offset, again.offset
    (500, 502)
    """
    if resume is not None and continue_with is not None:
        raise ValueError("resume and continue_with exclude each other: give one of them")
    place = resume if continue_with is None else continue_with
    save_to = place if save_to is None else save_to
    stop = StopSignals() if stop is None else stop
    with one_blas_thread(tiles=1):
        begins = settings is not None or like is not None
        if place is not None and (continue_with is not None or not begins or Path(place).exists()):
            session = load_session(place)
            _check_settings(session, settings, place)
            # A wrong folder should be found before hours of rows are read again.
            parts = None
            if predictions is not None and not continue_with:
                parts = _parts(predictions, session, save_to, parquet, records.label)
            learning = session.continue_with(records) if continue_with else session.resume(records)
            if predictions is not None and parts is None:
                parts = _parts(predictions, session, save_to, parquet, records.label)
        else:
            session, learning = _new_session(records, settings, like)
            parts = (
                None
                if predictions is None
                else _parts(predictions, session, save_to, parquet, records.label, resumed=resume is not None)
            )
        try:
            return _run(session, learning, parts, save_to, watch, stop)
        finally:
            if parts is not None:
                parts.close()


def _new_session(
    records: Records, settings: Settings | None, like: Session | str | Path | None
) -> tuple[Session, Learning]:
    if like is not None:
        other = like if isinstance(like, Session) else load_session(like)
        _check_settings(other, settings, "the session to begin like")
        return start_like(records, other)
    if settings is None:
        raise ValueError("there are neither settings to start with nor a session to resume: give one of them")
    return (ClassSession if settings.classify else Session).start(records, settings)


def _run(
    session: Session,
    learning: Learning,
    parts: PredictionSink | None,
    save_to: str | Path | None,
    watch: Callable[[SessionProgress], None],
    stop: StopSignals,
) -> Session:
    """Learn to the end of the file, or to the next block's end when a signal comes."""
    start = saved = safe = session.offset
    every = int(session.settings.every)

    def checkpoint(*, finished: bool) -> None:
        if parts is not None:
            parts.commit(finished=finished)
            session.parts, session.lines = parts.done, parts.lines
        if save_to is not None:
            save(session, save_to)

    try:
        while (batch := learning.read()) is not None:
            with stop.held():
                if not batch.rows and not batch.bad:
                    # A stream that is followed pauses: a good moment to bring what is learned to safety.
                    if session.offset > safe:
                        checkpoint(finished=False)
                        safe = session.offset
                    continue
                found = learning.learn(batch)
                if parts is not None:
                    parts.add(found)
                # A matter of rows, not of time: an interrupted run makes the same parts as another.
                if session.offset // every > saved // every:
                    checkpoint(finished=True)
                    saved = safe = session.offset
                watch(SessionProgress(session, session.offset - start, saved))
        with stop.held():
            checkpoint(finished=False)
    except BrokerError:
        # A server that stays away, or has lost messages: what was learned until then is safe.
        if session.offset > safe:
            checkpoint(finished=False)
        raise
    except Interrupted as error:
        # A session of which no block was learned yet, not even the rest of its warm-up, cannot be resumed.
        if session.offset:
            with stop.held():
                checkpoint(finished=False)
            error.saved = None if save_to is None else session.offset
        raise
    return session


def _check_settings(session: Session, settings: Settings | None, place: str | Path) -> None:
    if settings is not None and (names := session.settings.differences(settings)):
        found = ", ".join(f"{name}={getattr(session.settings, name)!r}" for name in names)
        raise ValueError(f"{place} was learned with other settings ({found}): leave them out, or start anew")


def _parts(
    folder: str | Path, session: Session, model: str | Path | None, parquet: bool, label: str, *, resumed: bool = True
) -> PredictionSink:
    targets, columns = list(session.settings.targets), session.prediction_columns()
    if parquet and (str(folder) == STDIN or is_address(str(folder))):
        raise ValueError(f"Parquet files go into a folder, and predictions go to {folder}: leave parquet out")
    if str(folder) == STDIN:
        return PrintedPredictions(columns)
    if is_address(str(folder)):
        return PublishedPredictions(str(folder), columns, session.id, label)
    return Parts(
        folder,
        targets,
        session.id,
        columns=columns,
        done=session.parts,
        lines=session.lines,
        model=model,
        parquet=parquet,
        resumed=resumed,
    )


def load_session(path: str | Path) -> Session:
    """The session in a file."""
    session = load(path)
    if not isinstance(session, Session):
        raise ValueError(
            f"{path} holds a {type(session).__name__}, not a stream that was learned: give what `ovk stream` saved"
        )
    return session
