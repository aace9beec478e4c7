"""Jackknife+ and CV+: intervals around left-out functions, with a guarantee (Barber, Candes, Ramdas, Tibshirani, 2021).

With e_i = |r_i| / s_i the score of a row that was left out and s_-i(x) the standard deviation without it,

    [ the lower quantile over i of f_-i(x) - e_i s_-i(x),   the upper one of f_-i(x) + e_i s_-i(x) ]

holds a new output with a probability of at least 1 - 2 (1 - level) whatever the distribution, and close to `level` as
a rule, as long as kernel and alpha were not chosen by the same rows. Leaving out folds instead of rows makes it CV+.
"""

from __future__ import annotations

import numpy as np

from ovk._params import check_int, check_level
from ovk._types import Array, Indices
from ovk.intervals.quantile import masses, upper_quantile
from ovk.intervals.regions import Regions
from ovk.solvers.left_out import LeftOut

#: Numbers in each array of left-out functions: 32 MiB of doubles.
BATCH = 1 << 22


def jackknife_plus(
    left_out: LeftOut, cross: Array, prior: Array, level: float = 0.9, *, groups: Indices | None = None
) -> Regions:
    """Intervals for each output at new points by jackknife+, or by CV+ where `left_out` leaves out folds.

    Parameters
    ----------
    left_out : the regression with its rows, groups or folds (`fold_numbers`) left out
    cross, prior : kernel values of the new points, in the form that `left_out` takes
    level : coverage asked for
    groups : (n,) the group of each row where new points are of new groups, else None

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.intervals import jackknife_plus
    >>> from ovk.kernels import Gaussian
    >>> from ovk.solvers.eigen import eigenpairs
    >>> from ovk.solvers.left_out import SeparableLeftOut
    >>> X, k = np.linspace(0, 1, 30)[:, None], Gaussian(0.5)
    >>> left_out = SeparableLeftOut(eigenpairs(k(X)), np.cos(9 * X), np.eye(1), 0.1)
    >>> jackknife_plus(left_out, k(X[:3], X), k.diag(X[:3])).width.shape
    (3, 1)
    """
    level = check_level(level)
    step = max(1, BATCH // max(left_out.residuals.size, 1))
    starts = range(0, len(cross), step)
    parts = [_ends(left_out, cross[a : a + step], prior[a : a + step], level, groups) for a in starts]
    lower, upper = (np.concatenate(ends) for ends in zip(*parts, strict=True))
    radius = 0.5 * (upper - lower)
    return Regions(left_out.predict(cross), lower, upper, radius, np.full(radius.shape, np.nan))


def _ends(left_out: LeftOut, cross: Array, prior: Array, level: float, groups: Indices | None) -> tuple[Array, Array]:
    F = left_out.predict_without(cross)
    s = np.sqrt(left_out.variance_without(cross, prior) + left_out.noise)
    scores = np.abs(left_out.residuals) / np.sqrt(left_out.variances)
    lower, upper = np.empty((2, len(cross), scores.shape[1]))
    for j, score in enumerate(scores.T):
        rows = np.flatnonzero(~np.isnan(score))
        mass = masses(np.ones(len(rows)), None if groups is None else groups[rows])
        block = left_out.block[rows]
        centre, half = F[:, block, j], score[rows] * s[:, block, j]
        lower[:, j] = -upper_quantile(half - centre, mass, level)
        upper[:, j] = upper_quantile(centre + half, mass, level)
    return lower, upper


def fold_numbers(n: int, folds: int, rng: np.random.Generator, groups: Indices | None = None) -> Indices:
    """(n,) a fold for each row at random, folds of equal size; all rows of a group in one fold where there are groups.

    >>> np.bincount(fold_numbers(10, 5, np.random.default_rng(0)))
    array([2, 2, 2, 2, 2])
    """
    units = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    count = int(units.max()) + 1
    folds = min(check_int(folds, "folds", least=2), count)
    of_unit = np.empty(count, dtype=np.intp)
    of_unit[rng.permutation(count)] = np.arange(count) % folds
    return of_unit[units]
