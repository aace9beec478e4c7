"""Measures of error that know of missing outputs."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import r2_score

from ovk._validation import Array


def r2_observed(Y: Array, F: Array, weight: Array | None = None) -> float:
    """Coefficient of determination R^2 over the observed entries, averaged over the outputs that were observed at all.

    Parameters
    ----------
    Y : (n, d) outputs, nan where not observed
    F : (n, d) predictions
    weight : (n,) sample weights, optional

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.metrics import r2_observed
    >>> Y = np.array([[0.0, np.nan], [1.0, np.nan], [2.0, np.nan]])
    >>> r2_observed(Y, np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0]]))
    1.0
    """
    scores = []
    for q in range(Y.shape[1]):
        seen = ~np.isnan(Y[:, q])
        if seen.any():
            scores.append(r2_score(Y[seen, q], F[seen, q], sample_weight=None if weight is None else weight[seen]))
    if not scores:
        raise ValueError("y holds no observed value: there is nothing to score")
    return float(np.mean(scores))
