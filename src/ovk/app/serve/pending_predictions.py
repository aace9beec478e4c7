"""Rows that were predicted and whose labels come later."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ovk.app.serve.access import RequestRefused
from ovk.app.serve.log import Entry
from ovk.app.serve.rows import RequestRows
from ovk.base import State


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


class PendingPredictions:
    """Rows in memory, for a stated time and within a stated number of bytes: the oldest go first.

    Labels of different outputs may come at different times, those of an output once. A label is claimed before it goes
    to the log, so that of two requests with the same one only the first gets there.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.app.serve.rows import RequestRows
    >>> waiting = PendingPredictions(seconds=60, most_bytes=1000)
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


# Labels that came for some outputs of a row: held until the others come, so that the row is learned once.


@dataclass
class PartialLabels(State):
    """Rows with a part of their labels. It is never changed: `added` and `expired` give another one.

    A learner cannot complete a row that it has learned, so the row waits here. All that is here came from the log, in
    its order, and is part of the checkpoint: a kill loses nothing.

    Attributes
    ----------
    entries : by identifier of the prediction its rows and the labels so far, as `Entry` encodes them

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.app.serve.log import Entry
    >>> from ovk.app.serve.pending_predictions import PartialLabels
    >>> from ovk.app.serve.rows import RequestRows
    >>> rows = RequestRows.of_matrix(np.ones((1, 3)))
    >>> def part(name):
    ...     return Entry(None, rows, RequestRows.named([name], [np.ones(1)]), label_of="monday", part=True)
    >>> held, complete = PartialLabels().added(part("power"), ["power", "heat"])
    >>> len(held), complete
    (1, None)
    >>> held, complete = held.added(part("heat"), ["power", "heat"])
    >>> len(held), complete.targets.names
    (0, ('power', 'heat'))
    """

    entries: dict[str, bytes] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        """Rows with the labels so far, the oldest first."""
        yield from map(Entry.decode, self.entries.values())

    def added(self, part: Entry, outputs: Sequence[str]) -> tuple[PartialLabels, Entry | None]:
        """With the labels of some outputs; and what is to be learned, if no output is left."""
        assert part.label_of is not None
        before = self.entries.get(part.label_of)
        labels = {**({} if before is None else _labels(Entry.decode(before))), **_labels(part)}
        merged = _with_labels(part, labels, list(labels))
        if labels.keys() >= set(outputs):
            return self._without(part.label_of), _with_labels(part, labels, outputs)
        return PartialLabels({**self.entries, part.label_of: merged.encode()}), None

    def expired(self, identifier: str, outputs: Sequence[str]) -> tuple[PartialLabels, Entry | None]:
        """Without the rows of that prediction; and what is to be learned: outputs without a label are missing."""
        before = self.entries.get(identifier)
        if before is None:
            return self, None
        entry = Entry.decode(before)
        return self._without(identifier), _with_labels(entry, _labels(entry), outputs)

    def _without(self, identifier: str) -> PartialLabels:
        return PartialLabels({name: content for name, content in self.entries.items() if name != identifier})


def _labels(entry: Entry) -> dict[str, np.ndarray | list[object]]:
    """The columns of the targets by their names."""
    assert entry.targets is not None
    assert entry.targets.names is not None
    return dict(zip(entry.targets.names, entry.targets.columns, strict=True))


def _with_labels(entry: Entry, labels: dict[str, np.ndarray | list[object]], outputs: Sequence[str]) -> Entry:
    """An entry with the labels of these outputs, missing where there are none."""
    columns = [labels.get(name, np.full(len(entry), np.nan)) for name in outputs]
    targets = RequestRows.named(outputs, columns)
    return Entry(None, entry.rows, targets, label_of=entry.label_of, part=True)
