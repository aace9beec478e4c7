"""Ctrl-C and SIGTERM that wait for a good moment."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

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
    >>> from ovk.sessions import Interrupted, StopSignals
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
    >>> from ovk.sessions import Interrupted, StopSignals
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
