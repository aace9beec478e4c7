"""How much each column matters to what a model predicts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ovk.app.sessions.predictions import RowPredictor
from ovk.base import Array

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


# What leave-one-out has chosen, in words.

#: Correlations of outputs below this, in size, are no coupling.
APART = 0.005


def kernel_in_words(kernel: Any, outputs: Sequence[str]) -> str:
    """Which scalar kernels a fitted kernel consists of, and how strongly it couples the outputs.

    >>> from ovk.kernels import Gaussian, Linear
    >>> from ovk.operators import Dense, Identity
    >>> kernel_in_words(Gaussian(2.0) * Dense([[1.0, 0.8], [0.8, 1.0]]), ["zinc", "lead"])
    'Gaussian kernel, outputs coupled (most: zinc and lead, 0.80)'
    >>> kernel_in_words((Gaussian(2.0) + 0.5 * Gaussian(1.0) + Linear()) * Identity(2), ["zinc", "lead"])
    'sum of 3 kernels (Gaussian, Linear), outputs not coupled'
    >>> from ovk.kernels import Mapped
    >>> kernel_in_words(Mapped(Gaussian(2.0), [[1.0]]) * Identity(1), ["zinc"])
    'Gaussian kernel in a learned metric'
    """
    terms = kernel.terms()
    found = [name for term in terms for name in re.findall(r"\b([A-Z]\w+)\(", repr(term.kernel))]
    names = [name for name in found if name != "Mapped"]
    kinds = list(dict.fromkeys(names))
    words = f"{kinds[0]} kernel" if len(kinds) == 1 else f"kernels ({', '.join(kinds)})"
    if len(names) > 1:
        words = f"sum of {len(names)} {words}{'s' if len(kinds) == 1 else ''}"
    if mapped := len(found) - len(names):
        metrics = "in a learned metric" if mapped == len(names) == 1 else "in learned metrics"
        words += f" {metrics}" if mapped == len(names) else f", {mapped} of them {metrics}"
    if len(outputs) == 1:
        return words
    T = np.sum([term.weight * term.operator.dense() for term in terms], axis=0)
    scale = np.sqrt(np.maximum(np.diagonal(T), np.finfo(float).tiny))
    between = np.triu(T / np.outer(scale, scale), 1)
    i, j = np.unravel_index(np.abs(between).argmax(), between.shape)
    if abs(between[i, j]) < APART:
        return f"{words}, outputs not coupled"
    return f"{words}, outputs coupled (most: {outputs[i]} and {outputs[j]}, {between[i, j]:.2f})"
