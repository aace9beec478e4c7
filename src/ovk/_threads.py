"""How many threads numerical code may use.

The number of threads of BLAS belongs to the whole process, and whoever changes it must put it back. Two callers that
overlap cannot each remember "the number before": the one that enters second would remember the other's limit and
leave it behind for good. So they share the limit: the first to enter sets it, the last to leave takes it back.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import Any
from weakref import WeakSet, ref

from threadpoolctl import ThreadpoolController

#: Reentrant: a call that is forgotten may leave in the middle of another one's entering.
_lock = threading.RLock()


class _Call:
    """A call of `one_blas_thread` that has not ended.

    An interruption can hit any line, that which leaves too. What counts is therefore whether the call is still alive:
    a call that nobody holds any more has left.

    Attributes
    ----------
    tiles : how many threads its tiles may use
    """

    def __init__(self, tiles: int) -> None:
        self.tiles = tiles

    def leave(self) -> None:
        _inside.discard(self)
        _take_back()

    def __del__(self) -> None:
        if self in _inside or (_limit is not None and not _inside):
            self.leave()


#: Calls inside, the limit they share, and the threads BLAS had before the first of them.
_inside: WeakSet[_Call] = WeakSet()
_limit: Any = None
_before = 1
#: The outermost call of this thread, by a weak reference.
_own = threading.local()


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def _blas_threads() -> int:
    return max((library.num_threads or 1 for library in _blas().lib_controllers), default=1)


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


@contextmanager
def one_blas_thread(tiles: int | None = None) -> Iterator[None]:
    """BLAS with one thread throughout, for many small products in a row.

    Threads of BLAS spin for a while after each of their products, in the way of the work between two of them. Calls
    may nest and overlap, in one thread or in several: when the last one has left, BLAS has as many threads as before
    the first.

    Parameters
    ----------
    tiles : threads that share the tiles of a kernel's matrix meanwhile; default as many as BLAS had. With 1 the same
        sums are made in the same order every time.
    """
    outer = _own_call()
    if outer is not None:
        # Inside another call of this thread: BLAS is limited already.
        before = outer.tiles
        outer.tiles = before if tiles is None else min(tiles, before)
        try:
            yield
        finally:
            outer.tiles = before
        return
    call = _Call(tile_threads() if tiles is None else tiles)
    _own.call = ref(call)
    _enter(call)
    try:
        yield
    finally:
        _own.call = None
        call.leave()


#: Matrices of so many rows are done with by one thread before several have agreed on who does what.
SMALL = 1000


def threads_for(rows: int) -> AbstractContextManager[None]:
    """BLAS with one thread for matrices of few rows, and with all that it has for larger ones.

    On a machine that others use too, the threads of BLAS wait for each other by spinning: a fit of 300 rows took 15 to
    30 times as long with two threads as with one.

    >>> with threads_for(300):
    ...     pass
    """
    return one_blas_thread() if rows <= SMALL else nullcontext()


def _enter(call: _Call) -> None:
    global _limit, _before
    with _lock:
        first = not _inside
        _inside.add(call)
        if first and _limit is None:
            _before = _blas_threads()
            if _before > 1:
                with _in_control():
                    _limit = _blas().limit(limits=1)


def _take_back() -> None:
    """Give BLAS its threads again if nobody is inside."""
    global _limit
    with _lock:
        if not _inside and _limit is not None:
            with _in_control():
                _limit.restore_original_limits()
            _limit = None


@contextmanager
def _in_control() -> Iterator[None]:
    """Set the threads of BLAS in this thread, whichever thread set them before.

    Since version 3.8 threadpoolctl listens to one thread at a time where all threads share OpenBLAS, and ignores the
    others without a word: a limit set in one thread could then not be taken back in another.
    """
    _release_control()
    try:
        yield
    finally:
        _release_control()


def _release_control() -> None:
    for library in _blas().lib_controllers:
        release = getattr(library, "clear_controlling_thread", None)
        if release is not None:
            release(force=True)


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
