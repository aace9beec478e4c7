"""What became of each request id: queued, answered, waiting for labels, labelled.

A request to learn is *queued* until the log is synced, and *answered* from then on: when it is repeated it gets the
same receipt, and other contents under its id are refused. A prediction *waits* for labels under the id of its request.
Each label is a request of its own. When all outputs are labelled, or the time has passed, the rows are learned, once.

`Ledger` holds the present state of every id, in memory. `History` is what the log says about them up to one of its
records: it is part of the checkpoint, and the ledger of the next start begins with it.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ovk.app.serve.access import Limits, RequestRefused
from ovk.app.serve.log import Entry
from ovk.app.serve.protocol import RequestRows
from ovk.base import State

#: Answered requests that are remembered, the last ones: a repeated one is not learned again.
MAX_ANSWERED = 10_000

#: Requests of a block of the history. Only the last block is copied when one is added.
BLOCK_SIZE = 200


class Receipt(NamedTuple):
    """The reply to a request to learn: the number of its record, and of its rows."""

    sequence: int
    rows: int


@dataclass
class History(State):
    """Answered requests and partial labels after some records of the log. It never changes: `after` gives the next.

    A learner cannot complete a row that it has learned, so rows with some of their labels are kept here.

    Attributes
    ----------
    answered : ids, numbers of records, numbers of rows, digests, and ids of the predictions that were labelled, ""
        for other requests; five lists for each block, of which the last one is not full
    partial : by id of the prediction its rows and their labels so far, as `Entry` encodes them
    """

    answered: list[tuple[list[Any], ...]] = field(default_factory=list)
    partial: dict[str, bytes] = field(default_factory=dict)

    def requests(self) -> Iterator[tuple[str, int, int, str, str]]:
        """Id, number of the record and of its rows, digest, and the prediction that was labelled; the oldest first."""
        for block in self.answered:
            yield from zip(*block, strict=True)

    def after(self, number: int, entry: Entry, outputs: Sequence[str]) -> tuple[History, Entry | None]:
        """The history after one more record, and the rows that are now to be learned, if any."""
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
    """The rows of an entry with the labels of these outputs, missing where there are none."""
    columns = [labels.get(name, np.full(len(entry), np.nan)) for name in outputs]
    return Entry(None, entry.rows, RequestRows.named(outputs, columns), label_of=entry.label_of, partial=True)


@dataclass(eq=False)
class _Request:
    digest: str
    label_of: str
    #: A future while the request is on its way into the log.
    reply: Receipt | asyncio.Future[Receipt]

    @property
    def where(self) -> str:
        return f"record {self.reply.sequence}" if isinstance(self.reply, Receipt) else "on its way into the log"


@dataclass
class _Prediction:
    rows: RequestRows
    until: float
    #: By output, whether its label is in the log, or else on its way there.
    labels: dict[str, bool] = field(default_factory=dict)


class Ledger:
    """The present state of every request id. It has no lock: the queue that owns it holds one.

    Rows wait in memory, for a limited time and within a limited number of bytes: the oldest go first. Rows that are
    partly labelled in the history wait again. `expired` is called with the id of each prediction that is dropped while
    only some of its labels have arrived.
    """

    def __init__(
        self, limits: Limits, outputs: Sequence[str], history: History, expired: Callable[[str], None]
    ) -> None:
        self._limits, self._outputs, self._expired = limits, list(outputs), expired
        #: In the order of the log, then those on their way there.
        self._requests: OrderedDict[str, _Request] = OrderedDict()
        #: By id of a prediction, the requests with its labels.
        self._labelled: dict[str, list[_Request]] = {}
        self._waiting: OrderedDict[str, _Prediction] = OrderedDict()
        self._bytes = 0
        for identifier, number, rows, digest, label_of in deque(history.requests(), maxlen=MAX_ANSWERED):
            self._add(identifier, _Request(digest, label_of, Receipt(number, rows)))
        self._answered = len(self._requests)
        for prediction, content in history.partial.items():
            entry = Entry.decode(content)
            assert entry.rows is not None
            self._keep(prediction, entry.rows, _labels(entry))

    def __len__(self) -> int:
        """Predictions that wait for labels."""
        return len(self._waiting)

    # Requests to learn ------------------------------------------------------------------------------------------------

    def find(self, entry: Entry) -> Receipt | asyncio.Future[Receipt] | None:
        """The reply to the same request, or its future; another request with the same id is refused."""
        known = None if entry.id is None else self._requests.get(entry.id)
        if known is None:
            return None
        if known.digest == entry.digest:
            return known.reply
        if entry.label_of is not None and entry.id == entry.label_id:
            raise RequestRefused(
                409,
                f"other labels came before for infer_id {entry.label_of!r} ({known.where}), and a row is learned once, "
                "so these were not learned: give every prediction an id of its own; where an output is not known yet, "
                "leave it out instead of sending null",
            )
        raise RequestRefused(
            409,
            f"the id {entry.id!r} was used before for other contents ({known.where}), so this request was not learned: "
            "give it an id of its own, or repeat the first one unchanged",
        )

    def queued(self, entry: Entry, reply: asyncio.Future[Receipt]) -> None:
        """The request goes to the log; labels of outputs that have one, or of rows that do not wait, are refused."""
        if entry.label_of is not None:
            outputs = self._outputs_of(entry)
            if self.rows_of(entry.label_of) is None:
                raise no_rows_wait(entry.label_of)
            labels = self._waiting[entry.label_of].labels
            if twice := labels.keys() & outputs:
                raise RequestRefused(
                    409,
                    f"the label of {', '.join(sorted(twice))} came before for infer_id {entry.label_of!r}, and was not "
                    "changed: a row is learned once; send only outputs that have no label yet",
                )
            labels |= dict.fromkeys(outputs, False)
        if entry.id is not None:
            self._add(entry.id, _Request(entry.digest, entry.label_of or "", reply))

    def stored(self, entry: Entry, receipt: Receipt) -> None:
        """The request is in the log; a prediction with labels of all outputs no longer waits."""
        if entry.id is not None:
            self._requests[entry.id].reply = receipt
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
        """The request could not be stored: it may come again."""
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

    # Predictions that wait for labels ---------------------------------------------------------------------------------

    def wait(self, identifier: str, rows: RequestRows) -> None:
        """Keep rows until their labels come. An id under which other rows wait, or were labelled, is refused."""
        self.expire()
        known = self._waiting.get(identifier)
        if known is None:
            if identifier in self._labelled:
                raise id_taken(identifier, f"rows were labelled ({self._labelled[identifier][-1].where})")
            self._keep(identifier, rows)
        elif known.rows.encode() != rows.encode():
            raise id_taken(identifier, "other rows wait")

    def rows_of(self, identifier: str) -> RequestRows | None:
        """The rows that wait for labels under that id."""
        found = self._waiting.get(identifier)
        return found.rows if found is not None and found.until > time.monotonic() else None

    def expire(self) -> None:
        """Forget rows whose time has passed, or that there is no room for."""
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


def no_rows_wait(identifier: str) -> RequestRefused:
    return RequestRefused(
        404,
        f"no rows wait for labels under the infer_id {identifier[:60]!r}: it is unknown, its labels came before, its "
        "time has passed (--label-seconds), or the server was restarted since; send rows and targets together instead",
    )


def id_taken(identifier: str, why: str) -> RequestRefused:
    cure = "give every prediction an id of its own"
    return RequestRefused(409, f"{why} under the id {identifier[:60]!r}, so these do not wait for labels: {cure}")
