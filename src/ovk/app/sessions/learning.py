"""A stream learned to its end: its blocks are learned one by one and saved at checkpoints."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ovk.app.sessions.predictions import PredictionFolder, PrintedPredictions
from ovk.app.sessions.session import BlockReader, LearnedTable, Session
from ovk.app.sessions.settings import Settings
from ovk.app.tables import STDIN, BrokerError, Records, open_records
from ovk.base import one_blas_thread
from ovk.persistence import load, save

if TYPE_CHECKING:
    from sys import UnraisableHookArgs


# Ctrl-C and SIGTERM that wait for a good moment.

#: Seconds until a signal is sent again that was raised where Python ignores exceptions.
SECONDS_UNTIL_RESENT = 0.02


class Interrupted(KeyboardInterrupt):
    """A session was interrupted by a signal, and is as it was after the last block that was learned.

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


#: Where predictions go.
PredictionSink = PredictionFolder | PrintedPredictions


class SessionProgress(NamedTuple):
    """How far a run is: its session, rows read in this run, rows safe on the disk."""

    session: Session
    rows: int
    saved: int


class StreamRun:
    """A stream that is being learned, and the file of its session, which is written as a whole, by one rename.

    `warm_up` yields None while it waits for rows, then what reads the rows after it.
    """

    def __init__(
        self,
        warm_up: Iterable[BlockReader | None],
        sink: Callable[[Session], PredictionSink | None],
        path: str | Path | None,
    ) -> None:
        self._warm_up, self._make_sink, self._path = warm_up, sink, path
        self._reader: BlockReader | None = None
        self._sink: PredictionSink | None = None
        #: Rows at the start, at the last checkpoint, and at the last time that anything was saved.
        self._start = self._saved = self._safe = 0

    @property
    def session(self) -> Session:
        """The session, once its warm-up is over."""
        assert self._reader is not None
        return self._reader.session

    def learn(self, on_progress: Callable[[SessionProgress], None], stop: StopSignals) -> Session:
        """Learn the stream to its end, or to the end of the block at hand when a signal comes."""
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
            error.saved = None if self._path is None else self._safe or None
            raise
        return self.session

    def _learn_blocks(self, on_progress: Callable[[SessionProgress], None], stop: StopSignals) -> None:
        self._reader = next(reader for reader in self._warm_up if reader is not None)
        self._sink = self._make_sink(self.session)
        self._start = self._saved = self._safe = self.session.offset
        while (batch := self._reader.read()) is not None:
            with stop.held():
                if not batch.rows and not batch.bad:
                    # A stream that is followed pauses, or the warm-up has left nothing over: a good moment to bring
                    # what is learned to safety.
                    self._reader.mark()
                    self._save_new()
                    continue
                found = self._reader.learn(batch)
                if self._sink is not None:
                    self._sink.add(found)
                # A matter of rows, not of time: an interrupted run makes the same parts as another.
                every, offset = int(self.session.settings.every), self.session.offset
                if offset // every > self._saved // every:
                    self._checkpoint(finished=True)
                on_progress(SessionProgress(self.session, offset - self._start, self._saved))

    def _checkpoint(self, *, finished: bool = False) -> None:
        """Write the predictions, whose part may be finished, then the file.

        A session of which no block was learned yet, not even the rest of its warm-up, cannot be resumed: it is left.
        """
        if self._reader is None or not self.session.offset:
            return
        session = self.session
        if self._sink is not None:
            self._sink.commit(finished=finished)
            session.parts, session.lines = self._sink.done, self._sink.lines
        self._safe = session.offset
        if finished:
            self._saved = self._safe
        if self._path is not None:
            save(session, self._path)

    def _save_new(self) -> None:
        """Write what was learned since the last time, if anything."""
        if self._reader is not None and self.session.offset > self._safe:
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
    begins = settings is not None or template is not None
    opening = open_records(records) if isinstance(records, str | Path) else nullcontext(records)
    with opening as table, one_blas_thread(tiles=1):

        def sink(session: Session) -> PredictionSink | None:
            if predictions is None:
                return None
            return prediction_sink(predictions, session, save_to, parquet, resumed=path is not None)

        if path is None or (continue_with is None and begins and not Path(path).exists()):
            run = StreamRun(_warm_up(table, settings, template), sink, save_to)
        else:
            session = load_session(path)
            check_settings(session, settings, path)
            if continue_with is not None:
                run = StreamRun([session.continue_with(table)], sink, save_to)
            else:
                # A wrong folder should be found before hours of rows are read again.
                opened = sink(session)
                run = StreamRun([session.resume(table)], lambda session: opened, save_to)
        session = run.learn(on_progress, StopSignals() if stop is None else stop)
        if not session.offset:
            raise ValueError(f"{table.label} has no rows yet: there is nothing to learn")
        return session


def _warm_up(
    records: Records, settings: Settings | None, template: Session | str | Path | None
) -> Iterator[BlockReader | None]:
    """The warm-up of a session, which one that starts from a template does not need."""
    if template is not None:
        # It imports this module's package for merging alone.
        from ovk.app.sessions.merging import start_from

        other = template if isinstance(template, Session) else load_session(template)
        check_settings(other, settings, "the template")
        yield start_from(other, records)
        return
    if settings is None:
        raise ValueError("there are neither settings to start with nor a session to resume: give one of them")
    yield from Session.starting(records, settings)


def prediction_sink(
    folder: str | Path, session: Session, model: str | Path | None, parquet: bool, *, resumed: bool
) -> PredictionSink:
    """Where the predictions of a session go: into a folder, or with ``-`` to standard output."""
    columns = session.prediction_columns()
    if str(folder) == STDIN:
        if parquet:
            raise ValueError("Parquet files go into a folder, and predictions are printed: leave parquet out")
        return PrintedPredictions(columns)
    known = {"done": session.parts, "lines": session.lines}
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
