"""How each estimator is learned from parts: what it needs of a sample, what a part gives, and how it ends."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cached_property, singledispatch
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone

from ovk.app.parallel.parts import Part
from ovk.base import Array, Mask, check_alpha, check_alphas, check_int
from ovk.batch import LandmarkRidge, OVKRidge, landmark_ridge
from ovk.features import Given, Nystrom, OutputSums, Uniform, as_rpcholesky
from ovk.kernels import Gaussian
from ovk.online import PKAWV, PKAWVClassifier
from ovk.ovkernels import Expansion, as_operator_kernel

#: Rows of the sample for each landmark.
ROWS_PER_LANDMARK = 10

#: Rows whose features are made at a time: with a thousand landmarks they stay in the caches, of which the workers of a
#: machine share one.
BLOCK = 512


class PartwiseLearner(ABC):
    """An estimator that learns from parts. It travels to the workers once it has seen the sample.

    Attributes
    ----------
    sample_rows : how many rows it wants to see first
    """

    sample_rows: int

    @abstractmethod
    def start(self, sample: list[tuple[Any, ...]]) -> None:
        """Choose everything that must be the same for all parts, from some rows of all of them."""

    @abstractmethod
    def learn(self, part: Part) -> Any:
        """What a part teaches."""

    @abstractmethod
    def merge(self, one: Any, two: Any) -> Any:
        """What two parts teach; both stay as they are."""

    @abstractmethod
    def finish(self, total: Any, alpha: Any) -> Any:
        """The model of all parts, with that alpha instead of its own if there was a choice."""

    def alphas(self) -> Array | None:
        """Alphas to choose from, each a number or one for each output; None where there is no choice."""
        return None

    def left_out(self, part: Part, total: Any) -> Array:
        """(2, alphas) sums of squared left-out errors of the part's rows, and how many they are."""
        raise TypeError(f"{type(self).__name__} has no left-out errors")


class RidgeParts(NamedTuple):
    """What parts teach a ridge: sums, (d,) which outputs were observed, rows, and rows that could not be read."""

    sums: OutputSums
    observed: Mask
    n_rows: int
    n_bad: int

    def __add__(self, other: Any) -> RidgeParts:
        return RidgeParts(
            self.sums + other.sums,
            self.observed | other.observed,
            self.n_rows + other.n_rows,
            self.n_bad + other.n_bad,
        )


class RidgeLearner(PartwiseLearner):
    """`OVKRidge` on landmarks.

    Attributes
    ----------
    n_rows, n_bad : rows learned, and rows that could not be read, known at the end
    """

    n_rows: int
    n_bad: int

    def __init__(self, estimator: OVKRidge, seed: int, path: Array | None) -> None:
        if estimator.landmarks is None:
            raise ValueError("OVKRidge learns from parts only with landmarks: give landmarks=m")
        if estimator.alpha_graph:
            raise ValueError("alpha_graph needs all inputs at once: leave it out to learn from parts")
        self.model: OVKRidge = clone(estimator)
        self._seed = seed if estimator.random_state is None else estimator.random_state
        self._path = path
        selection = as_rpcholesky(estimator.landmarks)
        wanted = estimator.landmarks if selection is None else selection.size
        self.sample_rows = ROWS_PER_LANDMARK * int(wanted) if isinstance(wanted, (int, np.integer)) else 2

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
        # Made from the points, once on every worker, with the same bits: its triangle need not travel.
        return landmark_ridge(self.kernel, self.points, self.shape.d)

    def _empty(self) -> LandmarkRidge:
        return replace(self._no_rows, sums=OutputSums.zeros(*self._no_rows.sums.common.B.shape))

    def _rows(self, part: Part) -> Any:
        """Checked chunks; the number of inputs is that of the sample."""
        for X, targets in copy.copy(self.model)._checked_chunks(part.chunks()):
            if X.shape[1] != self.points.shape[1] or targets.d != self.shape.d:
                raise ValueError(
                    f"it has {X.shape[1]} inputs and {targets.d} outputs, but the first part had "
                    f"{self.points.shape[1]} and {self.shape.d}"
                )
            for start in range(0, X.shape[0], BLOCK):
                rows = slice(start, start + BLOCK)
                yield X[rows], targets.rows(rows)

    def learn(self, part: Part) -> RidgeParts:
        sums, rows = self._empty(), 0
        observed = np.zeros(self.shape.d, dtype=bool)
        for X, targets in self._rows(part):
            if targets.task is None:
                sums.add(X, targets.Y, targets.weight)
            else:
                sums.add_pairs(X, targets.task, targets.Y[:, 0], targets.weight)
            observed |= targets.observed_outputs()
            rows += X.shape[0]
        return RidgeParts(sums.sums, observed, rows, part.n_bad)

    def merge(self, one: RidgeParts, two: RidgeParts) -> RidgeParts:
        return one + two

    def _with(self, total: RidgeParts) -> LandmarkRidge:
        ridge = self._empty()
        ridge.sums = copy.deepcopy(total.sums)
        return ridge

    def finish(self, total: RidgeParts, alpha: Any) -> OVKRidge:
        model: OVKRidge = copy.copy(self.model)
        self.n_rows, self.n_bad = total.n_rows, total.n_bad
        model._finish_landmarks(
            self.kernel,
            self.alpha if alpha is None else check_alpha(alpha, self.shape.d),
            self._with(total),
            total.observed,
            self.shape,
        )
        return model

    def alphas(self) -> Array | None:
        return self._path

    def left_out(self, part: Part, total: RidgeParts) -> Array:
        ridge, path = self._with(total), self._path
        assert path is not None
        intercept = bool(self.model.fit_intercept)
        alphas = [check_alpha(alpha, self.shape.d) for alpha in path]
        solved = [ridge.solve(alpha, intercept=intercept)[:2] for alpha in alphas]
        found = np.zeros((2, len(path)))
        for X, targets in self._rows(part):
            if targets.task is not None:
                raise ValueError("alphas cannot be chosen in long form: give one alpha")
            w = np.ones(len(targets.Y)) if targets.weight is None else targets.weight
            for k, (alpha, (C, b)) in enumerate(zip(alphas, solved, strict=True)):
                R = targets.Y - Expansion(self.kernel, ridge.features.points, C, b)(X)
                E = ridge.left_out(X, R, targets.weight, alpha, intercept=intercept)
                found[0, k] += float(np.nansum(w[:, None] * E**2))
                found[1, k] += float((w[:, None] * ~np.isnan(E)).sum())
        return found


class StreamLearner(PartwiseLearner):
    """`PKAWV` and `PKAWVClassifier` on features that are fixed before the first part."""

    def __init__(self, estimator: Any, seed: int, classes: Any = None) -> None:
        if estimator.discount != 1 or estimator.window is not None:
            raise ValueError(
                "a learner that forgets cannot learn from parts: which rows of one came before those of another? "
                "leave discount and window out"
            )
        self.model, self._classes = clone(estimator), classes
        if self.model.random_state is None:
            self.model.random_state = seed
        self._seed = seed
        self.sample_rows = ROWS_PER_LANDMARK * self._points()

    def _points(self) -> int:
        plan = self.model.features
        if isinstance(plan, Nystrom) or plan is None:
            size = getattr(getattr(plan, "selection", None), "size", None)
            return check_int(size, "size") if size is not None else 100
        return 10

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
                # In a random order the first rows that join are a uniform sample of all parts.
                mixed = X[np.random.default_rng(self._seed).permutation(len(X))]
                chosen = Given.chosen(
                    self.model.kernel, mixed, chosen, budget=None if plan is None else plan.budget, random_state=0
                )
            self.model.features = Nystrom(chosen)

    def learn(self, part: Part) -> Any:
        learner = clone(self.model)
        names = {} if self._classes is None else {"classes": self._classes}
        for chunk in part.chunks():
            if len(chunk) > 2 and any(one is not None for one in chunk[2:]):
                raise ValueError(f"{type(learner).__name__} takes neither weights nor tasks: give chunks (X, Y)")
            learner.partial_fit(*chunk[:2], **names)
        return learner

    def merge(self, one: Any, two: Any) -> Any:
        return copy.deepcopy(one).merge(two)

    def finish(self, total: Any, alpha: Any) -> Any:
        return total


def stacked(blocks: list[Any]) -> Any:
    """Blocks of rows, one below the other."""
    return sparse.vstack(blocks, format="csr") if sparse.issparse(blocks[0]) else np.concatenate(blocks)


@singledispatch
def learner_for(estimator: Any, seed: int, *, alphas: Any = None, classes: Any = None) -> PartwiseLearner:
    """How an estimator is learned from parts."""
    raise TypeError(
        "OVKRidge with landmarks, PKAWV and PKAWVClassifier can be learned from parts, for their sums add up, got "
        f"{type(estimator).__name__}"
    )


@learner_for.register
def _(estimator: OVKRidge, seed: int, *, alphas: Any = None, classes: Any = None) -> PartwiseLearner:
    return RidgeLearner(estimator, seed, None if alphas is None else check_alphas(alphas))


@learner_for.register
def _(estimator: PKAWV, seed: int, *, alphas: Any = None, classes: Any = None) -> PartwiseLearner:
    _no_choice(alphas, "PKAWV")
    return StreamLearner(estimator, seed)


@learner_for.register
def _(estimator: PKAWVClassifier, seed: int, *, alphas: Any = None, classes: Any = None) -> PartwiseLearner:
    _no_choice(alphas, "PKAWVClassifier")
    if classes is None:
        raise ValueError("classes must name all labels there are: a part need not have seen all of them")
    return StreamLearner(estimator, seed, classes)


def _no_choice(alphas: Any, name: str) -> None:
    if alphas is not None:
        raise ValueError(f"{name} has one alpha, and no left-out errors to choose another by: leave alphas out")
