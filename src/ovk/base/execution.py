"""Threads of numerical code, and a progress bar.

The number of BLAS threads is a setting of the process. If two overlapping callers each restored the number they found,
the second would restore the first one's limit. So callers share one limit: the first sets it, the last removes it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, ClassVar, Self, TextIO, TypeVar
from weakref import WeakSet, ref

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")

_lock = threading.RLock()  # reentrant: garbage collection of an abandoned call may run while another call enters


class _Call:
    """A call of `one_blas_thread`, entered once.

    Ctrl-C can interrupt `__exit__` itself, so a call that is no longer referenced counts as left. (A generator-based
    context manager would cost more than the products of a single row.) `tiles` of a thread's outermost call is the
    number of threads for tiles: those `asked` for, by default as many as BLAS had.
    """

    def __init__(self, asked: int | None) -> None:
        self._asked = asked
        self._outer: _Call | None = None
        self.tiles = 1

    def __enter__(self) -> None:
        outer = _own_call()
        if outer is None:
            _own.call = ref(self)
            _enter(self)
            self.tiles = _before if self._asked is None else self._asked
            return
        # Nested in another call of this thread: BLAS is limited already.
        self.tiles = outer.tiles
        self._outer = outer
        if self._asked is not None:
            outer.tiles = min(self._asked, outer.tiles)

    def __exit__(self, *error: object) -> None:
        if self._outer is not None:
            self._outer.tiles = self.tiles
            return
        _own.call = None
        if _limited is not None:
            self.leave()

    def leave(self) -> None:
        _inside.discard(self)
        _restore_threads()

    def __del__(self) -> None:
        if _limited is not None and (self in _inside or not _inside):
            self.leave()


#: Active calls, the number of threads that each library had before (None while not limited), and their maximum.
_inside: WeakSet[_Call] = WeakSet()
_limited: list[int] | None = None
_before = 1
_own = threading.local()  # the outermost call of this thread, by a weak reference


@lru_cache(maxsize=1)
def _blas() -> tuple[Any, ...]:
    """The BLAS libraries of the process, one each from NumPy and SciPy."""
    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)


def _threads_of_each() -> list[int]:
    return [library.get_num_threads() or 1 for library in _blas()]


def _blas_threads() -> int:
    return max(_threads_of_each(), default=1)


def _own_call() -> _Call | None:
    reference = getattr(_own, "call", None)
    return None if reference is None else reference()


def tile_threads() -> int:
    """Number of threads for the tiles of a kernel matrix: as many as BLAS would use."""
    call = _own_call()
    if call is not None:
        return call.tiles
    with _lock:
        return _before if _inside else _blas_threads()


def one_blas_thread(tiles: int | None = None) -> AbstractContextManager[None]:
    """Limit BLAS to one thread, for sequences of small products, after which BLAS threads would spin.

    Calls may nest and overlap, in one thread or several; when the last one exits, BLAS has its threads back. Meanwhile
    `tiles` threads share the tiles of a kernel matrix, by default as many as BLAS had; with 1 the order of summation is
    always the same.
    """
    return _Call(tiles)


#: Number of single rows between two queries of the BLAS thread count, and rows left until the next query.
ROWS_BETWEEN_QUERIES = 100
_rows_left = 0
_NO_LIMIT: AbstractContextManager[None] = nullcontext()


def thread_for_row() -> AbstractContextManager[None]:
    """Limit BLAS to one thread for a single row; querying BLAS takes a tenth of a row's time, so it is done rarely."""
    global _rows_left
    if _rows_left > 0:
        _rows_left -= 1
        return _NO_LIMIT
    if _limited is None and _blas_threads() == 1:
        _rows_left = ROWS_BETWEEN_QUERIES
        return _NO_LIMIT
    return one_blas_thread()


MAX_ROWS_FOR_ONE_THREAD = 1000  # smaller matrices are faster with one thread


def threads_for(rows: int) -> AbstractContextManager[None]:
    """Limit BLAS to one thread for small matrices.

    On a shared machine BLAS threads spin while they wait for each other: a fit of 300 rows took 15 to 30 times as long
    with two threads as with one.
    """
    return one_blas_thread() if rows <= MAX_ROWS_FOR_ONE_THREAD else nullcontext()


def _enter(call: _Call) -> None:
    global _limited, _before
    with _lock:
        threads = _threads_of_each() if _limited is None else []
        if threads:
            _before = max(threads)
            if _before == 1:
                # Nothing to limit or restore.
                return
        _inside.add(call)
        if threads:
            # Stored first, so that the limit is also removed after an interruption in between.
            _limited = threads
            _set_threads([1] * len(threads))


def _restore_threads() -> None:
    """Restore the threads of BLAS if no call is active."""
    global _limited
    with _lock:
        if not _inside and _limited is not None:
            _set_threads(_limited)
            _limited = None


def _set_threads(numbers: list[int]) -> None:
    """Set the threads of each library, whichever thread set them before.

    Since version 3.8 threadpoolctl silently ignores all threads but one for a shared OpenBLAS; a limit set in one
    thread could then not be removed in another.
    """
    _release_control()
    try:
        for library, number in zip(_blas(), numbers, strict=True):
            library.set_num_threads(number)
    finally:
        _release_control()


def _release_control() -> None:
    for release in _releases():
        release(force=True)


@lru_cache(maxsize=1)
def _releases() -> tuple[Any, ...]:
    """threadpoolctl's functions that release the controlling thread, one for each kind of library."""
    kinds = dict.fromkeys(type(library) for library in _blas())
    return tuple(kind.clear_controlling_thread for kind in kinds if hasattr(kind, "clear_controlling_thread"))


def _forget_other_threads() -> None:
    """In a forked child only the forking thread survives: calls in other threads never exit."""
    global _lock
    _lock = threading.RLock()
    own = _own_call()
    _inside.clear()
    if own is not None:
        _inside.add(own)
    _restore_threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


# Progress.

_asked: ContextVar[bool | None] = ContextVar("ovk_progress", default=None)  # the setting of `progress_shown`


@contextmanager
def progress_shown(verbose: bool | None) -> Iterator[None]:
    """Show progress bars inside immediately, even if stderr is not a terminal (True), or never (False)."""
    token = _asked.set(_asked.get() if verbose is None else bool(verbose))
    try:
        yield
    finally:
        _asked.reset(token)


#: Where the bars of this process are shown instead of stderr: `progress_to`.
_show: Callable[[str, float | None, float], None] | None = None


@contextmanager
def progress_to(show: Callable[[str, float | None, float], None]) -> Iterator[None]:
    """Pass label, share done and start of a bar to a function instead of stderr; an empty label when it ends.

    Times are those of `time.monotonic`.
    """
    global _show
    before, _show = _show, show
    try:
        yield
    finally:
        _show = before


class ProgressBar:
    """Progress on stderr: on a terminal a bar that appears after a second, otherwise nothing.

    The environment variable ``OVK_PROGRESS`` (``0`` or ``1``) and `progress_shown` override this; a stderr that is not
    a terminal then gets a line every ten seconds. Only one bar of a process is shown at a time.
    """

    DELAY = 1.0  # seconds before the bar appears
    INTERVAL = 0.1  # seconds between two updates of the bar
    LINE_INTERVAL = 10.0  # seconds between two lines if stderr is not a terminal

    #: The bar that is shown, by a weak reference.
    _owner: ClassVar[ref[ProgressBar] | None] = None

    def __init__(self, label: str, total: int | None = None, stream: TextIO | None = None) -> None:
        self.label, self.total, self.count = label, total, 0
        self.stream = stream if stream is not None else sys.stderr
        self._start = time.monotonic()
        setting, asked = os.environ.get("OVK_PROGRESS", ""), _asked.get()
        self._terminal = self.stream.isatty()
        self._shown = setting == "1" or (setting != "0" and (self._terminal or _show is not None))
        self._interval = self.INTERVAL if self._terminal or _show is not None else self.LINE_INTERVAL
        self._next = self._start + self.DELAY
        if asked is not None:
            self._shown, self._next = asked, self._start

    def update(self, step: int = 1) -> None:
        self.count += step
        now = time.monotonic()
        if self._shown and now >= self._next:
            self._next = now + self._interval
            shown = ProgressBar._owner and ProgressBar._owner()
            if shown is None or shown is self:
                ProgressBar._owner = ref(self)
                self._draw(now)

    def _draw(self, now: float) -> None:
        done = min(self.count / self.total, 1.0) if self.total else None
        label = self.label if self.total else f"{self.label} {self.count:,}"
        if _show is not None:
            _show(label, done, self._start)
            return
        line = progress_line(label, done, now - self._start, terminal_width(self.stream) if self._terminal else 0)
        self.stream.write(f"\r\x1b[2K{line}" if self._terminal else f"{line}\n")
        self.stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if ProgressBar._owner is not None and ProgressBar._owner() is self:
            ProgressBar._owner = None
            if _show is not None:
                _show("", None, 0.0)
            elif self._terminal:
                self.stream.write("\r\x1b[2K")
                self.stream.flush()


BAR_WIDTH = 28  # characters of a bar


def progress_line(label: str, done: float | None, elapsed: float, width: int = 0, before: float = 0.0) -> str:
    """Label, share done and time in at most `width` characters (0 for no limit); labels are cut between words.

    The share `before` was done before the time `elapsed` began.

    >>> progress_line("learning tables", 0.5, 60.0, 45)
    'learning tables  50%  1:00 elapsed, 1:00 left'
    >>> progress_line("learning tables", 0.5, 60.0, 42)
    'learning…  50%  1:00 elapsed, 1:00 left'
    """
    end = f"  {_clock(elapsed)}"
    bar = ""
    if done is not None:
        left = elapsed * (1.0 - before) / (done - before) - elapsed if done > before else float("inf")
        end = f" {done:4.0%}{end} elapsed, {_clock(left)} left"
        bar = f" {'█' * round(done * BAR_WIDTH)}".ljust(BAR_WIDTH + 1, "░")
    if not width:
        return f"{label}{end}"
    if len(label) + len(bar) + len(end) > width:
        bar = ""
    if len(label) > (room := max(width - len(bar) - len(end), 1)):
        # Up to the last word that fits with an ellipsis; a single word is left out.
        label = f"{label[:room].rpartition(' ')[0].rstrip(' ,')}…"
    return f"{label}{bar}{end}"[:width]


def terminal_width(stream: TextIO) -> int:
    """Characters in a line of a terminal; the last column is left free, after which some terminals wrap."""
    try:
        return (os.get_terminal_size(stream.fileno()).columns or 80) - 1
    except (OSError, ValueError):
        return 79


def track(items: Iterable[Item], label: str, total: int | None = None) -> Iterator[Item]:
    """Iterate over `items` with a progress bar."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with ProgressBar(label, total) as bar:
        for item in items:
            yield item
            bar.update()


def _clock(seconds: float) -> str:
    if seconds == float("inf"):
        return "?"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
