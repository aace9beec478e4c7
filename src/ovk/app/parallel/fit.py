"""Fitting from parts: a sample, a pass of sums, a solve; a second pass where there is an alpha to choose."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import numpy as np

from ovk.app.parallel.engines import WORKER_TIMEOUT, Engine, Pass, WorkersLost, as_engine
from ovk.app.parallel.learners import PartwiseLearner, learner_for
from ovk.app.parallel.parts import CHUNK, Part, PartError, as_parts
from ovk.base import Array, check_int, one_blas_thread, positive


def fit(
    estimator: Any,
    parts: Any,
    client: Any = None,
    *,
    targets: Any = None,
    features: Any = None,
    alphas: Any = None,
    classes: Any = None,
    n_jobs: int | None = None,
    chunk_size: int = CHUNK,
    random_state: int = 0,
    worker_timeout: float = WORKER_TIMEOUT,
) -> Any:
    """Learn from parts of the data, each read where a worker is free.

    Landmarks, frequencies and length scales come from a sample of all parts, which is read first; then every part is
    read once and gives sums; these are merged in a fixed binary tree, and one system is solved. The same parts give the
    same bits, whoever reads them and in whichever order they are ready, also where workers die on the way.

    Sums come here as soon as a part is finished, so that a worker that dies takes nothing with it but the part it was
    working on. If the cluster has no worker for `worker_timeout` seconds, or if several workers die one after the other
    while they work on the same part, `WorkersLost` is raised. It says how many parts are finished, and its method
    ``resume(client)`` continues without reading these again.

    Parameters
    ----------
    estimator : `OVKRidge` with `landmarks`, `PKAWV` or `PKAWVClassifier` without forgetting
    parts : where the data are
        A path, a pattern such as ``data/*.parquet``, or a collection of paths, patterns, `ovk.app.tables.FileRange`,
        `Part`, functions and futures. A function or a future gives a tuple (X, Y), (X, Y, sample_weight) or (X, y,
        sample_weight or None, task), or an iterable of such tuples. Large files are split.
    client : distributed.Client, optional
        The cluster that does the work. Without one it is done here, by `n_jobs` processes (joblib).
    targets, features : names of the columns of files, as in `ovk.evaluation.chunks`
    alphas : numbers > 0 to choose from, for `OVKRidge`
        All are solved from the same sums; a second pass predicts every row as if it had not been learned, in closed
        form, and the alpha with the smallest mean squared error is taken.
    classes : all labels there are, for `PKAWVClassifier`
    n_jobs : processes without a client; None for this one alone, -1 for one for each processor
    chunk_size : rows taken in at a time
    random_state : int
        Draws the sample, and the landmarks if the estimator has no random state of its own.
    worker_timeout : seconds for which the cluster may have no worker
        Make it longer for a cluster whose workers take longer to start.

    Returns
    -------
    A fitted copy of the estimator. With several alphas it has `loo_errors_`, (alphas,) mean squared left-out errors.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OVKRidge
    >>> from ovk.app.parallel import fit
    >>> from ovk.kernels import Gaussian
    >>> def rows(seed):
    ...     X = np.random.default_rng(seed).uniform(0, 6, (200, 1))
    ...     return X, np.sin(X)
    >>> parts = [lambda seed=seed: rows(seed) for seed in range(4)]
    >>> model = fit(OVKRidge(Gaussian(1.0), landmarks=30), parts, alphas=[0.01, 100])
    >>> model.alpha_, bool(model.loo_errors_[0] < 0.001)
    (0.01, True)
    """
    timeout = positive(worker_timeout, "worker_timeout")
    listed = as_parts(parts, targets, features, chunk_size)
    seed = check_int(random_state, "random_state", least=0)
    learner = learner_for(estimator, seed, alphas=alphas, classes=classes)
    return _resumable(PartsFit(learner, listed, seed), client, n_jobs=n_jobs, worker_timeout=timeout)


def _resumable(
    work: PartsFit, client: Any = None, *, n_jobs: int | None = None, worker_timeout: float = WORKER_TIMEOUT
) -> Any:
    """Run a fit; the error of one that lost its workers can continue it."""
    try:
        with one_blas_thread(tiles=1):
            return work.run(as_engine(client, n_jobs, worker_timeout))
    except WorkersLost as error:
        error.resume = partial(_resumable, work)
        raise


class PartsFit:
    """A fit with everything checked. It keeps what is finished: run again after an error, it continues.

    Parameters
    ----------
    learner : `PartwiseLearner`
    parts : list of `Part`, or of futures of one
    seed : draws the sample
    sample : chunks, if they are there already
    """

    def __init__(
        self, learner: PartwiseLearner, parts: list[Any], seed: int, sample: list[tuple[Any, ...]] | None = None
    ) -> None:
        self.learner, self.parts, self._sample = learner, parts, sample
        each = -(-learner.sample_rows // len(parts)) if learner.sample_rows else 1
        self._sampling = Pass(partial(sample_part, rows=max(each, 2), seed=seed), operator.add, "sampling")
        self._learning = Pass(learn_part, learner.merge)
        self._leaving_out = Pass(left_out_part, operator.add, "testing")
        self._started = False

    def run(self, engine: Engine) -> Any:
        """The fitted model."""
        learner, parts = self.learner, self.parts
        if not self._started:
            if self._sample is None:
                self._sample = _joined(self._sampling.run(engine, parts))
            learner.start(self._sample)
            self._started = True
        shared = engine.share(learner)
        total = self._learning.run(engine, parts, shared)
        candidates = learner.alphas()
        if candidates is None or len(candidates) == 1:
            return learner.finish(total, None if candidates is None else candidates[0])
        errors = self._leaving_out.run(engine, parts, shared, engine.share(total))
        means = errors[0] / errors[1]
        model = learner.finish(total, candidates[int(means.argmin())])
        model.loo_errors_ = means
        return model


def _joined(found: list[list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    """The chunks of all parts, if they have the same columns."""
    _check_shapes(found)
    sample = [chunk for some in found for chunk in some]
    if not sample:
        raise ValueError("the parts hold no rows: there is nothing to learn from")
    return sample


def _check_shapes(sample: list[list[tuple[Any, ...]]]) -> None:
    """All parts must have the same columns; better to know before hours of reading."""
    first: tuple[int, str] | None = None
    for number, some in enumerate(sample):
        for X, *outputs in some:
            columns = f"inputs of shape (n, {X.shape[1]})" if np.ndim(X) == 2 else "inputs that are no table"
            if outputs and isinstance(outputs[0], np.ndarray):
                columns += f" and outputs of shape {('n', *outputs[0].shape[1:])}".replace("'", "")
            first = first or (number, columns)
            if columns != first[1]:
                raise PartError(f"part {number} has {columns}, but part {first[0]} has {first[1]}")


def sample_part(part: Part, rows: int, seed: int) -> list[list[tuple[Any, ...]]]:
    """A few rows of a part, in a list of one, to be joined with those of others."""
    return [part.sample(rows, seed)]


def learn_part(part: Part, learner: PartwiseLearner) -> Any:
    """What a part teaches."""
    return learner.learn(part)


def left_out_part(part: Part, learner: PartwiseLearner, total: Any) -> Array:
    """(2, alphas) sums of squared left-out errors of the rows of a part, and how many they are."""
    return learner.left_out(part, total)
