"""Vector field consensus: which observations follow a field, and which are outliers (Ma et al. 2013).

An observation is an inlier with probability g, and then v ~ N(f(x), s^2 I), or an outlier spread evenly over a volume
a:

    p_i = g exp(-|v_i - f(x_i)|^2 / 2 s^2) / (g exp(-|v_i - f(x_i)|^2 / 2 s^2) + (1 - g) (2 pi s^2)^(d/2) / a)
    f = ridge regression with weights p and alpha = s^2,   s^2 = sum p |v - f|^2 / (d sum p),   g = sum p / n

in turn (expectation, maximisation). The noise starts at the spread of all observations, so that first nearly all of
them have a say, and shrinks as the field comes out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ovk._types import Array, Smoother
from ovk.features import OperatorNystromMap
from ovk.ovkernels import OperatorKernel
from ovk.solvers.cholesky import cholesky_factor

#: Rounds end when no probability moves by more than this, and at the latest after so many.
TOLERANCE, MAX_ROUNDS = 1e-4, 200


class OutlierEstimate(NamedTuple):
    """The result: inlier probabilities (n,), noise variance, share of inliers, rounds taken."""

    probability: Array
    variance: float
    share: float
    rounds: int


def estimate_outliers(
    smooth: Smoother,
    V: Array,
    weight: Array | None = None,
    *,
    start: OutlierEstimate | None = None,
) -> OutlierEstimate:
    """Run until no probability moves by more than `TOLERANCE`.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.batch.fields.outliers import estimate_outliers
    >>> V = np.array([[1.0, 0.0], [1.01, 0.0], [0.99, 0.01], [1.0, -0.01], [-3.0, 4.0]])
    >>> def mean(weights, variance):
    ...     return np.tile(weights @ V / weights.sum(), (5, 1))
    >>> estimate_outliers(mean, V).probability.round(2)
    array([1., 1., 1., 1., 0.])
    """
    n, d = V.shape
    w = np.ones(n) if weight is None else weight
    extent = np.ptp(V, axis=0)
    # A component that never varies leaves the outliers no room in it: they have that of the others.
    extent = np.where(extent > 0, extent, max(float(extent.max()), 1e-300))
    volume = float(np.sum(np.log(extent)))
    centre = w @ V / w.sum()
    spread = float((w @ (V - centre) ** 2).sum()) / (d * w.sum())
    least = 1e-10 * spread
    if spread == 0:
        return OutlierEstimate(np.ones(n), 0.0, 1.0, 0)
    p, variance, share = (np.ones(n), spread, 0.9) if start is None else start[:3]
    for rounds in range(1, MAX_ROUNDS + 1):
        F = smooth(w * p, variance)
        squares = ((V - F) ** 2).sum(axis=1)
        if rounds > 1 or start is not None:
            variance = max(float((w * p) @ squares) / (d * float((w * p).sum())), least)
        inlier = np.log(share) - 0.5 * squares / variance - 0.5 * d * np.log(2 * np.pi * variance)
        outlier = np.log1p(-share) - volume
        new = 1.0 / (1.0 + np.exp(np.clip(outlier - inlier, -700, 700)))
        # At least as many inliers as a field needs to be seen at all.
        share = float(np.clip(w @ new / w.sum(), 0.01, 0.999))
        moved = float(np.abs(new - p).max())
        p = np.maximum(new, 1e-12)
        if moved <= TOLERANCE:
            break
    return OutlierEstimate(p, variance, share, rounds)


def smoother(kernel: OperatorKernel, X: Any, V: Array, landmarks: Any, *, intercept: bool) -> Smoother:
    """Fitted values at the data as a function of weights and noise; the gram is computed once."""
    n, d = V.shape
    flat = V.reshape(-1)
    constants = np.tile(np.eye(d), (n, 1)) if intercept else np.zeros((n * d, 0))
    if landmarks is None:
        K = kernel.gram(X).dense()

        def smooth(p: Array, variance: float) -> Array:
            # (R K R + s^2) c = R (v - E b), f = K R c + E b
            root = np.repeat(np.sqrt(p), d)
            factor = cholesky_factor(lambda: K * root[:, None] * root, variance)
            RE = constants * root[:, None]
            solved = factor.solve(np.column_stack([root * flat, RE]))
            b = np.linalg.solve(RE.T @ solved[:, 1:], RE.T @ solved[:, 0])
            c = solved[:, 0] - solved[:, 1:] @ b
            values: Array = K @ (root * c) + constants @ b
            return values.reshape(n, d)

        return smooth
    points = OperatorNystromMap.from_points(kernel, landmarks)
    Phi = np.column_stack([points.transform(X), constants])
    ridge = np.concatenate([np.ones(Phi.shape[1] - constants.shape[1]), np.zeros(constants.shape[1])])

    def smooth_sparse(p: Array, variance: float) -> Array:
        weighted = Phi * np.repeat(p, d)[:, None]
        factor = cholesky_factor(lambda: weighted.T @ Phi + np.diag(variance * ridge), 0.0)
        values: Array = Phi @ factor.solve(weighted.T @ flat)
        return values.reshape(n, d)

    return smooth_sparse
