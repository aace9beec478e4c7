"""An online learner whose predictions come with regions."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import clone

from ovk._params import Parameters
from ovk._validation import Array
from ovk.evaluation.conformal.aci import ACI
from ovk.evaluation.conformal.base import Conformal
from ovk.evaluation.conformal.regions import Regions
from ovk.evaluation.learners import as_learner


class WithIntervals(Parameters):
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

    def __init__(self, learner: Any, intervals: Any = 0.9) -> None:
        self.learner = learner
        self.intervals = intervals

    def predict_then_learn(self, X: Any, y: Any) -> Array:
        """Predictions of the rows, in the shape of y, each made from the rows before it."""
        return self.regions_then_learn(X, y).predictions.reshape(np.shape(y))

    def regions_then_learn(self, X: Any, y: Any) -> Regions:
        """The same, with the region of each."""
        with self._all_or_nothing():
            if not hasattr(self, "learner_"):
                self.learner_, self.intervals_ = clone(self.learner), clone(as_intervals(self.intervals))
            y = np.asarray(y, dtype=np.float64)
            F = np.asarray(as_learner(self.learner_).predict_then_learn(X, y), dtype=np.float64)
            return self._intervals().regions_then_learn(F, y)

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Go on learning."""
        self.regions_then_learn(X, y)
        return self

    def predict(self, X: Any) -> Any:
        """Predictions, without learning."""
        return self._fitted().predict(X)

    def predict_regions(self, X: Any) -> Regions:
        """A region around each prediction as things are now, without learning."""
        return self._intervals().regions(np.asarray(self._fitted().predict(X), dtype=np.float64))

    def _intervals(self) -> Conformal:
        intervals: Conformal = self.intervals_
        return intervals

    def _fitted(self) -> Any:
        if not hasattr(self, "learner_"):
            raise ValueError("WithIntervals has not learned anything yet: call predict_then_learn or partial_fit first")
        return self.learner_


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
