"""A table learned as a whole: ridge regression or classification with all settings selected automatically."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from ovk.app.parallel import CHUNK_ROWS, Partition, PartitionedFit, PartitionError, Pass, RidgeLearner, as_engine
from ovk.app.sessions.forecasts import (
    MAX_FORECASTS_KEPT,
    TestedForecasts,
    conformal_widths,
    horizon_errors,
    rows_seen,
    season_of,
)
from ovk.app.sessions.predictions import MAX_BAD_ROWS_KEPT, RowPredictor, relative_to_lag
from ovk.app.sessions.session import MIN_ROWS, LearnedTable, check_row_count, opened
from ovk.app.sessions.settings import KERNELS, Settings, check_bad_rows, declared
from ovk.app.sessions.summary import (
    MAX_ROWS_KEPT,
    BadRow,
    Summary,
    bad_rows_note,
    describe_kernel,
    interval_facts,
    score_summary,
)
from ovk.app.tables import MAX_TABLE_LEVELS, Batch, FileRange, Preparation, Prepared, Records, concatenate, fill_forward
from ovk.base import (
    COUNT,
    Array,
    Indices,
    Mask,
    Registered,
    State,
    as_word,
    check_int,
    is_missing_cell,
    one_blas_thread,
)
from ovk.batch import OVKClassifier, OVKClassifierCV, OVKRidge, OVKRidgeCV
from ovk.evaluation import DEFAULT_LEVEL, Chunk, RecentErrors, RunningMoments, Scores, ScoreTable, Standardised

#: Maximum number of rows for exact leave-one-out. Above it, settings are selected on a subset, and landmarks are used.
MAX_EXACT_ROWS = 3000

#: Minimum number of rows for which a progress message is printed: choosing takes seconds.
MIN_ROWS_ANNOUNCED = 500

#: Landmarks for tables with more than `MAX_EXACT_ROWS` rows.
LANDMARKS = 500

#: Maximum number of inputs for learned metrics: the time grows with their cube.
MAX_METRIC_INPUTS = 500

#: Candidate couplings if none is given.
COUPLINGS = (0.0, 0.25, 0.5, 0.75, 0.9)


@dataclass(repr=False)
class TableModel(LearnedTable, State, Registered):
    """A model of a whole table: column types, scaling, estimator, and scores on held-out rows.

    Parameters
    ----------
    settings : Settings
        The settings of the table.
    preparation : Preparation
        How rows become inputs and outputs.
    scaling : Standardised
        Scale of inputs and outputs.
    estimator : OVKRidge, OVKClassifier or OVKClassifierCV
        The estimator, fitted to all rows.
    recent : RecentErrors
        Errors of the held-out rows, for intervals; `GroupErrors` with groups, empty for classes.
    n_rows, n_bad : int
        Rows of the table, and how many of them had unreadable cells.
    bad_rows : list of (int, str)
        Number and fault of the first bad rows.
    scores : list
        Scores on the held-out rows: of the model, then of the mean or majority baseline.
    ahead : (4, k, horizon, d) array or None
        Errors of forecasts several rows ahead in the held-out rows, by the model, the last value, the value one season
        earlier and a damped trend; None without lags.
    past : (m, d) array or None
        The last outputs, if forecasts were tested.
    reference : int
        The estimator predicts differences from the outputs this many rows earlier; 0 if it predicts the outputs.
    inputs : (m, p) array or None
        Inputs of the last rows, to compute the relevance of each column.
    moments : RunningMoments or None
        Moments of all inputs and outputs; None for files that were learned in partitions.
    tested : str
        Which rows were held out.
    n_known : int or None
        Rows with a known target, which were learned; None if they were not counted.

    See Also
    --------
    fit_file, Session

    Examples
    --------
    >>> import os, tempfile
    >>> import ovk
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = os.path.join(directory, "t.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("x,y\\n" + "".join(f"{i % 7},{i % 7}\\n" for i in range(100)))
    ...     model = ovk.fit_file(path, "y")
    >>> model
    TableModel(targets=['y'], n_inputs=1)
    >>> print(model.summary().conclusion)
    The model explains 100% of the variance of unseen rows.
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
    past: Array | None = None
    reference: int = 0
    inputs: Array | None = None
    moments: RunningMoments | None = None
    tested: str = ""
    n_known: int | None = None

    _state_classes = {"scaling": Standardised, "moments": RunningMoments, "scores": Scores}
    _stored = {"inputs": "n p nan | None", "ahead": "* inf", "past": "m d nan | None", "reference": COUNT}

    def predictor(self) -> RowPredictor:
        return RowPredictor(self.preparation, self.scaling, self.estimator, self.recent, self.reference)

    def _tested(self, predictor: RowPredictor) -> TestedForecasts | None:
        return None if self.ahead is None or self.past is None else TestedForecasts(self.ahead, self.past)

    def chosen(self) -> str:
        """Kernel, coupling and alpha as text."""
        if self.settings.classify:
            return describe_kernel(self.estimator.model_.kernel_, self.preparation.classes())
        alphas = ", ".join(f"{alpha:.3g}" for alpha in np.atleast_1d(self.estimator.alpha))
        sums = self.estimator.landmarks_
        landmarks = "" if sums is None else f", {sums.m:,} landmarks"
        return f"{describe_kernel(self.estimator.kernel_, self.settings.targets)}, alpha {alphas}{landmarks}"

    def summary(self) -> Summary:
        settings, title = self.settings, f"on held-out rows: {self.tested}"
        names = self.preparation.classes() if settings.classify else list(settings.targets)
        found = score_summary(settings.task, self.scores, names, f"scores {title}")
        if settings.classify:
            kernel = repr(self.estimator.model_.kernel_)
            found.facts = {"left_out": found.facts, "model": repr(self.estimator), "kernel": kernel}
        else:
            self._compare_with_mean(found, f"errors {title}")
        read = f"{self.n_rows:,} rows were read"
        if self.n_known is not None and self.n_known < self.n_rows:
            read += f"; {self.n_known:,} have a known target and were learned"
        found.sentences = [
            read,
            f"the model was fitted to all rows; errors come from preliminary fits that held out {self.tested}",
            *([] if settings.classify else [_validity(settings)]),
            f"chosen: {self.chosen()}",
        ]
        found.facts |= {
            "inputs": self.preparation.feature_names_,
            "loo_rows": self.tested,
            "rows": self.n_rows,
            "rows_learned": self.n_known,
            "groups": settings.groups,
        }
        always = {"targets", "kernel", "max_bad", "level", *(["horizon"] if settings.lags else [])}
        optional = {"time", "lags", "ignore", "groups", "features", "coupling"}
        values = settings.get_params(deep=False).items()
        found.settings = {name: value for name, value in values if name in always or (name in optional and value)}
        learner = type(self.estimator).__name__ if settings.classify else f"ridge regression, {self.chosen()}"
        found.settings["learner"] = learner
        found.ordered, found.intervals = settings.time_ordered, self._intervals()
        return self._described(found, self.n_rows, table=not settings.classify)

    def _compare_with_mean(self, found: Summary, title: str) -> None:
        mse, of_mean = (score.mse for score in self.scores)
        shown = self.recent.shown
        explained = 1.0 - mse / np.where(of_mean > 0, of_mean, np.nan)
        found.conclusion = "The model cannot be assessed: the outputs of the held-out rows do not vary."
        if np.isfinite(explained).any():
            share = float(np.nanmean(explained))
            found.conclusion = f"The model explains {share:.0%} of the variance of unseen rows."
            if share <= 0:
                found.conclusion = "The model predicts unseen rows no better than the mean."
        headings = ("RMSE", "RMSE of the mean", "R2", f"in {shown.percent} interval")
        values = np.column_stack([np.sqrt(mse), np.sqrt(of_mean), explained, shown.coverage])
        found.tables = [ScoreTable(title, tuple(found.names), headings, values)]
        found.note = (
            "RMSE is the root mean squared error, in units of the output; RMSE of the mean is the error of always "
            "predicting the mean of the output; R2 is the share of the variance that the model explains."
        )
        found.recent = self.recent
        found.facts = {
            "loo_mse": mse,
            "loo_mse_of_mean": of_mean,
            "alpha": self.estimator.alpha,
            "kernel": repr(self.estimator.kernel_),
            **interval_facts(self.recent),
        }

    def _intervals(self) -> str:
        if self.settings.groups is not None:
            return (
                "The width of an interval comes from the errors on held-out groups, each with equal weight. To test "
                "coverage, each group's intervals were computed only from the errors of the other groups."
            )
        return (
            "The width of an interval comes from the errors on held-out rows. To test coverage, each row's interval "
            f"was computed only from the errors of {'earlier' if self.settings.time_ordered else 'preceding'} rows."
        )


class WholeTable(NamedTuple):
    """The rows of a table; the n `known` rows, which have an output, have inputs X (n, p) and outputs Y (n, d).

    `folds` are masks (n,) of the rows to hold out: one fifth of the rows, or each fifth of the groups in turn.
    """

    preparation: Preparation
    rows: Prepared
    known: Indices
    X: Array
    Y: Array
    groups: Indices | None
    folds: list[Mask]
    n_rows: int


def whole_table(records: Records, settings: Settings) -> WholeTable:
    """Read a table that fits in memory; raises an error if it has too few readable rows."""
    preparation = settings.preparation(records.names, records.label, MAX_TABLE_LEVELS)
    whole = concatenate(list(records.batches(int(settings.block))), len(records.names))
    check_row_count(whole, records.label)
    rows = preparation.fit(whole).prepare(whole)
    total = len(whole.rows) + len(whole.bad)
    if rows.bad:
        check_bad_rows(len(rows.bad), total, rows.bad[-1], records.label, settings.max_bad)
    seen = np.isfinite(rows.chunk.Y)
    if not seen.any(axis=0).all():
        empty = rows.chunk.targets[int((~seen.any(axis=0)).argmax())]
        raise ValueError(f"column {empty!r} of {records.label} is a target but contains no number")
    known = np.flatnonzero(seen.any(axis=1))
    X, Y = rows.chunk.X[known], rows.chunk.Y[known]
    n = len(X)
    folds: list[Mask] = [np.arange(n) >= n - n // 5 if settings.time_ordered else np.arange(n) % 5 == 4]
    groups = None
    if settings.groups is not None:
        cells = whole.columns[list(records.names).index(settings.groups)]
        groups = group_numbers([cells[i] for i in known.tolist()], settings.groups, records.label)
        folds = [groups % FOLDS == fold for fold in range(FOLDS)]
        preparation.unused_[settings.groups] = "identifies the groups"
    if n < MIN_ROWS or not all(np.isfinite(Y[~fold]).any(axis=0).all() for fold in folds):
        raise ValueError(
            f"{records.label} has {n} rows with known targets; at least {MIN_ROWS} are required, and each output "
            "must be known outside every held-out part"
        )
    return WholeTable(preparation, rows, known, X, Y, groups, folds, total)


def _validity(settings: Settings) -> str:
    """Which new rows the errors and intervals apply to."""
    if settings.groups is not None:
        return f"errors and intervals apply to unseen groups of {settings.groups!r}"
    if settings.time_ordered:
        return "errors and intervals apply to later rows"
    return (
        "errors and intervals apply to new rows from the same units; to validate on new patients, sites or other "
        "units, pass --groups (in Python groups)"
    )


def fit_table(records: Records, settings: Settings, on_progress: Callable[[str], None] | None = None) -> TableModel:
    """Fit kernel ridge regression or classification to a table, with all settings selected automatically.

    Leave-one-out selects kernel, alpha and, for numeric outputs, the coupling. A first fit holds out a fifth of the
    rows (the last ones, if rows are ordered in time) to estimate errors and the widths of intervals; with groups, each
    fifth of the groups in turn. The model itself is then fitted to all rows. Above 3,000 rows, the settings are
    selected on a subset, and the fit uses landmarks. `on_progress` receives a message before each slow step.
    """
    table = whole_table(records, settings)
    if settings.classify and len(np.unique(table.Y[~table.folds[0]])) < 2:
        raise ValueError(f"{records.label} has rows of one class only; at least two classes are required")
    if on_progress is not None and len(table.X) >= MIN_ROWS_ANNOUNCED:
        on_progress(_announcement(table, settings))
    tested = "the last fifth of the rows" if settings.time_ordered else "every fifth row"
    rows, groups = table.rows, table.groups
    if groups is not None:
        tested = f"the {len(np.unique(groups)):,} groups of {settings.groups!r}, a fifth of them at a time"
    moments = RunningMoments(table.X.shape[1] + table.Y.shape[1])
    moments.before_then_add(np.hstack([rows.chunk.X, rows.chunk.Y]))
    return TableModel(
        settings,
        table.preparation,
        n_rows=table.n_rows,
        n_bad=len(rows.bad),
        bad_rows=rows.bad[:MAX_BAD_ROWS_KEPT],
        inputs=table.X[-MAX_ROWS_KEPT:],
        moments=moments,
        tested=tested,
        n_known=len(table.X),
        **(_fit_classes if settings.classify else _fit_numbers)(table, settings),
    )


def _announcement(table: WholeTable, settings: Settings) -> str:
    known, total = len(table.X), table.n_rows
    rows = f"{known:,} rows"
    if known < total:
        missing = f"{total - known:,} {'has' if total - known == 1 else 'have'} no known target"
        rows = f"{known:,} of {total:,} rows ({missing})"
    if settings.classify:
        return f"choosing kernel and alpha on {rows}"
    metrics = table.X.shape[1] <= MAX_METRIC_INPUTS and settings.coupling is None
    compared = f"comparing kernels{', some in learned metrics,' if metrics else ''}"
    each = "" if table.groups is None else ", with each fifth of the groups held out, then on all rows"
    return f"{compared if settings.kernel == 'auto' else 'choosing alpha'} on {rows}{each}"


def _fit_numbers(table: WholeTable, settings: Settings) -> dict[str, Any]:
    """Scaling, estimator and errors on held-out rows, for numeric outputs."""
    rows, known, X, Y = table.rows, table.known, table.X, table.Y
    F, means = np.full((2, *Y.shape), np.nan)
    ahead, past, reference, plain = None, None, 0, table.preparation
    tests = bool(settings.lags and settings.horizon)
    for fold in table.folds:
        start = int(known[~fold][-1]) + 1
        # What may be learned: the outputs (0), or their differences from the outputs that many rows earlier.
        references = {1, season_of(fill_forward(rows.chunk.Y[:start]), settings.lags)} if tests else set()
        candidates = []
        for lag in [0, *sorted(references & {*settings.lags})]:
            Z, base = relative_to_lag(X, plain, lag)
            learned = ~fold & np.isfinite(base).all(axis=1)
            if lag and not _learnable(Z[learned], Y[learned], Y[~fold]):
                continue
            chosen, train, first = _choose_and_fit(settings, Z, Y - base, learned, table.groups)
            predict = RowPredictor(plain, train, first, RecentErrors.empty(Y.shape[1]), lag).outputs
            tested = _errors_ahead(predict, settings, rows.chunk, start) if tests else None
            candidates.append((0.0 if tested is None else _mean_error(tested), lag, chosen, predict, tested))
        _, reference, chosen, predict, ahead = min(candidates, key=lambda one: one[0])
        F[fold] = predict(X[fold])
        means[fold] = np.nanmean(Y[~fold], axis=0)
    if table.groups is None:
        times = None if rows.instants is None else rows.instants[known[fold]]
        recent = _table_errors(F[fold], Y[fold], settings.level, times)
        Z, base = relative_to_lag(X, plain, reference)
        seen = np.isfinite(base).all(axis=1)
        scaling, scaled = _standardised(Z[seen], (Y - base)[seen])
        estimator = _ridge(chosen, len(Z)).fit(scaled.X, scaled.Y)
        if ahead is not None:
            past = fill_forward(rows.chunk.Y)[-rows_seen(settings.lags) :]
    else:
        recent = GroupErrors.of(F, Y, table.groups, settings.level)
        # No fold contains all groups: choose again with all of them.
        _, scaling, estimator = _choose_and_fit(settings, X, Y, np.ones(len(X), dtype=bool), table.groups)
    scores = _scores(settings, Y, {"model": F, "mean": means})
    found = {"scaling": scaling, "estimator": estimator, "recent": recent, "scores": scores}
    return found | {"ahead": ahead, "past": past, "reference": reference}


def _fit_classes(table: WholeTable, settings: Settings) -> dict[str, Any]:
    """Scaling, estimator and scores on held-out rows, for classes."""
    task, labels = settings.task, table.preparation.classes()
    y, Y = task.targets(table.Y, labels), task.outputs(table.Y, labels)
    (held_out,) = table.folds
    scaling, first = _fit_classifier(settings, table.X[~held_out], y[~held_out])
    P = task.predict(first, scaling.scale_inputs(table.X[held_out]).X, labels)
    counts = Y[~held_out].sum(axis=0) + 1.0
    shares = np.tile(counts / counts.sum(), (len(P), 1))
    scores = _scores(settings, Y[held_out], {"model": P, "majority": shares})
    scaling, estimator = _fit_classifier(settings, table.X, y)
    return {"scaling": scaling, "estimator": estimator, "recent": RecentErrors.empty(1), "scores": scores}


def _standardised(X: Array, Y: Array) -> tuple[Standardised, Any]:
    """A robust scaling, and the rows scaled by it."""
    scaling = Standardised(running=False, robust=True)
    return scaling, scaling.scale_warm_up(X, Y)


def _table_errors(F: Array, Y: Array, level: float, instants: Array | None = None) -> RecentErrors:
    """Errors of held-out rows, whose intervals do not adapt along the rows."""
    recent = RecentErrors.empty(Y.shape[1], size=max(len(Y), 1), level=level, rate=0.0)
    recent.update(F, Y, instants)
    return recent


def _choose_and_fit(
    settings: Settings, X: Array, Y: Array, rows: Mask, groups: Indices | None
) -> tuple[OVKRidgeCV, Standardised, OVKRidge]:
    """Choose the settings, the scaling and a model from some of the rows."""
    scaling, scaled = _standardised(X[rows], Y[rows])
    chosen = chosen_ridge(settings, scaled.X, scaled.Y, None if groups is None else groups[rows])
    return chosen, scaling, _ridge(chosen, len(scaled.X)).fit(scaled.X, scaled.Y)


def _learnable(X: Array, Y: Array, labels: Array) -> bool:
    """Whether differences can be learned: inputs X (m, p) vary, and Y (m, d) has half of all labels (n, d) or more.

    The only lag has no difference from itself, so it leaves no inputs.
    """
    varies = np.fmin.reduce(X, axis=0, initial=np.inf) < np.fmax.reduce(X, axis=0, initial=-np.inf)
    return bool(varies.any() and (2 * np.isfinite(Y).sum(axis=0) >= np.isfinite(labels).sum(axis=0)).all())


def _mean_error(errors: Array) -> float:
    """Mean |e| of the model over steps and outputs, relative to that of the last value; errors (4, k, horizon, d)."""
    seen = np.isfinite(errors[1])
    means = np.array([np.where(seen, np.abs(one), 0.0).sum(axis=(0, 1)) for one in errors[:2]])
    return float(np.mean(means[0] / np.maximum(means[1], 1e-300)))


def _errors_ahead(predict: Callable[[Array], Array], settings: Settings, chunk: Chunk, start: int) -> Array:
    """(4, k, horizon, d) errors of forecasts from row `start` on, by a model learned from the rows before it."""
    past = fill_forward(chunk.Y[:start])[-rows_seen(settings.lags) :]
    missing = np.full((max(max(settings.lags) - len(past), 0), past.shape[1]), np.nan)
    X, Y, horizon = chunk.X[start:], chunk.Y[start:], int(settings.horizon)
    return horizon_errors(predict, settings.lags, np.vstack([missing, past]), X, Y, horizon, MAX_FORECASTS_KEPT)


def chosen_ridge(
    settings: Settings, X: Array, Y: Array, groups: Indices | None = None, *, metric: bool = True
) -> OVKRidgeCV:
    """Kernel, alpha and coupling by leave-one-out, or by holding out groups (n,), on at most `MAX_EXACT_ROWS` rows.

    A learned `metric` depends on the outputs of these rows: their leave-one-out errors are then too small, and only
    other rows give an unbiased estimate.
    """
    kernel = None if settings.kernel == "auto" else KERNELS[settings.kernel]()
    omegas = COUPLINGS if settings.coupling is None else (float(settings.coupling),)
    some = np.arange(0, len(X), -(-len(X) // MAX_EXACT_ROWS))
    if not np.isfinite(Y[some]).any(axis=0).all():
        some = np.flatnonzero(np.isfinite(Y).all(axis=1))[:MAX_EXACT_ROWS]
    if kernel is None and settings.coupling is None:
        metric = metric and X.shape[1] <= MAX_METRIC_INPUTS
        ridge = OVKRidgeCV(standardize=False, metric=metric, time_order=settings.time_ordered, loss="squared")
        return ridge.fit(X[some], Y[some], groups=None if groups is None else groups[some])
    return OVKRidgeCV(kernel, omegas=omegas if Y.shape[1] > 1 else None).fit(X[some], Y[some])


def _ridge(chosen: OVKRidgeCV, n: int) -> OVKRidge:
    landmarks = None if n <= MAX_EXACT_ROWS else LANDMARKS
    return OVKRidge(chosen.kernel_, chosen.alpha_, landmarks=landmarks, random_state=0)


def _scores(settings: Settings, Y: Array, predictions: Mapping[str, Array]) -> list[Any]:
    found = []
    for name, F in predictions.items():
        scores = settings.task.scores(name, Y.shape[1])
        scores.add(F, Y, np.isfinite(Y) & np.isfinite(F))
        found.append(scores)
    return found


def _fit_classifier(settings: Settings, X: Array, y: Any) -> tuple[Standardised, Any]:
    scaling, scaled = _standardised(X, np.empty((len(X), 0)))
    X = scaled.X
    omegas = None if settings.coupling is None else (float(settings.coupling),)
    some = np.arange(0, len(X), -(-len(X) // MAX_EXACT_ROWS))
    kernel = None if settings.kernel == "auto" else KERNELS[settings.kernel]()
    chosen = OVKClassifierCV(kernel, omegas=omegas).fit(X[some], y[some])
    if len(some) == len(X):
        return scaling, chosen
    ridge: Any = chosen.model_
    return scaling, OVKClassifier(ridge.kernel_, ridge.alpha_, landmarks=LANDMARKS, random_state=0).fit(X, y)


# Groups of rows, such as patients: errors and intervals for unseen groups.

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
        found = cls(**vars(_table_errors(F, Y, level)), groups=groups)
        levels = found.levels.tolist()
        found.tested, found.inside = np.zeros((2, len(levels), Y.shape[1]))
        errors = found.Y - found.F
        known = np.isfinite(errors)
        distinct, number = np.unique(groups, return_inverse=True)
        sizes = np.array([np.bincount(number, column, len(distinct)) for column in known.T]).T
        fold = np.arange(len(distinct)) % MAX_TEST_FOLDS
        for one in np.unique(fold):
            own = fold[number] == one
            for k, level in enumerate(levels):
                widths = conformal_widths(errors[~own], level, groups[~own])
                finite = np.isfinite(widths)
                found.tested[k] += finite * (sizes[fold == one] > 0).sum(axis=0)
                shares = known[own] * (np.abs(errors[own]) <= widths) / np.maximum(sizes[number[own]], 1)
                found.inside[k] += finite * shares.sum(axis=0)
                if level == found.level:
                    found.half[own] = widths
        return found

    def widths(self, level: float) -> Array:
        """(d,) half widths of intervals of that level for rows of unseen groups; infinite with too few groups."""
        return conformal_widths(self.Y - self.F, level, self.groups)


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


# Files that do not fit in memory: landmarks, on the workers of a cluster or in processes.

#: Minimum number of rows in the sample, and rows in the sample per landmark.
MIN_SAMPLE_ROWS, ROWS_PER_LANDMARK = 5000, 10

#: Candidates for alpha, as multiples of the alpha selected on the sample; all rows are used to select among them.
ALPHA_FACTORS = (0.01, 0.1, 1.0, 10.0)


@dataclass
class RangePartition(Partition):
    """Rows of a range of a file. `chunks` needs preparation and scaling, which a sample of all ranges determines."""

    range: FileRange
    preparation: Preparation | None = None
    scaling: Standardised | None = None

    @property
    def label(self) -> str:  # type: ignore[override]
        return self.range.label

    def chunks(self) -> Iterator[tuple[Any, ...]]:
        assert self.preparation is not None
        assert self.scaling is not None
        preparation = self.preparation.fork()
        self.n_bad = 0
        with self.range.open() as records:
            preparation.bind(records.names, self.label)
            for batch in records.batches(CHUNK_ROWS):
                rows = preparation.prepare(batch)
                self.n_bad += len(rows.bad)
                known = np.isfinite(rows.chunk.Y).any(axis=1)
                if known.any():
                    scaled = self.scaling.scale(rows.chunk.X[known], rows.chunk.Y[known])
                    yield scaled.X, scaled.Y


def sample_rows(partition: RangePartition, rows: int, seed: int) -> list[tuple[tuple[str, ...], list[Batch]]]:
    """Names of the columns, and some rows from random positions in a range."""
    samples = partition.range.sample(np.random.default_rng(seed))
    found: list[Batch] = []
    for sample in samples:
        with sample.open() as records:
            names = records.names
            found += islice(records.batches(-(-rows // len(samples))), 1)
    return [(names, found)]


def fit_files(ranges: list[FileRange], settings: Settings, landmarks: int = 1000, client: Any = None) -> TableModel:
    """Fit ridge regression on landmarks to ranges of files, with all settings selected automatically.

    A sample of all ranges determines column types, scales, landmarks, length scales and the coupling; the
    leave-one-out errors of all rows select alpha. Errors and intervals come from the leave-one-out errors of the
    sample. Ranges have no common order, so lags are not supported. `client` is as in `ovk.app.parallel.fit`.
    """
    settings.check_no_groups("omit --landmarks, --scheduler and --workers, or omit groups")
    if settings.lags:
        raise ValueError("lags are not supported for files that are learned in ranges: omit lags, or use ovk stream")
    m = check_int(landmarks, "landmarks")
    engine = as_engine(client)
    with one_blas_thread(tiles=1):
        each = -(-max(MIN_SAMPLE_ROWS, ROWS_PER_LANDMARK * m) // len(ranges))
        sampling = Pass(partial(sample_rows, rows=max(each, 2), seed=0), operator.add, "sampling")
        found = sampling.run(engine, [RangePartition(one) for one in ranges])
        names, label = found[0][0], ranges[0].label
        for (other, _), one in zip(found, ranges, strict=True):
            if other != names:
                raise PartitionError(
                    f"all files must have the same columns, but {label} has {list(names)} and {one.label} has "
                    f"{list(other)}"
                )
        whole = concatenate([batch for _, some in found for batch in some], len(names))
        preparation = settings.preparation(names, label, MAX_TABLE_LEVELS)
        rows = preparation.fit(whole).prepare(whole)
        known = np.isfinite(rows.chunk.Y).any(axis=1)
        X, Y = rows.chunk.X[known], rows.chunk.Y[known]
        if len(X) < MIN_ROWS or not np.isfinite(Y).any(axis=0).all():
            raise ValueError(
                f"the sample of {label} has {len(X)} rows with known targets; at least {MIN_ROWS} are required, and "
                "each target must be known in some of them"
            )
        scaling, scaled = _standardised(X, Y)
        # The leave-one-out errors of these rows are reported below, so no metric may depend on their outputs.
        chosen = chosen_ridge(settings, scaled.X, scaled.Y, metric=False)
        ridge = OVKRidge(chosen.kernel_, chosen.alpha_, fit_intercept=True, landmarks=m, random_state=0)
        learner = RidgeLearner(ridge, 0, np.multiply.outer(ALPHA_FACTORS, chosen.alpha_))
        prepared = [RangePartition(one, preparation, scaling) for one in ranges]
        estimator = PartitionedFit(learner, prepared, 0, sample=[(scaled.X, scaled.Y)]).run(engine)
    total = learner.n_rows
    bad_rows = rows.bad[:MAX_BAD_ROWS_KEPT]
    if learner.n_bad:
        last = bad_rows[-1] if bad_rows else (0, "in rows that were not sampled")
        check_bad_rows(learner.n_bad, total, last, label, settings.max_bad)
    sums = estimator.landmarks_
    R = scaled.Y - np.asarray(estimator.predict(scaled.X)).reshape(scaled.Y.shape)
    left_out = sums.left_out(scaled.X, R, None, estimator.alpha_, intercept=estimator.intercept_ is not None)
    F = scaled.restore(scaled.Y - left_out)
    recent = _table_errors(F, Y, settings.level)
    scores = _scores(settings, Y, {"model": F, "mean": np.broadcast_to(np.nanmean(Y, axis=0), Y.shape)})
    tested = f"{len(Y):,} sampled rows, one at a time"
    return TableModel(
        settings, preparation, scaling, estimator, recent, total, learner.n_bad, bad_rows, scores, tested=tested
    )


def fit_file(
    path: Any, targets: str | Sequence[str], *, classify: bool = False, form: str | None = None, **settings: Any
) -> TableModel:
    """Fit a model to a table from a file or a data frame, as `ovk fit` does.

    Column types (numbers, words, dates, percentages) are detected; kernel, penalties and coupling are selected
    automatically. The model stores the column types: its method `predict_file` predicts other files with the same
    columns. `ovk.report` writes a report about it and `ovk.save` saves it.

    Parameters
    ----------
    path : str, Path or data frame
        CSV, JSON lines or Parquet file, or data frame of pandas or polars. The model then has
        ``model.predict(frame)``.
    targets : str or list of str
        Output columns; empty cells are missing outputs.
    classify : bool, default False
        Whether the target contains classes.
    form : {"csv", "jsonl", "parquet"} or None, default None
        File format; None detects it from the file name or the first character.
    **settings : dict
        Other parameters of `Settings`, such as ``features=["a", "b"]``, ``ignore=["visit"]``, ``lags=[1, 2]`` or
        ``groups="patient"``, which holds out entire patients: errors and intervals then apply to unseen patients.

    Returns
    -------
    TableModel
        The fitted model.

    Warns
    -----
    UserWarning
        If cells could not be read, or a column may have been given the wrong type.

    See Also
    --------
    TableModel, Settings, ovk.report

    Examples
    --------
    >>> import os, tempfile
    >>> import ovk
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = os.path.join(directory, "soil.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("rock,wet,zinc\\n" + "".join(f"{'AB'[i % 2]},{i % 7}%,{i % 7}\\n" for i in range(100)))
    ...     model = ovk.fit_file(path, "zinc")
    ...     found = model.predict_file(path)
    >>> list(found)
    ['row', 'zinc', 'zinc lower', 'zinc upper', 'zinc outcome']
    >>> bool(abs(found["zinc"] - found["zinc outcome"]).max() < 0.1)
    True
    """
    names = sorted({*(one.name for one in declared(Settings, "fit")), "level"} - {"targets", "classify"})
    for name in settings:
        if name not in names:
            raise TypeError(f"fit_file has no setting {name!r}; it has {', '.join(names)}")
    for name in ("features", "time", "ignore"):
        if isinstance(settings.get(name), str):
            settings[name] = [settings[name]]
    chosen = Settings([targets] if isinstance(targets, str) else list(targets), classify=classify, **settings)
    with opened(path, form) as records:
        fitted = fit_table(records, chosen)
    bad = [bad_rows_note(fitted.n_bad, fitted.bad_rows)] if fitted.n_bad else []
    for warning in (*bad, *fitted.summary().warnings):
        warnings.warn(f"{records.label}: {warning}", UserWarning, stacklevel=2)
    return fitted
