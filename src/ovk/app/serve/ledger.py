"""The state of each request id: queued, answered, waiting for labels, labelled.

A learning request is *queued* until the log is synced and *answered* afterwards: a repetition gets the same reply,
and other contents under its id are rejected. A prediction *waits* for labels under the id of its request. Each label is
a separate request. When all outputs are labelled, or the time has passed, the rows are learned, once.

`Ledger` holds the current state of every id in memory. `History` holds their state after a given log record; it is part
of the checkpoint, and the next start builds its ledger from it.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ovk.app.serve.access import Limits, RequestError
from ovk.app.serve.log import Entry
from ovk.app.serve.protocol import RequestRows
from ovk.base import State

#: Maximum number of answered requests that are stored, so that a repeated one is not learned again.
MAX_ANSWERED = 10_000

#: Requests in a block of the history. Adding a request copies only the last block.
BLOCK_SIZE = 200


class LearnReply(NamedTuple):
    """The reply to a learning request: the number of its record, and how many rows it has."""

    sequence: int
    rows: int


@dataclass
class History(State):
    """Answered requests and partial labels after a log record. Immutable: `after` returns the next history."""

    #: Blocks of five lists: ids, record numbers, numbers of rows, digests, labelled predictions (or "").
    answered: list[tuple[list[Any], ...]] = field(default_factory=list)
    #: By prediction id, its rows and their labels so far (`Entry.encode`): a learner cannot complete a learned row.
    partial: dict[str, bytes] = field(default_factory=dict)

    def requests(self) -> Iterator[tuple[str, int, int, str, str]]:
        """Id, record number, number of rows, digest and labelled prediction of each request, oldest first."""
        for block in self.answered:
            yield from zip(*block, strict=True)

    def after(self, number: int, entry: Entry, outputs: Sequence[str]) -> tuple[History, Entry | None]:
        """The history after one more record, and the rows to learn now, if any."""
        answered, partial = self.answered, self.partial
        if entry.id is not None:
            answered = self._appended(entry.id, number, len(entry), entry.digest, entry.label_of or "")
        complete: Entry | None = entry
        if entry.partial or entry.expired is not None:
            prediction = entry.label_of if entry.expired is None else entry.expired
            assert prediction is not None
            found = [Entry.decode(self.partial[prediction])] if prediction in self.partial else []
            found += [entry] if entry.partial else []
            labels = {name: column for one in found for name, column in _labels(one).items()}
            partial = {name: content for name, content in self.partial.items() if name != prediction}
            complete = None
            if found and (entry.expired is not None or labels.keys() >= set(outputs)):
                complete = _with_labels(found[-1], labels, outputs)
            elif found:
                partial[prediction] = _with_labels(entry, labels, list(labels)).encode()
        return History(answered, partial), complete

    def _appended(self, *request: Any) -> list[tuple[list[Any], ...]]:
        last = self.answered[-1] if self.answered else tuple([] for _ in request)
        if len(last[0]) < BLOCK_SIZE:
            return [*self.answered[:-1], tuple([*column, one] for column, one in zip(last, request, strict=True))]
        return [*self.answered[-(MAX_ANSWERED // BLOCK_SIZE) :], tuple([one] for one in request)]


def _labels(entry: Entry) -> dict[str, Any]:
    assert entry.targets is not None
    return dict(zip(entry.targets.names or (), entry.targets.columns, strict=True))


def _with_labels(entry: Entry, labels: dict[str, Any], outputs: Sequence[str]) -> Entry:
    """The rows of an entry with the labels of these outputs, nan where there are none."""
    columns = [labels.get(name, np.full(len(entry), np.nan)) for name in outputs]
    return Entry(None, entry.rows, RequestRows.named(outputs, columns), label_of=entry.label_of, partial=True)


@dataclass(eq=False)
class _Request:
    digest: str
    label_of: str
    #: A future until the request is in the log.
    reply: LearnReply | asyncio.Future[LearnReply]

    @property
    def where(self) -> str:
        return f"record {self.reply.sequence}" if isinstance(self.reply, LearnReply) else "not yet in the log"


@dataclass
class _Prediction:
    rows: RequestRows
    until: float
    #: By labelled output, whether the label is in the log already.
    labels: dict[str, bool] = field(default_factory=dict)


class Ledger:
    """The current state of every request id. Not thread-safe: the queue that owns it holds a lock.

    Rows wait in memory for a limited time and up to a total size; the oldest are dropped first. `expired` is called
    with the id of each dropped prediction that has some of its labels.
    """

    def __init__(
        self, limits: Limits, outputs: Sequence[str], history: History, expired: Callable[[str], None]
    ) -> None:
        self._limits, self._outputs, self._expired = limits, list(outputs), expired
        #: In the order of the log, then those not yet in it.
        self._requests: OrderedDict[str, _Request] = OrderedDict()
        #: By id of a prediction, the requests with its labels.
        self._labelled: dict[str, list[_Request]] = {}
        self._waiting: OrderedDict[str, _Prediction] = OrderedDict()
        self._bytes = 0
        for identifier, number, rows, digest, label_of in deque(history.requests(), maxlen=MAX_ANSWERED):
            self._add(identifier, _Request(digest, label_of, LearnReply(number, rows)))
        self._answered = len(self._requests)
        for prediction, content in history.partial.items():
            entry = Entry.decode(content)
            assert entry.rows is not None
            self._keep(prediction, entry.rows, _labels(entry))

    def __len__(self) -> int:
        """Number of predictions that wait for labels."""
        return len(self._waiting)

    def find(self, entry: Entry) -> LearnReply | asyncio.Future[LearnReply] | None:
        """The reply to the same request, or its future. Rejects another request with the same id."""
        known = None if entry.id is None else self._requests.get(entry.id)
        if known is None:
            return None
        if known.digest == entry.digest:
            return known.reply
        if entry.label_of is not None and entry.id == entry.label_id:
            raise RequestError(
                409,
                f"infer_id {entry.label_of!r} was labelled with other values before ({known.where}), and a row is "
                "learned only once: use a unique id for each prediction; omit outputs that are not known yet instead "
                "of sending null",
            )
        raise RequestError(
            409,
            f"id {entry.id!r} was used before for other contents ({known.where}): use a unique id, or repeat the first "
            "request unchanged",
        )

    def queued(self, entry: Entry, reply: asyncio.Future[LearnReply]) -> None:
        """Note that a request goes to the log. Rejects a second label of an output and labels of unknown rows."""
        if entry.label_of is not None:
            outputs = self._outputs_of(entry)
            if self.rows_of(entry.label_of) is None:
                raise unknown_prediction_error(entry.label_of)
            labels = self._waiting[entry.label_of].labels
            if twice := labels.keys() & outputs:
                raise RequestError(
                    409,
                    f"infer_id {entry.label_of!r} already has labels of {', '.join(sorted(twice))}, which were not "
                    "changed: send only outputs without a label",
                )
            labels |= dict.fromkeys(outputs, False)
        if entry.id is not None:
            self._add(entry.id, _Request(entry.digest, entry.label_of or "", reply))

    def stored(self, entry: Entry, reply: LearnReply) -> None:
        """Note that a request is in the log. A prediction with labels of all outputs no longer waits."""
        if entry.id is not None:
            self._requests[entry.id].reply = reply
            self._answered += 1
            if self._answered > MAX_ANSWERED:
                self._remove(next(iter(self._requests)))
                self._answered -= 1
        prediction = self._waiting.get(entry.label_of or "")
        if entry.label_of is not None and prediction is not None:
            prediction.labels |= dict.fromkeys(self._outputs_of(entry), True)
            if all(map(prediction.labels.get, self._outputs)):
                self._drop(entry.label_of)

    def failed(self, entry: Entry) -> None:
        """Forget a request that could not be stored, so that it can be repeated."""
        if entry.id is not None:
            self._remove(entry.id)
        prediction = self._waiting.get(entry.label_of or "")
        if prediction is not None:
            for output in self._outputs_of(entry):
                prediction.labels.pop(output, None)

    def _outputs_of(self, entry: Entry) -> Sequence[str]:
        names = entry.targets.names if entry.partial and entry.targets is not None else None
        return self._outputs if names is None else names

    def _add(self, identifier: str, request: _Request) -> None:
        self._requests[identifier] = request
        if request.label_of:
            self._labelled.setdefault(request.label_of, []).append(request)

    def _remove(self, identifier: str) -> None:
        request = self._requests.pop(identifier)
        if request.label_of:
            self._labelled[request.label_of].remove(request)
            if not self._labelled[request.label_of]:
                del self._labelled[request.label_of]

    def wait(self, identifier: str, rows: RequestRows) -> None:
        """Keep rows until their labels arrive. Rejects the id of other rows that wait or were labelled."""
        self.expire()
        known, why = self._waiting.get(identifier), ""
        if known is not None and known.rows.encode() != rows.encode():
            why = "other rows wait for labels under it"
        elif known is None and identifier in self._labelled:
            why = f"its rows were labelled ({self._labelled[identifier][-1].where})"
        if why:
            raise RequestError(409, f"id {identifier[:60]!r} is taken: {why}; use a unique id for each prediction")
        if known is None:
            self._keep(identifier, rows)

    def rows_of(self, identifier: str) -> RequestRows | None:
        found = self._waiting.get(identifier)
        return found.rows if found is not None and found.until > time.monotonic() else None

    def expire(self) -> None:
        """Drop rows whose time has passed or that exceed the memory limit."""
        now = time.monotonic()
        while self._waiting:
            oldest, prediction = next(iter(self._waiting.items()))
            if self._bytes <= self._limits.label_bytes and prediction.until > now:
                break
            self._drop(oldest)
            if prediction.labels:
                self._expired(oldest)

    def _keep(self, identifier: str, rows: RequestRows, labels: Iterable[str] = ()) -> None:
        until = time.monotonic() + self._limits.label_seconds
        self._waiting[identifier] = _Prediction(rows, until, dict.fromkeys(labels, True))
        self._bytes += rows.nbytes
        self.expire()

    def _drop(self, identifier: str) -> None:
        self._bytes -= self._waiting.pop(identifier).rows.nbytes


def unknown_prediction_error(identifier: str) -> RequestError:
    return RequestError(
        404,
        f"no rows wait for labels under infer_id {identifier[:60]!r}: it is unknown, already labelled, expired "
        "(--label-seconds), or lost in a restart; send rows and targets together instead",
    )
