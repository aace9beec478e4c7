"""Fitting from partitions.

Landmarks and length scales come from a sample of all partitions. One pass computes sums over rows, which add up exactly
and are merged in a fixed binary tree; then one system is solved. Choosing alpha takes a second pass.
"""

from __future__ import annotations

import copy
import operator
from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone

from ovk.app.parallel.engines import WORKER_TIMEOUT, Engine, Pass, WorkersLostError, as_engine
from ovk.app.parallel.partitions import CHUNK_ROWS, Partition, PartitionError, as_partitions
from ovk.base import Array, Mask, check_alpha, check_alphas, check_inputs, check_int, one_blas_thread, positive
from ovk.batch import LandmarkRidge, OVKRidge, landmark_ridge
from ovk.features import Given, Nystrom, OutputSums, Uniform, as_rpcholesky
from ovk.kernels import Gaussian
from ovk.online import PKAWV, PKAWVClassifier
from ovk.ovkernels import Expansion, as_operator_kernel

#: Rows of the sample for each landmark.
ROWS_PER_LANDMARK = 10

#: Rows whose features are computed at a time. With 1000 landmarks they fit into the cache, which workers share.
BLOCK_ROWS = 512


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
    chunk_size: int = CHUNK_ROWS,
    random_state: int = 0,
    worker_timeout: float = WORKER_TIMEOUT,
) -> Any:
    """Fit an estimator to parts of the data that are read in parallel.

    Landmarks, frequencies and length scales come from a sample of all parts, which is read first. Then every part is
    read once and reduced to sums; these are merged in a fixed binary tree, and one system is solved. The result is
    bit-identical regardless of the workers, of their order of completion, and of workers that die.

    Sums are collected as soon as a part is finished, so a dying worker loses only its current part. If the cluster has
    no worker for `worker_timeout` seconds, if its scheduler does not answer, or if several workers die on the same
    part, `WorkersLostError` is raised. Its method ``resume(client)`` continues without reading finished parts again.

    Parameters
    ----------
    estimator : OVKRidge, PKAWV or PKAWVClassifier
        `OVKRidge` requires `landmarks`; the others must not forget.
    parts : path, or iterable of paths, FileRange, callables or futures
        A path may be a pattern such as ``data/*.parquet``; large files are split. A function or future gives a tuple
        (X, Y), (X, Y, sample_weight) or (X, y, sample_weight or None, task), or an iterable of such tuples.
    client : distributed.Client, optional
        The cluster to use; default `n_jobs` local processes (joblib).
    targets, features : str, int or sequence
        Columns of files, as in `ovk.evaluation.chunks`.
    alphas : array-like, optional
        Positive candidates for the alpha of `OVKRidge`. All are solved from the same sums; a second pass computes the
        leave-one-out error of every row in closed form, and the alpha with the smallest mean square is chosen.
    classes : array-like
        All labels, for `PKAWVClassifier`.
    n_jobs : int, optional
        Number of local processes; None for this process, -1 for one per processor.
    chunk_size : int
        Rows read at a time.
    random_state : int
        Seed of the sample, and of the landmarks if the estimator has no `random_state`.
    worker_timeout : float
        Seconds for which the cluster may have no worker; increase it if workers take longer to start.

    Returns
    -------
    estimator
        A fitted copy. With several alphas it has `loo_errors_`, (alphas,) mean squared leave-one-out errors.

    See Also
    --------
    ovk.OVKRidge, ovk.PKAWV, ovk.app.tables.split_files, WorkersLostError

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
    partitions = as_partitions(parts, targets, features, chunk_size)
    seed = check_int(random_state, "random_state", least=0)
    learner = learner_for(estimator, seed, alphas, classes)
    return _resumable(PartitionedFit(learner, partitions, seed), client, n_jobs=n_jobs, worker_timeout=timeout)


def _resumable(
    work: PartitionedFit, client: Any = None, *, n_jobs: int | None = None, worker_timeout: float = WORKER_TIMEOUT
) -> Any:
    """Run a fit; `WorkersLostError.resume` continues it."""
    try:
        with one_blas_thread(tiles=1):
            return work.run(as_engine(client, n_jobs, worker_timeout))
    except WorkersLostError as error:
        error.resume = partial(_resumable, work)
        raise


class PartitionedFit:
    """A fit with checked arguments. Run again after an error, it continues. Without a sample, `seed` draws one."""

    def __init__(
        self, learner: PartitionLearner, partitions: list[Any], seed: int, sample: list[tuple[Any, ...]] | None = None
    ) -> None:
        self.learner, self.partitions, self._sample = learner, partitions, sample
        each = -(-learner.sample_rows // len(partitions)) if learner.sample_rows else 1
        self._sampling = Pass(partial(checked_sample, max(each, 2), seed), operator.add, "sampling")
        self._learning = Pass(type(learner).learn, learner.merge)
        self._leave_one_out = Pass(RidgeLearner.leave_one_out, operator.add, "testing")
        self._started = False

    def run(self, engine: Engine) -> Any:
        learner, partitions = self.learner, self.partitions
        if not self._started:
            if self._sample is None:
                self._sample = _joined(self._sampling.run(engine, partitions, engine.share(learner)))
            learner.start(self._sample)
            self._started = True
        shared = engine.share(learner)
        total = self._learning.run(engine, partitions, shared)
        candidates = learner.alphas
        if candidates is None or len(candidates) == 1:
            return learner.finish(total, None if candidates is None else candidates[0])
        errors = self._leave_one_out.run(engine, partitions, shared, engine.share(total))
        means = errors[0] / errors[1]
        model = learner.finish(total, candidates[int(means.argmin())])
        model.loo_errors_ = means
        return model


def checked_sample(
    rows: int, seed: int, learner: PartitionLearner, partition: Partition
) -> list[list[tuple[Any, ...]]]:
    """The sample of a partition, in a list. Checked here, so that an error names the partition."""
    found = partition.sample(rows, seed)
    learner.check(found)
    return [found]


def _joined(found: list[list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    """The chunks of all partitions. Checks early, before hours of reading, that they have the same columns."""
    sample = [(number, chunk) for number, chunks in enumerate(found) for chunk in chunks]
    if not sample:
        raise ValueError("parts must contain at least one row")
    shapes = [_shape(chunk) for _, chunk in sample]
    for (number, _), shape in zip(sample, shapes, strict=True):
        if shape != shapes[0]:
            raise PartitionError(f"part {number} has {shape}, but part {sample[0][0]} has {shapes[0]}")
    return [chunk for _, chunk in sample]


def _shape(chunk: tuple[Any, ...]) -> str:
    X, *outputs = chunk
    found = f"inputs of shape (n, {np.shape(X)[1]})" if np.ndim(X) == 2 else "inputs that are not a table"
    if outputs and isinstance(outputs[0], np.ndarray):
        found += f" and outputs of shape {('n', *outputs[0].shape[1:])}".replace("'", "")
    return found


class PartitionLearner(ABC):
    """An estimator that learns from partitions. It is sent to the workers after `start`."""

    sample_rows: int  # rows wanted in the sample
    alphas: Array | None = None  # candidates, each a number or (d,); None for no choice

    @abstractmethod
    def check(self, sample: list[tuple[Any, ...]]) -> None:
        """Reject a sample of one partition that cannot be learned."""

    @abstractmethod
    def start(self, sample: list[tuple[Any, ...]]) -> None:
        """Choose everything that all partitions share, such as landmarks."""

    @abstractmethod
    def learn(self, partition: Partition) -> Any:
        """The totals of a partition."""

    @abstractmethod
    def merge(self, one: Any, two: Any) -> Any:
        """The totals of two partitions together; both stay unchanged."""

    @abstractmethod
    def finish(self, total: Any, alpha: Any) -> Any:
        """The fitted model; `alpha` is None if there was no choice."""


class RidgeTotals(NamedTuple):
    sums: OutputSums
    observed: Mask  # (d,)
    n_rows: int
    n_bad: int  # rows that could not be read


class RidgeLearner(PartitionLearner):
    """`OVKRidge` with landmarks. `finish` sets `n_rows` and `n_bad`, the rows learned and the unreadable rows."""

    n_rows: int
    n_bad: int

    def __init__(self, estimator: OVKRidge, seed: int, path: Array | None) -> None:
        if estimator.landmarks is None:
            raise ValueError("fitting OVKRidge to parts requires landmarks: pass landmarks=m")
        if estimator.alpha_graph:
            raise ValueError("alpha_graph requires all inputs at once: omit it to fit parts")
        self.model: OVKRidge = clone(estimator)
        self._seed = seed if estimator.random_state is None else estimator.random_state
        self.alphas = path
        selection = as_rpcholesky(estimator.landmarks)
        wanted = estimator.landmarks if selection is None else selection.size
        self.sample_rows = ROWS_PER_LANDMARK * int(wanted) if isinstance(wanted, (int, np.integer)) else 2

    def check(self, sample: list[tuple[Any, ...]]) -> None:
        for _ in copy.copy(self.model)._checked_chunks(sample):
            pass

    def start(self, sample: list[tuple[Any, ...]]) -> None:
        head = list(self.model._checked_chunks(sample))
        X = stacked([X for X, _ in head])
        self.shape = head[0][1].rows(slice(0, 0))
        points = self.model._landmarks(X, self.shape.d, self._seed)
        self.kernel = self.model._resolved(points, self.shape.d)
        self.alpha = check_alpha(self.model.alpha, self.shape.d)
        self.points = points

    @cached_property
    def _no_rows(self) -> LandmarkRidge:
        # Computed from the points on every worker, with identical bits, instead of sending its factor.
        return landmark_ridge(self.kernel, self.points, self.shape.d)

    def _ridge(self, sums: OutputSums | None = None) -> LandmarkRidge:
        return replace(self._no_rows, sums=copy.deepcopy(self._no_rows.sums if sums is None else sums))

    def _rows(self, partition: Partition) -> Any:
        for X, targets in copy.copy(self.model)._checked_chunks(partition.chunks()):
            if X.shape[1] != self.points.shape[1] or targets.d != self.shape.d:
                raise ValueError(
                    f"it must have {self.points.shape[1]} inputs and {self.shape.d} outputs, like the first part, got "
                    f"{X.shape[1]} and {targets.d}"
                )
            for start in range(0, X.shape[0], BLOCK_ROWS):
                rows = slice(start, start + BLOCK_ROWS)
                yield X[rows], targets.rows(rows)

    def learn(self, partition: Partition) -> RidgeTotals:
        ridge, rows = self._ridge(), 0
        observed = np.zeros(self.shape.d, dtype=bool)
        for X, targets in self._rows(partition):
            ridge.add(X, targets)
            observed |= targets.observed_outputs()
            rows += X.shape[0]
        return RidgeTotals(ridge.sums, observed, rows, partition.n_bad)

    def merge(self, one: RidgeTotals, two: RidgeTotals) -> RidgeTotals:
        # The sum of two masks is their union.
        return RidgeTotals(*map(operator.add, one, two))

    def finish(self, total: RidgeTotals, alpha: Any) -> OVKRidge:
        model: OVKRidge = copy.copy(self.model)
        self.n_rows, self.n_bad = total.n_rows, total.n_bad
        chosen = self.alpha if alpha is None else check_alpha(alpha, self.shape.d)
        model._finish_landmarks(self.kernel, chosen, self._ridge(total.sums), total.observed, self.shape)
        return model

    def leave_one_out(self, total: RidgeTotals, partition: Partition) -> Array:
        """(2, alphas) sums of squared leave-one-out errors and of their weights."""
        ridge, path = self._ridge(total.sums), self.alphas
        assert path is not None
        intercept = bool(self.model.fit_intercept)
        alphas = [check_alpha(alpha, self.shape.d) for alpha in path]
        solved = [ridge.solve(alpha, intercept=intercept)[:2] for alpha in alphas]
        found = np.zeros((2, len(path)))
        for X, targets in self._rows(partition):
            if targets.task is not None:
                raise ValueError("alphas cannot be chosen in long form: pass one alpha")
            w = np.ones(len(targets.Y)) if targets.weight is None else targets.weight
            for k, (alpha, (C, b)) in enumerate(zip(alphas, solved, strict=True)):
                R = targets.Y - Expansion(self.kernel, ridge.features.points, C, b)(X)
                E = ridge.left_out(X, R, targets.weight, alpha, intercept=intercept)
                found[0, k] += float(np.nansum(w[:, None] * E**2))
                found[1, k] += float((w[:, None] * ~np.isnan(E)).sum())
        return found


class StreamLearner(PartitionLearner):
    """`PKAWV` and `PKAWVClassifier`, with features fixed from the sample."""

    def __init__(self, estimator: Any, seed: int, classes: Any = None) -> None:
        if estimator.discount != 1 or estimator.window is not None:
            raise ValueError(
                "parts have no common order, so the learner must not forget old rows: omit discount and window"
            )
        self.model, self._classes = clone(estimator), classes
        if self.model.random_state is None:
            self.model.random_state = seed
        self._seed = seed
        size: Any = 10
        if isinstance(self.model.features, Nystrom | None):
            size = getattr(getattr(self.model.features, "selection", None), "size", None)
            size = 100 if size is None else check_int(size, "size")
        self.sample_rows = ROWS_PER_LANDMARK * size

    def check(self, sample: list[tuple[Any, ...]]) -> None:
        for X, *_ in sample:
            check_inputs(clone(self.model), X, dtype=np.float64)

    def start(self, sample: list[tuple[Any, ...]]) -> None:
        X = np.asarray(stacked([chunk[0] for chunk in sample]), dtype=np.float64)
        y = np.asarray(sample[0][1])
        d = 1 if y.ndim == 1 else y.shape[1]
        if self._classes is not None:
            d = self.model._code(len(np.unique(np.asarray(self._classes)))).shape[1]
        kernel = as_operator_kernel(Gaussian() if self.model.kernel is None else self.model.kernel)
        self.model.kernel = clone(kernel).resolve(X, d)
        plan = self.model.features
        if plan is None or isinstance(plan, Nystrom):
            chosen = Uniform(size=100) if plan is None or plan.selection is None else plan.selection
            if not isinstance(chosen, Given):
                # In random order, the first rows are a uniform sample of all parts.
                mixed = X[np.random.default_rng(self._seed).permutation(len(X))]
                budget = None if plan is None else plan.budget
                chosen = Given.chosen(self.model.kernel, mixed, chosen, budget=budget, random_state=0)
            self.model.features = Nystrom(chosen)

    def learn(self, partition: Partition) -> Any:
        learner = clone(self.model)
        names = {} if self._classes is None else {"classes": self._classes}
        for chunk in partition.chunks():
            if len(chunk) > 2 and any(one is not None for one in chunk[2:]):
                raise ValueError(f"{type(learner).__name__} supports neither weights nor tasks: use chunks (X, Y)")
            learner.partial_fit(*chunk[:2], **names)
        # None for a part without rows.
        return learner if hasattr(learner, "n_features_in_") else None

    def merge(self, one: Any, two: Any) -> Any:
        if one is None or two is None:
            return two if one is None else one
        return copy.deepcopy(one).merge(two)

    def finish(self, total: Any, alpha: Any) -> Any:
        return total


def stacked(blocks: list[Any]) -> Any:
    return sparse.vstack(blocks, format="csr") if sparse.issparse(blocks[0]) else np.concatenate(blocks)


def learner_for(estimator: Any, seed: int, alphas: Any, classes: Any) -> PartitionLearner:
    if isinstance(estimator, OVKRidge):
        return RidgeLearner(estimator, seed, None if alphas is None else check_alphas(alphas))
    name = type(estimator).__name__
    if not isinstance(estimator, (PKAWV, PKAWVClassifier)):
        raise TypeError(
            f"estimator must be OVKRidge with landmarks, PKAWV or PKAWVClassifier, whose sums add up, got {name}"
        )
    if alphas is not None:
        raise ValueError(f"{name} has no leave-one-out errors to choose an alpha: omit alphas")
    if not isinstance(estimator, PKAWVClassifier):
        return StreamLearner(estimator, seed)
    if classes is None:
        raise ValueError("classes must contain all labels, because a part may lack some")
    return StreamLearner(estimator, seed, classes)
