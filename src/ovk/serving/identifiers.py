"""Identifiers of the last requests, with what they held and what they were answered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ovk._state import State

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
    >>> from ovk.serving.identifiers import RequestIdentifiers
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
