"""The predictions of the rows of a whole file, with what could not be read in it or was never learned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ovk.app.sessions.predictions import Predictions
from ovk.app.sessions.settings import check_bad_rows
from ovk.app.sessions.summary import bad_rows_note
from ovk.app.tables import Batch, Preparation, Records, find_columns
from ovk.evaluation import rows_needed

#: Rows read at a time.
BLOCK = 4096

#: Unknown words of a column that are named.
MAX_WORDS_NAMED = 5


class FilePredictions:
    """The rows of an opened file with their predictions, batch by batch, once; `columns` say how they are written.

    The `model` is a `LearnedTable`, the other arguments are those of its `predict_file`.
    """

    def __init__(
        self, model: Any, records: Records, level: float | None, max_bad: float, keep: Sequence[str] = ()
    ) -> None:
        self._model, self._predictor = model, model.predictor().bind(records.names, records.label)
        self._records, self._level, self._max_bad = records, level, max_bad
        self._preparation: Preparation = self._predictor.preparation
        find_columns(keep, records.names, records.label)
        places = {name: list(records.names).index(name) for name in keep}
        self.columns = model.prediction_columns(outcomes=self._preparation.knows_outputs(), keep=places)
        for name in keep:
            if self.columns.names.count(name) > 1:
                raise ValueError(f"keep {name!r}: the predictions have a column of that name already")
        self._unknown: dict[str, Counter[str]] = {}

    def __iter__(self) -> Iterator[tuple[Predictions, Batch]]:
        total = 0
        for batch in self._records.batches(BLOCK):
            found = self._predictor.predict(batch, self._level)
            total += len(batch.rows) + len(batch.bad)
            if self._predictor.n_bad:
                last = self._predictor.bad_rows[-1]
                check_bad_rows(self._predictor.n_bad, total, last, self._records.label, self._max_bad)
            for name, words in self._preparation.unknown_words(batch).items():
                self._unknown.setdefault(name, Counter()).update(words)
            yield found, batch

    def warnings(self) -> list[str]:
        """What was unreadable or unknown in the rows so far, in sentences."""
        predictor = self._predictor
        return [
            *([bad_rows_note(predictor.n_bad, predictor.bad_rows)] if predictor.n_bad else []),
            *(_unknown_words(name, words) for name, words in self._unknown.items()),
            *self._unknown_intervals(),
        ]

    def _unknown_intervals(self) -> Iterator[str]:
        """Of which outputs the intervals are unknown, for want of errors."""
        settings, recent = self._model.settings, self._model.recent
        if settings.classify:
            return
        level = recent.level if self._level is None else self._level
        unknown = ~np.isfinite(recent.widths(level))
        if unknown.any():
            names = ", ".join(repr(str(name)) for name in np.asarray(self._preparation.targets)[unknown])
            of = "errors of rows that were not learned yet" if settings.groups is None else "groups"
            yield (
                f"Intervals of {100 * level:g}% need at least {rows_needed(level):,} {of}, and there are fewer for "
                f"{names}: their bounds are empty. Learn more rows, or ask for a lower level (level, --level)."
            )


def _unknown_words(name: str, words: Counter[str]) -> str:
    """Which words of a column of categories were never learned."""
    more = ", ..." if len(words) > MAX_WORDS_NAMED else ""
    shown = ", ".join(repr(word[:40]) for word, _ in words.most_common(MAX_WORDS_NAMED)) + more
    rows = words.total()
    some = f"{rows:,} row{'s' if rows > 1 else ''}"
    return (
        f"Column {name!r} holds {shown} in {some}, which {'is' if len(words) == 1 else 'are'} not among the categories "
        f"that were learned: {'these rows were' if rows > 1 else 'this row was'} predicted without a category."
    )
