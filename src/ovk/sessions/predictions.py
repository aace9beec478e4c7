"""Predictions of the rows of a file, in the units of its outputs, with intervals."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ovk._validation import Array
from ovk.evaluation import Recent
from ovk.evaluation.scaling import Standardised
from ovk.streams import Prepared


class Predictions(NamedTuple):
    """Predictions of rows.

    Attributes
    ----------
    rows : number of each row in its file
    F : (n, d) predictions
    widths : (n, d) half widths of their intervals, or (d,) if all are the same; nan before enough was seen
    """

    rows: list[int]
    F: Array
    widths: Array


def predicted(rows: Prepared, scaling: Standardised, model: Any, recent: Recent, level: float) -> Predictions:
    """Predictions of prepared rows by a model that learned scaled ones; intervals of that level by its last errors."""
    F = np.empty(rows.chunk.Y.shape)
    if len(F):
        scaled = scaling.as_of_now(rows.chunk.X)
        F = scaled.restore(model.predict(scaled.X).reshape(F.shape))
    return Predictions(rows.rows, F, recent.widths([level])[0])
