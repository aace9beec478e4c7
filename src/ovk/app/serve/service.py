"""A served model with its log, checkpoints and learning threads; predictions never wait for them.

A learning request passes through two threads. The first writes all queued requests to the log, syncs it once, and
answers them. The second learns them, record by record, and replaces the state in one assignment: a prediction reads the
current state.
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

from ovk.app.serve.access import Limits, RequestError
from ovk.app.serve.checkpoint import Checkpoint, learn_log, load_model
from ovk.app.serve.ledger import History, LearnReply, Ledger, unknown_prediction_error
from ovk.app.serve.log import Entry, Log
from ovk.app.serve.protocol import RequestRows
from ovk.base import one_blas_thread
from ovk.persistence import load, save

if sys.platform != "win32":
    import fcntl

logger = logging.getLogger("ovk.app.serve")

#: Name of the checkpoint in the directory of a model.
CHECKPOINT = "checkpoint.ovk"

#: Seconds between two searches for expired predictions.
EXPIRY_INTERVAL = 1.0

#: An entry for the log, and the future of its reply; None for an entry that the service itself created.
Queued = tuple[Entry, asyncio.Future[LearnReply] | None]


class LearnQueue:
    """Takes learning requests into the log of a model; without a log it rejects them.

    Requests are accepted in the thread of the event loop; `write` runs in another thread.
    """

    def __init__(self, name: str, log: Log | None, limits: Limits) -> None:
        self.name, self.log, self.limits = name, log, limits
        self.ledger = Ledger(limits, [], History(), self._learn_partial)
        #: Log records. None marks the end of a queue.
        self.to_learn: SimpleQueue[tuple[int, Entry] | None] = SimpleQueue()
        self._to_log: SimpleQueue[Queued | None] = SimpleQueue()
        #: Number of entries that are not learned yet.
        self.pending = 0
        #: Why the model has stopped learning, or "".
        self.halted = ""
        self._lock = threading.Lock()
        self._stopping = False

    def start(self, state: Checkpoint) -> None:
        """Restore the requests and partial labels of a state."""
        self.ledger = Ledger(self.limits, state.active.outputs, state.history, self._learn_partial)

    def stop(self) -> None:
        """Reject further learning requests; queued ones are still written and learned."""
        with self._lock:
            if not self._stopping:
                self._stopping = True
                self._to_log.put(None)

    def learned(self) -> None:
        with self._lock:
            self.pending -= 1

    # Requests, in the thread of the event loop ------------------------------------------------------------------------

    def look_up(self, entry: Entry) -> tuple[bool, RequestRows | None]:
        """Whether the request is a repetition, and its rows; for labels, the rows that wait for them."""
        with self._lock:
            repeated = self.ledger.find(entry) is not None
            rows = entry.rows if entry.label_of is None else self.ledger.rows_of(entry.label_of)
        if rows is None and entry.label_of is not None and not repeated:
            raise unknown_prediction_error(entry.label_of)
        return repeated, rows

    def wait_for_label(self, identifier: str, rows: RequestRows) -> None:
        with self._lock:
            self.ledger.wait(identifier, rows)

    async def submit(self, entry: Entry) -> LearnReply:
        """Queue an entry and wait until it is in the log."""
        with self._lock:
            reply = self.ledger.find(entry)
            if reply is None:
                reply = self._accept(entry)
        if isinstance(reply, LearnReply):
            return reply
        # The record is kept even if its client disconnects or times out.
        await asyncio.wait([reply], timeout=self.limits.seconds)
        if not reply.done():
            raise RequestError(503, "the rows are not stored yet: repeat the request with the same id", retry_after=2)
        return reply.result()

    def _accept(self, entry: Entry) -> asyncio.Future[LearnReply]:
        if self.log is None:
            raise RequestError(409, "this server was started without --data and does not learn")
        if self._stopping:
            raise RequestError(503, "the server is shutting down", retry_after=5)
        if self.halted:
            raise RequestError(503, "this model has stopped learning: see the server's log")
        if self.pending >= self.limits.queue:
            raise RequestError(429, f"{self.pending} requests are already queued: retry later", retry_after=1)
        reply: asyncio.Future[LearnReply] = asyncio.get_running_loop().create_future()
        self.ledger.queued(entry, reply)
        self.pending += 1
        self._to_log.put((entry, reply))
        return reply

    def _learn_partial(self, prediction: str) -> None:
        """Queue the expiry of a prediction, so that its rows are learned with the labels they have.

        The lock is held, so all labels accepted earlier precede this entry in the log, and none is accepted later. When
        the service stops, such rows stay in the checkpoint and wait again after the next start.
        """
        if not self._stopping:
            self.pending += 1
            self._to_log.put((Entry(None, expired=prediction), None))

    # The thread that writes the log -----------------------------------------------------------------------------------

    def write(self) -> None:
        """Write queued entries to the log until `stop`."""
        last = False
        while not last:
            group = [self._next_to_log()]
            while group[-1] is not None and not self._to_log.empty():
                group.append(self._to_log.get())
            last = group[-1] is None
            self._write_group([queued for queued in group if queued is not None])
        self.to_learn.put(None)

    def _next_to_log(self) -> Queued | None:
        """The next entry; meanwhile, expired predictions are queued."""
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
        results: list[LearnReply | RequestError]
        try:
            numbers = self.log.append([entry.encode() for entry, _ in group])
            results = [LearnReply(number, len(entry)) for number, (entry, _) in zip(numbers, group, strict=True)]
        except Exception as error:
            why = str(error.strerror) if isinstance(error, OSError) else type(error).__name__
            logger.error("the log cannot be written", extra={"model": self.name, "error": why}, exc_info=error)
            if self.log.broken or not isinstance(error, OSError):
                self.halted = "the log cannot be written"
            failure = RequestError(507, "the rows could not be stored and were not learned", retry_after=10)
            results = [failure] * len(group)
        for (entry, reply), result in zip(group, results, strict=True):
            with self._lock:
                if isinstance(result, LearnReply):
                    self.ledger.stored(entry, result)
                else:
                    self.ledger.failed(entry)
                    self.pending -= 1
            if reply is not None:
                with suppress(RuntimeError):  # the loop has ended
                    reply.get_loop().call_soon_threadsafe(_set_result, reply, result)
            if isinstance(result, LearnReply):
                self.to_learn.put((result.sequence, entry))


def _set_result(reply: asyncio.Future[LearnReply], result: LearnReply | RequestError) -> None:
    if reply.done():
        return
    if isinstance(result, RequestError):
        reply.set_exception(result)
        reply.exception()  # the client may be gone: mark it as retrieved
    else:
        reply.set_result(result)


class ModelService:
    """A model under a name, with its shadows. Without a directory for log and checkpoints it does not learn."""

    def __init__(
        self,
        name: str,
        path: Path,
        shadows: Sequence[Path] = (),
        directory: Path | None = None,
        limits: Limits | None = None,
        *,
        keep_log: bool = False,
    ) -> None:
        self.name, self.path, self.shadows = name, path, list(shadows)
        self.directory, self.limits = directory, limits or Limits()
        self.log = None if directory is None else Log(directory, keep=keep_log)
        self.queue = LearnQueue(name, self.log, self.limits)
        #: Immutable; learning replaces it.
        self.state: Checkpoint
        self.rejected = 0
        #: Of the last checkpoint: sequence number, time and rows; and the time of the last attempt.
        self.saved_sequence, self.saved_at, self._saved_rows, self._tried_at = 0, time.time(), 0, 0.0
        self._recent: deque[tuple[float, int]] = deque(maxlen=600)
        self._threads: list[threading.Thread] = []
        self._lock_file: int | None = None

    def open(self) -> None:
        """Load the model or its last checkpoint, learn the log after it, and start the threads."""
        origin = hashlib.sha256(b"".join(file.read_bytes() for file in [self.path, *self.shadows])).hexdigest()
        if self.directory is None or self.log is None:
            self.state = self._from_files(origin)
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        path = self.directory / CHECKPOINT
        if path.exists():
            found = load(path)
            if not isinstance(found, Checkpoint) or found.origin != origin:
                raise ValueError(
                    f"{path} is not a checkpoint of {self.path}{' with these shadows' if self.shadows else ''}: use "
                    "another --data directory, or the files that it was started with"
                )
            self.state = found
        else:
            if self.log.segments():
                raise ValueError(
                    f"{self.directory} contains a log but no {CHECKPOINT}: restore it, or use another --data"
                )
            self.state = self._from_files(origin)
            save(self.state, path)
        # Like the log, it contains rows of users. Later checkpoints keep the permissions of the file they replace.
        path.chmod(0o600)
        self.saved_sequence, self._saved_rows = self.state.sequence, self.state.rows
        # Not the start of this process: a process that is killed repeatedly must write checkpoints too.
        self.saved_at = min(path.stat().st_mtime, time.time())
        state = self.state = learn_log(self.state, self.log)
        if self.log.cut:
            logger.warning("incomplete record removed", extra={"model": self.name, "bytes": self.log.cut})
        if state.sequence > self.saved_sequence:
            extra = {"model": self.name, "records": state.sequence - self.saved_sequence, "sequence": state.sequence}
            logger.info("log replayed", extra=extra)
        self._checkpoint_if_due()
        if self.predicts_only:
            logger.info("prediction only", extra={"model": self.name, "reason": self.predicts_only})
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
                raise ValueError(f"two files have the name {name!r}: rename one of them")
            models[name] = load_model(file)
        return Checkpoint.start(models, origin)

    def _take_lock(self) -> None:
        assert self.directory is not None
        self._lock_file = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        if sys.platform != "win32":
            try:
                fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(self._lock_file)
                self._lock_file = None
                raise ValueError(
                    f"another process uses {self.directory}: stop it, or use another --data directory"
                ) from None

    def close(self) -> None:
        """Learn the acknowledged requests, write a checkpoint, and stop."""
        self.queue.stop()
        for thread in self._threads:
            thread.join()
        if self._threads and not self.queue.halted and self.state.sequence > self.saved_sequence:
            self._checkpoint()
        self._threads = []
        if self.log is not None:
            self.log.close()
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    @property
    def unsaved(self) -> bool:
        """Whether the log has records that are not in the last checkpoint, which the next start must learn again."""
        return self.log is not None and self.log.sequence > self.saved_sequence

    @property
    def predicts_only(self) -> str:
        """Why this service does not learn, or ""."""
        if not any(model.learns for model in self.state.models):
            return (
                "this model was fitted to one batch and does not learn: use `ovk stream`, or a learner with partial_fit"
            )
        if self.log is None:
            return "this server was started without --data and does not learn"
        return ""

    def check_learns(self) -> None:
        if self.predicts_only:
            raise RequestError(409, self.predicts_only)

    def _learn(self) -> None:
        with one_blas_thread(tiles=1):
            while True:
                with suppress(Empty):
                    left = self._until_checkpoint()
                    record = self.queue.to_learn.get(timeout=None if left is None else max(left, 0.05))
                    if record is None:
                        return
                    if not self.queue.halted:
                        self._learn_entry(*record)
                    self.queue.learned()
                self._checkpoint_if_due()

    def _learn_entry(self, number: int, entry: Entry) -> None:
        try:
            state = self.state.after(number, entry)
        except BaseException as error:
            # A replay might not fail in the same way, so the state could diverge from the log.
            self.queue.halted = f"record {number} could not be learned"
            extra = {"model": self.name, "sequence": number, "error": type(error).__name__}
            logger.critical("learning stopped; restart to replay the log", extra=extra, exc_info=error)
            return
        if sum(model.failures for model in state.models) > sum(model.failures for model in self.state.models):
            self.rejected += state.rows - self.state.rows
            logger.warning("a learner rejected rows", extra={"model": self.name, "sequence": number})
        if entry.promote is not None:
            extra = {"model": self.name, "sequence": number, "active": state.active.name}
            logger.info("promoted", extra=extra)
        self.state = state
        self._recent.append((time.monotonic(), state.rows))

    def _until_checkpoint(self) -> float | None:
        """Seconds until the next checkpoint is due, None if there is nothing to save."""
        if self.queue.halted or self.state.sequence <= self.saved_sequence:
            return None
        if self.state.rows - self._saved_rows >= self.limits.checkpoint_rows:
            return 0.0
        return self.limits.checkpoint_seconds - (time.time() - max(self.saved_at, self._tried_at))

    def _checkpoint_if_due(self) -> None:
        left = self._until_checkpoint()
        if left is not None and left <= 0.0:
            self._checkpoint()

    def _checkpoint(self) -> None:
        """Save the state and remove the log segments that it makes obsolete."""
        assert self.directory is not None
        assert self.log is not None
        state, start = self.state, time.perf_counter()
        self._tried_at, self._saved_rows = time.time(), state.rows
        try:
            save(state, self.directory / CHECKPOINT)
        except OSError as error:
            # Nothing is lost: the log has all records, and the next checkpoint may succeed.
            where = {"model": self.name, "file": str(self.directory / CHECKPOINT)}
            logger.error("the checkpoint cannot be written", extra={**where, "error": str(error.strerror)})
            return
        self.saved_sequence, self.saved_at = state.sequence, self._tried_at
        self.log.forget(state.sequence)
        self.log.full = True
        milliseconds = round(1000 * (time.perf_counter() - start), 1)
        extra = {"model": self.name, "sequence": state.sequence, "rows": state.rows, "milliseconds": milliseconds}
        logger.info("checkpoint", extra=extra)

    def rate(self) -> float:
        """Rows learned per second, over the last ten seconds."""
        now = time.monotonic()
        known = [(at, rows) for at, rows in list(self._recent) if now - at <= 10]
        if len(known) < 2:
            return 0.0
        return (known[-1][1] - known[0][1]) / max(now - known[0][0], 1e-3)
