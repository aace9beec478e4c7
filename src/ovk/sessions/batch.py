"""A table learned as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ovk._params import Registered
from ovk._validation import Array
from ovk.batch import OVKRidge, OVKRidgeCV
from ovk.evaluation import Recent
from ovk.evaluation.scaling import Standardised
from ovk.sessions.models import KERNELS
from ovk.sessions.predictions import Predictions, predicted
from ovk.sessions.session import FEWEST, joined
from ovk.sessions.settings import Settings
from ovk.streams import Batch, Preparation, Records

#: Most rows for exact leave-one-out; of more, a part chooses and landmarks learn from all.
EXACT = 1500

#: Landmarks for tables with more rows.
LANDMARKS = 500

#: Couplings to choose from, where the user does not say one.
COUPLINGS = (0.0, 0.25, 0.5, 0.75, 0.9)


@dataclass
class Fitted(Registered):
    """A batch model of a table: how its columns are read and scaled, the estimator, and errors of rows left out.

    Attributes
    ----------
    settings : `Settings`
    preparation : how rows are made inputs and outputs
    scaling : how they are scaled
    estimator : `OVKRidge`, learned from all rows
    recent : errors of the fifth of the rows that was left out of a first fit, for intervals
    n_bad : rows that could not be read
    errors : (d,) mean squared errors of the rows left out, and (d,) those of their mean
    """

    settings: Settings
    preparation: Preparation
    scaling: Standardised
    estimator: OVKRidge
    recent: Recent
    n_bad: int
    errors: tuple[Array, Array]

    def predict(self, batch: Batch, level: float = 0.9) -> Predictions:
        """Predict rows, with intervals of that level."""
        rows = self.preparation.take(batch)
        self.n_bad += len(rows.bad)
        return predicted(rows, self.scaling, self.estimator, self.recent, level)


def fit_table(records: Records, settings: Settings) -> Fitted:
    """Learn a table: ridge regression with kernel width, alpha and coupling chosen by the data.

    A fifth of the rows (the last ones, if rows follow each other in time) is left out of a first fit, to measure its
    errors and the width of intervals; the model itself is then learned from all rows.

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.sessions import Settings, fit_table
    >>> from ovk.streams import open_records
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "t.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("x,y\\n" + "".join(f"{i % 7},{i % 7}\\n" for i in range(100)))
    ...     with open_records(path) as records:
    ...         fitted = fit_table(records, Settings(["y"]))
    >>> bool(fitted.errors[0][0] < 0.01 * fitted.errors[1][0])
    True
    """
    preparation = settings.preparation(records)
    whole = joined(list(records.batches(int(settings.block))), len(records.names))
    if len(whole.rows) < FEWEST:
        raise ValueError(f"{records.label} has {len(whole.rows)} rows to learn from: at least {FEWEST} are needed")
    rows = preparation.fit(whole).take(whole)
    seen = np.isfinite(rows.chunk.Y)
    if not seen.any(axis=0).all():
        empty = rows.chunk.targets[int((~seen.any(axis=0)).argmax())]
        raise ValueError(f"column {empty!r} of {records.label} is a target but holds no number: choose another one")
    X, Y = rows.chunk.X[seen.any(axis=1)], rows.chunk.Y[seen.any(axis=1)]
    n = len(X)
    left_out = np.arange(n) >= n - n // 5 if settings.lags or settings.time else np.arange(n) % 5 == 4
    if n < FEWEST or not np.isfinite(Y[~left_out]).any(axis=0).all():
        raise ValueError(
            f"{records.label} has too few rows with known targets ({n}): some are learned, some are tested"
        )
    # The errors of rows left out must not know their moments.
    train = Standardised(running=False, robust=True)
    scaled = train.begin(X[~left_out], Y[~left_out])
    chosen = _chosen(settings, scaled.X, scaled.Y)
    first = _ridge(chosen, len(scaled.X)).fit(scaled.X, scaled.Y)
    test = train.scale(X[left_out], Y[left_out])
    F = test.restore(first.predict(test.X).reshape(-1, Y.shape[1]))
    recent = Recent.empty(Y.shape[1], size=max(len(F), 1))
    recent.take(F, Y[left_out])
    mean = np.nanmean(Y[~left_out], axis=0)
    errors = _mean_square(F - Y[left_out]), _mean_square(mean - Y[left_out])
    scaling = Standardised(running=False, robust=True)
    scaled = scaling.begin(X, Y)
    estimator = _ridge(chosen, n).fit(scaled.X, scaled.Y)
    return Fitted(settings, preparation, scaling, estimator, recent, len(rows.bad), errors)


def _chosen(settings: Settings, X: Array, Y: Array) -> OVKRidgeCV:
    """Alpha and coupling by leave-one-out, on a part of the rows if there are many."""
    if settings.kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {settings.kernel!r}")
    omegas = COUPLINGS if settings.coupling is None else (float(settings.coupling),)
    step = -(-len(X) // EXACT)
    some = np.arange(0, len(X), step)
    if not np.isfinite(Y[some]).any(axis=0).all():
        some = np.flatnonzero(np.isfinite(Y).all(axis=1))[:EXACT]
    kernel = KERNELS[settings.kernel]()
    return OVKRidgeCV(kernel, omegas=omegas if Y.shape[1] > 1 else None).fit(X[some], Y[some])


def _ridge(chosen: OVKRidgeCV, n: int) -> OVKRidge:
    landmarks: Any = None if n <= EXACT else LANDMARKS
    return OVKRidge(chosen.kernel_, chosen.alpha_, landmarks=landmarks, random_state=0)


def _mean_square(errors: Array) -> Array:
    known = np.isfinite(errors)
    sums: Array = (np.where(known, errors, 0.0) ** 2).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.where(known.any(axis=0), sums, np.nan)
