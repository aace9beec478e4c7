"""The last scores, in order of size."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from math import ceil, inf

from ovk._params import Registered


@dataclass
class ScoreWindow(Registered):
    """The last `size` scores, with any quantile at once.

    >>> window = ScoreWindow(3)
    >>> for score in (5.0, 1.0, 2.0, 3.0):
    ...     window.add(score)
    >>> window.quantile(0.5), window.quantile(0.99), window.largest()
    (2.0, inf, 3.0)
    """

    size: int
    recent: list[float] = field(default_factory=list)
    ordered: list[float] = field(default_factory=list)

    def add(self, score: float) -> None:
        """Take in a score; the oldest goes."""
        if len(self.recent) == self.size:
            del self.ordered[bisect_left(self.ordered, self.recent.pop(0))]
        self.recent.append(score)
        insort(self.ordered, score)

    def quantile(self, level: float) -> float:
        """The least score that at least (n + 1) level of n scores do not exceed; infinite if it takes more than n."""
        k = ceil((len(self.ordered) + 1) * level - 1e-9)
        if k > len(self.ordered):
            return inf
        return self.ordered[max(k, 1) - 1]

    def largest(self) -> float:
        """The largest score, 0 if there is none."""
        return self.ordered[-1] if self.ordered else 0.0
