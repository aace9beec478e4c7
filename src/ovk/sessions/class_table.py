"""A table of classes learned as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ovk._params import Registered
from ovk._state import State
from ovk._types import Array, Indices
from ovk.batch import OVKClassifier, OVKClassifierCV
from ovk.evaluation import ClassScores, Recent
from ovk.evaluation.running import Standardised
from ovk.sessions.batch import EXACT, LANDMARKS, LONG, rows_learned, whole_table
from ovk.sessions.class_predictions import ClassColumns, ClassRowPredictor, by_label
from ovk.sessions.faults import REMEMBERED
from ovk.sessions.file_predictions import TableModel
from ovk.sessions.models import kernel_of_table
from ovk.sessions.settings import Settings
from ovk.streams import Preparation, Records


@dataclass(repr=False)
class FittedClasses(TableModel, State, Registered):
    """A batch classifier of a table: how its columns are read and scaled, the estimator, and scores of rows left out.

    Attributes
    ----------
    settings : `Settings`
    preparation : how rows are made inputs and labels
    scaling : how inputs are scaled
    estimator : `OVKClassifier` or `OVKClassifierCV`, learned from all rows
    n_rows, n_bad, faults : as in `Fitted`
    scores : `ClassScores` of the fifth of the rows that was left out of a first fit: of the model, and of the majority
    """

    settings: Settings
    preparation: Preparation
    scaling: Standardised
    estimator: Any
    n_rows: int
    n_bad: int
    faults: list[tuple[int, str]]
    scores: list[ClassScores]

    _state_classes = {"scaling": Standardised, "scores": ClassScores}

    def summary(self) -> str:
        """How well rows left out were told apart, beside the most frequent class, in lines of text."""
        lines = [f"{one.name}: accuracy {one.accuracy:.3f}, log loss {one.log_loss:.3f}" for one in self.scores]
        return "\n".join([f"{self.n_rows:,} rows; scores on rows left out of a first fit", *lines])

    def predictor(self) -> ClassRowPredictor:
        """What predicts a table of several batches."""
        return ClassRowPredictor(self.preparation, self.scaling, self.estimator, Recent.empty(1))

    def prediction_columns(self, *, outcomes: bool = True) -> Any:
        """How predictions are written."""
        timed = self.preparation.clock() is not None
        return ClassColumns(self.settings.targets[0], self.preparation.classes(), timed=timed, outcomes=outcomes)


def fit_classes(records: Records, settings: Settings, say: Callable[[str], None] | None = None) -> FittedClasses:
    """Learn a table of classes: kernel ridge classification with kernel and alpha chosen by leave-one-out.

    A fifth of the rows (the last ones, if rows follow each other in time) is left out of a first fit, to measure how
    well it does; the model itself is then learned from all rows. Of more than 3,000 rows a part chooses, and landmarks
    learn from all. `say` is called with what takes seconds, before it begins.

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.sessions import Settings, fit_classes
    >>> from ovk.streams import open_records
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "t.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("x,y\\n" + "".join(f"{i % 7},{'big' if i % 7 > 3 else 'small'}\\n" for i in range(100)))
    ...     with open_records(path) as records:
    ...         fitted = fit_classes(records, Settings(["y"], classify=True))
    ...     with open_records(path) as records:
    ...         _ = fitted.preparation.bind(records.names, records.label, predict=True)
    ...         predictions = fitted.predict(next(records.batches(5)))
    >>> fitted.scores[0].accuracy, [predictions.labels[code] for code in predictions.codes]
    (1.0, ['small', 'small', 'small', 'small', 'big'])
    """
    table = whole_table(records, settings)
    labels, codes = np.array(table.preparation.classes()), table.Y[:, 0].astype(np.intp)
    learned, left_out = ~table.left_out, table.left_out
    if len(np.unique(codes[learned])) < 2:
        raise ValueError(f"{records.label} has rows of one class only: there is nothing to choose between")
    if say is not None and len(codes) >= LONG:
        say(f"choosing kernel and alpha on {rows_learned(len(codes), table.n_rows)}")
    scaling, first = _fitted(settings, table.X[learned], labels[codes[learned]])
    P = by_label(first, first.predict_proba(scaling.scale_inputs(table.X[left_out]).X), labels.tolist())
    scores = [_scores("model", codes[left_out], P)]
    counts = np.bincount(codes[learned], minlength=len(labels))
    shares = np.tile((counts + 1.0) / (counts + 1.0).sum(), (len(P), 1))
    scores.append(_scores("majority", codes[left_out], shares))
    scaling, estimator = _fitted(settings, table.X, labels[codes])
    faults = table.rows.bad[:REMEMBERED]
    n_bad = len(table.rows.bad)
    return FittedClasses(settings, table.preparation, scaling, estimator, table.n_rows, n_bad, faults, scores)


def _scores(name: str, truth: Indices, P: Array) -> ClassScores:
    scores = ClassScores.start(name, P.shape[1])
    scores.add(truth, P.argmax(axis=1), P)
    return scores


def _fitted(settings: Settings, X: Array, y: Any) -> tuple[Standardised, Any]:
    """A classifier of rows, and how its inputs are scaled."""
    kernel = kernel_of_table(settings.kernel)
    scaling = Standardised(running=False, robust=True)
    X = scaling.scale_warm_up(X, np.empty((len(X), 0))).X
    omegas = None if settings.coupling is None else (float(settings.coupling),)
    some = np.arange(0, len(X), -(-len(X) // EXACT))
    chosen = OVKClassifierCV(kernel, omegas=omegas).fit(X[some], y[some])
    if len(some) == len(X):
        return scaling, chosen
    ridge: Any = chosen.model_
    return scaling, OVKClassifier(ridge.kernel_, ridge.alpha_, landmarks=LANDMARKS, random_state=0).fit(X, y)
