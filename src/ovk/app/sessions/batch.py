"""A table learned as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ovk.app.sessions.columns import PredictionColumns
from ovk.app.sessions.file_predictions import FOLDS, GroupErrors, TableModel, group_numbers
from ovk.app.sessions.forecasts import REMEMBERED as REMEMBERED_FORECASTS
from ovk.app.sessions.forecasts import Forecast, forecast, horizon_errors
from ovk.app.sessions.input_relevance import ROWS, kernel_in_words
from ovk.app.sessions.predictions import ClassColumns, ClassRowPredictor, RowPredictor, by_label
from ovk.app.sessions.remarks import REMEMBERED, ColumnRow, column_summary
from ovk.app.sessions.session import FEWEST
from ovk.app.sessions.settings import Settings, kernel_of_table
from ovk.app.tables import WORDS_OF_TABLE, Preparation, Prepared, Records, concatenate, filled
from ovk.base import Array, Indices, Mask, Registered, State
from ovk.batch import OVKClassifier, OVKClassifierCV, OVKRidge, OVKRidgeCV
from ovk.evaluation import CLASSIFICATION, Chunk, ClassScores, RecentErrors, RunningMoments, Standardised

#: Most rows for exact leave-one-out; of more, a part chooses and landmarks learn from all.
EXACT = 3000

#: Rows from which on choosing takes seconds, and is announced.
LONG = 500

#: Landmarks for tables with more rows.
LANDMARKS = 500

#: Most inputs of which metrics are learned: the time grows with their cube.
MAPPED = 500

#: Couplings to choose from, where the user does not say one.
COUPLINGS = (0.0, 0.25, 0.5, 0.75, 0.9)


@dataclass(repr=False)
class Fitted(TableModel, State, Registered):
    """A batch model of a table: how its columns are read and scaled, the estimator, and errors of rows left out.

    Attributes
    ----------
    settings : `Settings`
    preparation : how rows are made inputs and outputs
    scaling : how they are scaled
    estimator : `OVKRidge`, learned from all rows
    recent : errors of the rows that were left out of a first fit, for intervals; `GroupErrors` with groups
    n_rows, n_bad : rows of the table, and those of them that had unreadable cells
    faults : the first of these, with their faults
    errors : (d,) mean squared errors of the rows left out, and (d,) those of their mean
    ahead : (k, horizon, d) errors of forecasts several rows ahead in the rows left out; None without lags
    inputs : (m, p) inputs of the last rows, to tell which of them matter
    moments : of all inputs and outputs; None for files that were learned in parts
    tested : which rows were left out, in words
    n_known : rows with a known target, which were learned; None where it was not counted
    """

    settings: Settings
    preparation: Preparation
    scaling: Standardised
    estimator: OVKRidge
    recent: RecentErrors
    n_rows: int
    n_bad: int
    faults: list[tuple[int, str]]
    errors: tuple[Array, Array]
    ahead: Array | None = None
    inputs: Array | None = None
    moments: RunningMoments | None = None
    tested: str = ""
    n_known: int | None = None

    _state_classes = {"scaling": Standardised, "moments": RunningMoments}

    def forecast(self, steps: int, level: float | None = None, future: Records | None = None) -> Forecast:
        """Forecast the rows that follow the table, as `Session.forecast` does."""
        return forecast(self.predictor(), steps, level, future, self.ahead)

    def columns(self) -> list[ColumnRow]:
        """As `Session.columns`; empty for files that were learned in parts."""
        if self.moments is None:
            return []
        return column_summary(self.preparation, self.settings.targets, self.moments, self.n_rows)

    def chosen(self) -> str:
        """Kernel, coupling and alpha, in words."""
        alphas = ", ".join(f"{alpha:.3g}" for alpha in np.atleast_1d(self.estimator.alpha))
        return f"{kernel_in_words(self.estimator.kernel_, self.settings.targets)}, alpha {alphas}"

    def summary(self) -> str:
        """Errors of the rows left out beside those of the mean, and what was chosen, in lines of text."""
        lines = [f"{self.n_rows:,} rows; errors on {self.tested}, left out of a first fit", valid_for(self.settings)]
        for name, mse, of_mean in zip(self.settings.targets, *self.errors, strict=True):
            r2 = f"R2 {1 - mse / of_mean:.3f}, " if of_mean > 0 else ""
            lines.append(f"{name}: {r2}RMSE {mse**0.5:.4g}, of the mean {of_mean**0.5:.4g}")
        return "\n".join([*lines, self.chosen()])

    def predictor(self) -> RowPredictor:
        """What predicts a table of several batches, each with the lags that those before it leave."""
        return RowPredictor(self.preparation, self.scaling, self.estimator, self.recent)

    def prediction_columns(self, *, outcomes: bool = True) -> Any:
        """How predictions are written."""
        timed = self.preparation.clock() is not None
        return PredictionColumns(self.settings.targets, timed=timed, outcomes=outcomes)


class WholeTable(NamedTuple):
    """The rows of a table.

    Attributes
    ----------
    preparation, rows : how columns are read, and all rows
    known : numbers of the rows with an output
    X, Y : (n, p) and (n, d) inputs and outputs of these
    left_out : (n,) those of them that are left out of a first fit
    groups : (n,) numbers of their groups; None without groups
    n_rows : rows of the table, those that cannot be read too
    """

    preparation: Preparation
    rows: Prepared
    known: Indices
    X: Array
    Y: Array
    left_out: Mask
    groups: Indices | None
    n_rows: int

    def folds(self) -> list[Mask]:
        """(n,) rows that are left out together, in turn: a fifth of the groups each, or those left out of one fit."""
        if self.groups is None:
            return [self.left_out]
        return [self.groups % FOLDS == fold for fold in range(FOLDS)]


def whole_table(records: Records, settings: Settings) -> WholeTable:
    """All rows of a table that fits in memory; refuses one that cannot be read, or has too few of them."""
    preparation = settings.preparation(records, WORDS_OF_TABLE)
    whole = concatenate(list(records.batches(int(settings.block))), len(records.names))
    if len(whole.rows) < FEWEST:
        raise ValueError(f"{records.label} has {len(whole.rows)} rows to learn from: at least {FEWEST} are needed")
    rows = preparation.fit(whole).prepare(whole)
    total = len(whole.rows) + len(whole.bad)
    if rows.bad:
        settings.check_bad_rows(len(rows.bad), total, rows.bad[-1], records.label)
    seen = np.isfinite(rows.chunk.Y)
    if not seen.any(axis=0).all():
        empty = rows.chunk.targets[int((~seen.any(axis=0)).argmax())]
        raise ValueError(f"column {empty!r} of {records.label} is a target but holds no number: choose another one")
    known = np.flatnonzero(seen.any(axis=1))
    X, Y = rows.chunk.X[known], rows.chunk.Y[known]
    n = len(X)
    left_out = np.arange(n) >= n - n // 5 if in_time(settings) else np.arange(n) % 5 == 4
    groups = None
    if settings.groups is not None:
        cells = whole.columns[list(records.names).index(settings.groups)]
        groups = group_numbers([cells[i] for i in known.tolist()], settings.groups, records.label)
        preparation.left_out_[settings.groups] = "its groups are left out together"
    table = WholeTable(preparation, rows, known, X, Y, left_out, groups, total)
    if n < FEWEST or not all(np.isfinite(Y[~fold]).any(axis=0).all() for fold in table.folds()):
        raise ValueError(
            f"{records.label} has too few rows with known targets ({n}): some are learned, some are tested"
        )
    return table


def in_time(settings: Settings) -> bool:
    """Whether rows follow each other in time: then later rows test what was learned from earlier ones."""
    return bool(settings.lags or settings.time)


def rows_tested(settings: Settings, groups: int = 0) -> str:
    """Which rows of a table are left out of a first fit; with groups, how many there are of these.

    >>> rows_tested(Settings(["y"])), rows_tested(Settings(["y"], lags=[1]))
    ('every fifth row', 'the last fifth of the rows')
    >>> rows_tested(Settings(["y"], groups="patient"), 42)
    "the 42 groups of 'patient', a fifth of them at a time"
    """
    if settings.groups is not None:
        return f"the {groups:,} groups of {settings.groups!r}, a fifth of them at a time"
    return "the last fifth of the rows" if in_time(settings) else "every fifth row"


def valid_for(settings: Settings) -> str:
    """For which rows to come errors and intervals are valid.

    >>> valid_for(Settings(["y"], groups="patient"))
    "errors and intervals are those of new groups of 'patient', which are not in the table"
    """
    if settings.groups is not None:
        return f"errors and intervals are those of new groups of {settings.groups!r}, which are not in the table"
    if in_time(settings):
        return "errors and intervals are those of rows that come later"
    cure = "for rows of new patients, sites or the like, name their column (--groups, in Python groups)"
    return f"errors and intervals are those of further rows like these; {cure}"


def rows_learned(known: int, total: int) -> str:
    """How many rows are learned, and why they are not all of the table.

    >>> rows_learned(900, 900), rows_learned(879, 900)
    ('900 rows', '879 of 900 rows (21 have no known target)')
    """
    if known == total:
        return f"{known:,} rows"
    return f"{known:,} of {total:,} rows ({total - known:,} {'has' if total - known == 1 else 'have'} no known target)"


def fit_table(records: Records, settings: Settings, say: Callable[[str], None] | None = None) -> Fitted:
    """Learn a table: ridge regression with kernel width, alpha and coupling chosen by the data.

    A fifth of the rows (the last ones, if rows follow each other in time) is left out of a first fit, to measure its
    errors and the width of intervals; with groups, each fifth of the groups in turn. The model itself is then learned
    from all rows. `say` is called with what takes seconds, before it begins.

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.app.sessions import Settings, fit_table
    >>> from ovk.app.tables import open_records
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "t.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("x,y\\n" + "".join(f"{i % 7},{i % 7}\\n" for i in range(100)))
    ...     with open_records(path) as records:
    ...         fitted = fit_table(records, Settings(["y"]))
    >>> bool(fitted.errors[0][0] < 0.01 * fitted.errors[1][0])
    True
    """
    table = whole_table(records, settings)
    preparation, rows, known, X, Y = table.preparation, table.rows, table.known, table.X, table.Y
    n = len(X)
    if say is not None and n >= LONG:
        metrics = ", some in learned metrics," if X.shape[1] <= MAPPED and settings.coupling is None else ""
        what = f"comparing kernels{metrics}" if settings.kernel == "auto" else "choosing alpha"
        each = "" if table.groups is None else ", without each fifth of the groups and with all"
        say(f"{what} on {rows_learned(n, table.n_rows)}{each}")
    F, means = np.full((2, *Y.shape), np.nan)
    for fold in table.folds():
        chosen, train, first = _first_fit(settings, X, Y, ~fold, table.groups)
        test = train.scale(X[fold], Y[fold])
        F[fold] = test.restore(first.predict(test.X).reshape(-1, Y.shape[1]))
        means[fold] = np.nanmean(Y[~fold], axis=0)
    if table.groups is None:
        (left_out,) = table.folds()
        recent = RecentErrors.empty(Y.shape[1], size=max(int(left_out.sum()), 1), level=settings.level, rate=0.0)
        recent.update(F[left_out], Y[left_out], None if rows.instants is None else rows.instants[known[left_out]])
    else:
        recent = GroupErrors.of(F, Y, table.groups, settings.level)
    ahead = None
    if settings.lags and settings.horizon:
        predict = RowPredictor(preparation, train, first, recent).outputs
        ahead = _errors_ahead(predict, settings, rows.chunk, int(known[~left_out][-1]) + 1)
    if table.groups is None:
        scaling = Standardised(running=False, robust=True)
        scaled = scaling.scale_warm_up(X, Y)
        estimator = _ridge(chosen, n).fit(scaled.X, scaled.Y)
    else:
        # None of the folds has seen all groups: their choice is made anew.
        _, scaling, estimator = _first_fit(settings, X, Y, np.ones(n, dtype=bool), table.groups)
    moments = RunningMoments(X.shape[1] + Y.shape[1])
    moments.add(np.hstack([rows.chunk.X, rows.chunk.Y]))
    return Fitted(
        settings,
        preparation,
        scaling,
        estimator,
        recent,
        table.n_rows,
        len(rows.bad),
        rows.bad[:REMEMBERED],
        errors=(mean_square(F - Y), mean_square(means - Y)),
        ahead=ahead,
        inputs=X[-ROWS:],
        moments=moments,
        tested=rows_tested(settings, 0 if table.groups is None else len(np.unique(table.groups))),
        n_known=n,
    )


def _first_fit(
    settings: Settings, X: Array, Y: Array, rows: Mask, groups: Indices | None
) -> tuple[OVKRidgeCV, Standardised, OVKRidge]:
    """What is chosen by some rows, how they are scaled, and a model of them: it knows nothing of the others."""
    scaling = Standardised(running=False, robust=True)
    scaled = scaling.scale_warm_up(X[rows], Y[rows])
    chosen = chosen_ridge(settings, scaled.X, scaled.Y, None if groups is None else groups[rows])
    return chosen, scaling, _ridge(chosen, len(scaled.X)).fit(scaled.X, scaled.Y)


def _errors_ahead(predict: Callable[[Array], Array], settings: Settings, chunk: Chunk, start: int) -> Array:
    """(k, horizon, d) errors of forecasts within the rows from `start` on, by a model that was learned before them."""
    longest, d = max(settings.lags), chunk.Y.shape[1]
    before = filled(np.vstack([np.full((longest, d), np.nan), chunk.Y[:start]]))[start:]
    X, Y = chunk.X[start:], chunk.Y[start:]
    return horizon_errors(predict, settings.lags, before, X, Y, int(settings.horizon), REMEMBERED_FORECASTS)


def chosen_ridge(
    settings: Settings, X: Array, Y: Array, groups: Indices | None = None, *, metric: bool = True
) -> OVKRidgeCV:
    """Kernel, alpha and coupling by leaving out rows, or groups (n,), on a part of the rows if there are many.

    A learned `metric` has seen the outputs of these rows: their left-out errors are then too small, and others must
    tell how good it is.
    """
    kernel = kernel_of_table(settings.kernel)
    omegas = COUPLINGS if settings.coupling is None else (float(settings.coupling),)
    step = -(-len(X) // EXACT)
    some = np.arange(0, len(X), step)
    if not np.isfinite(Y[some]).any(axis=0).all():
        some = np.flatnonzero(np.isfinite(Y).all(axis=1))[:EXACT]
    if kernel is None and settings.coupling is None:
        metric = metric and X.shape[1] <= MAPPED
        ridge = OVKRidgeCV(standardize=False, metric=metric, time_order=in_time(settings))
        return ridge.fit(X[some], Y[some], groups=None if groups is None else groups[some])
    return OVKRidgeCV(kernel, omegas=omegas if Y.shape[1] > 1 else None).fit(X[some], Y[some])


def _ridge(chosen: OVKRidgeCV, n: int) -> OVKRidge:
    landmarks: Any = None if n <= EXACT else LANDMARKS
    return OVKRidge(chosen.kernel_, chosen.alpha_, landmarks=landmarks, random_state=0)


def mean_square(errors: Array) -> Array:
    """(d,) mean squares of (n, d) errors, over those that are known."""
    known = np.isfinite(errors)
    sums: Array = (np.where(known, errors, 0.0) ** 2).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.where(known.any(axis=0), sums, np.nan)


# A table of classes learned as a whole.


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
        return ClassRowPredictor(self.preparation, self.scaling, self.estimator, RecentErrors.empty(1))

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
    >>> from ovk.app.sessions import Settings, fit_classes
    >>> from ovk.app.tables import open_records
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
    scores = CLASSIFICATION.scores(name, P.shape[1])
    scores.add(P, np.eye(P.shape[1])[truth], np.full(P.shape, True))
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
