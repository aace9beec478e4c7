"""Progressive evaluation: test, then train."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from ovk.base import ProgressBar, check_int
from ovk.evaluation.conformal import as_intervals
from ovk.evaluation.evaluator import Evaluator
from ovk.evaluation.late import waiting_rows
from ovk.evaluation.learners import has_learned
from ovk.evaluation.result import ProgressiveResult
from ovk.evaluation.running import as_scaling
from ovk.evaluation.sources import Chunk, chunks
from ovk.evaluation.task import CLASSIFICATION, encoded, task_of

#: Rows that are not tested when there is scaling and nobody said how many.
UNTESTED = 100


def progressive(
    model: Any,
    X: Any,
    Y: Any = None,
    *,
    targets: Any = None,
    features: Any = None,
    scale: str | None = None,
    untested: int | None = None,
    baselines: Sequence[Any] | None = None,
    intervals: Any = None,
    delay: Any = 0,
    time: Any = None,
    sample_weight: Any = None,
    classes: Any = None,
    chunk_size: int = 1024,
    keep: str = "predictions",
    progress: bool = True,
) -> ProgressiveResult:
    """Predict every row of a stream before learning from it, and measure how well.

    The model is learned in place, going on from what it knew before. An online learner of ovk does this in exact
    blocks: the size of the chunks makes no difference but to speed. Any other estimator with `partial_fit` and
    `predict` is given one row at a time.

    Parameters
    ----------
    model : online learner of ovk, or estimator with `partial_fit` and `predict`; a classifier is scored by accuracy,
        kappa, log loss and area under the curve
    X, Y, targets, features, chunk_size : the rows, in any form that `ovk.evaluation.chunks` takes: arrays, data frames,
        an iterable of chunks; `ovk.progressive` also takes the path of a CSV, Parquet or JSON lines file larger than
        memory. The labels of a classifier are given as Y (n,), None or nan where missing: such rows are predicted and
        not learned
    scale : None, "warm-up" or "running"
        Standardise inputs and outputs before the model sees them, by the mean and the standard deviation of the
        untested rows, or of all rows before each one. Nothing looks ahead; predictions and errors are in the original
        units.
    untested : int; default 100 with `scale`, else 1, or 0 for a model that has learned before
        The first rows, which the model learns in one go and on which neither it nor a baseline is tested; they are
        scaled by their own moments. An online learner of ovk chooses units of its own in a warm-up and needs none; but
        nothing can predict the very first row, and the error of a guess of 0 says nothing about a learner.
    baselines : names or baselines of `ovk.evaluation`
        "last" (value), (running) "mean", "ridge" (batch ridge on the last 2000 rows, refitted after 8, 16, 32, ...
        rows), or for instance ``RefittedRidge(OVKRidge(kernel), max_rows=500)``; for classifiers "last" (label) and
        "majority". They see the rows unscaled. Default the first two.
    intervals : method of `ovk.evaluation` such as ``ACI(0.9)``, or a coverage such as 0.9 for that one
        Put a region around every prediction, from the errors of the rows before it, and count how often it holds the
        output; the method learns in place, in the units of the outputs. Untested rows have none. Outputs that cannot be
        below 0: ``ACI(0.9, bounds=(0, None))``.
    delay : int >= 0; with `time` a number or a `datetime.timedelta`
        How late labels are. With ``delay=k`` the labels of the k rows before a row are not yet known when it is
        predicted; a label that comes together with the third row after its own is ``delay=2``. A timedelta says how
        long after its row a label arrives, and a row at exactly that time already sees it. Baselines and intervals wait
        like the model, which then predicts one row at a time; `scale` does not. Rows that come before the first label
        are not tested.
    time : (n,) numbers or dates that do not decrease, optional
        When the rows were: `delay` is then in its units, and results and plots show the dates.
    sample_weight : (n,) >= 0, optional
        What the loss of each row is multiplied by where the model learns it. Errors count alike.
    classes : the labels there will be, for classifiers that want to know them at the start; default those of Y. A model
        is taken for a classifier where they are given
    keep : "predictions", "all" or "none"
        What to keep of each row: its predictions; its inputs and outputs and the predictions of the baselines as well
        (for `regret`, and for errors on a part of the rows, ``result.part(2000)``); or nothing, so that memory does not
        grow with the stream.
    progress : bool
        Show a progress bar, on a terminal and once it has taken more than a second.

    Returns
    -------
    `ProgressiveResult`; print its ``summary()``, or plot it with `ovk.plotting.ProgressiveErrorDisplay` and
    `ovk.plotting.IntervalDisplay`

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK
    >>> from ovk.evaluation import progressive
    >>> from ovk.kernels import Gaussian
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(50.0, 10.0, (1000, 2))
    >>> Y = 100 + np.column_stack([X[:, 0], 3 * np.sin(X[:, 1] / 10)])
    >>> result = progressive(OLOK(Gaussian(2.0), alpha=1e-4), X, Y, scale="running")
    >>> print(result.summary())
    900 rows predicted, then learned, in ... s (... a second)
    100 rows before them learned, not tested
    1,000 support points
    <BLANKLINE>
    mean squared error             OLOK  last value  running mean
    ------------------------  ---------  ----------  ------------
    y0                            5.252       208.1         105.2
    y1                           0.3911       3.739         1.903
    relative to running mean     0.1013       1.971             1
    <BLANKLINE>
    mean absolute error            OLOK  last value  running mean
    ------------------------  ---------  ----------  ------------
    y0                             1.35       11.47         8.239
    y1                           0.4388       1.396         1.087
    relative to running mean     0.2572       1.337             1

    Classes:

    >>> from ovk import AutoStreamClassifier
    >>> labels = np.where(X[:, 0] + X[:, 1] > 100, "up", "down")
    >>> result = progressive(AutoStreamClassifier(), X, labels)
    >>> bool(result.model.accuracy > 0.9), bool(result.baselines[0].accuracy < 0.6)
    (True, True)
    """
    if keep not in ("predictions", "all", "none"):
        raise ValueError(f"keep must be 'predictions', 'all' or 'none', got {keep!r}")
    scaling = as_scaling(scale)
    if untested is None:
        untested = int(not has_learned(model)) if scale is None else UNTESTED
    untested = check_int(untested, "untested", least=2 if scale == "warm-up" else 0)
    task = task_of(model) if classes is None else CLASSIFICATION
    chosen = [baselines] if isinstance(baselines, str) else task.default_baselines if baselines is None else baselines
    beside = [task.baseline(baseline) for baseline in chosen]
    waiting = waiting_rows(delay, time)
    task.learns_blocks(model)
    weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    method = None if intervals is None else as_intervals(intervals)
    labels: Any = ()
    if not task.numeric:
        if method is not None:
            raise ValueError("intervals must be None for a classifier: its predictions are probabilities")
        if Y is None:
            raise ValueError(f"{type(model).__name__} is a classifier: give its labels as Y")
        Y, labels = encoded(Y, classes)
    stream = chunks(X, Y, targets=targets, features=features, chunk_size=chunk_size)
    _check_lengths(stream.n_rows, time=_length(time), sample_weight=_length(weights))
    evaluator, done = None, 0
    with ProgressBar("learning", stream.n_rows) if progress else nullcontext() as bar:
        for chunk, tested in _after_untested(iter(stream), untested):
            if evaluator is None:
                evaluator = Evaluator.start(model, beside, scaling, chunk, keep, method, waiting, task)
            rows = slice(done, done + len(chunk.X))
            some = None if weights is None else weights[rows]
            evaluator.predict_then_learn(chunk, tested=tested, weights=some, classes=labels)
            done = rows.stop
            if bar is not None:
                bar.update(len(chunk.X))
    if evaluator is None:
        raise ValueError("the iterable of chunks is empty: there is nothing to learn from, and its columns are unknown")
    late = "" if isinstance(waiting, int) and waiting == 0 else f"{delay:,} rows" if time is None else f"{delay}"
    times = None if time is None else np.asarray(time)
    _check_lengths(evaluator.n_rows, time=_length(times))
    return replace(evaluator.result(), delay=late, times=times)


def _length(values: Any) -> int | None:
    return None if values is None else len(values)


def _check_lengths(rows: int | None, **columns: int | None) -> None:
    """Refuse columns that do not belong to the rows, where the number of these is known."""
    for name, length in columns.items():
        if rows is not None and length is not None and length != rows:
            raise ValueError(f"{name} must have an entry for each of the {rows} rows, got {length}")


def _after_untested(stream: Iterator[Chunk], untested: int) -> Iterator[tuple[Chunk, bool]]:
    """The first rows in one chunk that is not tested, then the others as they come."""
    head: list[Chunk] = []
    while sum(len(chunk.X) for chunk in head) < untested and (chunk := next(stream, None)) is not None:
        head.append(chunk)
    if head:
        X, Y = np.concatenate([chunk.X for chunk in head]), np.concatenate([chunk.Y for chunk in head])
        yield head[0]._replace(X=X[:untested], Y=Y[:untested]), False
        yield head[0]._replace(X=X[untested:], Y=Y[untested:]), True
    for chunk in stream:
        yield chunk, True
