"""Scales, a metric and the options of a learner from the first rows of a classification stream."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ovk import GradientMetric, OVKRidge, PKAWVClassifier
from ovk.kernels import Gaussian

Array = npt.NDArray[np.float64]
Make = Callable[..., Any]
Grid = dict[str, tuple[Any, ...]]

#: Settings of the regression for the metric, and its landmarks.
SHAPES = ((1.0, 0.1), (1.0, 1.0), (2.0, 0.1), (2.0, 1.0), (4.0, 0.1))
LANDMARKS = 1000


class Inputs(NamedTuple):
    """A linear map of the inputs: standardised, then stretched by a metric."""

    mean: Array
    spread: Array
    components: Array

    def __call__(self, X: Array) -> Array:
        """(n, p) mapped."""
        mapped: Array = (X - self.mean) / self.spread @ self.components
        return mapped

    @classmethod
    def learned(cls, X: Array, y: Array) -> Inputs:
        """Fit to these rows; of several shapes, the one whose regression on one half is best on the other."""
        mean, spread = X.mean(axis=0), X.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        U, half = (X - mean) / spread, len(X) // 2
        landmarks = min(LANDMARKS, half)

        def metric(width: float, alpha: float) -> GradientMetric:
            return GradientMetric(Gaussian(width), alpha, landmarks=landmarks, random_state=0)

        def error(shape: tuple[float, float]) -> float:
            V = metric(*shape).fit(U[:half], y[:half]).transform(U)
            ridge = OVKRidge(Gaussian(shape[0]), shape[1], landmarks=landmarks, fit_intercept=False, random_state=0)
            residual = ridge.fit(V[:half], y[:half]).predict(V[half:]) - y[half:]
            return float(residual @ residual)

        return cls(mean, spread, metric(*min(SHAPES, key=error)).fit(U, y).components_)


def mistakes(model: Any, X: Array, y: Array) -> Array:
    """(n,) 1 where the progressive prediction is wrong; a score of 0 is wrong."""
    labels = {"classes": (-1.0, 1.0)} if isinstance(model, PKAWVClassifier) else {}
    predicted = np.asarray(model.predict_then_learn(X, y, **labels), dtype=np.float64)
    return (predicted * y <= 0).astype(np.float64)


def tuned(make: Make, grid: Grid, X: Array, y: Array) -> dict[str, Any]:
    """The options with the least progressive error on these rows."""
    choices = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    return min(choices, key=lambda options: mistakes(make(**options), X, y).mean()) if len(choices) > 1 else choices[0]


def without_looking_ahead(make: Make, grid: Grid, X: Array, y: Array, stages: tuple[int, ...]) -> Array:
    """Mistakes of a learner whose settings come only from rows before the predicted one.

    Before the first stage it predicts the most frequent label so far. Each stage chooses scales, metric and options
    from the rows so far, and trains a new learner on them, which continues.
    """
    first = stages[0]
    so_far = np.cumsum(y[:first]) - y[:first]
    wrong = [(np.where(so_far >= 0, 1.0, -1.0) * y[:first] <= 0).astype(np.float64)]
    for start, stop in zip(stages, (*stages[1:], len(y)), strict=True):
        inputs = Inputs.learned(X[:start], y[:start])
        U = inputs(X[:stop])
        model = make(**tuned(make, grid, U[:start], y[:start]))
        mistakes(model, U[:start], y[:start])
        wrong.append(mistakes(model, U[start:], y[start:stop]))
    return np.concatenate(wrong)
