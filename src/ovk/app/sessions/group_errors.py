"""Errors and intervals for groups of rows that were never seen, such as new patients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ovk.base import Array, Indices, Mask, as_word, is_missing_cell
from ovk.evaluation import LEVEL, RecentErrors
from ovk.intervals import masses, upper_quantile

#: Folds of groups that are left out in turn, and folds whose intervals are tested by those of the others.
FOLDS, TEST_FOLDS = 5, 100


@dataclass
class GroupErrors(RecentErrors):
    """Predictions of rows whose groups were left out, and intervals for rows of new groups.

    Rows of a group say little more than one row: each group has one vote, which its rows share. With K groups, a row of
    a new one stays within the width of level p with a probability of about p, if groups are exchangeable; below
    p / (1 - p) groups (9 for 90%) there is no such width, and it is infinite.

    The coverage is that of each group (of more than 100, a hundredth of them) with the widths of all others, and a
    group counts as one outcome. `groups` (m,) are the numbers of the groups of the rows.
    """

    groups: Indices | None = None

    @classmethod
    def of(cls, F: Array, Y: Array, groups: Indices, level: float = LEVEL) -> GroupErrors:
        """From predictions (n, d) of left-out rows, their outcomes (n, d), nan where missing, and groups (n,)."""
        plain = RecentErrors.empty(Y.shape[1], size=max(len(Y), 1), level=level, rate=0.0)
        plain.update(F, Y)
        found = cls(**vars(plain), groups=np.asarray(groups))
        found._measure()
        return found

    def widths(self, level: float) -> Array:
        """(d,) half widths of intervals of that level for rows of new groups; infinite with too few groups."""
        every: Mask = np.ones(len(self.Y), dtype=bool)
        return self._widths(level, every)

    def _widths(self, level: float, rows: Mask) -> Array:
        assert self.groups is not None
        scores = np.abs(self.Y - self.F)[rows]
        seen = np.isfinite(scores)
        return np.array(
            [
                float(upper_quantile(np.where(known, column, np.inf), masses(known, self.groups[rows]), level))
                for column, known in zip(scores.T, seen.T, strict=True)
            ]
        )

    def _measure(self) -> None:
        """Test each group with the widths of the others."""
        assert self.groups is not None
        levels = self.levels.tolist()
        self.tested, self.inside = np.zeros((2, len(levels), self.Y.shape[1]))
        scores = np.abs(self.Y - self.F)
        known = np.isfinite(scores)
        distinct, number = np.unique(self.groups, return_inverse=True)
        sizes = np.array([np.bincount(number, column, len(distinct)) for column in known.T]).T
        fold = np.arange(len(distinct)) % TEST_FOLDS
        for one in np.unique(fold):
            own = fold[number] == one
            for k, level in enumerate(levels):
                widths = self._widths(level, ~own)
                finite = np.isfinite(widths)
                self.tested[k] += finite * (sizes[fold == one] > 0).sum(axis=0)
                shares = known[own] * (scores[own] <= widths) / np.maximum(sizes[number[own]], 1)
                self.inside[k] += finite * shares.sum(axis=0)
                if level == self.level:
                    self.half[own] = widths


def group_numbers(cells: Sequence[Any], name: str, label: str) -> Indices:
    """(n,) numbers of groups by the cells of their column, in the order in which they come; no cell is a group too.

    >>> group_numbers(["b", "a", "", "b", "c", "d"], "patient", "t.csv")
    array([0, 1, 2, 0, 3, 4])
    """
    places: dict[str | None, int] = {}
    numbers = [places.setdefault(None if is_missing_cell(cell) else as_word(cell), len(places)) for cell in cells]
    if len(places) < FOLDS:
        raise ValueError(
            f"column {name!r} of {label} holds {len(places)} groups: at least {FOLDS} are needed, so that some can be "
            "left out; name another column with groups (--groups), or leave it out"
        )
    return np.array(numbers, dtype=np.intp)
