"""A model in service: one writer, a log, checkpoints; and readers who never wait.

A request to learn goes through two threads, from queue to queue. The first writes all requests that wait into the log
and syncs it once, then their replies go out. The second learns them, record by record, and puts the next state into
place by one assignment: a prediction reads the state that is there.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from ovk._threads import one_blas_thread
from ovk.persistence import load, save
from ovk.serving.checkpoint import Checkpoint, Entry, replayed
from ovk.serving.errors import RequestRefused
from ovk.serving.identifiers import REMEMBERED
from ovk.serving.limits import Limits
from ovk.serving.log import Log
from ovk.serving.waiting import WaitingRows

if sys.platform != "win32":
    import fcntl

logger = logging.getLogger("ovk.serving")

#: Name of the file with the last checkpoint, in the folder of a model.
CHECKPOINT = "checkpoint.ovk"


class Receipt(NamedTuple):
    """What a request to learn is answered: the number of its record, and of its rows."""

    sequence: int
    rows: int


class _Waiting(NamedTuple):
    """A request on its way into the log."""

    entry: Entry
    reply: asyncio.Future[Receipt]


class ModelService:
    """One model under one name, with its shadows.

    Parameters
    ----------
    name : its name in addresses
    path : the model's file
    shadows : files of learners that see the same rows
    folder : where its log and checkpoints are kept; None serves without learning
    limits : what is allowed
    keep_log : whether segments of the log stay when a checkpoint no longer needs them

    Attributes
    ----------
    state : the present state, never changed, only replaced
    """

    def __init__(
        self,
        name: str,
        path: Path,
        shadows: Sequence[Path] = (),
        folder: Path | None = None,
        limits: Limits | None = None,
        *,
        keep_log: bool = False,
    ) -> None:
        self.name, self.path, self.shadows = name, path, list(shadows)
        self.folder, self.limits = folder, limits or Limits()
        self.waiting = WaitingRows(self.limits.label_seconds, self.limits.label_bytes)
        self.log = None if folder is None else Log(folder, keep=keep_log)
        self.state: Checkpoint
        self.refused = 0
        self.halted = ""
        #: The last checkpoint: its number, when its file was written, its rows; and when the last one was tried.
        self.saved_sequence, self.saved_at, self._saved_rows, self._tried_at = 0, time.time(), 0, 0.0
        self._lock = threading.Lock()
        # None is the last thing that comes out of each queue.
        self._to_log: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._to_learn: SimpleQueue[tuple[int, Entry] | None] = SimpleQueue()
        self._pending = 0
        self._stopping = False
        self._known: OrderedDict[str, Receipt] = OrderedDict()
        self._in_flight: dict[str | None, asyncio.Future[Receipt]] = {}
        self._recent: deque[tuple[float, int]] = deque(maxlen=600)
        self._threads: list[threading.Thread] = []
        self._guard: int | None = None

    # Opening and closing ----------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Load the model or its last checkpoint, learn what the log holds behind it, and begin."""
        origin = hashlib.sha256(b"".join(file.read_bytes() for file in [self.path, *self.shadows])).hexdigest()
        if self.folder is None or self.log is None:
            self.state = self._from_files(origin)
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        place = self.folder / CHECKPOINT
        if place.exists():
            found = load(place)
            if not isinstance(found, Checkpoint) or found.origin != origin:
                raise ValueError(
                    f"{place} is not a checkpoint of {self.path}{' with these shadows' if self.shadows else ''}: it "
                    "was made from another file; give another folder to --data, or the files it began with"
                )
            self.state = found
        else:
            if self.log.segments():
                raise ValueError(f"{self.folder} holds a log but no {CHECKPOINT}: put it back, or give another --data")
            self.state = self._from_files(origin)
            save(self.state, place)
        self.saved_sequence, self._saved_rows = self.state.sequence, self.state.rows
        # Not the start of this process: one that is killed again and again has to write a checkpoint too.
        self.saved_at = min(place.stat().st_mtime, time.time())
        self.state = replayed(self.state, self.log.replay(after=self.state.sequence))
        state = self.state
        if self.log.cut:
            logger.warning("torn record cut off", extra={"model": self.name, "bytes": self.log.cut})
        if state.sequence > self.saved_sequence:
            extra = {"model": self.name, "records": state.sequence - self.saved_sequence, "sequence": state.sequence}
            logger.info("log replayed", extra=extra)
        if self._checkpoint_is_due():
            self._checkpoint()
        if self.predicts_only:
            logger.info("predicts only", extra={"model": self.name, "reason": self.predicts_only})
        for identifier, number, rows in state.known:
            self._known[identifier] = Receipt(number, rows)
        for target in (self._write_log, self._learn):
            thread = threading.Thread(target=target, name=f"ovk {target.__name__} {self.name}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def _from_files(self, origin: str) -> Checkpoint:
        models: dict[str, Any] = {}
        for file in [self.path, *self.shadows]:
            name = file.stem
            if name in models:
                raise ValueError(f"two of the files are called {name!r}: rename one of them")
            loaded = load(file)
            models[name] = loaded.model if isinstance(loaded, Checkpoint) else loaded
        return Checkpoint.start(models, origin)

    def _take_lock(self) -> None:
        """Two processes that write one log would spoil it."""
        assert self.folder is not None
        self._guard = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        if sys.platform != "win32":
            try:
                fcntl.flock(self._guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(self._guard)
                self._guard = None
                raise ValueError(
                    f"another process serves from {self.folder}: stop it, or give another --data"
                ) from None

    def stop_accepting(self) -> None:
        """From now on requests to learn are refused; those that wait are still dealt with."""
        with self._lock:
            if not self._stopping:
                self._stopping = True
                self._to_log.put(None)

    def close(self) -> None:
        """Learn what was acknowledged, write a checkpoint, and end."""
        self.stop_accepting()
        for thread in self._threads:
            thread.join()
        if self._threads and not self.halted and self.state.sequence > self.saved_sequence:
            self._checkpoint()
        self._threads = []
        if self.log is not None:
            self.log.close()
        if self._guard is not None:
            os.close(self._guard)
            self._guard = None

    # Requests, in the thread of the event loop ------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """Requests that are not learned yet."""
        return self._pending

    @property
    def predicts_only(self) -> str:
        """Why rows are not learned, in one sentence; empty if they are."""
        if not any(contender.learns for contender in self.state.contenders):
            return (
                "this model predicts only; it was fitted to one batch: to learn in service, use `ovk stream`, or a "
                "learner with partial_fit"
            )
        if self.log is None:
            return "this server was started without --data: it predicts, but does not learn"
        return ""

    def check_learns(self) -> None:
        """Refuse rows to learn, or to wait for their labels, where none are learned."""
        if self.predicts_only:
            raise RequestRefused(409, self.predicts_only)

    def earlier(self, identifier: str | None) -> Receipt | None:
        """What a request with that identifier was answered before."""
        if identifier is None:
            return None
        with self._lock:
            return self._known.get(identifier)

    async def submit(self, entry: Entry) -> Receipt:
        """Have an entry written to the log; it is safe when this returns, and will be learned."""
        if (known := self.earlier(entry.id)) is not None:
            return known
        reply = self._in_flight.get(entry.id) or self._queued(entry)
        # Somebody who goes away, or waits for too long, does not take the record with him.
        await asyncio.wait([reply], timeout=self.limits.seconds)
        if not reply.done():
            raise RequestRefused(503, "the rows are not stored yet: repeat the request with the same id", retry_after=2)
        return reply.result()

    def _queued(self, entry: Entry) -> asyncio.Future[Receipt]:
        """Put an entry into the queue; what it will be answered."""
        if self.log is None:
            raise RequestRefused(409, "this server was started without --data: it predicts, and keeps nothing")
        reply: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._stopping:
                raise RequestRefused(503, "the server is shutting down", retry_after=5)
            if self.halted:
                raise RequestRefused(503, "this model has stopped learning: see the server's log")
            if self._pending >= self.limits.queue:
                raise RequestRefused(429, f"{self._pending} requests wait to be learned already", retry_after=1)
            self._pending += 1
            self._to_log.put(_Waiting(entry, reply))
        if entry.id is not None:
            self._in_flight[entry.id] = reply
            reply.add_done_callback(lambda _: self._in_flight.pop(entry.id, None))
        return reply

    # The two threads --------------------------------------------------------------------------------------------------

    def _write_log(self) -> None:
        while (first := self._to_log.get()) is not None:
            group, last = [first], False
            while not last and not self._to_log.empty():
                following = self._to_log.get()
                if following is None:
                    last = True
                else:
                    group.append(following)
            self._write_group(group)
            if last:
                break
        self._to_learn.put(None)

    def _write_group(self, group: Sequence[_Waiting]) -> None:
        assert self.log is not None
        try:
            numbers = self.log.append([one.entry.encode() for one in group])
        except Exception as error:
            why = str(error.strerror) if isinstance(error, OSError) else type(error).__name__
            logger.error("the log cannot be written", extra={"model": self.name, "error": why}, exc_info=error)
            if self.log.broken or not isinstance(error, OSError):
                self.halted = "the log cannot be written"
            with self._lock:
                self._pending -= len(group)
            refusal = RequestRefused(507, "the rows could not be stored and were not learned", retry_after=10)
            _answer(group, [refusal] * len(group))
            return
        receipts = [Receipt(number, len(one.entry)) for number, one in zip(numbers, group, strict=True)]
        with self._lock:
            for receipt, one in zip(receipts, group, strict=True):
                if one.entry.id is not None:
                    self._known[one.entry.id] = receipt
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        _answer(group, receipts)
        for receipt, one in zip(receipts, group, strict=True):
            self._to_learn.put((receipt.sequence, one.entry))

    def _learn(self) -> None:
        with one_blas_thread(tiles=1):
            while True:
                with suppress(Empty):
                    record = self._to_learn.get(timeout=self._until_checkpoint())
                    if record is None:
                        return
                    if not self.halted:
                        self._learn_entry(*record)
                    with self._lock:
                        self._pending -= 1
                if self._checkpoint_is_due():
                    self._checkpoint()

    def _learn_entry(self, number: int, entry: Entry) -> None:
        before = sum(contender.failures for contender in self.state.contenders)
        try:
            state = self.state.after(number, entry)
        except BaseException as error:
            # Not a refusal that a replay would repeat: the state must not part from the log.
            self.halted = f"record {number} could not be learned"
            extra = {"model": self.name, "sequence": number, "error": type(error).__name__}
            logger.critical("learning stopped; restart to replay the log", extra=extra, exc_info=error)
            return
        if sum(contender.failures for contender in state.contenders) > before:
            self.refused += len(entry)
            logger.warning("a learner refused rows", extra={"model": self.name, "sequence": number})
        if entry.promote is not None:
            extra = {"model": self.name, "sequence": number, "champion": state.leader.name}
            logger.info("promoted", extra=extra)
        self.state = state
        self._recent.append((time.monotonic(), state.rows))

    def _until_checkpoint(self) -> float | None:
        if self.halted or self.state.sequence <= self.saved_sequence:
            return None
        return max(0.05, self.limits.checkpoint_seconds - self._since_checkpoint())

    def _checkpoint_is_due(self) -> bool:
        if self.halted or self.state.sequence <= self.saved_sequence:
            return False
        due = self._since_checkpoint() >= self.limits.checkpoint_seconds
        return due or self.state.rows - self._saved_rows >= self.limits.checkpoint_rows

    def _since_checkpoint(self) -> float:
        """Seconds since the last checkpoint was written, or could not be."""
        return time.time() - max(self.saved_at, self._tried_at)

    def _checkpoint(self) -> None:
        """Write the state; segments of the log that it holds go."""
        assert self.folder is not None
        assert self.log is not None
        state, start = self.state, time.perf_counter()
        self._tried_at, self._saved_rows = time.time(), state.rows
        try:
            save(state, self.folder / CHECKPOINT)
        except OSError as error:
            # The log has everything: nothing is lost, and the next checkpoint may succeed.
            logger.error("no checkpoint could be written", extra={"model": self.name, "error": str(error.strerror)})
            return
        self.saved_sequence, self.saved_at = state.sequence, self._tried_at
        self.log.forget(state.sequence)
        self.log.full = True
        milliseconds = round(1000 * (time.perf_counter() - start), 1)
        extra = {"model": self.name, "sequence": state.sequence, "rows": state.rows, "milliseconds": milliseconds}
        logger.info("checkpoint", extra=extra)

    # What the page and the metrics show -------------------------------------------------------------------------------

    def rate(self) -> float:
        """Rows learned a second, over the last ten seconds."""
        now = time.monotonic()
        known = [(at, rows) for at, rows in list(self._recent) if now - at <= 10]
        if len(known) < 2:
            return 0.0
        return (known[-1][1] - known[0][1]) / max(now - known[0][0], 1e-3)


def _answer(group: Sequence[_Waiting], results: Sequence[Receipt | RequestRefused]) -> None:
    """Hand results to those who wait, each in the thread of its loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Receipt], Receipt | RequestRefused]]] = {}
    for one, result in zip(group, results, strict=True):
        by_loop.setdefault(one.reply.get_loop(), []).append((one.reply, result))
    for loop, pairs in by_loop.items():
        with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
            loop.call_soon_threadsafe(_set_results, pairs)


def _set_results(pairs: Sequence[tuple[asyncio.Future[Receipt], Receipt | RequestRefused]]) -> None:
    for reply, result in pairs:
        if reply.done():
            continue
        if isinstance(result, RequestRefused):
            reply.set_exception(result)
            reply.exception()  # it may be that nobody waits any more
        else:
            reply.set_result(result)
