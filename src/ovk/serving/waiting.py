"""Rows that were predicted and whose labels come later."""

from __future__ import annotations

import time
from collections import OrderedDict

from ovk.serving.rows import RequestRows


class WaitingRows:
    """Rows in memory, for a stated time and within a stated number of bytes: the oldest go first.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.serving.rows import RequestRows
    >>> waiting = WaitingRows(seconds=60, most_bytes=1000)
    >>> for name in "abcd":
    ...     waiting.keep(name, RequestRows.of_matrix(np.zeros((10, 2))))
    >>> [name for name in "abcd" if waiting.find(name)], len(waiting)
    (['c', 'd'], 2)
    """

    def __init__(self, seconds: float, most_bytes: int) -> None:
        self.seconds, self.most_bytes = seconds, most_bytes
        self._rows: OrderedDict[str, tuple[float, RequestRows]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._rows)

    def keep(self, identifier: str, rows: RequestRows) -> None:
        """Keep rows under an identifier."""
        self.drop(identifier)
        self._rows[identifier] = time.monotonic() + self.seconds, rows
        self._bytes += rows.nbytes
        now = time.monotonic()
        while self._rows:
            oldest = next(iter(self._rows))
            if self._bytes <= self.most_bytes and self._rows[oldest][0] > now:
                break
            self.drop(oldest)

    def find(self, identifier: str) -> RequestRows | None:
        """The rows of that identifier, None if they are not, or no longer, there."""
        until, rows = self._rows.get(identifier, (0.0, None))
        return rows if until > time.monotonic() else None

    def drop(self, identifier: str) -> None:
        """Forget the rows of that identifier: their labels have come."""
        if identifier in self._rows:
            self._bytes -= self._rows.pop(identifier)[1].nbytes
