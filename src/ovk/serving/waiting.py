"""Rows that were predicted and whose labels come later."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from ovk.serving.errors import RequestRefused
from ovk.serving.rows import RequestRows


def no_rows_wait(identifier: str) -> RequestRefused:
    """The answer to labels that come for rows which are not there."""
    return RequestRefused(
        404,
        f"no rows wait for labels under the infer_id {identifier[:60]!r}: it is unknown, its labels came before, its "
        "time has passed (--label-seconds), or the server was restarted since; send rows and targets together instead",
    )


def id_taken(identifier: str, why: str) -> RequestRefused:
    """The answer to a prediction that is to wait under an identifier of another one."""
    return RequestRefused(
        409,
        f"{why} under the id {identifier[:60]!r}, so these do not wait for labels: give every prediction an id of its "
        "own",
    )


@dataclass
class _RowsWithLabels:
    """Rows, until when they wait, and the outputs whose labels were accepted and, of these, are in the log."""

    rows: RequestRows
    until: float
    claimed: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)


class WaitingRows:
    """Rows in memory, for a stated time and within a stated number of bytes: the oldest go first.

    Labels of different outputs may come at different times, those of an output once. A label is claimed before it goes
    to the log, so that of two requests with the same one only the first gets there.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.serving.rows import RequestRows
    >>> waiting = WaitingRows(seconds=60, most_bytes=1000)
    >>> for name in "abcd":
    ...     _ = waiting.keep(name, RequestRows.of_matrix(np.zeros((10, 2))))
    >>> [name for name in "abcd" if waiting.find(name)], len(waiting)
    (['c', 'd'], 2)
    """

    def __init__(self, seconds: float, most_bytes: int) -> None:
        self.seconds, self.most_bytes = seconds, most_bytes
        self._rows: OrderedDict[str, _RowsWithLabels] = OrderedDict()
        self._bytes = 0
        #: Identifiers of the rows that have some labels.
        self.labelled: set[str] = set()

    def __len__(self) -> int:
        return len(self._rows)

    def keep(self, identifier: str, rows: RequestRows, labels: Iterable[str] = ()) -> list[str]:
        """Keep rows under an identifier; `labels` are outputs that have theirs.

        Rows that wait are never replaced: the same ones again change nothing, others are refused. Returns the
        identifiers of rows that had to go and have some labels, which are to be learned with these.
        """
        found = self.find(identifier)
        if found is not None and found.encode() == rows.encode():
            return []
        if found is not None or identifier in self.labelled:
            raise id_taken(identifier, "other rows wait")
        self.drop(identifier)
        self._rows[identifier] = _RowsWithLabels(rows, time.monotonic() + self.seconds)
        self._bytes += rows.nbytes
        if given := set(labels):
            self.claim(identifier, given)
            self.settle(identifier, given, stored=True)
        return self.expire()

    def find(self, identifier: str) -> RequestRows | None:
        """The rows of that identifier, None if they are not, or no longer, there."""
        found = self._rows.get(identifier)
        return found.rows if found is not None and found.until > time.monotonic() else None

    def claim(self, identifier: str, outputs: set[str]) -> None:
        """Accept the labels of these outputs, unless they came before or their time has passed."""
        if self.find(identifier) is None:
            raise no_rows_wait(identifier)
        found = self._rows[identifier]
        if twice := found.claimed & outputs:
            raise RequestRefused(
                409,
                f"the label of {', '.join(sorted(twice))} came before for infer_id {identifier!r}, and was not "
                "changed: a row is learned once; send only outputs that have no label yet",
            )
        found.claimed |= outputs
        self.labelled.add(identifier)

    def settle(self, identifier: str, outputs: set[str], *, stored: bool, everything: Iterable[str] = ()) -> None:
        """Labels that were claimed are in the log, or could not be written; rows that have `everything` go."""
        found = self._rows.get(identifier)
        if found is None:
            return
        if stored:
            found.stored |= outputs
        else:
            found.claimed -= outputs
        if not found.claimed:
            self.labelled.discard(identifier)
        if found.stored and found.stored == set(everything):
            self.drop(identifier)

    def expire(self) -> list[str]:
        """Forget rows whose time has passed, or that there is no room for; of these, the ones that have some labels."""
        now, gone = time.monotonic(), list[str]()
        while self._rows:
            oldest, rows = next(iter(self._rows.items()))
            if self._bytes <= self.most_bytes and rows.until > now:
                break
            if rows.claimed:
                gone.append(oldest)
            self.drop(oldest)
        return gone

    def drop(self, identifier: str) -> None:
        """Forget the rows of that identifier."""
        if identifier in self._rows:
            self._bytes -= self._rows.pop(identifier).rows.nbytes
            self.labelled.discard(identifier)
