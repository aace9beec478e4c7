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
    blocks : identifiers, numbers of records, numbers of rows and digests of the contents, a list of each for a block;
        the last one is not full

    Examples
    --------
    >>> from ovk.serving.identifiers import RequestIdentifiers
    >>> one = RequestIdentifiers().added("a", 1, 5, "e3b0")
    >>> two = one.added("b", 2, 7, "98f1")
    >>> list(one), list(two)
    ([('a', 1, 5, 'e3b0')], [('a', 1, 5, 'e3b0'), ('b', 2, 7, '98f1')])
    """

    blocks: list[tuple[list[str], list[int], list[int], list[str]]] = field(default_factory=list)

    def added(self, identifier: str, number: int, rows: int, digest: str) -> RequestIdentifiers:
        """With one more, the oldest block gone if there are enough without it."""
        if self.blocks and len(self.blocks[-1][0]) < BLOCK:
            ids, numbers, counts, digests = self.blocks[-1]
            last = [*ids, identifier], [*numbers, number], [*counts, rows], [*digests, digest]
            return RequestIdentifiers([*self.blocks[:-1], last])
        kept = self.blocks[-(REMEMBERED // BLOCK) :]
        return RequestIdentifiers([*kept, ([identifier], [number], [rows], [digest])])

    def __iter__(self) -> Iterator[tuple[str, int, int, str]]:
        """Identifier, number of the record and of its rows, and digest of the contents, the oldest first."""
        for block in self.blocks:
            yield from zip(*block, strict=True)
