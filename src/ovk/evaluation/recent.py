"""The last predictions beside what came: how wide intervals must be, and how often they held."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ovk._params import Registered
from ovk._validation import Array

#: Parts of the outcomes that the intervals of a report should hold.
LEVELS = (0.5, 0.8, 0.9, 0.95)


@dataclass
class Recent(Registered):
    """Progressive predictions and outcomes of the last rows, and intervals made of their errors.

    An interval of level a about a prediction is as wide as the a-quantile of the last absolute errors, each output by
    itself, with the correction for a finite sample: ceil((m + 1) a) of m. Rows to come are covered that often if they
    are like the last ones; `inside` counts how often they were.

    Attributes
    ----------
    Y, F : (m, d) outcomes and predictions of the last rows, m <= `size`
    size : most rows remembered
    inside : (levels, d) outcomes within intervals that were made before them
    tested : (d,) outcomes that were tested so

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import Recent
    >>> rng = np.random.default_rng(0)
    >>> recent = Recent.empty(1, size=500)
    >>> for _ in range(20):
    ...     recent.take(np.zeros((100, 1)), rng.standard_normal((100, 1)))
    >>> recent.widths([0.9]).round(1)
    array([[1.7]])
    >>> bool(abs(recent.coverage[2, 0] - 0.9) < 0.02)
    True
    """

    Y: Array
    F: Array
    size: int
    inside: Array
    tested: Array

    @classmethod
    def empty(cls, d: int, size: int = 2000) -> Recent:
        """Nothing seen yet."""
        return cls(np.empty((0, d)), np.empty((0, d)), size, np.zeros((len(LEVELS), d)), np.zeros(d))

    def take(self, F: Array, Y: Array) -> None:
        """Test the intervals on rows to come, then remember these rows; F and Y (n, d), nan where missing."""
        self.step(F, Y, 0.9)

    def step(self, F: Array, Y: Array, level: float) -> Array:
        """The same; (d,) half widths of that level as they were before these rows."""
        half: Array
        half, *widths = self.widths([level, *LEVELS])
        if len(self.Y):
            error = np.abs(Y - F)
            self.inside += [(error <= width).sum(axis=0) for width in widths]
            self.tested += np.isfinite(error).sum(axis=0)
        self.Y = np.concatenate([self.Y, Y])[-self.size :]
        self.F = np.concatenate([self.F, F])[-self.size :]
        return half

    def widths(self, levels: Array | tuple[float, ...] | list[float]) -> Array:
        """(levels, d) half widths of intervals; nan for outputs of which nothing was seen."""
        if bad := [level for level in levels if not 0 < level < 1]:
            raise ValueError(f"the level of an interval must lie between 0 and 1, got {bad[0]!r}")
        errors = np.ascontiguousarray(np.abs(self.Y - self.F).T)
        m = np.isfinite(errors).sum(axis=1)
        ranks = np.minimum(np.ceil((m + 1) * np.asarray(levels, dtype=np.float64)[:, None]), m).astype(np.int64) - 1
        widths = np.full(ranks.shape, np.nan)
        for q in np.flatnonzero(m > 0):
            # Only a few ranks are asked for: no need to sort; nan goes last.
            widths[:, q] = np.partition(errors[q], np.unique(ranks[:, q]))[ranks[:, q]]
        return widths

    @property
    def coverage(self) -> Array:
        """(levels, d) part of the outcomes within their intervals."""
        coverage: Array = self.inside / np.where(self.tested > 0, self.tested, np.nan)
        return coverage
