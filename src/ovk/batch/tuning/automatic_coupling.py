"""Whether outputs with gaps should learn from each other: operators (1 - w) I + w C, C their shrunk correlation.

Coupling is judged on observed pairs of a row and an output, whole rows (or groups) left out. The alphas that were best
for each output on its own are kept up to a common factor: with D = diag(alpha) the problem is that of the operator
D^-1/2 T D^-1/2 and the ridge c.
"""

from __future__ import annotations

import numpy as np

from ovk._types import Array, Indices
from ovk.batch.tuning.validation import mean_loss
from ovk.kernels import ScalarKernel
from ovk.solvers.leave_one_out import DenseLeaveOneOut

#: Shares of the correlation in the operator.
SHARES = (0.0, 0.5, 0.9)
#: Common factors of the alphas.
FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)
#: Rows in which two outputs are seen, in the mean over pairs of outputs, from which correlations are estimated. With
#: fewer of them C is a matrix of ones: mixed effects.
FEWEST_TOGETHER = 5
#: Observed pairs by which coupling is judged, at most.
PAIRS = 800


def correlation(Y: Array) -> Array:
    """Correlations (d, d) of outputs over the rows in which both were seen, shrunk and positive definite."""
    d = Y.shape[1]
    seen = ~np.isnan(Y)
    counts = np.maximum(seen.sum(axis=0), 1)
    Z = np.where(seen, Y - np.where(seen, Y, 0.0).sum(axis=0) / counts, 0.0)
    deviation = np.sqrt((Z**2).sum(axis=0) / counts)
    Z = Z / np.where(deviation > 0, deviation, 1.0)
    both = seen.T.astype(np.float64) @ seen
    C = (Z.T @ Z) / (both + d)
    np.fill_diagonal(C, 1.0)
    values, V = np.linalg.eigh(C)
    C = (V * np.maximum(values, 1e-6)) @ V.T
    roots = np.sqrt(np.diagonal(C))
    return np.asarray(C / np.outer(roots, roots))


def coupled(
    X: Array,
    Y: Array,
    kernel: ScalarKernel,
    alphas: Array,
    threshold: Array,
    variance: Array,
    order: Indices,
    weight: Array | None,
    groups: Indices | None,
    *,
    intercept: bool = True,
) -> tuple[Array, Array]:
    """The best operator (d, d) and the alphas (d,) that go with it.

    Parameters
    ----------
    order : (n,) the rows in random order; the first of them are judged by
    """
    d = Y.shape[1]
    seen = ~np.isnan(Y)
    together_seen = float((seen.sum(axis=1) ** 2 - seen.sum(axis=1)).sum()) / max(d * (d - 1), 1)
    # Outputs that are never seen in the same rows have no correlation that could be known.
    C = correlation(Y) if together_seen >= FEWEST_TOGETHER else np.ones((d, d))
    counts = np.cumsum((~np.isnan(Y[order])).sum(axis=1))
    rows = np.sort(order[: max(int(np.searchsorted(counts, PAIRS)), min(len(order), 10))])
    Y = Y[rows]
    at, outputs = np.nonzero(~np.isnan(Y))
    v = 1.0 / np.sqrt(alphas[outputs])
    if weight is not None:
        v = v * np.sqrt(weight[rows][at])
    E = np.zeros((len(at), d))
    E[np.arange(len(at)), outputs] = v
    used = E.any(axis=0)
    together = at if groups is None else groups[rows][at]
    G = kernel(X[rows])[np.ix_(at, at)]
    best, operator, factor = np.inf, np.eye(d), 1.0
    for share in SHARES:
        T = (1.0 - share) * np.eye(d) + share * C
        K = G * T[np.ix_(outputs, outputs)] * np.outer(v, v)
        left_out = DenseLeaveOneOut(K, Y[at, outputs] * v, together, E[:, used] if intercept else None)
        for c, residuals in zip(FACTORS, left_out.path(np.array(FACTORS)), strict=True):
            R = np.full(Y.shape, np.nan)
            R[at, outputs] = residuals / v
            error = float(np.mean(mean_loss(R, threshold, None if weight is None else weight[rows]) / variance))
            if error < best:
                best, operator, factor = error, T, c
    return operator, factor * alphas
