"""What requests to learn are answered, and which were answered before."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from ovk.app.serve.access import RequestRefused
from ovk.app.serve.log import Entry
from ovk.base import State

# Identifiers of the last requests, with what they held and what they were answered.

#: Identifiers that are remembered at least, the last ones: a repeated one is not learned again.
REMEMBERED = 10_000

#: Identifiers of a block. Only the last block is copied when one is added.
BLOCK = 200


@dataclass
class RequestIdentifiers(State):
    """The last requests. It is never changed: `added` gives another one, which shares all blocks but the last.

    Attributes
    ----------
    blocks : identifiers, numbers of records, numbers of rows, digests of the contents, and identifiers of the
        predictions that were labelled, "" for other requests; a list of each for a block, of which the last is not full

    Examples
    --------
    >>> from ovk.app.serve.request_history import RequestIdentifiers
    >>> one = RequestIdentifiers().added("a", 1, 5, "e3b0")
    >>> two = one.added("b", 2, 7, "98f1", label_of="monday")
    >>> list(one), list(two)[1]
    ([('a', 1, 5, 'e3b0', '')], ('b', 2, 7, '98f1', 'monday'))
    """

    blocks: list[tuple[list[str], list[int], list[int], list[str], list[str]]] = field(default_factory=list)

    def added(
        self, identifier: str, number: int, rows: int, digest: str, label_of: str | None = None
    ) -> RequestIdentifiers:
        """With one more, the oldest block gone if there are enough without it."""
        one = identifier, number, rows, digest, label_of or ""
        if self.blocks and len(self.blocks[-1][0]) < BLOCK:
            ids, numbers, counts, digests, labels = self.blocks[-1]
            last = [*ids, one[0]], [*numbers, one[1]], [*counts, one[2]], [*digests, one[3]], [*labels, one[4]]
            return RequestIdentifiers([*self.blocks[:-1], last])
        kept = self.blocks[-(REMEMBERED // BLOCK) :]
        return RequestIdentifiers([*kept, ([one[0]], [one[1]], [one[2]], [one[3]], [one[4]])])

    def __iter__(self) -> Iterator[tuple[str, int, int, str, str]]:
        """Identifier, number of the record and of its rows, digest of the contents, and the prediction that was
        labelled, the oldest first."""
        for block in self.blocks:
            yield from zip(*block, strict=True)


class Receipt(NamedTuple):
    """What a request to learn is answered: the number of its record, and of its rows."""

    sequence: int
    rows: int


class Queued(NamedTuple):
    """An entry on its way into the log, and who waits for it; nobody does where the service itself wrote it."""

    entry: Entry
    reply: asyncio.Future[Receipt] | None


class RequestHistory:
    """The last requests by their identifiers. A repeated one gets the same receipt, if its contents are the same.

    It also tells which predictions were labelled by these requests: a label that is repeated gets the first receipt, so
    other rows must not wait under the identifier of that prediction.

    Examples
    --------
    >>> from ovk.app.serve.log import Entry
    >>> from ovk.app.serve.request_history import RequestIdentifiers
    >>> answered = RequestHistory(RequestIdentifiers())
    >>> answered.add(Entry("a", promote="one"), Receipt(1, 0))
    >>> answered.find(Entry("a", promote="one"))
    Receipt(sequence=1, rows=0)
    >>> answered.find(Entry("a", promote="two"))
    Traceback (most recent call last):
    ovk.app.serve.access.RequestRefused: the id 'a' was used before for other contents (record 1), so this request ...
    """

    def __init__(self, known: RequestIdentifiers) -> None:
        #: By identifier the digest of the contents, the prediction that was labelled, and the receipt.
        self._receipts: OrderedDict[str, tuple[str, str, Receipt]] = OrderedDict()
        #: By identifier of a prediction, the number of the last record among these that labelled it.
        self._labelled: dict[str, int] = {}
        for identifier, number, rows, digest, label_of in known:
            self._remember(identifier, digest, label_of, Receipt(number, rows))

    def add(self, entry: Entry, receipt: Receipt) -> None:
        """Remember what a request was answered."""
        if entry.id is not None:
            self._remember(entry.id, entry.digest, entry.label_of or "", receipt)

    def _remember(self, identifier: str, digest: str, label_of: str, receipt: Receipt) -> None:
        self._receipts[identifier] = digest, label_of, receipt
        if label_of:
            self._labelled[label_of] = receipt.sequence
        while len(self._receipts) > REMEMBERED:
            _, (_, old, forgotten) = self._receipts.popitem(last=False)
            if self._labelled.get(old) == forgotten.sequence:
                del self._labelled[old]

    def labelled(self, prediction: str) -> int | None:
        """The number of the last record that labelled a prediction, None if no request that is remembered did."""
        return self._labelled.get(prediction)

    def find(self, entry: Entry) -> Receipt | None:
        """What the same request was answered before; one with its identifier and other contents is refused."""
        if entry.id is None or entry.id not in self._receipts:
            return None
        digest, _, receipt = self._receipts[entry.id]
        check_same(entry, digest, f"record {receipt.sequence}")
        return receipt


def check_same(entry: Entry, digest: str, where: str) -> None:
    """Refuse an entry with an identifier under which something else was accepted."""
    if entry.digest == digest:
        return
    if entry.label_of is not None and entry.id == entry.label_id:
        raise RequestRefused(
            409,
            f"other labels came before for infer_id {entry.label_of!r} ({where}), and a row is learned once, so these "
            "were not learned: give every prediction an id of its own; where an output is not known yet, leave it out "
            "instead of sending null",
        )
    raise RequestRefused(
        409,
        f"the id {entry.id!r} was used before for other contents ({where}), so this request was not learned: give it "
        "an id of its own, or repeat the first one unchanged",
    )


def answer(group: Sequence[Queued], results: Sequence[Receipt | RequestRefused]) -> None:
    """Hand results to those who wait, each in the thread of its loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Receipt], Receipt | RequestRefused]]] = {}
    for one, result in zip(group, results, strict=True):
        if one.reply is not None:
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
