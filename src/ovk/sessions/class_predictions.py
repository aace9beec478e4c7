"""Predicted classes of the rows of a file, with their probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ovk._types import Array, Indices
from ovk.sessions.columns import as_text, csv_line, dates, pyarrow, safe_text, shown_name
from ovk.sessions.predictions import RowPredictor
from ovk.streams import Batch


class ClassPredictions(NamedTuple):
    """Predicted classes of rows.

    Attributes
    ----------
    rows : number of each row in its file
    codes : (n,) numbers of the predicted labels
    P : (n, K) probabilities of the labels
    labels : the K labels
    outcomes : (n,) numbers of the labels that came, -1 where missing; None if the table has none
    instants : (n,) when the rows were, in seconds since 1970, nan where not known; None for a table without times

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.sessions import ClassPredictions
    >>> found = ClassPredictions([1, 2], np.array([1, 0]), np.array([[0.2, 0.8], [0.6, 0.4]]), ["no", "yes"])
    >>> [found.labels[code] for code in found.codes]
    ['yes', 'no']
    """

    rows: list[int]
    codes: Indices
    P: Array
    labels: list[str]
    outcomes: Indices | None = None
    instants: Array | None = None


def by_label(model: Any, P: Any, labels: list[str]) -> Array:
    """(n, K) probabilities in the order of the labels, from those in the order of a model's classes."""
    place = {label: k for k, label in enumerate(labels)}
    found = np.zeros((len(P), len(labels)))
    found[:, [place[str(label)] for label in model.classes_.tolist()]] = P
    return found


def label_codes(Y: Array) -> Indices:
    """(n,) numbers of labels, -1 where one is missing, from (n, 1) outputs."""
    return np.nan_to_num(Y[:, 0], nan=-1.0).astype(np.intp)


class ClassRowPredictor(RowPredictor):
    """Predicts the classes of the rows of a table by what was learned, which stays as it is."""

    def outputs(self, X: Array) -> Array:
        """(n, K) probabilities of the labels, of inputs (n, p)."""
        found = self._model.predict_proba(self._scaling.scale_inputs(X).X)
        return by_label(self._model, found, self.preparation.classes())

    def predict(self, batch: Batch, level: float | None = None) -> ClassPredictions:  # type: ignore[override]
        """Predict rows."""
        known = len(self.preparation.classes())
        rows = self._prepared(batch)
        labels = list(self.preparation.classes())
        P = np.zeros((len(rows.rows), len(labels)))
        if len(P):
            P[:, :known] = self.outputs(rows.chunk.X)[:, :known]
        outcomes = label_codes(rows.chunk.Y) if self.preparation.knows_outputs() else None
        return ClassPredictions(
            rows.rows, np.asarray(P.argmax(axis=1), dtype=np.intp), P, labels, outcomes, rows.instants
        )


class ClassColumns:
    """The columns of predicted classes: row, time, label, its probability, those of all labels, outcome.

    The columns are those of the labels that were known from the first rows; a label that came later may be predicted
    like them, and its probability is what theirs leave.

    Parameters
    ----------
    target : name of the target
    labels : those that have a column
    timed, outcomes : as in `PredictionColumns`

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.sessions.class_predictions import ClassColumns, ClassPredictions
    >>> columns = ClassColumns("y", ["a", "b"])
    >>> found = ClassPredictions([7], np.array([1]), np.array([[0.25, 0.5, 0.25]]), ["a", "b", "c"])
    >>> print(columns.header + "".join(columns.lines(found)))
    row,y,probability,y=a,y=b
    7,b,0.5,0.25,0.5
    <BLANKLINE>
    """

    def __init__(self, target: str, labels: Sequence[str], *, timed: bool = False, outcomes: bool = False) -> None:
        self._target, self._count, self._timed, self._outcomes = target, len(labels), timed, outcomes
        shares = [f"{target}={label}" for label in labels]
        last = [f"{target} outcome"] if outcomes else []
        self.names = ["row", *(["time"] if timed else []), target, "probability", *shares, *last]
        self.header = csv_line([shown_name(name) for name in self.names])

    def lines(self, found: ClassPredictions) -> Iterator[str]:
        """A line of CSV for each row."""
        for cells in self._rows(found):
            yield csv_line([_cell(cell) for cell in cells])

    def flat(self, found: ClassPredictions) -> Iterator[dict[str, Any]]:
        """An object for each row, its values by the names of the columns; what is not known is None."""
        return (dict(zip(self.names, cells, strict=True)) for cells in self._rows(found))

    def objects(self, found: ClassPredictions) -> Iterator[dict[str, Any]]:
        """An object for each row, with label and the probabilities of all labels under the name of the target."""
        for cells, shares in zip(self._rows(found), found.P.tolist(), strict=True):
            one = {"label": cells[1 + self._timed], "probability": dict(zip(found.labels, shares, strict=True))}
            outcome = {"outcome": cells[-1]} if self._outcomes else {}
            time = {"time": cells[1]} if self._timed else {}
            yield {"row": cells[0], **time, self._target: {**one, **outcome}}

    def arrays(self, found: ClassPredictions) -> dict[str, Any]:
        """(n,) arrays by the names of the columns; an unknown label is None."""
        columns: dict[str, Any] = {self.names[0]: np.array(found.rows, dtype=np.int64)}
        if self._timed:
            columns["time"] = dates(found.instants, len(found.rows))
        columns[self._target] = np.array([found.labels[code] for code in found.codes], dtype=object)
        columns["probability"] = found.P[np.arange(len(found.P)), found.codes]
        start = 3 + self._timed
        columns |= dict(zip(self.names[start : start + self._count], found.P.T, strict=False))
        if self._outcomes and found.outcomes is not None:
            came = [found.labels[code] if code >= 0 else None for code in found.outcomes.tolist()]
            columns[self.names[-1]] = np.array(came, dtype=object)
        return columns

    def table(self, found: ClassPredictions) -> Any:
        """A table of pyarrow."""
        arrow = pyarrow()
        rows = list(self._rows(found))
        columns = [arrow.array([cells[j] for cells in rows]) for j in range(len(self.names))]
        return arrow.Table.from_arrays(columns, names=self.names)

    def _rows(self, found: ClassPredictions) -> Iterator[list[Any]]:
        """The cells of each row."""
        times = as_text(found.instants, len(found.rows))
        truth = [-1] * len(found.rows) if found.outcomes is None else found.outcomes.tolist()
        every = zip(found.rows, found.codes.tolist(), found.P.tolist(), times, truth, strict=True)
        for row, code, shares, time, came in every:
            last = [found.labels[came] if came >= 0 else None] if self._outcomes else []
            when = [time or None] if self._timed else []
            yield [row, *when, found.labels[code], shares[code], *shares[: self._count], *last]


def _cell(value: Any) -> Any:
    """A cell of a CSV file."""
    if isinstance(value, str):
        return safe_text(value)
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else value
