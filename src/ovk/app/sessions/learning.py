"""A file learned to its end, with checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

from ovk.app.sessions.file_predictions import TableModel
from ovk.app.sessions.merging import start_like
from ovk.app.sessions.runs import PredictionSink, SessionProgress, StopSignals, StreamRun, prediction_sink
from ovk.app.sessions.session import BlockReader, ClassSession, Session
from ovk.app.sessions.settings import Settings
from ovk.app.tables import Records, open_records
from ovk.base import one_blas_thread
from ovk.persistence import load


def learn(
    records: Records | str | Path,
    settings: Settings | None = None,
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
    records : the path of a file, or an opened one
    settings : how to learn it; None takes those of the session that is resumed
    save_to : file of the session; default that of `resume` or `continue_with`, or none
    resume : file of a session to go on with; where there is none yet, with `settings` or `like`, it begins at the
        first row
    continue_with : file of a session that has learned other files before: it goes on with the first row of this one.
        If it is this one that it was learning, it is resumed
    like : session, or its file, whose columns, scaling, kernel and features a new session takes instead of learning
        them from its first rows, so that the two can be merged (`merge_sessions`)
    predictions : folder for the predictions, in parts, or ``-`` to print them
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
    place = resume if continue_with is None else continue_with
    save_to = place if save_to is None else save_to
    stop = StopSignals() if stop is None else stop
    begins = settings is not None or like is not None
    opening = open_records(records) if isinstance(records, str | Path) else nullcontext(records)
    with opening as table, one_blas_thread(tiles=1):
        resumed = place is not None and (continue_with is not None or not begins or Path(place).exists())

        def sink(session: Session) -> PredictionSink | None:
            if predictions is None:
                return None
            again = resumed or resume is not None
            return prediction_sink(predictions, session, save_to, parquet, resumed=again)

        if not resumed:
            run = StreamRun(_beginning(table, settings, like), sink, save_to)
        else:
            assert place is not None
            session = load_session(place)
            check_settings(session, settings, place)
            if continue_with is not None:
                run = StreamRun([session.continue_with(table)], sink, save_to)
            else:
                # A wrong folder should be found before hours of rows are read again.
                opened = sink(session)
                run = StreamRun([session.resume(table)], lambda session: opened, save_to)
        session = run.learn(watch, stop)
        if not session.offset:
            raise ValueError(f"{table.label} has no rows yet: there is nothing to learn")
        return session


def _beginning(
    records: Records, settings: Settings | None, like: Session | str | Path | None
) -> Iterator[BlockReader | None]:
    """The beginning of a session, like another one or with a warm-up of its own."""
    if like is not None:
        other = like if isinstance(like, Session) else load_session(like)
        check_settings(other, settings, "the session to begin like")
        yield start_like(records, other)
        return
    if settings is None:
        raise ValueError("there are neither settings to start with nor a session to resume: give one of them")
    yield from (ClassSession if settings.classify else Session).starting(records, settings)


def check_settings(session: Session, settings: Settings | None, place: str | Path) -> None:
    """Refuse settings that are not those of a session."""
    if settings is not None and (names := session.settings.differences(settings)):
        found = ", ".join(f"{name}={getattr(session.settings, name)!r}" for name in names)
        raise ValueError(f"{place} was learned with other settings ({found}): leave them out, or start anew")


def load_session(path: str | Path) -> Session:
    """The session in a file."""
    session = load(path)
    if not isinstance(session, Session):
        what = "what `ovk fit` learned" if isinstance(session, TableModel) else f"a {type(session).__name__}"
        raise ValueError(f"{path} holds {what}, not a stream that was learned: give what `ovk stream` saved")
    return session
