"""Streams on their way into files: their blocks are learned in turn and saved at checkpoints."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ovk.app.sessions.predictions import Parts, PrintedPredictions, PublishedPredictions
from ovk.app.sessions.session import Learning, Session
from ovk.app.tables import STDIN, Batch, BrokerError, is_address
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
PredictionSink = Parts | PublishedPredictions | PrintedPredictions


class SessionProgress(NamedTuple):
    """How far a run is: the session that learned last, rows read in this run, rows safe on the disk, rows read ever.

    Where several streams are learned side by side, the numbers are of all of them.
    """

    session: Session
    rows: int
    saved: int
    offset: int


class Run:
    """A stream that is being learned.

    Parameters
    ----------
    beginning : None while the warm-up waits for rows, then the rows behind it; nothing if there are too few
    sink : where the predictions of that session go
    """

    def __init__(self, beginning: Iterable[Learning | None], sink: Callable[[Session], PredictionSink | None]) -> None:
        self._beginning, self._make_sink = iter(beginning), sink
        self.learning: Learning | None = None
        self.sink: PredictionSink | None = None
        #: Rows at the beginning, at the last checkpoint, and at the last time that anything was saved.
        self.start = self.saved = self.safe = 0

    @property
    def session(self) -> Session:
        """The session, once its warm-up is over."""
        assert self.learning is not None
        return self.learning.session

    def begin(self) -> bool:
        """Whether the warm-up is over, or at an end for want of rows, after another attempt to read."""
        try:
            self.learning = next(self._beginning)
        except StopIteration:
            return True
        if self.learning is not None:
            self.sink = self._make_sink(self.session)
            self.start = self.saved = self.safe = self.session.offset
        return self.learning is not None

    def learn(self, batch: Batch) -> bool:
        """Learn a block; whether a checkpoint is due. That is a matter of rows, not of time: an interrupted run makes
        the same parts as another."""
        assert self.learning is not None
        if not batch.rows and not batch.bad:
            # A stream that is followed pauses, or the warm-up has left nothing over.
            self.learning.mark()
            return False
        found = self.learning.learn(batch)
        if self.sink is not None:
            self.sink.add(found)
        every = int(self.session.settings.every)
        return self.session.offset // every > self.saved // every


class ModelFile:
    """A file that is written as a whole, by one rename: the sessions of its runs with their positions.

    Parameters
    ----------
    runs : the streams
    path : of the file; None for none
    whole : makes the session to be saved out of those of the runs; default that of the only one
    """

    def __init__(
        self, runs: Sequence[Run], path: str | Path | None, whole: Callable[[list[Session]], Session] | None = None
    ) -> None:
        self.runs, self.path, self._whole = runs, path, whole

    def session(self) -> Session:
        """What is saved."""
        return self.runs[0].session if self._whole is None else self._whole([run.session for run in self.runs])

    def checkpoint(self, finished: Run | None = None) -> None:
        """Write predictions, then the file; the part of the predictions of the run that came to its end is finished.

        A session of which no block was learned yet, not even the rest of its warm-up, cannot be resumed: it is left.
        """
        begun = [run for run in self.runs if run.learning is not None]
        if not any(run.session.offset for run in begun):
            return
        for run in begun:
            if run.sink is not None:
                run.sink.commit(finished=run is finished)
                run.session.parts, run.session.lines = run.sink.done, run.sink.lines
            run.safe = run.session.offset
        if finished is not None:
            finished.saved = finished.safe
        if self.path is not None:
            save(self.session(), self.path)

    def save_new(self) -> None:
        """Write what was learned since the last time, if anything."""
        if any(run.learning is not None and run.session.offset > run.safe for run in self.runs):
            self.checkpoint()


def learn_runs(files: Sequence[ModelFile], watch: Callable[[SessionProgress], None], stop: StopSignals) -> None:
    """Learn streams to their ends, a block of each in turn, or to the next block's end when a signal comes."""
    try:
        _learn(files, watch, stop)
        with stop.held():
            for file in files:
                file.checkpoint()
    except BrokerError:
        # A server that stays away, or has lost messages: what was learned until then is safe.
        for file in files:
            file.save_new()
        raise
    except Interrupted as error:
        with stop.held():
            for file in files:
                file.checkpoint()
        rows = sum(run.safe for file in files for run in file.runs if file.path is not None)
        error.saved = rows or None
        raise
    finally:
        for file in files:
            for run in file.runs:
                if run.sink is not None:
                    run.sink.close()


def _learn(files: Sequence[ModelFile], watch: Callable[[SessionProgress], None], stop: StopSignals) -> None:
    waiting = [(file, run) for file in files for run in file.runs]
    while waiting:
        for file, run in list(waiting):
            if run.learning is None:
                if run.begin() and run.learning is None:
                    waiting.remove((file, run))
                continue
            batch = run.learning.read()
            if batch is None:
                waiting.remove((file, run))
                continue
            with stop.held():
                if run.learn(batch):
                    file.checkpoint(finished=run)
                elif not batch.rows and not batch.bad:
                    # A pause is a good moment to bring what is learned to safety.
                    file.save_new()
                    continue
                begun = [run for file in files for run in file.runs if run.learning is not None]
                rows = sum(run.session.offset for run in begun)
                safe = sum(run.saved for run in begun)
                watch(SessionProgress(run.session, rows - sum(run.start for run in begun), safe, rows))


def prediction_sink(
    folder: str | Path,
    session: Session,
    model: str | Path | None,
    parquet: bool,
    label: str,
    part: str = "",
    *,
    resumed: bool = True,
) -> PredictionSink:
    """Where the predictions of a session go: into a folder, to standard output or to a broker.

    Parameters
    ----------
    folder : a folder, ``-``, or the address of a broker
    label : of the stream
    part : name of the partition, one of several
    resumed : as in `Parts`
    """
    columns = session.prediction_columns()
    if parquet and (str(folder) == STDIN or is_address(str(folder))):
        raise ValueError(f"Parquet files go into a folder, and predictions go to {folder}: leave parquet out")
    if str(folder) == STDIN:
        if part:
            raise ValueError("the predictions of several partitions cannot be printed as one table: name a folder")
        return PrintedPredictions(columns)
    if is_address(str(folder)):
        return PublishedPredictions(str(folder), columns, session.id, label, part)
    return Parts(
        Path(folder) / f"partition-{part}" if part else folder,
        list(session.settings.targets),
        session.id,
        columns=columns,
        done=session.parts,
        lines=session.lines,
        model=model,
        parquet=parquet,
        resumed=resumed,
    )
