"""Errors and intervals for unseen groups of rows, such as new patients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ovk.app.sessions.forecasts import conformal_widths
from ovk.base import Array, Indices, as_word, is_missing_cell
from ovk.evaluation import DEFAULT_LEVEL, RecentErrors

#: Folds of groups for validation, and maximum number of folds to test intervals.
FOLDS, MAX_TEST_FOLDS = 5, 100


@dataclass
class GroupErrors(RecentErrors):
    """Predictions of rows whose groups were held out, and intervals for rows of unseen groups.

    Each group has the same weight, shared by its rows. If groups are exchangeable, an interval of level p contains the
    outcome of a row of a new group with a probability of about p; below p / (1 - p) groups (9 for 90%) its width is
    infinite.

    The coverage is measured on each group (with more than 100 groups, a hundredth of them at a time) with the widths of
    the others; a group counts as one outcome. `groups` (m,) are the group numbers of the rows.
    """

    groups: Indices | None = None

    @classmethod
    def of(cls, F: Array, Y: Array, groups: Indices, level: float = DEFAULT_LEVEL) -> GroupErrors:
        """From predictions F (n, d) of held-out rows, outcomes Y (n, d), nan where missing, and groups (n,)."""
        plain = RecentErrors.empty(Y.shape[1], size=max(len(Y), 1), level=level, rate=0.0)
        plain.update(F, Y)
        found = cls(**vars(plain), groups=np.asarray(groups))
        found._measure()
        return found

    def widths(self, level: float) -> Array:
        """(d,) half widths of intervals of that level for rows of unseen groups; infinite with too few groups."""
        return conformal_widths(self.Y - self.F, level, self.groups)

    def _measure(self) -> None:
        """Test each group with the widths of the others."""
        assert self.groups is not None
        levels = self.levels.tolist()
        self.tested, self.inside = np.zeros((2, len(levels), self.Y.shape[1]))
        errors = self.Y - self.F
        known = np.isfinite(errors)
        distinct, number = np.unique(self.groups, return_inverse=True)
        sizes = np.array([np.bincount(number, column, len(distinct)) for column in known.T]).T
        fold = np.arange(len(distinct)) % MAX_TEST_FOLDS
        for one in np.unique(fold):
            own = fold[number] == one
            for k, level in enumerate(levels):
                widths = conformal_widths(errors[~own], level, self.groups[~own])
                finite = np.isfinite(widths)
                self.tested[k] += finite * (sizes[fold == one] > 0).sum(axis=0)
                shares = known[own] * (np.abs(errors[own]) <= widths) / np.maximum(sizes[number[own]], 1)
                self.inside[k] += finite * shares.sum(axis=0)
                if level == self.level:
                    self.half[own] = widths


def group_numbers(cells: Sequence[Any], name: str, label: str) -> Indices:
    """(n,) group numbers of the cells of a column, in order of appearance; missing cells form one group."""
    places: dict[str | None, int] = {}
    numbers = [places.setdefault(None if is_missing_cell(cell) else as_word(cell), len(places)) for cell in cells]
    if len(places) < FOLDS:
        raise ValueError(
            f"column {name!r} of {label} has {len(places)} groups; at least {FOLDS} are required for group-wise "
            "validation"
        )
    return np.array(numbers, dtype=np.intp)
