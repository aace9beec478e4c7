"""Streams on their way into files: their blocks are learned one by one and saved at checkpoints."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ovk.app.sessions.predictions import Parts, PrintedPredictions
from ovk.app.sessions.session import BlockReader, Session
from ovk.app.tables import STDIN, BrokerError
from ovk.persistence import save

if TYPE_CHECKING:
    from sys import UnraisableHookArgs


# Ctrl-C and SIGTERM that wait for a good moment.

#: Seconds until a signal is sent again that was raised where Python ignores exceptions.
AGAIN = 0.02


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
        again = threading.Timer(AGAIN, _send, [self.received])
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
PredictionSink = Parts | PrintedPredictions


class SessionProgress(NamedTuple):
    """How far a run is: its session, rows read in this run, rows safe on the disk."""

    session: Session
    rows: int
    saved: int


class StreamRun:
    """A stream that is being learned, and the file of its session, which is written as a whole, by one rename.

    Parameters
    ----------
    beginning : None while the warm-up waits for rows, then the rows behind it
    sink : where the predictions of that session go
    path : file of the session; None for none
    """

    def __init__(
        self,
        beginning: Iterable[BlockReader | None],
        sink: Callable[[Session], PredictionSink | None],
        path: str | Path | None,
    ) -> None:
        self._beginning, self._make_sink, self._path = beginning, sink, path
        self._learning: BlockReader | None = None
        self._sink: PredictionSink | None = None
        #: Rows at the beginning, at the last checkpoint, and at the last time that anything was saved.
        self._start = self._saved = self._safe = 0

    @property
    def session(self) -> Session:
        """The session, once its warm-up is over."""
        assert self._learning is not None
        return self._learning.session

    def learn(self, watch: Callable[[SessionProgress], None], stop: StopSignals) -> Session:
        """Learn the stream to its end, or to the end of the block at hand when a signal comes."""
        try:
            self._learn_blocks(watch, stop)
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

    def _learn_blocks(self, watch: Callable[[SessionProgress], None], stop: StopSignals) -> None:
        self._learning = next(learning for learning in self._beginning if learning is not None)
        self._sink = self._make_sink(self.session)
        self._start = self._saved = self._safe = self.session.offset
        while (batch := self._learning.read()) is not None:
            with stop.held():
                if not batch.rows and not batch.bad:
                    # A stream that is followed pauses, or the warm-up has left nothing over: a good moment to bring
                    # what is learned to safety.
                    self._learning.mark()
                    self._save_new()
                    continue
                found = self._learning.learn(batch)
                if self._sink is not None:
                    self._sink.add(found)
                # A matter of rows, not of time: an interrupted run makes the same parts as another.
                every, offset = int(self.session.settings.every), self.session.offset
                if offset // every > self._saved // every:
                    self._checkpoint(finished=True)
                watch(SessionProgress(self.session, offset - self._start, self._saved))

    def _checkpoint(self, *, finished: bool = False) -> None:
        """Write the predictions, whose part may be finished, then the file.

        A session of which no block was learned yet, not even the rest of its warm-up, cannot be resumed: it is left.
        """
        if self._learning is None or not self.session.offset:
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
        if self._learning is not None and self.session.offset > self._safe:
            self._checkpoint()


def prediction_sink(
    folder: str | Path, session: Session, model: str | Path | None, parquet: bool, *, resumed: bool = True
) -> PredictionSink:
    """Where the predictions of a session go: into a folder, or to standard output.

    Parameters
    ----------
    folder : a folder, or ``-``
    model : file of the session
    parquet, resumed : as in `Parts`
    """
    columns = session.prediction_columns()
    if str(folder) == STDIN:
        if parquet:
            raise ValueError("Parquet files go into a folder, and predictions are printed: leave parquet out")
        return PrintedPredictions(columns)
    return Parts(
        folder,
        list(session.settings.targets),
        session.id,
        columns=columns,
        done=session.parts,
        lines=session.lines,
        model=model,
        parquet=parquet,
        resumed=resumed,
    )
