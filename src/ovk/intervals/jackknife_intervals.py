"""The normalised jackknife: leave-one-out residuals divided by their standard deviations.

With r_i the leave-one-out residual of row i, s_i its standard deviation up to a constant and s(x) that of a new
observation, all from the leave-one-out formulas of kernel ridge regression,

    each       q_j the quantile of |r_ij| / s_ij              f_j(x) +- q_j s_j(x)
    box        q the quantile of max_j |r_ij| / (s_ij c_j)    f_j(x) +- q c_j s_j(x) for all j at once
    ellipsoid  q the quantile of sqrt(z_i'C^-1 z_i), z_ij = r_ij / (s_ij c_j)
               {y : e'C^-1 e <= q^2}, e_j = (y_j - f_j(x)) / (c_j s_j(x))

where c_j is the root mean square of r_ij / s_ij and C the correlation of the z, shrunk towards the identity. The score
of a row uses the c_j and the C of the other rows (or groups): with few rows, an outlier would otherwise inflate its own
scale. A box over the points of a grid is a band around a whole curve. Intervals are wide where data are sparse, and
scale with the outputs. The only assumption is that the scores of new rows are distributed like leave-one-out scores.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.stats import chi2, norm

from ovk.base import Array, Indices, Mask, check_choice, check_int, check_level
from ovk.intervals.learned_noise import NoiseScale
from ovk.intervals.regions import Regions, masses, shrunk, upper_quantile
from ovk.solvers import LeaveOneOut

#: Relative rounding error of predictions.
ROUNDING = 1e-12
#: Maximum number of blocks, and of operations, for which the scale without each block is computed exactly.
MAX_EXACT_BLOCKS, MAX_EXACT_OPERATIONS = 200, 1e10


def jackknife(
    loo: LeaveOneOut,
    cross: Array,
    prior: Array,
    level: float = 0.9,
    *,
    region: str = "each",
    groups: Indices | None = None,
    noise: NoiseScale | None = None,
) -> Regions:
    """Intervals or regions at new points by the normalised jackknife, with a learned scale `noise` if given.

    `loo` has the leave-one-out residuals, or leave-group-out residuals with `groups` (n,) if new points belong to
    new groups; `cross` and `prior` are kernel values of the new points in the form that it takes. `region` is "each"
    for an interval for each output, "box" or "ellipsoid" for a joint region.
    """
    level = check_level(level)
    F, s = loo.predict(cross), loo.deviation(cross, prior)
    scores, c = loo.residuals / np.sqrt(loo.variances), np.sqrt(loo.scale)
    if noise is not None:
        scores, s = scores / noise.left_out, s * noise.at(cross)
        c = np.sqrt(np.nanmean(scores**2, axis=0))
    if region == "each":
        if loo.alike:
            # Every curve has weight 1, shared among its times, because a time may have too few curves for a quantile.
            votes = np.arange(len(scores)) if groups is None else groups
            z = np.abs(scores) / np.where(c > 0, c, 1.0)
            each = c * _quantile(z.ravel(), np.repeat(votes, z.shape[1]), level)
        else:
            each = np.array([_quantile(column, groups, level) for column in np.abs(scores).T])
        return _around(F, each * s, np.broadcast_to(each, F.shape).copy())
    check_choice(region, "region", ("each", "box", "ellipsoid"))
    if region == "box":
        q = _quantile(_largest(scores / _others_scale(scores, loo.block)), groups, level)
        return _around(F, q * c * s, np.full((len(F), 1), q))
    # Outputs without any error have the scale 0.
    z = scores / np.where(c > 0, c, 1.0)
    C = shrunk_correlation(z)
    q = _quantile(_leave_one_out_distances(scores, z, C, loo.block), groups, level)
    sides = np.maximum(c * s, _rounding(F))
    return _around(F, q * sides, np.full((len(F), 1), q), sides[:, :, None] * C * sides[:, None, :])


def _rounding(F: Array) -> Array:
    """Smallest half width of an interval around F, so that rounding does not exclude an exact output."""
    return np.maximum(ROUNDING * np.abs(F), 1e-150)


def _around(F: Array, half: Array, radius: Array, scatter: Array | None = None) -> Regions:
    half = np.maximum(half, _rounding(F))
    return Regions(F, F - half, F + half, radius, np.full(radius.shape, np.nan), scatter)


def _quantile(scores: Array, groups: Indices | None, level: float) -> float:
    seen = ~np.isnan(scores)
    return float(upper_quantile(np.where(seen, scores, np.inf), masses(seen, groups), level))


def _others_scale(scores: Array, block: Indices) -> Array:
    """(n, d) root mean squares of the scores (n, d) of the rows of other blocks, 1 where there are none."""
    seen = ~np.isnan(scores)
    squares = np.where(seen, scores, 0.0) ** 2

    def of_others(values: Array) -> Array:
        own = np.zeros((int(block.max()) + 1, values.shape[1]))
        np.add.at(own, block, values)
        return np.asarray(np.maximum(values.sum(axis=0) - own[block], 0.0))

    mean = of_others(squares) / np.maximum(of_others(seen.astype(np.float64)), 1.0)
    return np.where(mean > 0, np.sqrt(mean), 1.0)


def _largest(z: Array) -> Array:
    """max_j |z_ij|, nan where all outputs are missing.

    If only k of the d outputs are observed, it is the quantile for d normal variables at the same tail probability.
    """
    seen = ~np.isnan(z)
    largest = np.where(seen, np.abs(z), 0.0).max(axis=1)
    rarity = 1.0 - (1.0 - 2.0 * norm.sf(largest)) ** seen.mean(axis=1)
    return _completed(largest, norm.isf(0.5 * rarity), seen)


def _completed(scores: Array, replaced: Array, seen: Mask) -> Array:
    """Scores of complete rows, `replaced` for rows with missing outputs unless it overflows, nan for empty rows."""
    usable = ~seen.all(axis=1) & np.isfinite(replaced)
    return np.where(seen.any(axis=1), np.where(usable, np.maximum(replaced, scores), scores), np.nan)


def shrunk_correlation(z: Array) -> Array:
    """Correlations (d, d) about zero of scores (n, d) of mean square 1, nan where missing, shrunk by n / (n + d)."""
    n, d = z.shape
    seen = ~np.isnan(z)
    known = np.where(seen, z, 0.0)
    both_seen = seen.T.astype(np.float64) @ seen
    moments = np.divide(known.T @ known, both_seen, out=np.zeros((d, d)), where=both_seen > 0)
    return shrunk(moments, n, complete=bool(seen.all()))


def _leave_one_out_distances(scores: Array, z: Array, C: Array, block: Indices) -> Array:
    """sqrt(z_i'C^-1 z_i) of scores (n, d) with the c and the C of the rows of other blocks, nan for empty rows.

    `z` and `C` are the scores in units of the c of all rows, and their shrunk correlation. With many blocks, c hardly
    depends on one of them, and C without row i is C - z_i z_i' / (n + d) up to a factor near 1:
    h / (1 - h / (n + d)) with h = z_i'C^-1 z_i. With few blocks both are computed without the block.
    """
    n, d = z.shape
    count = int(block.max()) + 1
    if count > MAX_EXACT_BLOCKS or count * float(d) ** 3 > MAX_EXACT_OPERATIONS:
        h = _squared_distances(z, C)
        h = h / np.maximum(1.0 - h / (n + d), 1e-12)
    else:
        h = np.empty(n)
        others = _others_scale(scores, block)
        for number in range(count):
            own = block == number
            c = others[own][0]
            h[own] = _squared_distances(scores[own] / c, shrunk_correlation(scores[~own] / c))
    # With only k of the d outputs observed, the chi-square quantile for d outputs at the same tail probability.
    seen = ~np.isnan(z)
    replaced = chi2.isf(chi2.sf(h, np.maximum(seen.sum(axis=1), 1)), d)
    return np.sqrt(_completed(h, replaced, seen))


def _squared_distances(z: Array, C: Array) -> Array:
    """(n,) z_i'C^-1 z_i over the observed outputs."""
    h = np.zeros(len(z))
    patterns, number = np.unique(~np.isnan(z), axis=0, return_inverse=True)
    for p, pattern in enumerate(patterns):
        rows = np.flatnonzero(number.reshape(-1) == p)
        if pattern.any():
            part = z[np.ix_(rows, pattern)]
            h[rows] = np.einsum("ij,ji->i", part, cho_solve(cho_factor(C[np.ix_(pattern, pattern)]), part.T))
    return h


# Jackknife+ and CV+: intervals with guaranteed coverage (Barber, Candes, Ramdas, Tibshirani, 2021).
#
# With e_i = |r_i| / s_i the leave-one-out score of row i and s_-i(x) the standard deviation without it,
#
#     [ the lower quantile over i of f_-i(x) - e_i s_-i(x),   the upper one of f_-i(x) + e_i s_-i(x) ]
#
# contains a new output with a probability of at least 1 - 2 (1 - level) for any distribution, and usually close to
# `level`, if kernel and alpha were not chosen with the same rows. CV+ leaves out folds instead of rows.

#: Maximum size of each array of leave-one-out predictions: 32 MiB of doubles.
MAX_BATCH_SIZE = 1 << 22


def jackknife_plus(
    loo: LeaveOneOut, cross: Array, prior: Array, level: float = 0.9, *, groups: Indices | None = None
) -> Regions:
    """Intervals for each output at new points by jackknife+, or CV+ if `loo` leaves out folds; see `jackknife`."""
    level = check_level(level)
    step = max(1, MAX_BATCH_SIZE // max(loo.residuals.size, 1))
    parts = [_ends(loo, cross[a : a + step], prior[a : a + step], level, groups) for a in range(0, len(cross), step)]
    lower, upper = (np.concatenate(ends) for ends in zip(*parts, strict=True))
    radius = 0.5 * (upper - lower)
    return Regions(loo.predict(cross), lower, upper, radius, np.full(radius.shape, np.nan))


def _ends(loo: LeaveOneOut, cross: Array, prior: Array, level: float, groups: Indices | None) -> tuple[Array, Array]:
    F = loo.predict_without(cross)
    s = np.sqrt(loo.variance_without(cross, prior) + loo.noise)
    scores = np.abs(loo.residuals) / np.sqrt(loo.variances)
    lower, upper = np.empty((2, len(cross), scores.shape[1]))
    for j, score in enumerate(scores.T):
        rows = np.flatnonzero(~np.isnan(score))
        mass = masses(np.ones(len(rows)), None if groups is None else groups[rows])
        block = loo.block[rows]
        centre, half = F[:, block, j], score[rows] * s[:, block, j]
        lower[:, j] = -upper_quantile(half - centre, mass, level)
        upper[:, j] = upper_quantile(centre + half, mass, level)
    return lower, upper


def fold_indices(n: int, folds: int, rng: np.random.Generator, groups: Indices | None = None) -> Indices:
    """(n,) a random fold for each row, in folds of equal size; all rows of a group are in one fold."""
    units = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    count = int(units.max()) + 1
    folds = min(check_int(folds, "folds", least=2), count)
    of_unit = np.empty(count, dtype=np.intp)
    of_unit[rng.permutation(count)] = np.arange(count) % folds
    return of_unit[units]
