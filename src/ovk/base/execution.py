"""What surrounds numerical work: how many threads it may use, and a progress bar that needs nothing but a terminal.

The number of threads of BLAS belongs to the whole process, and whoever changes it must put it back. Two callers that
overlap cannot each remember "the number before": the one that enters second would remember the other's limit and
leave it behind for good. So they share the limit: the first to enter sets it, the last to leave takes it back.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Self, TextIO, TypeVar
from weakref import WeakSet, ref

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")

#: Reentrant: a call that is forgotten may leave in the middle of another one's entering.
_lock = threading.RLock()


class _Call:
    """A call of `one_blas_thread`, to be entered once.

    An interruption can hit any line, that which leaves too. What counts is therefore whether the call is still alive:
    a call that nobody holds any more has left. (A context manager made from a generator would be shorter and costs
    more than the products of a single row.) In the outermost call of a thread, `tiles` is how many threads the tiles
    may use: those `asked` for, or as many as BLAS had.
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
        # Inside another call of this thread: BLAS is limited already.
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
        _take_back()

    def __del__(self) -> None:
        if _limited is not None and (self in _inside or not _inside):
            self.leave()


#: Calls inside, the threads that each library had before they limited it (None while it is not limited), and the most
#: of these.
_inside: WeakSet[_Call] = WeakSet()
_limited: list[int] | None = None
_before = 1
#: The outermost call of this thread, by a weak reference.
_own = threading.local()


@lru_cache(maxsize=1)
def _blas() -> tuple[Any, ...]:
    """The BLAS libraries of the process: NumPy and SciPy bring one each."""
    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)


def _threads_of_each() -> list[int]:
    return [library.get_num_threads() or 1 for library in _blas()]


def _blas_threads() -> int:
    return max(_threads_of_each(), default=1)


def _own_call() -> _Call | None:
    reference = getattr(_own, "call", None)
    return None if reference is None else reference()


def tile_threads() -> int:
    """How many threads may share the tiles of a kernel's matrix: as many as BLAS would have used."""
    call = _own_call()
    if call is not None:
        return call.tiles
    with _lock:
        return _before if _inside else _blas_threads()


def one_blas_thread(tiles: int | None = None) -> AbstractContextManager[None]:
    """BLAS with one thread throughout, for many small products in a row.

    Threads of BLAS spin for a while after each of their products, in the way of the work between two of them. Calls
    may nest and overlap, in one thread or in several: when the last one has left, BLAS has as many threads as before
    the first. Meanwhile `tiles` threads share the tiles of a kernel's matrix, by default as many as BLAS had; with 1
    the same sums are made in the same order every time.
    """
    return _Call(tiles)


#: Rows that come one at a time before BLAS is asked again how many threads it has, if it had one; and those left.
ROWS_BEFORE_ASKING = 100
_rows_left = 0
_NOTHING: AbstractContextManager[None] = nullcontext()


def thread_for_row() -> AbstractContextManager[None]:
    """BLAS with one thread for the products of a single row.

    Asking BLAS takes a tenth of the time of a row: where the process has one thread, it is asked once in many rows.
    """
    global _rows_left
    if _rows_left > 0:
        _rows_left -= 1
        return _NOTHING
    if _limited is None and _blas_threads() == 1:
        _rows_left = ROWS_BEFORE_ASKING
        return _NOTHING
    return one_blas_thread()


#: Matrices of so many rows are done with by one thread before several have agreed on who does what.
MAX_ROWS_OF_ONE_THREAD = 1000


def threads_for(rows: int) -> AbstractContextManager[None]:
    """BLAS with one thread for matrices of few rows, and with all that it has for larger ones.

    On a machine that others use too, the threads of BLAS wait for each other by spinning: a fit of 300 rows took 15 to
    30 times as long with two threads as with one.
    """
    return one_blas_thread() if rows <= MAX_ROWS_OF_ONE_THREAD else nullcontext()


def _enter(call: _Call) -> None:
    global _limited, _before
    with _lock:
        threads = _threads_of_each() if _limited is None else []
        if threads:
            _before = max(threads)
            if _before == 1:
                # There is nothing to limit, nor to take back.
                return
        _inside.add(call)
        if threads:
            # Noted before it is done: an interruption in between is taken back as well.
            _limited = threads
            _set_threads([1] * len(threads))


def _take_back() -> None:
    """Give BLAS its threads again if nobody is inside."""
    global _limited
    with _lock:
        if not _inside and _limited is not None:
            _set_threads(_limited)
            _limited = None


def _set_threads(numbers: list[int]) -> None:
    """Set the threads of each library in this thread, whichever thread set them before.

    Since version 3.8 threadpoolctl listens to one thread at a time where all threads share OpenBLAS, and ignores the
    others without a word: a limit set in one thread could then not be taken back in another.
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
    """What makes threadpoolctl listen to any thread again: once for each kind of library that has it."""
    kinds = dict.fromkeys(type(library) for library in _blas())
    return tuple(kind.clear_controlling_thread for kind in kinds if hasattr(kind, "clear_controlling_thread"))


def _forget_other_threads() -> None:
    """In a forked child only the thread that forked goes on: the calls in other threads will never leave."""
    global _lock
    _lock = threading.RLock()
    own = _own_call()
    _inside.clear()
    if own is not None:
        _inside.add(own)
    _take_back()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


# Progress.

#: What was asked for with `progress_shown`.
_asked: ContextVar[bool | None] = ContextVar("ovk_progress", default=None)


@contextmanager
def progress_shown(verbose: bool | None) -> Iterator[None]:
    """Bars inside are shown at once, wherever standard error goes (True), or never (False); None changes nothing."""
    token = _asked.set(_asked.get() if verbose is None else bool(verbose))
    try:
        yield
    finally:
        _asked.reset(token)


class ProgressBar:
    """Progress on standard error, shown only when the work has already taken a second and somebody is looking.

    Somebody is looking when the stream is a terminal; the variable ``OVK_PROGRESS`` set to ``0`` or ``1`` overrules.
    Inside `progress_shown` what is said there holds.
    """

    PATIENCE = 1.0  # seconds before the bar appears
    INTERVAL = 0.1  # seconds between two drawings
    WIDTH = 28

    def __init__(self, label: str, total: int | None = None, stream: TextIO | None = None) -> None:
        self.label = label
        self.total = total
        self.count = 0
        self.stream = stream if stream is not None else sys.stderr
        self._start = self._drawn = time.monotonic()
        self._visible = False
        wish = os.environ.get("OVK_PROGRESS", "")
        self._wanted = wish == "1" or (wish != "0" and self.stream.isatty())
        self._patience = self.PATIENCE
        asked = _asked.get()
        if asked is not None:
            self._wanted, self._patience, self._drawn = asked, 0.0, self._start - self.INTERVAL

    def update(self, step: int = 1) -> None:
        """Say that `step` more units are done."""
        self.count += step
        now = time.monotonic()
        if self._wanted and now - self._start >= self._patience and now - self._drawn >= self.INTERVAL:
            self._drawn = now
            self._draw(now)

    def _draw(self, now: float) -> None:
        elapsed = now - self._start
        if self.total:
            done = min(self.count / self.total, 1.0)
            filled = round(done * self.WIDTH)
            left = elapsed / done - elapsed if done > 0 else float("inf")
            bar = "█" * filled + "░" * (self.WIDTH - filled)
            line = f"{self.label} {bar} {done:4.0%}  {_clock(elapsed)} gone, {_clock(left)} left"
        else:
            line = f"{self.label} {self.count:,}  {_clock(elapsed)}"
        self.stream.write("\r\x1b[2K" + line)
        self.stream.flush()
        self._visible = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._visible:
            self.stream.write("\r\x1b[2K")
            self.stream.flush()
            self._visible = False


def track(items: Iterable[Item], label: str, total: int | None = None) -> Iterator[Item]:
    """Go through `items` behind a progress bar."""
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
