"""A learned scale of the noise, for intervals that are wide where the noise is large.

With z_ij = r_ij / s_ij the standardised leave-one-out residuals, a second ridge regression, with the kernel of the
model and an intercept, learns half the logarithm of z_ij^2 + c_j, h_j(x). Its leave-one-out values h_-i(x_i) do not
depend on the row's own logarithm. Intervals use

    z_ij / g_ij,   g_ij = exp(strength_j h_-i,j(x_i)),   and   s_j(x) exp(strength_j h_j(x)) at new points.

For each output, ridge and strength minimise the leave-one-out interval score at level 0.9,

    mean_i  2 q g_i s_i + 2 / (1 - level) max(0, |r_i| - q g_i s_i),    q the quantile of |z_i| / g_i,

and the scale stays constant unless this score improves notably.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ovk.base import Array, Indices
from ovk.operators import Spectrum
from ovk.solvers import Eigenpairs, LeaveOneOut, SeparableLeaveOneOut, SeparablePath

#: Minimum number of blocks of rows that are left out.
MIN_BLOCKS = 50
#: Ridges, in units of the mean kernel value k(x, x), and strengths.
RIDGES, STRENGTHS = np.logspace(-1.0, 3.0, 9), (0.5, 1.0)
#: Added to the squares, in units of their median: logarithms of residuals near zero are mostly noise.
RELATIVE_OFFSET = 0.01
#: Largest score, relative to that of a constant scale, at which a scale is used.
MAX_RELATIVE_SCORE = 0.99
#: Level of the score. It does not depend on that of the intervals, so that intervals of several levels are nested.
SCORE_LEVEL = 0.9


@dataclass(frozen=True)
class NoiseScale:
    left_out: Array  # (n, d) g_ij of the training rows
    strength: Array  # (d,) 0 for a constant scale
    logs: SeparableLeaveOneOut  # the regression of the logarithms
    rows: Indices | None = None  # the training rows that it has learned; None for all

    def at(self, cross: Array) -> Array:
        """(m, d) scale at new points with kernel values `cross` (m, n)."""
        return np.exp(self.strength * self.logs.predict(cross if self.rows is None else cross[:, self.rows]))


def noise_scale(
    pairs: Eigenpairs, loo: LeaveOneOut, weight: Array | None, together: Indices | None, rows: Indices | None = None
) -> NoiseScale | None:
    """Learn the scale from eigenpairs of the gram (with weights W^1/2 G W^1/2); None if a constant is as good.

    With `rows`, only these are learned: gram, weights and blocks are theirs.
    """
    if loo.n_blocks < MIN_BLOCKS or loo.alike:
        return None
    every = slice(None) if rows is None else rows
    R, s = loo.residuals[every], np.sqrt(loo.variances[every])
    squares = (R / s) ** 2
    seen = ~np.isnan(squares)
    middle = np.array(
        [np.median(column[known]) if known.any() else 0.0 for column, known in zip(squares.T, seen.T, strict=True)]
    )
    if not middle.any():
        return None
    logs = 0.5 * np.log(squares + np.maximum(RELATIVE_OFFSET * middle, 1e-300))
    # A missing output does not contribute to the scale.
    mean = np.where(seen, logs, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    logs = np.where(seen, logs, mean) - mean
    n, d = logs.shape
    root = np.ones((n, 1)) if weight is None else np.sqrt(weight)[:, None]
    unit = max(float((pairs.g.sum()) / n), 1e-300)
    path = SeparablePath(pairs, logs * root, root[:, 0], together)
    best, strength, ridge = MAX_RELATIVE_SCORE * _interval_scores(R, s), np.zeros(d), np.full(d, unit * RIDGES[-1])
    for alpha, residuals in zip(unit * RIDGES, path.path(Spectrum(np.ones(d), np.eye(d)), unit * RIDGES), strict=True):
        h = logs - residuals / root
        for power in STRENGTHS:
            score = _interval_scores(R, s * np.exp(power * h))
            better = score < best
            best, strength = np.where(better, score, best), np.where(better, power, strength)
            ridge = np.where(better, alpha, ridge)
    if not strength.any():
        return None
    found = SeparableLeaveOneOut(pairs, logs, np.eye(d), ridge, weight, together=together)
    return NoiseScale(np.exp(strength * (logs - found.residuals)), strength, found, rows)


def _interval_scores(R: Array, sides: Array) -> Array:
    """(d,) mean interval scores of intervals with half widths q `sides`, (n, d), for residuals R (n, d) with gaps."""
    size = np.abs(R)
    half = np.nanquantile(size / sides, SCORE_LEVEL, axis=0) * sides
    return np.asarray(np.nanmean(2.0 * half + 2.0 / (1.0 - SCORE_LEVEL) * np.maximum(size - half, 0.0), axis=0))
