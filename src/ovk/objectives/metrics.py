"""Measures of error that allow for missing outputs and for curves."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import r2_score

from ovk.base import Array
from ovk.curves import Grid


def r2_observed(Y: Array, F: Array, weight: Array | None = None) -> float:
    """Coefficient of determination R^2 over the observed entries, averaged over the outputs that were observed at all.

    Y (n, d) has nan where nothing was observed; F are predictions (n, d), weight (n,).
    """
    scores = []
    for q in range(Y.shape[1]):
        seen = ~np.isnan(Y[:, q])
        if seen.any():
            scores.append(r2_score(Y[seen, q], F[seen, q], sample_weight=None if weight is None else weight[seen]))
    if not scores:
        raise ValueError("y holds no observed value: there is nothing to score")
    return float(np.mean(scores))


def rsse(Y: Array, F: Array, grid: Grid | None = None) -> float:
    """Residual sum of squares of curves, sum_i integral (y_i(t) - f_i(t))^2 dt by the grid's quadrature.

    Parameters
    ----------
    Y : (n, d) curves, nan where not observed (which then does not count)
    F : (n, d) predictions
    grid : where the curves were seen; regular on [0, 1] by default

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.objectives import rsse
    >>> rsse(np.zeros((3, 11)), np.full((3, 11), 2.0))
    12.0
    """
    Y, F = np.atleast_2d(Y), np.atleast_2d(F)
    if Y.shape != F.shape:
        raise ValueError(f"Y and F must be curves on the same grid, got shapes {Y.shape} and {F.shape}")
    weights = (Grid.regular(Y.shape[1]) if grid is None else grid).weights()
    if len(weights) != Y.shape[1]:
        raise ValueError(f"grid has {len(weights)} points but the curves have {Y.shape[1]}")
    return float(np.nansum((Y - F) ** 2 * weights))


def lcr(labels: Array, predicted: Array) -> float:
    """Labels correctly recognised, in percent, over all curves and times.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.objectives import lcr
    >>> lcr(np.array([[0, 1], [1, 1]]), np.array([[0, 1], [0, 1]]))
    75.0
    """
    labels, predicted = np.asarray(labels), np.asarray(predicted)
    if labels.shape != predicted.shape or labels.size == 0:
        raise ValueError(f"labels and predicted must have the same shape, got {labels.shape} and {predicted.shape}")
    return float(100.0 * np.mean(labels == predicted))
