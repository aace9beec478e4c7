"""Scores of predictions with missing outputs, and of curves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import r2_score

from ovk.base import Array
from ovk.curves import Grid


@dataclass(frozen=True)
class _ObservedScore:
    """A metric over the observed entries; a class, because other processes must be able to import it."""

    metric: Callable[..., Any]

    @property
    def __name__(self) -> str:
        return f"observed({getattr(self.metric, '__name__', self.metric)})"

    def __call__(
        self, Y: Any, F: Any, *, sample_weight: Any = None, multioutput: str = "uniform_average", **options: Any
    ) -> Any:
        if multioutput not in ("uniform_average", "raw_values"):
            raise ValueError(f"multioutput must be 'uniform_average' or 'raw_values', got {multioutput!r}")
        hidden, Y, F = np.ma.getmaskarray(Y), np.asarray(Y), np.asarray(F)
        if Y.shape[:1] != F.shape[:1] or Y.size != F.size:
            raise ValueError(f"Y and F must have the same shape, got shapes {Y.shape} and {F.shape}")
        columns = (len(Y), -1) if Y.size else (len(Y), 0)
        # Only nan differs from itself; labels may be None.
        seen = ~(hidden | (Y != Y) | (np.array(None) == Y)).reshape(columns)
        Y, F = Y.reshape(columns), F.reshape(columns)
        if not seen.any():
            raise ValueError("y must have at least one observed value, got none")
        scores = np.full(seen.shape[1], np.nan)
        for q in np.flatnonzero(seen.any(axis=0)):
            rows = seen[:, q]
            weights = {} if sample_weight is None else {"sample_weight": np.asarray(sample_weight)[rows]}
            # Convert an object array of labels to the type of the labels.
            scores[q] = self.metric(np.array(Y[rows, q].tolist()), F[rows, q], **weights, **options)
        return scores if multioutput == "raw_values" else float(np.nanmean(scores))


def observed(metric: Callable[..., Any]) -> Callable[..., Any]:
    """A metric of scikit-learn that ignores missing outputs, for scores and scorers.

    scikit-learn's metrics raise an error if an output is nan. The wrapped metric is evaluated on the observed entries
    of each output, and averaged over the outputs that have any.

    Parameters
    ----------
    metric : callable
        A function of the outputs and predictions of one output, such as ``sklearn.metrics.mean_absolute_error``.

    Returns
    -------
    callable
        A function of Y (n, d) or (n,), with nan, None or a mask where missing, and predictions F of the same shape. Its
        keywords are `sample_weight` (n,), ``multioutput="raw_values"`` for one score for each output (nan where nothing
        was observed), and those of the metric. Pass it to ``sklearn.metrics.make_scorer`` for a scorer.

    See Also
    --------
    rsse, sklearn.metrics.make_scorer

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import make_scorer, mean_absolute_error
    >>> from sklearn.model_selection import cross_val_score
    >>> from ovk import OVKRidge
    >>> from ovk.objectives import observed
    >>> Y = np.array([[1.0, np.nan], [2.0, 5.0], [np.nan, 7.0]])
    >>> observed(mean_absolute_error)(Y, np.ones((3, 2)), multioutput="raw_values")
    array([0.5, 5. ])
    >>> scoring = make_scorer(observed(mean_absolute_error), greater_is_better=False)
    >>> X = np.linspace(0, 1, 30)[:, None]
    >>> Y = np.hstack([X, X**2])
    >>> Y[::4, 1] = np.nan
    >>> cross_val_score(OVKRidge(alpha=1e-3), X, Y, scoring=scoring, cv=3).shape
    (3,)
    """
    return _ObservedScore(metric)


def r2_observed(Y: Array, F: Array, weight: Array | None = None) -> float:
    """R^2 of predictions F (n, d) over the observed entries of Y (n, d), nan elsewhere, averaged over outputs.

    Outputs with a single value have none. If no output has more, as with irregular curves, it is R^2 of all values.
    """
    seen = ~np.isnan(Y)
    several = seen.sum(axis=0) > 1
    if several.any() or not seen.any():
        return float(observed(r2_score)(Y[:, several], F[:, several], sample_weight=weight))
    weights = None if weight is None else np.broadcast_to(weight[:, None], Y.shape)[seen]
    return float(r2_score(Y[seen], F[seen], sample_weight=weights))


def rsse(Y: Array, F: Array, grid: Grid | None = None) -> float:
    """Residual sum of squares of curves, sum_i integral (y_i(t) - f_i(t))^2 dt.

    Parameters
    ----------
    Y : (n, d) array
        Curves; nan where not observed.
    F : (n, d) array
        Predicted curves.
    grid : `Grid`, optional
        Where the curves are known; regular on [0, 1] by default.

    Returns
    -------
    float
        The sum, by the quadrature of the grid.

    See Also
    --------
    ovk.curves.Grid, ovk.FunctionalRidge

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.objectives import rsse
    >>> rsse(np.zeros((3, 11)), np.full((3, 11), 2.0))
    12.0
    """
    Y, F = np.atleast_2d(Y), np.atleast_2d(F)
    if Y.shape != F.shape:
        raise ValueError(f"Y and F must have the same shape, got shapes {Y.shape} and {F.shape}")
    weights = (Grid.regular(Y.shape[1]) if grid is None else grid).weights()
    if len(weights) != Y.shape[1]:
        raise ValueError(f"grid must have one point for each of the {Y.shape[1]} columns of Y, got {len(weights)}")
    return float(np.nansum((Y - F) ** 2 * weights))


def lcr(labels: Array, predicted: Array) -> float:
    """Percentage of correct labels over all curves and times."""
    labels, predicted = np.asarray(labels), np.asarray(predicted)
    if labels.shape != predicted.shape or labels.size == 0:
        raise ValueError(f"labels and predicted must have the same shape, got {labels.shape} and {predicted.shape}")
    return float(100.0 * np.mean(labels == predicted))
