"""Learners of numbers as regressors of river, with one target or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from river import base
from river.conf import Interval

from ovk.base import reads_snapshot
from ovk.online import as_numbers, is_missing, refusal
from ovk.online.river.adapter import Adapter

#: What to do about a target that is no number.
CURE = "for labels of classes use RiverClassifier(AutoStreamClassifier())"
SEVERAL = "for several targets use RiverMultiTargetRegressor"


@runtime_checkable
class _HasRegions(Protocol):
    def predict_regions(self, X: Any, /) -> Any: ...


class _Regression(Adapter):
    """What regressors share."""

    def _intervals(self, x: dict[Any, Any], outputs: int) -> list[Interval]:
        """The interval of each output, without bounds before anything was learned."""
        if not isinstance(self.learner, _HasRegions):
            raise ValueError(
                "with_interval needs a learner with intervals: wrap it, "
                f"{type(self).__name__}(WithIntervals({type(self.model).__name__}(), 0.9))"
            )
        row = self._features.row(x)
        if not self._started:
            return [Interval(-np.inf, np.inf)] * outputs
        regions = self.learner.predict_regions(row)
        return [Interval(*ends) for ends in zip(regions.lower[0].tolist(), regions.upper[0].tolist(), strict=True)]


def _number(value: Any, what: str, several: str = SEVERAL) -> float:
    """A target as a number, nan where it is missing; `several` is what to do about one that holds more than one."""
    if is_missing(value):
        return np.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        holds_more = isinstance(value, (Mapping, Sequence, np.ndarray)) and not isinstance(value, (str, bytes))
        raise refusal(value, what, several if holds_more else CURE) from None


class RiverRegressor(_Regression, base.MiniBatchRegressor):
    """A learner of `ovk.online` as a regressor of river.

    Parameters
    ----------
    model : online learner with `partial_fit` and `predict`; a new copy of it learns
        Start with `AutoStream`, which needs no settings and takes inputs and targets in any units. A learner with a
        kernel of your own wants both standardised.

    Attributes
    ----------
    learner : the copy of `model` that learns

    Examples
    --------
    >>> from river import datasets, evaluate, linear_model, metrics, preprocessing
    >>> from ovk import AutoStream
    >>> from ovk.online.river import RiverRegressor
    >>> linear = preprocessing.StandardScaler() | linear_model.LinearRegression(intercept_lr=0.1)
    >>> ours, theirs = (
    ...     evaluate.progressive_val_score(datasets.TrumpApproval().take(300), model, metrics.MAE()).get()
    ...     for model in (RiverRegressor(AutoStream()), linear)
    ... )
    >>> ours < 0.3 * theirs
    True

    The last label is one of the inputs of `AutoStream`, and on this stream repeating it is as good. For predictions
    from the features alone use ``AutoStream(lag=False)``.

    Intervals as river's own wrappers give them:

    >>> from ovk import WithIntervals
    >>> model = RiverRegressor(WithIntervals(AutoStream(), 0.9))
    >>> for x, y in datasets.TrumpApproval().take(100):
    ...     interval = model.predict_one(x, with_interval=True)
    ...     model.learn_one(x, y)
    >>> y in interval
    True
    """

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn from an example, whose loss is multiplied by w; nothing when y is nan or None."""
        target = np.array([_number(y, "y")])
        with self._transaction() as work:
            work._grow(x)
            work._learn(work._features.row(x), target, w=w)

    @reads_snapshot
    def predict_one(self, x: dict[Any, Any], with_interval: bool = False) -> Any:
        """The prediction, 0 before anything was learned; or an interval around it, of a learner `WithIntervals`."""
        if with_interval:
            return self._intervals(x, 1)[0]
        row = self._features.row(x)
        return float(self.learner.predict(row)[0]) if self._started else 0.0

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn from the rows of a data frame, with the same result as one after another, to rounding."""
        targets = as_numbers(y, "y", lambda value: CURE)
        if targets.ndim != 1:
            raise ValueError(f"y must hold a number for each row, got shape {targets.shape}: {SEVERAL}")
        with self._transaction() as work:
            work._grow(X.columns)
            work._learn(work._features.table(X), targets)

    @reads_snapshot
    def predict_many(self, X: Any) -> Any:
        """A series of predictions."""
        import pandas as pd

        table = self._features.table(X)
        values = self.learner.predict(table) if self._started and len(X) else np.zeros(len(X))
        return pd.Series(values, index=X.index)


class RiverMultiTargetRegressor(_Regression, base.MultiTargetRegressor):
    """A learner of `ovk.online` as a regressor of river with several targets.

    Parameters
    ----------
    model : online learner with `partial_fit` and `predict`
    targets : names of the targets, optional
        By default those of the first example, which then has to name them all. A target that is absent from an example
        is missing, and only the others are learned from.

    Attributes
    ----------
    learner : the copy of `model` that learns

    Examples
    --------
    >>> from ovk import OLOK
    >>> from ovk.kernels import Gaussian
    >>> from ovk.operators import MixedEffect
    >>> from ovk.online.river import RiverMultiTargetRegressor
    >>> model = RiverMultiTargetRegressor(OLOK(Gaussian(1.0) * MixedEffect(0.5), schedule=0.5), targets=("a", "b"))
    >>> model.learn_one({"x": 1.0}, {"a": 2.0})
    >>> model.predict_one({"x": 1.0})
    {'a': 1.0, 'b': 0.5}
    """

    def __init__(self, model: Any, targets: Sequence[Any] | None = None) -> None:
        super().__init__(model)
        self.targets = targets
        self._names: list[Any] = [] if targets is None else list(targets)

    def learn_one(self, x: dict[Any, Any], y: dict[Any, Any], w: float = 1.0, **kwargs: Any) -> None:
        """Learn from an example, whose loss is multiplied by w; absent targets, nan and None were not observed."""
        if not isinstance(y, Mapping):
            raise TypeError(
                f"y must be a dictionary of targets, got {y!r}: write {{'name': value}}, or use RiverRegressor, which "
                "has one target"
            )
        names = self._names or list(y)
        if unknown := [name for name in y if name not in names]:
            raise ValueError(f"y holds the target {unknown[0]!r}, which is not one of {names}: name all with targets=")
        row = np.array(
            [[_number(y.get(name), f"target {name!r}", "give every value in it a target of its own") for name in names]]
        )
        with self._transaction() as work:
            work._grow(x)
            work._learn(work._features.row(x), row, w=w)
            work._names = names

    @reads_snapshot
    def predict_one(self, x: dict[Any, Any], with_interval: bool = False) -> dict[Any, Any]:
        """The prediction of each target, or an interval around it; 0 before anything was learned.

        Before the first example targets are known from `targets` alone: without, there are no predictions, and
        `river.evaluate` leaves the example out.
        """
        if with_interval:
            return dict(zip(self._names, self._intervals(x, len(self._names)), strict=True))
        row = self._features.row(x)
        if not self._started:
            return dict.fromkeys(self._names, 0.0)
        values = self.learner.predict(row)[0]
        return dict(zip(self._names, values.tolist(), strict=True))
