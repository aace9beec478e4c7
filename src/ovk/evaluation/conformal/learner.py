"""An online learner whose predictions come with regions."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from ovk._named_outputs import NamedOutputs, unnamed
from ovk._params import Parameters
from ovk._transactions import Transactional, reads
from ovk._types import Array
from ovk.evaluation.conformal.aci import ACI
from ovk.evaluation.conformal.base import Conformal
from ovk.evaluation.learners import as_learner
from ovk.intervals.regions import Regions
from ovk.online.add_features import add_features


class WithIntervals(Transactional, Parameters):
    """An online learner and a method for intervals, going through the stream together.

    For a model in service; to evaluate one, ``progressive(model, X, Y, intervals=...)`` does the same and counts. Where
    labels come late, ``DelayedLabels(WithIntervals(model))`` scores the regions that were given.

    Parameters
    ----------
    learner : online learner of ovk, or estimator with `partial_fit` and `predict`
        A copy of it learns, and goes on from what it knows.
    intervals : ACI, ConformalPID, StronglyAdaptive, or the coverage, which means ``ACI(coverage)``; for outputs that
        are bounded, ``ACI(0.9, bounds=(0, None))``

    Attributes
    ----------
    learner_, intervals_ : what they have become

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import AutoStream, WithIntervals
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(500, 1))
    >>> model = WithIntervals(AutoStream(), 0.9).partial_fit(X, X[:, 0] + 0.1 * rng.standard_normal(500))
    >>> regions = model.predict_regions(np.array([[0.5]]))
    >>> bool(regions.lower[0, 0] < 0.5 < regions.upper[0, 0])
    True
    """

    learner_: Any
    intervals_: Conformal

    def __init__(self, learner: Any, intervals: Any = 0.9) -> None:
        self.learner = learner
        self.intervals = intervals

    def predict_then_learn(self, X: Any, y: Any, sample_weight: Any = None) -> Array:
        """Predictions of the rows, in the shape of y, each made from the rows before it."""
        predictions = self.regions_then_learn(X, y, sample_weight).predictions
        return predictions.reshape(np.shape(y)) if isinstance(predictions, np.ndarray) else predictions

    def regions_then_learn(self, X: Any, y: Any, sample_weight: Any = None) -> Regions:
        """The region of each row, made before its output is looked at; then learn the rows.

        `sample_weight` (n,) multiplies the losses, for a learner that takes weights; regions count rows alike.
        """
        with self._transaction() as work:
            F, Y = work._learn_rows(X, y, sample_weight)
            return _named(work.intervals_.regions_then_learn(F, Y), work.learner_, X)

    def learn_late(
        self,
        X: Any,
        y: Any,
        regions: Regions | None,
        scored: Any,
        later: Any = 0,
        sample_weight: Any = None,
        last_label: Any = None,
    ) -> None:
        """Learn rows whose outputs came after other rows had been predicted.

        Parameters
        ----------
        X, y, sample_weight : the rows, learned in this order
        regions : those of the `scored` rows, as they were given when these were predicted
        scored : which of the rows had a region, in the order of the regions
        later : how many rows were predicted after each of these, before its output came
        last_label : as in `AutoStream.partial_fit_late`, for learners that use the last label as an input
        """
        with self._transaction() as work:
            if last_label is None:
                _, Y = work._learn_rows(X, y, sample_weight)
            else:
                Y = np.asarray(unnamed(y), dtype=np.float64)
                options = {} if sample_weight is None else {"sample_weight": sample_weight}
                work.learner_.partial_fit_late(X, y, last_label, **options)
            if regions is not None and len(regions):
                work.intervals_.learn(regions, Y[scored], later)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Go on learning."""
        self.regions_then_learn(X, y, sample_weight)
        return self

    @reads
    def predict(self, X: Any) -> Any:
        """Predictions, without learning; drawn in to the bounds of the intervals, if these have some."""
        self._begin()
        try:
            F = self.learner_.predict(X)
        except NotFittedError:
            raise NotFittedError(
                "WithIntervals has not learned anything yet: call predict_then_learn or partial_fit first"
            ) from None
        if self.intervals_.bounds is None:
            return F
        plain = np.asarray(unnamed(F), dtype=np.float64)
        drawn = self.intervals_.within_bounds(plain.reshape(len(plain), -1)).reshape(plain.shape)
        return self.learner_._named(drawn, X) if isinstance(self.learner_, NamedOutputs) else drawn

    @reads
    def predict_regions(self, X: Any) -> Regions:
        """A region around each prediction as things are now, without learning."""
        F = np.asarray(self.predict(X), dtype=np.float64)
        self._begin()
        return _named(self.intervals_.regions(F), self.learner_, X)

    def _begin(self) -> None:
        if not hasattr(self, "learner_"):
            self.learner_, self.intervals_ = copy.deepcopy(self.learner), clone(as_intervals(self.intervals))

    def _learn_rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[Array, Array]:
        """Predictions and outputs of the rows, which the learner learns."""
        self._begin()
        Y = np.asarray(unnamed(y), dtype=np.float64)
        # Learners of ovk take frames and learn their names; others are given arrays.
        y = y if isinstance(self.learner_, NamedOutputs) else Y
        options = {} if sample_weight is None else {"sample_weight": sample_weight}
        F = as_learner(self.learner_).predict_then_learn(X, y, **options)
        return np.asarray(F, dtype=np.float64), Y


@add_features.register
def _(model: WithIntervals, count: int) -> None:
    with model._transaction() as work:
        add_features(work.learner_, count)


def _named(regions: Regions, learner: Any, X: Any) -> Regions:
    """The regions with the names of the outputs that the learner knows."""
    return regions.named(lambda ends: learner._named(ends, X)) if isinstance(learner, NamedOutputs) else regions


def as_intervals(intervals: Any) -> Conformal:
    """The method itself, or ACI with that coverage."""
    if isinstance(intervals, Conformal):
        return intervals
    if isinstance(intervals, float) and 0 < intervals < 1:
        return ACI(intervals)
    raise ValueError(
        f"intervals must be a method of ovk.evaluation (ACI, ConformalPID, StronglyAdaptive) or a coverage between 0 "
        f"and 1, got {intervals!r}"
    )
