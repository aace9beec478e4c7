"""Other methods of network inference from time series, used as their authors recommend.

Each takes series (a list of arrays (n, d), equally spaced) and returns scores (d, d): row i, column j for i acting on
j.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LassoCV
from sklearn.model_selection import LeaveOneGroupOut

from reproduce.support import Array

Rival = Callable[[Sequence[Array]], Array]


def _transitions(series: Sequence[Array]) -> tuple[Array, Array, Array]:
    """States, next states and the series of each, standardised."""
    rows = np.concatenate(series)
    mean, scale = rows.mean(axis=0), np.where(rows.std(axis=0) > 0, rows.std(axis=0), 1.0)
    X, Y = (np.concatenate([(one[part] - mean) / scale for one in series]) for part in (slice(-1), slice(1, None)))
    return X, Y, np.repeat(np.arange(len(series)), [len(one) - 1 for one in series])


def lasso(series: Sequence[Array]) -> Array:
    """Sparse linear autoregression of order 1, the penalty of each gene chosen by leave-one-series-out."""
    X, Y, groups = _transitions(series)
    scores = np.zeros((X.shape[1], X.shape[1]))
    for target in range(X.shape[1]):
        folds = list(LeaveOneGroupOut().split(X, groups=groups))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            scores[:, target] = np.abs(LassoCV(cv=folds, max_iter=5000).fit(X, Y[:, target]).coef_)
    return _off_diagonal(scores)


def random_forest(series: Sequence[Array], *, trees: int = 500, seed: int = 0) -> Array:
    """Random forests of rates of change, as in dynGENIE3.

    dx/dt + decay x is regressed on all genes, sqrt(d) of them tried at each split; the decay is that of an exponential
    between a gene's highest and lowest level, the largest over series. Importances are shares of the variance of each
    gene.
    """
    X = np.concatenate([one[:-1] for one in series])
    change = np.concatenate([np.diff(one, axis=0) for one in series])
    d = X.shape[1]
    low = min(float(one.min()) for one in series)
    scores = np.zeros((d, d))
    for target in range(d):
        y = change[:, target] + _decay([one[:, target] for one in series], low) * X[:, target]
        forest = RandomForestRegressor(trees, max_features="sqrt", random_state=seed).fit(X, y)
        scores[:, target] = forest.feature_importances_
    return _off_diagonal(scores)


def _decay(curves: Sequence[Array], low: float) -> float:
    """Largest rate between the highest and the lowest level of a gene, both above the lowest level of all genes."""
    rates = [0.0]
    for x in curves:
        high, bottom = int(x.argmax()), int(x.argmin())
        if high != bottom:
            top, rest = (max(float(x[k]) - low, 1e-6) for k in (high, bottom))
            rates.append((np.log(top) - np.log(rest)) / abs(high - bottom))
    return max(rates)


def granger(series: Sequence[Array]) -> Array:
    """Linear Granger causality: -log10 of the p-value (F test) of removing one gene from a regression on all."""
    X, Y, _ = _transitions(series)
    n, d = X.shape
    full = np.column_stack([np.ones(n), X])
    scores = np.zeros((d, d))
    for target in range(d):
        left = _squares(full, Y[:, target])
        for regulator in range(d):
            without = _squares(np.delete(full, regulator + 1, axis=1), Y[:, target])
            statistic = (without - left) / (left / (n - d - 1))
            scores[regulator, target] = -float(stats.f.logsf(max(statistic, 0.0), 1, n - d - 1)) / np.log(10)
    return _off_diagonal(scores)


def dynamic_bayesian_network(series: Sequence[Array]) -> Array:
    """First-order conditional dependence, as in G1DBN: dependence that no single other gene explains.

    The score of an edge is -log10 of the largest p-value of its partial regression, given each other gene in turn.
    """
    X, Y, _ = _transitions(series)
    n, d = X.shape
    scores = np.zeros((d, d))
    for target in range(d):
        for regulator in range(d):
            worst = 0.0
            for other in range(d):
                if other == regulator:
                    continue
                design = np.column_stack([np.ones(n), X[:, other], X[:, regulator]])
                worst = max(worst, _p_value(design, Y[:, target]))
            scores[regulator, target] = -np.log10(max(worst, 1e-300))
    return _off_diagonal(scores)


def _p_value(design: Array, y: Array) -> float:
    """Two-sided p-value of the last coefficient."""
    n, k = design.shape
    without = _squares(design[:, :-1], y)
    left = _squares(design, y)
    return float(stats.f.sf(max((without - left) / max(left / (n - k), 1e-300), 0.0), 1, n - k))


def _squares(design: Array, y: Array) -> float:
    """Sum of squared residuals."""
    beta = np.linalg.lstsq(design, y, rcond=None)[0]
    return float(((y - design @ beta) ** 2).sum())


def _off_diagonal(scores: Array) -> Array:
    np.fill_diagonal(scores, 0.0)
    return scores


RIVALS: dict[str, Rival] = {
    "LASSO-VAR": lasso,
    "random forest (dynGENIE3-like)": random_forest,
    "linear Granger": granger,
    "first-order DBN (G1DBN-like)": dynamic_bayesian_network,
}
