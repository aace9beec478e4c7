"""A table learned as a whole: ridge regression or classification with everything chosen by the data."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ovk.app.parallel import CHUNK_ROWS, Partition, PartitionedFit, PartitionError, Pass, RidgeLearner, as_engine
from ovk.app.sessions.forecasts import MAX_FORECASTS_KEPT, horizon_errors
from ovk.app.sessions.group_errors import FOLDS, GroupErrors, group_numbers
from ovk.app.sessions.predictions import MAX_BAD_ROWS_KEPT, RowPredictor
from ovk.app.sessions.session import MIN_ROWS, LearnedTable
from ovk.app.sessions.settings import KERNELS, Settings, check_bad_rows, declared
from ovk.app.sessions.summary import (
    MAX_ROWS_KEPT,
    BadRow,
    Summary,
    bad_rows_note,
    interval_facts,
    kernel_in_words,
    score_summary,
)
from ovk.app.tables import (
    MAX_LEVELS_OF_TABLE,
    Batch,
    FileRange,
    Preparation,
    Prepared,
    Records,
    concatenate,
    fill_forward,
    open_records,
)
from ovk.base import Array, Indices, Mask, Registered, State, check_int, one_blas_thread
from ovk.batch import OVKClassifier, OVKClassifierCV, OVKRidge, OVKRidgeCV
from ovk.evaluation import Chunk, RecentErrors, RunningMoments, Scores, ScoreTable, Standardised
from ovk.kernels import ScalarKernel

#: Most rows for exact leave-one-out; of more, some choose and landmarks learn from all.
MAX_EXACT_ROWS = 3000

#: Rows from which on choosing takes seconds, and is announced.
MIN_ROWS_ANNOUNCED = 500

#: Landmarks for tables with more rows.
LANDMARKS = 500

#: Most inputs of which metrics are learned: the time grows with their cube.
MAX_METRIC_INPUTS = 500

#: Couplings to choose from, where the user does not say one.
COUPLINGS = (0.0, 0.25, 0.5, 0.75, 0.9)


@dataclass(repr=False)
class TableModel(LearnedTable, State, Registered):
    """A model of a whole table: how its columns are read and scaled, the estimator, and scores of rows left out.

    Attributes
    ----------
    estimator : `OVKRidge`, of classes `OVKClassifier` or `OVKClassifierCV`, learned from all rows
    recent : errors of the rows that were left out of a first fit, for intervals; `GroupErrors` with groups, empty for
        classes
    n_rows, n_bad : rows of the table, and those of them that had unreadable cells
    bad_rows : the first of these, with what is wrong
    scores : of the rows left out: those of the model, and of the mean or the majority of the rows learned
    ahead : (k, horizon, d) errors of forecasts several rows ahead in the rows left out; None without lags
    inputs : (m, p) inputs of the last rows, to tell which of them matter
    moments : of all inputs and outputs; None for files that were learned in partitions
    tested : which rows were left out, in words
    n_known : rows with a known target, which were learned; None where it was not counted
    """

    settings: Settings
    preparation: Preparation
    scaling: Standardised
    estimator: Any
    recent: RecentErrors
    n_rows: int
    n_bad: int
    bad_rows: list[BadRow]
    scores: list[Any]
    ahead: Array | None = None
    inputs: Array | None = None
    moments: RunningMoments | None = None
    tested: str = ""
    n_known: int | None = None

    _state_classes = {"scaling": Standardised, "moments": RunningMoments, "scores": Scores}

    def predictor(self) -> RowPredictor:
        return RowPredictor(self.preparation, self.scaling, self.estimator, self.recent)

    def _horizon_errors(self, predictor: RowPredictor) -> Array | None:
        return self.ahead

    def chosen(self) -> str:
        """Kernel, coupling and alpha, in words."""
        if self.settings.classify:
            return kernel_in_words(self.estimator.model_.kernel_, self.preparation.classes())
        alphas = ", ".join(f"{alpha:.3g}" for alpha in np.atleast_1d(self.estimator.alpha))
        return f"{kernel_in_words(self.estimator.kernel_, self.settings.targets)}, alpha {alphas}"

    def summary(self) -> Summary:
        """Scores of the rows left out, what was chosen, how columns are read, and what may be wrong."""
        settings, title = self.settings, f"on rows left out of a first fit: {self.tested}"
        names = self.preparation.classes() if settings.classify else list(settings.targets)
        found = score_summary(settings.task, self.scores, names, f"scores {title}")
        if settings.classify:
            kernel = repr(self.estimator.model_.kernel_)
            found.facts = {"left_out": found.facts, "model": repr(self.estimator), "kernel": kernel}
        else:
            self._compare_with_mean(found, f"errors {title}")
        read = f"{self.n_rows:,} rows were read"
        if self.n_known is not None and self.n_known < self.n_rows:
            missing = self.n_rows - self.n_known
            read += f", {missing:,} of them without a known target: {self.n_known:,} were learned"
        found.sentences = [
            read,
            f"the model was learned from all rows, and tested by first fits without {self.tested}",
            *([] if settings.classify else [valid_for(settings)]),
            f"chosen: {self.chosen()}",
        ]
        found.facts |= {
            "inputs": self.preparation.feature_names_,
            "left_out_rows": self.tested,
            "rows": self.n_rows,
            "rows_learned": self.n_known,
            "groups": settings.groups,
        }
        found.settings = self._settings_shown()
        found.ordered, found.intervals = settings.in_time, self._intervals_in_words()
        return self._described(found, self.n_rows, table=not settings.classify)

    def _settings_shown(self) -> dict[str, Any]:
        """Settings that apply to this table; of the optional ones those that were asked for."""
        always = {"targets", "kernel", "max_bad", "level", *(["horizon"] if self.settings.lags else [])}
        optional = {"time", "lags", "ignore", "groups", "features", "coupling"}
        values = self.settings.get_params(deep=False)
        shown = {name: value for name, value in values.items() if name in always or (name in optional and value)}
        classes = type(self.estimator).__name__
        return {**shown, "learner": classes if self.settings.classify else f"ridge regression, {self.chosen()}"}

    def _compare_with_mean(self, found: Summary, title: str) -> None:
        """Errors of numbers beside those of their mean, and intervals."""
        mse, of_mean = (score.mse for score in self.scores)
        shown = self.recent.shown
        explained = 1.0 - mse / np.where(of_mean > 0, of_mean, np.nan)
        found.conclusion = "Nothing can be said of the model: the outputs of the rows left out do not vary."
        if np.isfinite(explained).any():
            share = float(np.nanmean(explained))
            found.conclusion = f"The model explains {share:.0%} of the variance of rows that it had not seen."
            if share <= 0:
                found.conclusion = "The model predicts rows that it had not seen no better than their mean."
        headings = ("RMSE", "RMSE of the mean", "R2", f"in {shown.percent} interval")
        values = np.column_stack([np.sqrt(mse), np.sqrt(of_mean), explained, shown.coverage])
        found.tables = [ScoreTable(title, tuple(found.names), headings, values)]
        found.note = (
            "RMSE is the root of the mean squared error, in units of the output; RMSE of the mean is that of "
            "predicting every row by the mean of the output; R2 is the share of the variance that the model explains."
        )
        found.recent = self.recent
        found.facts = {
            "left_out_mse": mse,
            "left_out_mse_of_mean": of_mean,
            "alpha": self.estimator.alpha,
            "kernel": repr(self.estimator.kernel_),
            **interval_facts(self.recent),
        }

    def _intervals_in_words(self) -> str:
        """How the intervals were made and tested."""
        if self.settings.groups is not None:
            return (
                "An interval is as wide as the errors of groups that were left out, of which each has one vote. To "
                "test it, each group had intervals made from the errors of all others."
            )
        along = "earlier ones" if self.settings.in_time else "those above them in the table"
        return (
            "An interval is as wide as the errors of the rows that were left out. To test it, each of these rows had "
            f"one made from the errors of {along} alone."
        )


class WholeTable(NamedTuple):
    """The rows of a table: those that are `known` have an output, inputs X (n, p) and outputs Y (n, d)."""

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
    preparation = settings.preparation(records, MAX_LEVELS_OF_TABLE)
    whole = concatenate(list(records.batches(int(settings.block))), len(records.names))
    if len(whole.rows) < MIN_ROWS:
        raise ValueError(f"{records.label} has {len(whole.rows)} rows to learn from: at least {MIN_ROWS} are needed")
    rows = preparation.fit(whole).prepare(whole)
    total = len(whole.rows) + len(whole.bad)
    if rows.bad:
        check_bad_rows(len(rows.bad), total, rows.bad[-1], records.label, settings.max_bad)
    seen = np.isfinite(rows.chunk.Y)
    if not seen.any(axis=0).all():
        empty = rows.chunk.targets[int((~seen.any(axis=0)).argmax())]
        raise ValueError(f"column {empty!r} of {records.label} is a target but holds no number: choose another one")
    known = np.flatnonzero(seen.any(axis=1))
    X, Y = rows.chunk.X[known], rows.chunk.Y[known]
    n = len(X)
    left_out = np.arange(n) >= n - n // 5 if settings.in_time else np.arange(n) % 5 == 4
    groups = None
    if settings.groups is not None:
        cells = whole.columns[list(records.names).index(settings.groups)]
        groups = group_numbers([cells[i] for i in known.tolist()], settings.groups, records.label)
        preparation.left_out_[settings.groups] = "its groups are left out together"
    table = WholeTable(preparation, rows, known, X, Y, left_out, groups, total)
    if n < MIN_ROWS or not all(np.isfinite(Y[~fold]).any(axis=0).all() for fold in table.folds()):
        raise ValueError(
            f"{records.label} has too few rows with known targets ({n}): some are learned, some are tested"
        )
    return table


def rows_tested(settings: Settings, groups: int = 0) -> str:
    """Which rows of a table are left out of a first fit; with groups, how many there are of these."""
    if settings.groups is not None:
        return f"the {groups:,} groups of {settings.groups!r}, a fifth of them at a time"
    return "the last fifth of the rows" if settings.in_time else "every fifth row"


def valid_for(settings: Settings) -> str:
    """For which rows to come errors and intervals are valid."""
    if settings.groups is not None:
        return f"errors and intervals are those of new groups of {settings.groups!r}, which are not in the table"
    if settings.in_time:
        return "errors and intervals are those of rows that come later"
    cure = "for rows of new patients, sites or the like, name their column (--groups, in Python groups)"
    return f"errors and intervals are those of further rows like these; {cure}"


def fit_table(records: Records, settings: Settings, on_progress: Callable[[str], None] | None = None) -> TableModel:
    """Learn a table: kernel ridge regression, or classification, with everything chosen by the data.

    Of numbers these are kernel, alpha and coupling, of classes kernel and alpha, by leave-one-out. A fifth of the rows
    (the last ones, if rows follow each other in time) is left out of a first fit, to measure how well it does and the
    width of intervals; with groups, each fifth of the groups in turn. The model itself is then learned from all rows.
    Of more than 3,000 rows some choose, and landmarks learn from all. `on_progress` is called with what takes seconds,
    before it begins.
    """
    table = whole_table(records, settings)
    if settings.classify and len(np.unique(table.Y[~table.left_out])) < 2:
        raise ValueError(f"{records.label} has rows of one class only: there is nothing to choose between")
    if on_progress is not None and len(table.X) >= MIN_ROWS_ANNOUNCED:
        on_progress(_announcement(table, settings))
    rows, groups = table.rows, table.groups
    moments = RunningMoments(table.X.shape[1] + table.Y.shape[1])
    moments.add(np.hstack([rows.chunk.X, rows.chunk.Y]))
    return TableModel(
        settings,
        table.preparation,
        n_rows=table.n_rows,
        n_bad=len(rows.bad),
        bad_rows=rows.bad[:MAX_BAD_ROWS_KEPT],
        inputs=table.X[-MAX_ROWS_KEPT:],
        moments=moments,
        tested=rows_tested(settings, 0 if groups is None else len(np.unique(groups))),
        n_known=len(table.X),
        **(_fit_classes if settings.classify else _fit_numbers)(table, settings),
    )


def _announcement(table: WholeTable, settings: Settings) -> str:
    """What takes seconds."""
    known, total = len(table.X), table.n_rows
    rows = f"{known:,} rows"
    if known < total:
        missing = f"{total - known:,} {'has' if total - known == 1 else 'have'} no known target"
        rows = f"{known:,} of {total:,} rows ({missing})"
    if settings.classify:
        return f"choosing kernel and alpha on {rows}"
    metrics = table.X.shape[1] <= MAX_METRIC_INPUTS and settings.coupling is None
    compared = f"comparing kernels{', some in learned metrics,' if metrics else ''}"
    each = "" if table.groups is None else ", without each fifth of the groups and with all"
    return f"{compared if settings.kernel == 'auto' else 'choosing alpha'} on {rows}{each}"


def _fit_numbers(table: WholeTable, settings: Settings) -> dict[str, Any]:
    """Scaling, estimator and errors of the rows left out, of a table of numbers."""
    rows, known, X, Y = table.rows, table.known, table.X, table.Y
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
        scaling = Standardised(running=False, robust=True)
        scaled = scaling.scale_warm_up(X, Y)
        estimator = _ridge(chosen, len(X)).fit(scaled.X, scaled.Y)
    else:
        recent = GroupErrors.of(F, Y, table.groups, settings.level)
        # None of the folds has seen all groups: their choice is made anew.
        _, scaling, estimator = _first_fit(settings, X, Y, np.ones(len(X), dtype=bool), table.groups)
    ahead = None
    if settings.lags and settings.horizon:
        predict = RowPredictor(table.preparation, train, first, recent).outputs
        ahead = _errors_ahead(predict, settings, rows.chunk, int(known[~left_out][-1]) + 1)
    scores = _scores(settings, Y, {"model": F, "mean": means})
    return {"scaling": scaling, "estimator": estimator, "recent": recent, "scores": scores, "ahead": ahead}


def _fit_classes(table: WholeTable, settings: Settings) -> dict[str, Any]:
    """Scaling, estimator and scores of the rows left out, of a table of classes."""
    task, labels = settings.task, table.preparation.classes()
    y, Y = task.targets(table.Y, labels), task.outputs(table.Y, labels)
    learned, left_out = ~table.left_out, table.left_out
    scaling, first = _first_classifier(settings, table.X[learned], y[learned])
    P = task.predict(first, scaling.scale_inputs(table.X[left_out]).X, labels)
    counts = Y[learned].sum(axis=0) + 1.0
    shares = np.tile(counts / counts.sum(), (len(P), 1))
    scores = _scores(settings, Y[left_out], {"model": P, "majority": shares})
    scaling, estimator = _first_classifier(settings, table.X, y)
    return {"scaling": scaling, "estimator": estimator, "recent": RecentErrors.empty(1), "scores": scores}


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
    before = fill_forward(np.vstack([np.full((longest, d), np.nan), chunk.Y[:start]]))[start:]
    X, Y = chunk.X[start:], chunk.Y[start:]
    return horizon_errors(predict, settings.lags, before, X, Y, int(settings.horizon), MAX_FORECASTS_KEPT)


def chosen_ridge(
    settings: Settings, X: Array, Y: Array, groups: Indices | None = None, *, metric: bool = True
) -> OVKRidgeCV:
    """Kernel, alpha and coupling by leaving out rows, or groups (n,), on some of the rows if there are many.

    A learned `metric` has seen the outputs of these rows: their left-out errors are then too small, and others must
    tell how good it is.
    """
    kernel = _kernel(settings)
    omegas = COUPLINGS if settings.coupling is None else (float(settings.coupling),)
    step = -(-len(X) // MAX_EXACT_ROWS)
    some = np.arange(0, len(X), step)
    if not np.isfinite(Y[some]).any(axis=0).all():
        some = np.flatnonzero(np.isfinite(Y).all(axis=1))[:MAX_EXACT_ROWS]
    if kernel is None and settings.coupling is None:
        metric = metric and X.shape[1] <= MAX_METRIC_INPUTS
        ridge = OVKRidgeCV(standardize=False, metric=metric, time_order=settings.in_time)
        return ridge.fit(X[some], Y[some], groups=None if groups is None else groups[some])
    return OVKRidgeCV(kernel, omegas=omegas if Y.shape[1] > 1 else None).fit(X[some], Y[some])


def _ridge(chosen: OVKRidgeCV, n: int) -> OVKRidge:
    landmarks: Any = None if n <= MAX_EXACT_ROWS else LANDMARKS
    return OVKRidge(chosen.kernel_, chosen.alpha_, landmarks=landmarks, random_state=0)


def _scores(settings: Settings, Y: Array, predictions: Mapping[str, Array]) -> list[Any]:
    """Scores of several predictions (n, d) of outputs Y (n, d), by name."""
    found = []
    for name, F in predictions.items():
        scores = settings.task.scores(name, Y.shape[1])
        scores.add(F, Y, np.isfinite(Y) & np.isfinite(F))
        found.append(scores)
    return found


def _kernel(settings: Settings) -> ScalarKernel | None:
    """The kernel that was asked for; None to compare several."""
    return None if settings.kernel == "auto" else KERNELS[settings.kernel]()


def _first_classifier(settings: Settings, X: Array, y: Any) -> tuple[Standardised, Any]:
    """How rows are scaled, and a classifier of them."""
    scaling = Standardised(running=False, robust=True)
    X = scaling.scale_warm_up(X, np.empty((len(X), 0))).X
    omegas = None if settings.coupling is None else (float(settings.coupling),)
    some = np.arange(0, len(X), -(-len(X) // MAX_EXACT_ROWS))
    chosen = OVKClassifierCV(_kernel(settings), omegas=omegas).fit(X[some], y[some])
    if len(some) == len(X):
        return scaling, chosen
    ridge: Any = chosen.model_
    return scaling, OVKClassifier(ridge.kernel_, ridge.alpha_, landmarks=LANDMARKS, random_state=0).fit(X, y)


# Files that do not fit in memory: landmarks, over the workers of a cluster or over processes.

#: Rows of the sample at least, and for each landmark.
MIN_SAMPLE_ROWS, ROWS_PER_LANDMARK = 5000, 10

#: What the alpha of a few rows is multiplied by, to choose from with all of them.
ALPHAS = (0.01, 0.1, 1.0, 10.0)


class PreparedRange(Partition):
    """Rows of a range of a file, made inputs and outputs, and scaled."""

    def __init__(self, some: FileRange, preparation: Preparation, scaling: Standardised) -> None:
        self._range, self._preparation, self._scaling, self.label = some, preparation, scaling, some.label

    def chunks(self) -> Iterator[tuple[Any, ...]]:
        preparation = self._preparation.fork()
        self.n_bad = 0
        with self._range.open() as records:
            preparation.bind(records.names, self.label)
            for batch in records.batches(CHUNK_ROWS):
                rows = preparation.prepare(batch)
                self.n_bad += len(rows.bad)
                known = np.isfinite(rows.chunk.Y).any(axis=1)
                if known.any():
                    scaled = self._scaling.scale(rows.chunk.X[known], rows.chunk.Y[known])
                    yield scaled.X, scaled.Y


class RawRange(Partition):
    """Rows of a range of a file as they stand there."""

    def __init__(self, some: FileRange) -> None:
        self.range, self.label = some, some.label

    def chunks(self) -> Iterator[tuple[Any, ...]]:
        with self.range.open() as records:
            for batch in records.batches(CHUNK_ROWS):
                yield records.names, batch


def sample_range(some: RawRange, rows: int, seed: int) -> list[tuple[tuple[str, ...], list[Batch]]]:
    """Names of the columns, and some rows from random places of a range."""
    samples = some.range.sample(np.random.default_rng(seed))
    found: list[Batch] = []
    names: tuple[str, ...] = ()
    for sample in samples:
        with sample.open() as records:
            names = records.names
            found += [batch for batch in [next(records.batches(-(-rows // len(samples))), None)] if batch is not None]
    return [(names, found)]


def fit_files(
    ranges: list[FileRange],
    settings: Settings,
    landmarks: int = 1000,
    client: Any = None,
    *,
    n_jobs: int | None = None,
    seed: int = 0,
) -> TableModel:
    """Learn files as a whole, range by range: ridge regression on landmarks, with everything chosen by the data.

    How columns are read, their scales, the landmarks, the kernel's width and the coupling come from a sample of all
    ranges; alpha is chosen by the left-out errors of all rows. The errors shown, and those that make intervals, are of
    the rows of the sample, each predicted as if it had not been learned. Ranges have no common order, so that there are
    no lags. `client` and `n_jobs` are as in `ovk.app.parallel.fit`; `seed` draws the sample.
    """
    settings.refuse_groups("leave --landmarks, --scheduler and --workers out, or groups")
    if settings.lags:
        raise ValueError(
            "files that are learned range by range have no rows before others: leave lags out, or use ovk stream"
        )
    m = check_int(landmarks, "landmarks")
    engine = as_engine(client, n_jobs)
    with one_blas_thread(tiles=1):
        each = -(-max(MIN_SAMPLE_ROWS, ROWS_PER_LANDMARK * m) // len(ranges))
        sampling = Pass(partial(sample_range, rows=max(each, 2), seed=seed), operator.add, "sampling")
        found = sampling.run(engine, [RawRange(one) for one in ranges])
        names, label = found[0][0], ranges[0].label
        for (other, _), one in zip(found, ranges, strict=True):
            if other != names:
                raise PartitionError(
                    f"{one.label} has other columns than {label}: {list(other)} instead of {list(names)}"
                )
        whole = concatenate([batch for _, some in found for batch in some], len(names))
        settings.check()
        what = settings.targets, settings.features, settings.time
        preparation = Preparation(*what, max_levels=MAX_LEVELS_OF_TABLE, ignore=settings.ignore)
        rows = preparation.bind(names, label).fit(whole).prepare(whole)
        known = np.isfinite(rows.chunk.Y).any(axis=1)
        X, Y = rows.chunk.X[known], rows.chunk.Y[known]
        if len(X) < MIN_ROWS or not np.isfinite(Y).any(axis=0).all():
            raise ValueError(f"{label} has too few rows with known targets ({len(X)} in the sample)")
        scaling = Standardised(running=False, robust=True)
        scaled = scaling.scale_warm_up(X, Y)
        # Left-out errors of these rows are told below, so that no metric may have seen their outputs.
        chosen = chosen_ridge(settings, scaled.X, scaled.Y, metric=False)
        ridge = OVKRidge(chosen.kernel_, chosen.alpha_, fit_intercept=True, landmarks=m, random_state=seed)
        learner = RidgeLearner(ridge, seed, np.multiply.outer(ALPHAS, chosen.alpha_))
        prepared = [PreparedRange(one, preparation, scaling) for one in ranges]
        estimator = PartitionedFit(learner, prepared, seed, sample=[(scaled.X, scaled.Y)]).run(engine)
    total = learner.n_rows
    bad_rows = rows.bad[:MAX_BAD_ROWS_KEPT]
    if learner.n_bad:
        last = bad_rows[-1] if bad_rows else (0, "in rows that were not sampled")
        check_bad_rows(learner.n_bad, total, last, label, settings.max_bad)
    F = scaled.restore(scaled.Y - _left_out(estimator, scaled.X, scaled.Y))
    recent = RecentErrors.empty(Y.shape[1], size=len(Y), level=settings.level, rate=0.0)
    recent.update(F, Y)
    scores = _scores(settings, Y, {"model": F, "mean": np.broadcast_to(np.nanmean(Y, axis=0), Y.shape)})
    tested = f"{len(Y):,} sampled rows, each predicted as if it had not been learned"
    return TableModel(
        settings, preparation, scaling, estimator, recent, total, learner.n_bad, bad_rows, scores, tested=tested
    )


def _left_out(model: OVKRidge, X: Array, Y: Array) -> Array:
    """Residuals of rows, each predicted as if it had not been learned."""
    sums = model.landmarks_
    assert sums is not None
    R = Y - np.asarray(model.predict(X)).reshape(Y.shape)
    return sums.left_out(X, R, None, model.alpha_, intercept=model.intercept_ is not None)


def fit_file(
    path: str | Path,
    targets: str | Sequence[str],
    *,
    classify: bool = False,
    form: str | None = None,
    **settings: Any,
) -> TableModel:
    """Learn a file, as `ovk fit` does.

    Words, dates, percent signs and gaps are understood; kernel, penalties and coupling are chosen by the data. The
    model remembers how each column is read: `predict_file` takes other files with the same columns,
    `ovk.report` writes a page about it, `ovk.save` a file.

    Parameters
    ----------
    path : CSV, JSON lines or Parquet
    targets : the output column or columns; cells without a value were not observed
    classify : whether the target holds classes
    form : "csv", "jsonl" or "parquet"; by default told by the ending of the name or the first character
    settings : other parameters of `Settings`, such as ``features=["a", "b"]``, ``ignore=["visit"]``, ``lags=[1, 2]`` or
        ``groups="patient"``, which leaves whole patients out: choice, errors and intervals are then for new ones

    Returns
    -------
    `TableModel`

    Warns
    -----
    UserWarning
        With the cells that could not be read, and with columns that may not be what they are read as.

    Examples
    --------
    >>> import os, tempfile
    >>> import ovk
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "soil.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("rock,wet,zinc\\n" + "".join(f"{'AB'[i % 2]},{i % 7}%,{i % 7}\\n" for i in range(100)))
    ...     model = ovk.fit_file(path, "zinc")
    ...     found = model.predict_file(path)
    >>> list(found)
    ['row', 'zinc', 'zinc low', 'zinc high', 'zinc outcome']
    >>> bool(abs(found["zinc"] - found["zinc outcome"]).max() < 0.1)
    True
    """
    names = sorted({*(one.name for one in declared(Settings, "fit")), "level"} - {"targets", "classify"})
    for name in settings:
        if name not in names:
            raise TypeError(f"fit_file has no setting {name!r}: there are {', '.join(names)}")
    for name in ("features", "time", "ignore"):
        if isinstance(settings.get(name), str):
            settings[name] = [settings[name]]
    chosen = Settings([targets] if isinstance(targets, str) else list(targets), classify=classify, **settings)
    with open_records(path, form) as records:
        fitted = fit_table(records, chosen)
    bad = [bad_rows_note(fitted.n_bad, fitted.bad_rows)] if fitted.n_bad else []
    for warning in (*bad, *fitted.summary().warnings):
        warnings.warn(f"{records.label}: {warning}", UserWarning, stacklevel=2)
    return fitted
