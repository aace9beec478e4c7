"""How much each column matters to what a model predicts."""

from __future__ import annotations

import numpy as np

from ovk._types import Array
from ovk.sessions.predictions import RowPredictor

#: Last inputs that are kept for it, and most inputs of a model of which it is computed.
ROWS, MOST = 200, 500


def relevance(predictor: RowPredictor, X: Array | None) -> dict[str, float]:
    """How far predictions move when the cells of a column are exchanged between rows, the most relevant column first.

    With f the model and P_j X the rows in which column j (all inputs made of it, or one lagged output) was permuted,

        r_j = root mean square over rows and outputs of  (f(P_j X) - f(X)) / deviation of the output.

    It says what the model uses, not what causes what: of two columns that tell the same, either may have it all.

    Parameters
    ----------
    predictor : what predicts rows
    X : (n, p) inputs of the last rows; None if they were not kept
    """
    preparation = predictor.preparation
    names = preparation.feature_names_
    if X is None or len(X) < 2 or len(names) > MOST:
        return {}
    groups: dict[str, list[int]] = {}
    for column in preparation.columns_:
        start = sum(map(len, groups.values()))
        groups.setdefault(" and ".join(column.sources()), []).extend(range(start, start + len(column.names())))
    groups |= {names[j]: [j] for j in range(sum(map(len, groups.values())), len(names))}
    F = predictor.outputs(X)
    outcomes = predictor.recent.Y
    known = [column[np.isfinite(column)] for column in outcomes.T]
    spread = np.array([column.std() if len(column) > 1 and column.std() > 0 else 1.0 for column in known])
    order = np.random.default_rng(0).permutation(len(X))
    found = {}
    for name, columns in groups.items():
        Z = X.copy()
        Z[:, columns] = X[order][:, columns]
        found[name] = float(np.sqrt(np.mean(((predictor.outputs(Z) - F) / spread) ** 2)))
    return dict(sorted(found.items(), key=lambda pair: -pair[1]))
