"""What requests to learn are answered, and which were answered before."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from ovk.serving.entries import Entry
from ovk.serving.errors import RequestRefused
from ovk.serving.identifiers import REMEMBERED, RequestIdentifiers


class Receipt(NamedTuple):
    """What a request to learn is answered: the number of its record, and of its rows."""

    sequence: int
    rows: int


class Queued(NamedTuple):
    """An entry on its way into the log, and who waits for it; nobody does where the service itself wrote it."""

    entry: Entry
    reply: asyncio.Future[Receipt] | None


class AnsweredRequests:
    """The last requests by their identifiers. A repeated one gets the same receipt, if its contents are the same.

    Examples
    --------
    >>> from ovk.serving.entries import Entry
    >>> from ovk.serving.identifiers import RequestIdentifiers
    >>> answered = AnsweredRequests(RequestIdentifiers())
    >>> answered.add(Entry("a", promote="one"), Receipt(1, 0))
    >>> answered.find(Entry("a", promote="one"))
    Receipt(sequence=1, rows=0)
    >>> answered.find(Entry("a", promote="two"))
    Traceback (most recent call last):
    ovk.serving.errors.RequestRefused: the id 'a' was used before for other contents (record 1), so this request ...
    """

    def __init__(self, known: RequestIdentifiers) -> None:
        self._receipts: OrderedDict[str, tuple[str, Receipt]] = OrderedDict(
            (identifier, (digest, Receipt(number, rows))) for identifier, number, rows, digest in known
        )

    def add(self, entry: Entry, receipt: Receipt) -> None:
        """Remember what a request was answered."""
        if entry.id is not None:
            self._receipts[entry.id] = entry.digest, receipt
        while len(self._receipts) > REMEMBERED:
            self._receipts.popitem(last=False)

    def find(self, entry: Entry) -> Receipt | None:
        """What the same request was answered before; one with its identifier and other contents is refused."""
        if entry.id is None or entry.id not in self._receipts:
            return None
        digest, receipt = self._receipts[entry.id]
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
