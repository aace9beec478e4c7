"""Labels that came for some outputs of a row: held until the others come, so that the row is learned once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ovk._state import State
from ovk.serving.entries import Entry
from ovk.serving.rows import RequestRows


@dataclass
class HeldLabels(State):
    """Rows with a part of their labels. It is never changed: `added` and `expired` give another one.

    A learner cannot complete a row that it has learned, so the row waits here. All that is here came from the log, in
    its order, and is part of the checkpoint: a kill loses nothing.

    Attributes
    ----------
    entries : by identifier of the prediction its rows and the labels so far, as `Entry` encodes them

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.serving.entries import Entry
    >>> from ovk.serving.held import HeldLabels
    >>> from ovk.serving.rows import RequestRows
    >>> rows = RequestRows.of_matrix(np.ones((1, 3)))
    >>> def part(name):
    ...     return Entry(None, rows, RequestRows.named([name], [np.ones(1)]), label_of="monday", part=True)
    >>> held, complete = HeldLabels().added(part("power"), ["power", "heat"])
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

    def added(self, part: Entry, outputs: Sequence[str]) -> tuple[HeldLabels, Entry | None]:
        """With the labels of some outputs; and what is to be learned, if no output is left."""
        assert part.label_of is not None
        before = self.entries.get(part.label_of)
        labels = {**({} if before is None else _labels(Entry.decode(before))), **_labels(part)}
        merged = _with_labels(part, labels, list(labels))
        if labels.keys() >= set(outputs):
            return self._without(part.label_of), _with_labels(part, labels, outputs)
        return HeldLabels({**self.entries, part.label_of: merged.encode()}), None

    def expired(self, identifier: str, outputs: Sequence[str]) -> tuple[HeldLabels, Entry | None]:
        """Without the rows of that prediction; and what is to be learned: outputs without a label are missing."""
        before = self.entries.get(identifier)
        if before is None:
            return self, None
        entry = Entry.decode(before)
        return self._without(identifier), _with_labels(entry, _labels(entry), outputs)

    def _without(self, identifier: str) -> HeldLabels:
        return HeldLabels({name: content for name, content in self.entries.items() if name != identifier})


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
