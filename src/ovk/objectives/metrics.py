"""Scores of predictions with missing outputs, and of curves."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import r2_score

from ovk.base import Array
from ovk.curves import Grid


def r2_observed(Y: Array, F: Array, weight: Array | None = None) -> float:
    """R^2 of predictions F (n, d) over the observed entries of Y (n, d), nan elsewhere, averaged over outputs."""
    scores = []
    for q in range(Y.shape[1]):
        seen = ~np.isnan(Y[:, q])
        if seen.any():
            scores.append(r2_score(Y[seen, q], F[seen, q], sample_weight=None if weight is None else weight[seen]))
    if not scores:
        raise ValueError("y must have at least one observed value, got none")
    return float(np.mean(scores))


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
        raise ValueError(f"grid has {len(weights)} points but the curves have {Y.shape[1]}")
    return float(np.nansum((Y - F) ** 2 * weights))


def lcr(labels: Array, predicted: Array) -> float:
    """Labels correctly recognised, in percent, over all curves and times."""
    labels, predicted = np.asarray(labels), np.asarray(predicted)
    if labels.shape != predicted.shape or labels.size == 0:
        raise ValueError(f"labels and predicted must have the same shape, got {labels.shape} and {predicted.shape}")
    return float(100.0 * np.mean(labels == predicted))
