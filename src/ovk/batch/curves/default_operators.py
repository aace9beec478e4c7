"""Which operator suits curves that nobody has said anything about, and the intercept that goes with it.

Candidates are integral operators of a Gaussian with lengths of 1/20, 1/10 and 1/5 of the grid, for curves that are
smooth on that scale, and of exp(-|t - s| / length of the grid), for rough ones and for jumps. On a closed grid they are
kernels of the circle.

An intercept without a penalty is the mean of the residuals at each time, with the noise of each time in it. As

    f(x) = g(x) + b,   |f|^2 = |g|^2 + |b|^2 / c   with both norms those of the same operator T

it is as smooth as everything else: the kernel of f is (k(x, z) + c) T. In the eigenfunctions of T the intercept is
shrunk by n c t_q / (n c t_q + alpha), so with c = 100 the leading ones are left as they are, and noise is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk._types import Indices
from ovk.curves import Components, Grid, ProductGrid
from ovk.kernels import Gaussian, Laplacian, Matern, Periodic, ScalarKernel
from ovk.operators import Integral
from ovk.targets import Targets

#: Lengths of the Gaussians in lengths of the grid.
LENGTHS = (0.05, 0.1, 0.2)
#: c, the variance of the intercept beside that of the rest.
INTERCEPT = 100.0
#: Values of curves with gaps above which the choice is made on coarser curves, and the fewest points of these.
CHOICE_VALUES, FEWEST_POINTS = 1200, 12


def default_operators(grid: Grid) -> list[Integral]:
    """The candidates, the rough one first.

    >>> [operator.kernel for operator in default_operators(Grid.regular(60, 0.0, 20.0))]
    [Laplacian(20.0), Gaussian(1.0), Gaussian(2.0), Gaussian(4.0)]
    """
    sides = grid.sides() if isinstance(grid, ProductGrid) else [grid]
    kernels = [[_time_kernel(side, length) for side in sides] for length in (None, *LENGTHS)]
    return [Integral(each if isinstance(grid, ProductGrid) else each[0], grid) for each in kernels]


def _time_kernel(side: Grid, length: float | None) -> ScalarKernel | None:
    """The kernel along one axis; None where there is no time along it."""
    if isinstance(side, Components):
        return None
    if side.period is not None:
        whole = float(side.period)
        return Periodic(Matern(0.5, whole) if length is None else Gaussian(length * whole), whole)
    whole = float(np.ptp(side.checked()))
    return Laplacian(whole) if length is None else Gaussian(length * whole)


def coarser_curves(grid: Grid, targets: Targets) -> tuple[Grid, Targets, Indices]:
    """Curves with gaps, in coordinates, averaged over neighbouring points; their grid; and the rows that were taken.

    Averages over bins are projections in L2: the noise of a coordinate keeps its variance, and so alpha its meaning. A
    bin counts as observed where at least half of it was. If there are too many curves, or bins of curves that were seen
    here and there would be mostly empty, some curves are drawn.
    """
    roots, d = grid.roots(), len(grid)
    seen = ~np.isnan(targets.Y)
    before: tuple[Any, ...] | None = None
    for size in range(1, max(d // FEWEST_POINTS, 1) + 1):
        bins = np.arange(d) // size
        whole = np.bincount(bins, weights=grid.weights())
        member = np.eye(len(whole))[bins]
        mass = (seen * grid.weights()) @ member
        observed = mass >= 0.5 * whole
        if before is not None and observed.sum() < 0.5 * CHOICE_VALUES:
            whole, member, mass, observed = before
            break
        if observed.sum() <= CHOICE_VALUES:
            break
        before = whole, member, mass, observed
    sums = (np.where(seen, targets.Y, 0.0) * roots) @ member
    Y = np.where(observed, sums / np.where(observed, mass, 1.0), np.nan) * np.sqrt(whole)
    points = (grid.checked() * grid.weights()) @ member / whole
    rows = np.flatnonzero(observed.any(axis=1))
    share = observed.sum() / max(len(rows), 1)
    most = max(int(CHOICE_VALUES / share), 3)
    if len(rows) > most:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:most])
    weight = None if targets.weight is None else targets.weight[rows]
    return Grid(points, grid.period, whole), Targets(Y[rows], len(whole), False, None, weight), rows
