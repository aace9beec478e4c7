"""From requests into the log: queued, written and synced in groups, then answered and handed on to be learned."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue

from ovk.app.serve.access import Limits, RequestRefused
from ovk.app.serve.checkpoint import Checkpoint
from ovk.app.serve.log import Entry, Log
from ovk.app.serve.pending_predictions import PendingPredictions, id_taken
from ovk.app.serve.request_history import Queued, Receipt, RequestHistory, RequestIdentifiers, answer, check_same
from ovk.app.serve.rows import RequestRows

logger = logging.getLogger("ovk.app.serve")

#: Seconds between two looks for rows that have some labels and whose time has passed.
SWEEP = 1.0


class LearnQueue:
    """The way of a model's requests into its log.

    Requests are accepted in the thread of the event loop. `write` runs in a thread of its own: it writes all entries
    that wait, syncs the log once, has them answered, and puts them into `to_learn`.

    Parameters
    ----------
    name : name of the model, for messages
    log : where entries are written; None accepts none
    limits : what is allowed

    Attributes
    ----------
    waiting : rows whose labels come later
    to_learn : number and entry of each record that is in the log; None is the last thing that comes out
    pending : entries that are not learned yet
    halted : why nothing is learned any more; empty if all is well
    """

    def __init__(self, name: str, log: Log | None, limits: Limits) -> None:
        self.name, self.log, self.limits = name, log, limits
        self.waiting = PendingPredictions(limits.label_seconds, limits.label_bytes)
        self.to_learn: SimpleQueue[tuple[int, Entry] | None] = SimpleQueue()
        self.pending = 0
        self.halted = ""
        self._outputs: list[str] = []
        self._lock = threading.Lock()
        # None is the last thing that comes out here as well.
        self._to_log: SimpleQueue[Queued | None] = SimpleQueue()
        self._stopping = False
        self._answered = RequestHistory(RequestIdentifiers())
        #: By identifier, the digest of what is on its way into the log, and its reply.
        self._in_flight: dict[str, tuple[str, asyncio.Future[Receipt]]] = {}
        #: By entry on its way into the log, the prediction that it labels: its rows may be gone from those that wait.
        self._labels_in_flight: dict[int, str] = {}

    def start(self, state: Checkpoint) -> None:
        """Go on from a state: with the requests it knows, and the rows that have some labels."""
        self._outputs = state.leader.outputs
        self._answered = RequestHistory(state.known)
        for held in state.held:
            assert held.label_of is not None
            assert held.rows is not None
            assert held.targets is not None
            with self._lock:
                self._learn_as_they_are(self.waiting.keep(held.label_of, held.rows, held.targets.names or ()))

    def stop(self) -> None:
        """From now on requests to learn are refused; those that wait are still dealt with."""
        with self._lock:
            if not self._stopping:
                self._stopping = True
                self._to_log.put(None)

    def learned(self) -> None:
        """An entry of `to_learn` was dealt with."""
        with self._lock:
            self.pending -= 1

    # Requests, in the thread of the event loop ------------------------------------------------------------------------

    def earlier(self, entry: Entry) -> Receipt | None:
        """What the same request was answered before; one with its identifier and other contents is refused."""
        if self.log is None:
            return None
        with self._lock:
            return self._answered.find(entry)

    def wait_for_label(self, identifier: str, rows: RequestRows) -> None:
        """Keep rows until their labels come; refuse them if the identifier is that of others, which wait or did."""
        with self._lock:
            if self.waiting.find(identifier) is None:
                number = self._answered.labelled(identifier)
                if number is not None or identifier in self._labels_in_flight.values():
                    where = "the log" if number is None else f"record {number}"
                    raise id_taken(identifier, f"rows were labelled ({where})")
            self._learn_as_they_are(self.waiting.keep(identifier, rows))

    def waiting_rows(self, identifier: str) -> RequestRows | None:
        """The rows that wait for labels under that identifier."""
        with self._lock:
            return self.waiting.find(identifier)

    async def submit(self, entry: Entry) -> Receipt:
        """Have an entry written to the log; it is safe when this returns, and will be learned."""
        if (known := self.earlier(entry)) is not None:
            return known
        if entry.id in self._in_flight:
            digest, reply = self._in_flight[entry.id]
            check_same(entry, digest, "on its way into the log")
        else:
            reply = self._queued(entry)
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
            if self.pending >= self.limits.queue:
                raise RequestRefused(429, f"{self.pending} requests wait to be learned already", retry_after=1)
            if entry.label_of is not None:
                self.waiting.claim(entry.label_of, self._labelled_by(entry))
                self._labels_in_flight[id(entry)] = entry.label_of
                reply.add_done_callback(lambda done: self._settle(entry, stored=done.exception() is None))
            self.pending += 1
            self._to_log.put(Queued(entry, reply))
        if entry.id is not None:
            identifier = entry.id
            self._in_flight[identifier] = entry.digest, reply
            reply.add_done_callback(lambda _: self._in_flight.pop(identifier, None))
        return reply

    def _labelled_by(self, entry: Entry) -> set[str]:
        """The outputs whose labels an entry holds."""
        names = entry.targets.names if entry.part and entry.targets is not None else None
        return set(self._outputs if names is None else names)

    def _settle(self, entry: Entry, *, stored: bool) -> None:
        assert entry.label_of is not None
        with self._lock:
            self._labels_in_flight.pop(id(entry), None)
            self.waiting.settle(entry.label_of, self._labelled_by(entry), stored=stored, everything=self._outputs)

    def _learn_as_they_are(self, identifiers: Iterable[str]) -> None:
        """Have rows learned with the labels that came; who calls this holds the lock.

        With the lock, since a label that was accepted before stands before this in the log, and none is accepted after.
        At the end of the service they stay in the checkpoint, and wait again after the next start.
        """
        for identifier in identifiers if not self._stopping else ():
            self.pending += 1
            self._to_log.put(Queued(Entry(None, expired=identifier), None))

    # The thread that writes the log -----------------------------------------------------------------------------------

    def write(self) -> None:
        """Write entries until the end, which `stop` begins."""
        while (first := self._next_to_log()) is not None:
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
        self.to_learn.put(None)

    def _next_to_log(self) -> Queued | None:
        """The next entry; meanwhile rows with some labels go into the queue when their time has passed."""
        while True:
            with self._lock:
                self._learn_as_they_are(self.waiting.expire())
                some = bool(self.waiting.labelled)
            with suppress(Empty):
                return self._to_log.get(timeout=SWEEP if some else None)

    def _write_group(self, group: Sequence[Queued]) -> None:
        assert self.log is not None
        try:
            numbers = self.log.append([one.entry.encode() for one in group])
        except Exception as error:
            why = str(error.strerror) if isinstance(error, OSError) else type(error).__name__
            logger.error("the log cannot be written", extra={"model": self.name, "error": why}, exc_info=error)
            if self.log.broken or not isinstance(error, OSError):
                self.halted = "the log cannot be written"
            with self._lock:
                self.pending -= len(group)
            refusal = RequestRefused(507, "the rows could not be stored and were not learned", retry_after=10)
            answer(group, [refusal] * len(group))
            return
        receipts = [Receipt(number, len(one.entry)) for number, one in zip(numbers, group, strict=True)]
        with self._lock:
            for receipt, one in zip(receipts, group, strict=True):
                self._answered.add(one.entry, receipt)
        answer(group, receipts)
        for receipt, one in zip(receipts, group, strict=True):
            self.to_learn.put((receipt.sequence, one.entry))
