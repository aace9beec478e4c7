"""A file learned to its end, with checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from threadpoolctl import threadpool_limits

from ovk.persistence import load, save
from ovk.sessions.parts import Parts
from ovk.sessions.session import Learning, Session
from ovk.sessions.settings import Settings
from ovk.streams import Records


class Progress(NamedTuple):
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
    predictions: str | Path | None = None,
    watch: Callable[[Progress], None] = lambda progress: None,
) -> Session:
    """Learn a file to its end, saving the session now and then.

    A checkpoint is a whole session in one file, written atomically after the part of the predictions that belongs to
    it: whenever the process is killed, the file on the disk is one from which it goes on as if nothing had happened.
    BLAS uses one thread: its blocks are small, and the same sums in the same order give the same bits.

    Parameters
    ----------
    records : an opened file
    settings : how to learn it; None takes those of the session that is resumed
    save_to : file of the session; default that of `resume`, or none
    resume : file of a session to go on with; where there is none yet, with `settings`, it begins at the first row
    predictions : folder for the predictions, in parts
    watch : called after every block

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
    save_to = resume if save_to is None else save_to
    with threadpool_limits(limits=1):
        session, learning = _started(records, settings, resume)
        start = saved = session.offset
        every = int(session.settings.every)
        parts = None if predictions is None else _parts(predictions, session, resume)

        def checkpoint() -> None:
            if parts is not None:
                session.parts = parts.commit()
            if save_to is not None:
                save(session, save_to)

        for found in learning:
            if parts is not None:
                parts.add(found)
            # A matter of rows, not of time: an interrupted run makes the same parts as another.
            if session.offset // every > saved // every:
                checkpoint()
                saved = session.offset
            watch(Progress(session, session.offset - start, saved))
        checkpoint()
        return session


def _started(records: Records, settings: Settings | None, resume: str | Path | None) -> tuple[Session, Learning]:
    if settings is not None and (resume is None or not Path(resume).exists()):
        return Session.begin(records, settings)
    if resume is None:
        raise ValueError("there are neither settings to begin with nor a session to resume")
    session = load_session(resume)
    if settings is not None and (names := session.settings.differences(settings)):
        found = ", ".join(f"{name}={getattr(session.settings, name)!r}" for name in names)
        raise ValueError(f"{resume} was learned with other settings ({found}): leave them out, or start anew")
    return session, session.resume(records)


def _parts(folder: str | Path, session: Session, resume: str | Path | None) -> Parts:
    return Parts(folder, list(session.settings.targets), session.parts, resumed=resume is not None)


def load_session(path: str | Path) -> Session:
    """The session in a file."""
    session = load(path)
    if not isinstance(session, Session):
        raise ValueError(
            f"{path} holds a {type(session).__name__}, not a stream that was learned: give what `ovk stream` saved"
        )
    return session
