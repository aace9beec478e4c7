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
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from ovk.app.serve.access import Limits, RequestRefused
from ovk.app.serve.checkpoint import Checkpoint, learn_log
from ovk.app.serve.ledger import History, Ledger, Receipt, no_rows_wait
from ovk.app.serve.log import Entry, Log
from ovk.app.serve.protocol import RequestRows
from ovk.base import one_blas_thread
from ovk.persistence import load, save

if sys.platform != "win32":
    import fcntl

logger = logging.getLogger("ovk.app.serve")

#: Name of the file with the last checkpoint, in the folder of a model.
CHECKPOINT = "checkpoint.ovk"

#: Seconds between two searches for predictions whose time has passed.
EXPIRY_INTERVAL = 1.0

#: An entry on its way into the log, and who waits for it; nobody does where the service itself wrote it.
Queued = tuple[Entry, asyncio.Future[Receipt] | None]


class LearnQueue:
    """The way of a model's requests into its log; without a log none is accepted.

    Requests are accepted in the thread of the event loop. `write` runs in a thread of its own: it writes all entries
    that wait, syncs the log once, has them answered, and puts them into `to_learn`.
    """

    def __init__(self, name: str, log: Log | None, limits: Limits) -> None:
        self.name, self.log, self.limits = name, log, limits
        self.ledger = Ledger(limits, [], History(), self._learn_partial)
        #: Records of the log. None is the last thing that comes out of a queue.
        self.to_learn: SimpleQueue[tuple[int, Entry] | None] = SimpleQueue()
        self._to_log: SimpleQueue[Queued | None] = SimpleQueue()
        #: Entries that are not learned yet.
        self.pending = 0
        #: Why nothing is learned any more; empty if all is well.
        self.halted = ""
        self._lock = threading.Lock()
        self._stopping = False

    def start(self, state: Checkpoint) -> None:
        """Go on from a state: with the requests it knows, and the rows that have some labels."""
        self.ledger = Ledger(self.limits, state.active.outputs, state.history, self._learn_partial)

    def stop(self) -> None:
        """From now on requests to learn are refused; those that wait are still dealt with."""
        with self._lock:
            if not self._stopping:
                self._stopping = True
                self._to_log.put(None)

    def learned(self) -> None:
        with self._lock:
            self.pending -= 1

    # Requests, in the thread of the event loop ------------------------------------------------------------------------

    def look_up(self, entry: Entry) -> tuple[bool, RequestRows | None]:
        """Whether the same request came before, and its rows: those of labels are the rows that wait for them."""
        with self._lock:
            repeated = self.ledger.find(entry) is not None
            rows = entry.rows if entry.label_of is None else self.ledger.rows_of(entry.label_of)
        if rows is None and entry.label_of is not None and not repeated:
            raise no_rows_wait(entry.label_of)
        return repeated, rows

    def wait_for_label(self, identifier: str, rows: RequestRows) -> None:
        """Keep rows until their labels come; refuse them if others wait, or did, under the same id."""
        with self._lock:
            self.ledger.wait(identifier, rows)

    async def submit(self, entry: Entry) -> Receipt:
        """Have an entry written to the log; it is safe when this returns, and will be learned."""
        with self._lock:
            reply = self.ledger.find(entry)
            if reply is None:
                reply = self._accept(entry)
        if isinstance(reply, Receipt):
            return reply
        # A client that goes away, or waits for too long, does not take the record with it.
        await asyncio.wait([reply], timeout=self.limits.seconds)
        if not reply.done():
            raise RequestRefused(503, "the rows are not stored yet: repeat the request with the same id", retry_after=2)
        return reply.result()

    def _accept(self, entry: Entry) -> asyncio.Future[Receipt]:
        if self.log is None:
            raise RequestRefused(409, "this server was started without --data: it predicts, and keeps nothing")
        if self._stopping:
            raise RequestRefused(503, "the server is shutting down", retry_after=5)
        if self.halted:
            raise RequestRefused(503, "this model has stopped learning: see the server's log")
        if self.pending >= self.limits.queue:
            raise RequestRefused(429, f"{self.pending} requests wait to be learned already", retry_after=1)
        reply: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self.ledger.queued(entry, reply)
        self.pending += 1
        self._to_log.put((entry, reply))
        return reply

    def _learn_partial(self, prediction: str) -> None:
        """Have rows learned with the labels that came.

        The lock is held: a label that was accepted before stands before this in the log, and none is accepted after. At
        the end of the service such rows stay in the checkpoint, and wait again after the next start.
        """
        if not self._stopping:
            self.pending += 1
            self._to_log.put((Entry(None, expired=prediction), None))

    # The thread that writes the log -----------------------------------------------------------------------------------

    def write(self) -> None:
        """Write entries until the end, which `stop` begins."""
        last = False
        while not last:
            group = [self._next_to_log()]
            while group[-1] is not None and not self._to_log.empty():
                group.append(self._to_log.get())
            last = group[-1] is None
            self._write_group([queued for queued in group if queued is not None])
        self.to_learn.put(None)

    def _next_to_log(self) -> Queued | None:
        """The next entry; meanwhile rows with some labels go into the queue when their time has passed."""
        while True:
            with self._lock:
                self.ledger.expire()
                waiting = len(self.ledger) > 0
            with suppress(Empty):
                return self._to_log.get(timeout=EXPIRY_INTERVAL if waiting else None)

    def _write_group(self, group: Sequence[Queued]) -> None:
        if not group:
            return
        assert self.log is not None
        results: list[Receipt | RequestRefused]
        try:
            numbers = self.log.append([entry.encode() for entry, _ in group])
            results = [Receipt(number, len(entry)) for number, (entry, _) in zip(numbers, group, strict=True)]
        except Exception as error:
            why = str(error.strerror) if isinstance(error, OSError) else type(error).__name__
            logger.error("the log cannot be written", extra={"model": self.name, "error": why}, exc_info=error)
            if self.log.broken or not isinstance(error, OSError):
                self.halted = "the log cannot be written"
            refusal = RequestRefused(507, "the rows could not be stored and were not learned", retry_after=10)
            results = [refusal] * len(group)
        for (entry, reply), result in zip(group, results, strict=True):
            with self._lock:
                if isinstance(result, Receipt):
                    self.ledger.stored(entry, result)
                else:
                    self.ledger.failed(entry)
                    self.pending -= 1
            if reply is not None:
                with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
                    reply.get_loop().call_soon_threadsafe(_set_result, reply, result)
            if isinstance(result, Receipt):
                self.to_learn.put((result.sequence, entry))


def _set_result(reply: asyncio.Future[Receipt], result: Receipt | RequestRefused) -> None:
    if reply.done():
        return
    if isinstance(result, RequestRefused):
        reply.set_exception(result)
        reply.exception()  # it may be that nobody waits any more
    else:
        reply.set_result(result)


class ModelService:
    """One model under one name, with its shadows; without a folder for log and checkpoints it does not learn."""

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
        self.log = None if folder is None else Log(folder, keep=keep_log)
        self.queue = LearnQueue(name, self.log, self.limits)
        #: Never changed, only replaced.
        self.state: Checkpoint
        self.refused = 0
        #: The last checkpoint: its number, when its file was written, its rows; and when the last one was tried.
        self.saved_sequence, self.saved_at, self._saved_rows, self._tried_at = 0, time.time(), 0, 0.0
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
        # Rows of users are in it, as in the log; later checkpoints keep the permissions of the file they replace.
        place.chmod(0o600)
        self.saved_sequence, self._saved_rows = self.state.sequence, self.state.rows
        # Not the start of this process: one that is killed again and again has to write a checkpoint too.
        self.saved_at = min(place.stat().st_mtime, time.time())
        state = self.state = learn_log(self.state, self.log)
        if self.log.cut:
            logger.warning("torn record cut off", extra={"model": self.name, "bytes": self.log.cut})
        if state.sequence > self.saved_sequence:
            extra = {"model": self.name, "records": state.sequence - self.saved_sequence, "sequence": state.sequence}
            logger.info("log replayed", extra=extra)
        self._checkpoint_if_due()
        if self.predicts_only:
            logger.info("predicts only", extra={"model": self.name, "reason": self.predicts_only})
        self.queue.start(state)
        for target in (self.queue.write, self._learn):
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

    def close(self) -> None:
        """Learn what was acknowledged, write a checkpoint, and end."""
        self.queue.stop()
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

    @property
    def unsaved(self) -> bool:
        """Whether records of the log are not in the last checkpoint, so that a start has to learn them again."""
        return self.log is not None and self.log.sequence > self.saved_sequence

    # What requests need to know ---------------------------------------------------------------------------------------

    @property
    def halted(self) -> str:
        """Why nothing is learned any more; empty if all is well."""
        return self.queue.halted

    @property
    def predicts_only(self) -> str:
        """Why rows are not learned, in one sentence; empty if they are."""
        if not any(model.learns for model in self.state.models):
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

    # The thread that learns -------------------------------------------------------------------------------------------

    def _learn(self) -> None:
        with one_blas_thread(tiles=1):
            while True:
                with suppress(Empty):
                    left = self._until_checkpoint()
                    record = self.queue.to_learn.get(timeout=None if left is None else max(left, 0.05))
                    if record is None:
                        return
                    if not self.halted:
                        self._learn_entry(*record)
                    self.queue.learned()
                self._checkpoint_if_due()

    def _learn_entry(self, number: int, entry: Entry) -> None:
        try:
            state = self.state.after(number, entry)
        except BaseException as error:
            # Not a refusal that a replay would repeat: the state must not part from the log.
            self.queue.halted = f"record {number} could not be learned"
            extra = {"model": self.name, "sequence": number, "error": type(error).__name__}
            logger.critical("learning stopped; restart to replay the log", extra=extra, exc_info=error)
            return
        if sum(model.failures for model in state.models) > sum(model.failures for model in self.state.models):
            self.refused += state.rows - self.state.rows
            logger.warning("a learner refused rows", extra={"model": self.name, "sequence": number})
        if entry.promote is not None:
            extra = {"model": self.name, "sequence": number, "active": state.active.name}
            logger.info("promoted", extra=extra)
        self.state = state
        self._recent.append((time.monotonic(), state.rows))

    def _until_checkpoint(self) -> float | None:
        """Seconds until the next checkpoint is due, None if there is nothing to write."""
        if self.halted or self.state.sequence <= self.saved_sequence:
            return None
        if self.state.rows - self._saved_rows >= self.limits.checkpoint_rows:
            return 0.0
        return self.limits.checkpoint_seconds - (time.time() - max(self.saved_at, self._tried_at))

    def _checkpoint_if_due(self) -> None:
        left = self._until_checkpoint()
        if left is not None and left <= 0.0:
            self._checkpoint()

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
            where = {"model": self.name, "file": str(self.folder / CHECKPOINT)}
            logger.error("no checkpoint could be written", extra={**where, "error": str(error.strerror)})
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
