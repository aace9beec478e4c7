"""Predictions of the rows of a whole file, with what could not be read in it or was never learned."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ovk.app.sessions.columns import KeptColumns
from ovk.app.sessions.remarks import bad_rows_note
from ovk.app.sessions.settings import check_bad_rows
from ovk.app.tables import Batch, Preparation, Records, as_word, open_records
from ovk.base import Array, Indices, Mask, is_missing_cell
from ovk.evaluation import LEVEL, RecentErrors
from ovk.intervals import masses, rows_needed, upper_quantile

# Rows that belong together, such as those of a patient: errors and intervals for groups that were never seen.

#: Parts into which groups are divided, each left out in turn; and those whose intervals are tested by the others.
FOLDS, TESTED = 5, 100


@dataclass
class GroupErrors(RecentErrors):
    """Predictions of rows whose groups were left out, and intervals for rows of new groups.

    Rows of a group say little more than one row: each group has one vote, which its rows share. With K groups, a row of
    a new one stays within the width of level p with a probability of about p, if groups are exchangeable; below
    p / (1 - p) groups (9 for 90%) there is no such width, and it is infinite.

    The coverage is that of each group (of more than 100, a hundredth of them) with the widths of all others, and a
    group counts as one outcome.

    Attributes
    ----------
    groups : (m,) numbers of the groups of the rows
    and those of `RecentErrors`

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.app.sessions import GroupErrors
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(np.arange(200), 10)
    >>> Y = rng.standard_normal(200)[groups, None] + 0.1 * rng.standard_normal((2000, 1))
    >>> errors = GroupErrors.of(np.zeros((2000, 1)), Y, groups)
    >>> errors.widths(0.9).round(1), errors.tested[2]
    (array([1.6]), array([200.]))
    >>> bool(abs(errors.coverage[2, 0] - 0.9) < 0.03)
    True
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
        part = np.arange(len(distinct)) % TESTED
        for one in np.unique(part):
            own = part[number] == one
            for k, level in enumerate(levels):
                widths = self._widths(level, ~own)
                finite = np.isfinite(widths)
                self.tested[k] += finite * (sizes[part == one] > 0).sum(axis=0)
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


#: Rows read at a time.
BLOCK = 4096

#: Rows of a file from which on the share of bad ones is checked at its end.
FEW = 10

#: Unknown words of a column that are named.
NAMED = 5

#: Share of rows with unreadable cells above which a file is refused.
MAX_BAD = 0.2


class TableModel(ABC):
    """What was learned from a table: it predicts other rows with the same columns."""

    preparation: Preparation

    def __repr__(self) -> str:
        # The arrays that it holds fill pages.
        outputs, inputs = list(self.preparation.targets), len(self.preparation.feature_names_)
        return f"{type(self).__name__}(targets={outputs}, n_inputs={inputs})"

    @abstractmethod
    def predictor(self) -> Any:
        """What predicts a table of several batches."""

    @abstractmethod
    def prediction_columns(self, *, outcomes: bool = True) -> Any:
        """How predictions are written."""

    def predict(self, batch: Batch, level: float | None = None) -> Any:
        """Predict rows that follow those that were learned, with intervals of that level; nothing changes.

        The columns of the batch stand in the order that was bound last (``preparation.bind``). `predict_file` reads
        a file with the columns in any order.
        """
        return self.predictor().predict(batch, level)

    def predict_file(
        self,
        path: str | Path,
        level: float | None = None,
        *,
        keep: str | Sequence[str] = (),
        form: str | None = None,
        max_bad: float = MAX_BAD,
    ) -> dict[str, Any]:
        """Predict the rows of a file, as `ovk predict` does; nothing changes.

        Parameters
        ----------
        path : CSV, JSON lines or Parquet with the input columns in any order; the outputs may be missing
        level : probability with which an interval should contain the outcome; by default that of the settings, 0.9
            unless another one was asked for
        keep : columns of the file, such as an id, that stand first in the result, as they are in the file
        form : "csv", "jsonl" or "parquet"; by default told by the ending of the name or the first character
        max_bad : share of rows with unreadable cells above which the file is refused

        Returns
        -------
        (n,) arrays by the names that `ovk predict` writes: "row", "time" where rows have one, and for each output its
        prediction, the ends of its interval and its outcome, such as "y", "y low", "y high" and "y outcome"; for
        classes the label and the probabilities. ``pandas.DataFrame(found)`` makes a data frame of them.

        Warns
        -----
        UserWarning
            With the columns whose cells could not be read, and with words that were never learned.
        """
        with open_records(path, form) as records:
            rows = FilePredictions(self, records, level, max_bad)
            columns = rows.keeping([keep] if isinstance(keep, str) else list(keep))
            found = [columns.arrays(batch) for batch in rows]
        if not any(len(part["row"]) for part in found):
            raise ValueError(f"{records.label} has no rows to predict: check the path and the format")
        for remark in rows.remarks():
            warnings.warn(f"{records.label}: {remark}", UserWarning, stacklevel=2)
        return {name: np.concatenate([part[name] for part in found]) for name in found[0]}


class FilePredictions:
    """The rows of an opened file with their predictions, batch by batch, once.

    Parameters
    ----------
    model : what was learned from a table
    records : the file
    level : of the intervals, None for that of the model
    max_bad : share of rows with unreadable cells above which the file is refused

    Attributes
    ----------
    columns : how the predictions are written
    """

    def __init__(self, model: TableModel, records: Records, level: float | None, max_bad: float) -> None:
        self._model, self._predictor = model, model.predictor().bind(records.names, records.label)
        self._records, self._level, self._max_bad = records, level, max_bad
        self._preparation: Preparation = self._predictor.preparation
        self.columns = model.prediction_columns(outcomes=self._preparation.knows_outputs())
        self._unknown: dict[str, Counter[str]] = {}

    def keeping(self, keep: Sequence[str]) -> KeptColumns:
        """How predictions are written beside columns of the file."""
        return KeptColumns(self.columns, keep, self._records.names, self._records.label)

    def __iter__(self) -> Iterator[tuple[Any, Batch]]:
        total = 0
        for batch in self._records.batches(BLOCK):
            found = self._predictor.predict(batch, self._level)
            # Nothing is written before enough of a file that lies there was looked at; of a pipe, rows may come singly.
            first = not total and self._records.part_read() is not None
            total += len(batch.rows) + len(batch.bad)
            self._check(total, *([FEW] if first else []))
            for name, words in self._preparation.unknown_words(batch).items():
                self._unknown.setdefault(name, Counter()).update(words)
            yield found, batch
        self._check(total, FEW)

    def _check(self, total: int, *few: int) -> None:
        if self._predictor.n_bad:
            last = self._predictor.faults[-1]
            check_bad_rows(self._predictor.n_bad, total, last, self._records.label, self._max_bad, *few)

    def remarks(self) -> list[str]:
        """What was unreadable or unknown in the rows so far, in sentences."""
        bad, faults = self._predictor.n_bad, self._predictor.faults
        return [
            *([bad_rows_note(bad, faults)] if bad else []),
            *(_unknown_words(name, words) for name, words in self._unknown.items()),
            *self._empty_bounds(),
        ]

    def _empty_bounds(self) -> Iterator[str]:
        """Of which outputs the intervals are unknown, for want of errors."""
        recent: Any = getattr(self._model, "recent", None)
        if recent is None:
            return
        level = recent.level if self._level is None else self._level
        unknown = ~np.isfinite(recent.widths(level))
        if unknown.any():
            names = ", ".join(repr(str(name)) for name in np.asarray(self._preparation.targets)[unknown])
            least = rows_needed(level)
            of = "groups" if isinstance(recent, GroupErrors) else "errors of rows that were not learned yet"
            yield (
                f"Intervals of {100 * level:g}% need at least {least:,} {of}, and there are fewer for {names}: "
                "their bounds are empty. Learn more rows, or ask for a lower level (level, --level)."
            )


def _unknown_words(name: str, words: Counter[str]) -> str:
    """Which words of a column of categories were never learned.

    >>> _unknown_words("line", Counter({"Line Z": 3}))
    "Column 'line' holds 'Line Z' in 3 rows, which is not among the categories that were learned: these rows were predicted without a category."
    """  # noqa: E501
    shown = ", ".join(repr(word[:40]) for word, _ in words.most_common(NAMED)) + (", ..." if len(words) > NAMED else "")
    rows = words.total()
    some = f"{rows:,} row{'s' if rows > 1 else ''}"
    return (
        f"Column {name!r} holds {shown} in {some}, which {'is' if len(words) == 1 else 'are'} not among the categories "
        f"that were learned: {'these rows were' if rows > 1 else 'this row was'} predicted without a category."
    )
