"""Files that do not fit in memory, learned as a whole: landmarks, over the workers of a cluster or over processes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from ovk.app.parallel import CHUNK, Part, PartError, PartsFit, RidgeLearner, as_engine
from ovk.app.sessions.batch import Fitted, FittedClasses, chosen_ridge, fit_classes, fit_table, mean_square
from ovk.app.sessions.remarks import REMEMBERED, bad_rows_note, doubts, hints
from ovk.app.sessions.session import FEWEST
from ovk.app.sessions.settings import Settings
from ovk.app.tables import WORDS_OF_TABLE, Batch, FileRange, Preparation, concatenate, open_records
from ovk.base import Array, check_int, one_blas_thread
from ovk.batch import OVKRidge
from ovk.evaluation import RecentErrors, Standardised

#: Rows of the sample at least, and for each landmark.
SAMPLE, ROWS_PER_LANDMARK = 5000, 10

#: What the alpha of a few rows is multiplied by, to choose from with all of them.
ALPHAS = (0.01, 0.1, 1.0, 10.0)


class PreparedPart(Part):
    """Rows of a range of a file, made inputs and outputs, and scaled."""

    def __init__(self, some: FileRange, preparation: Preparation, scaling: Standardised) -> None:
        self._range, self._preparation, self._scaling, self.label = some, preparation, scaling, some.label

    def chunks(self) -> Iterator[tuple[Any, ...]]:
        preparation = self._preparation.fork()
        self.n_bad = 0
        with self._range.open() as records:
            preparation.bind(records.names, self.label)
            for batch in records.batches(CHUNK):
                rows = preparation.prepare(batch)
                self.n_bad += len(rows.bad)
                known = np.isfinite(rows.chunk.Y).any(axis=1)
                if known.any():
                    scaled = self._scaling.scale(rows.chunk.X[known], rows.chunk.Y[known])
                    yield scaled.X, scaled.Y


class RawPart(Part):
    """Rows of a range of a file as they stand there."""

    def __init__(self, some: FileRange) -> None:
        self.range, self.label = some, some.label

    def chunks(self) -> Iterator[tuple[Any, ...]]:
        with self.range.open() as records:
            for batch in records.batches(CHUNK):
                yield records.names, batch


def sample_range(part: RawPart, rows: int, seed: int) -> tuple[tuple[str, ...], list[Batch]]:
    """Names of the columns, and some rows from random places of a range."""
    places = part.range.sample(np.random.default_rng(seed))
    found: list[Batch] = []
    names: tuple[str, ...] = ()
    for place in places:
        with place.open() as records:
            names = records.names
            found += [batch for batch in [next(records.batches(-(-rows // len(places))), None)] if batch is not None]
    return names, found


def fit_files(
    ranges: list[FileRange],
    settings: Settings,
    landmarks: int = 1000,
    client: Any = None,
    *,
    n_jobs: int | None = None,
    seed: int = 0,
) -> Fitted:
    """Learn files as a whole, in parts: ridge regression on landmarks, with everything chosen by the data.

    How columns are read, their scales, the landmarks, the kernel's width and the coupling come from a sample of all
    ranges; alpha is chosen by the left-out errors of all rows. The errors shown, and those that make intervals, are of
    the rows of the sample, each predicted as if it had not been learned.

    Parameters
    ----------
    ranges : `ovk.app.tables.split_files` of the files, which must have the same columns
    settings : `Settings`, without lags: parts have no common order
    landmarks : how many
    client, n_jobs : as in `ovk.app.parallel.fit`
    seed : draws the sample

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.app.sessions import Settings, fit_files
    >>> from ovk.app.tables import split_files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "t.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("x,y\\n" + "".join(f"{i % 7},{i % 7}\\n" for i in range(500)))
    ...     fitted = fit_files(split_files(path, size=1000), Settings(["y"]), landmarks=7)
    >>> fitted.n_rows, bool(fitted.errors[0][0] < 0.01 * fitted.errors[1][0])
    (500, True)
    """
    settings.refuse_groups("leave --landmarks, --scheduler and --workers out, or groups")
    if settings.lags:
        raise ValueError(
            "files that are learned in parts have no rows before others: leave lags out, or use ovk stream"
        )
    m = check_int(landmarks, "landmarks")
    engine = as_engine(client, n_jobs)
    with one_blas_thread(tiles=1):
        each = -(-max(SAMPLE, ROWS_PER_LANDMARK * m) // len(ranges))
        work = partial(sample_range, rows=max(each, 2), seed=seed)
        found = list(engine.map(work, [RawPart(one) for one in ranges], label="sampling"))
        names, label = found[0][0], ranges[0].label
        for (other, _), one in zip(found, ranges, strict=True):
            if other != names:
                raise PartError(f"{one.label} has other columns than {label}: {list(other)} instead of {list(names)}")
        whole = concatenate([batch for _, some in found for batch in some], len(names))
        settings.check()
        what = settings.targets, settings.features, settings.time
        preparation = Preparation(*what, max_levels=WORDS_OF_TABLE, ignore=settings.ignore)
        rows = preparation.bind(names, label).fit(whole).prepare(whole)
        known = np.isfinite(rows.chunk.Y).any(axis=1)
        X, Y = rows.chunk.X[known], rows.chunk.Y[known]
        if len(X) < FEWEST or not np.isfinite(Y).any(axis=0).all():
            raise ValueError(f"{label} has too few rows with known targets ({len(X)} in the sample)")
        scaling = Standardised(running=False, robust=True)
        scaled = scaling.scale_warm_up(X, Y)
        # Left-out errors of these rows are told below, so that no metric may have seen their outputs.
        chosen = chosen_ridge(settings, scaled.X, scaled.Y, metric=False)
        ridge = OVKRidge(chosen.kernel_, chosen.alpha_, fit_intercept=True, landmarks=m, random_state=seed)
        learner = RidgeLearner(ridge, seed, np.multiply.outer(ALPHAS, chosen.alpha_))
        parts = [PreparedPart(one, preparation, scaling) for one in ranges]
        estimator = PartsFit(learner, parts, seed, sample=[(scaled.X, scaled.Y)]).run(engine)
    total = learner.n_rows
    faults = rows.bad[:REMEMBERED]
    if learner.n_bad:
        last = faults[-1] if faults else (0, "in a part that was not sampled")
        settings.check_bad_rows(learner.n_bad, total, last, label)
    F = scaled.restore(scaled.Y - _left_out(estimator, scaled.X, scaled.Y))
    recent = RecentErrors.empty(Y.shape[1], size=len(Y), level=settings.level, rate=0.0)
    recent.update(F, Y)
    errors = mean_square(F - Y), mean_square(np.nanmean(Y, axis=0) - Y)
    tested = f"{len(Y):,} sampled rows, each predicted as if it had not been learned"
    return Fitted(
        settings, preparation, scaling, estimator, recent, total, learner.n_bad, faults, errors, tested=tested
    )


def _left_out(model: OVKRidge, X: Array, Y: Array) -> Array:
    """Residuals of rows, each predicted as if it had not been learned."""
    sums = model.landmarks_
    assert sums is not None
    R = Y - np.asarray(model.predict(X)).reshape(Y.shape)
    return sums.left_out(X, R, None, model.alpha_, intercept=model.intercept_ is not None)


# One call that learns a file.

#: Settings that are about streams alone.
OF_STREAMS = ("model", "warm_up", "block", "every")


@overload
def fit_file(
    path: str | Path,
    targets: str | Sequence[str],
    *,
    classify: Literal[False] = False,
    form: str | None = None,
    **settings: Any,
) -> Fitted: ...
@overload
def fit_file(
    path: str | Path, targets: str | Sequence[str], *, classify: Literal[True], form: str | None = None, **settings: Any
) -> FittedClasses: ...
def fit_file(
    path: str | Path,
    targets: str | Sequence[str],
    *,
    classify: bool = False,
    form: str | None = None,
    **settings: Any,
) -> Fitted | FittedClasses:
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
    `Fitted`, for classes `FittedClasses`

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
    chosen = Settings(_listed(targets), classify=classify, **_known(settings))
    with open_records(path, form) as records:
        fitted = fit_classes(records, chosen) if classify else fit_table(records, chosen)
    if fitted.n_bad:
        warnings.warn(f"{records.label}: {bad_rows_note(fitted.n_bad, fitted.faults)}", UserWarning, stacklevel=2)
    columns = fitted.columns() if isinstance(fitted, Fitted) else ()
    for remark in (*doubts(fitted.preparation, columns), *hints(fitted.preparation, table=True)):
        warnings.warn(f"{records.label}: {remark}", UserWarning, stacklevel=2)
    return fitted


def _listed(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _known(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings that there are, one name as a list of one."""
    names = [name for name in Settings._get_param_names() if name not in ("targets", "classify", *OF_STREAMS)]
    for name in settings:
        if name not in (*names, *OF_STREAMS):
            raise TypeError(f"fit_file has no setting {name!r}: there are {', '.join(names)}")
    lists = {name: _listed(settings[name]) for name in ("features", "time", "ignore") if settings.get(name) is not None}
    return {**settings, **lists}
