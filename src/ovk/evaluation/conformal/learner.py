"""An online learner whose predictions come with regions."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import clone

from ovk._named_outputs import NamedOutputs, unnamed
from ovk._params import Parameters
from ovk._transactions import Transactional, reads
from ovk._types import Array
from ovk.evaluation.conformal.aci import ACI
from ovk.evaluation.conformal.base import Conformal
from ovk.evaluation.learners import as_learner
from ovk.intervals.regions import Regions


class WithIntervals(Transactional, Parameters):
    """An online learner and a method for intervals, going through the stream together.

    For a model in service; to evaluate one, ``progressive(model, X, Y, intervals=...)`` does the same and counts.

    Parameters
    ----------
    learner : online learner of ovk, or estimator with `partial_fit` and `predict`; a copy is trained
    intervals : ACI, ConformalPID, StronglyAdaptive, or the coverage, which means ``ACI(coverage)``

    Attributes
    ----------
    learner_, intervals_ : what they have become

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK
    >>> from ovk.evaluation import ACI, WithIntervals
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(500, 1))
    >>> model = WithIntervals(OLOK(), ACI(0.9)).partial_fit(X, X[:, 0] + 0.1 * rng.standard_normal(500))
    >>> regions = model.predict_regions(np.array([[0.5]]))
    >>> bool(regions.lower[0, 0] < 0.5 < regions.upper[0, 0])
    True
    """

    intervals_: Conformal

    def __init__(self, learner: Any, intervals: Any = 0.9) -> None:
        self.learner = learner
        self.intervals = intervals

    def predict_then_learn(self, X: Any, y: Any) -> Array:
        """Predictions of the rows, in the shape of y, each made from the rows before it."""
        predictions = self.regions_then_learn(X, y).predictions
        return predictions.reshape(np.shape(y)) if isinstance(predictions, np.ndarray) else predictions

    def regions_then_learn(self, X: Any, y: Any) -> Regions:
        """The region of each row, made before its output is looked at; then learn the rows."""
        with self._transaction() as work:
            if not hasattr(work, "learner_"):
                work.learner_, work.intervals_ = clone(self.learner), clone(as_intervals(self.intervals))
            Y = np.asarray(unnamed(y), dtype=np.float64)
            # Learners of ovk take frames and learn their names; others are given arrays.
            y = y if isinstance(work.learner_, NamedOutputs) else Y
            F = np.asarray(as_learner(work.learner_).predict_then_learn(X, y), dtype=np.float64)
            return _named(work.intervals_.regions_then_learn(F, Y), work.learner_, X)

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Go on learning."""
        self.regions_then_learn(X, y)
        return self

    @reads
    def predict(self, X: Any) -> Any:
        """Predictions, without learning."""
        return self._fitted().predict(X)

    @reads
    def predict_regions(self, X: Any) -> Regions:
        """A region around each prediction as things are now, without learning."""
        learner = self._fitted()
        return _named(self.intervals_.regions(np.asarray(learner.predict(X), dtype=np.float64)), learner, X)

    def _fitted(self) -> Any:
        if not hasattr(self, "learner_"):
            raise ValueError("WithIntervals has not learned anything yet: call predict_then_learn or partial_fit first")
        return self.learner_


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
