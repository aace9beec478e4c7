"""Kernels in a metric that is learned from the outputs, and halves of the rows to judge them by.

A metric knows the outputs of the rows that it was learned from: their left-out errors can be too small by a factor of
four. So it is learned from one half of the rows and judged by the other half's, each of them left out of the regression
on all rows, and the other way round; then learned from all of them.
"""

from __future__ import annotations

import numpy as np

from ovk._types import Array, Indices
from ovk.batch.tuning.gradient_metric import GradientMetric
from ovk.kernels import Laplacian, Mapped, Matern, ScalarKernel
from ovk.kernels.stationary import median_distance

#: Rows, or groups, from which a metric is learned.
FEWEST_ROWS = 50
#: Widths in units of the median distance.
WIDTHS = (0.5, 1.0, 2.0, 4.0)


def halves(order: Indices, groups: Indices | None, *, time_order: bool = False) -> Indices:
    """(n,) 0 or 1: the half of each row, whole groups in one; the earlier and the later rows where they are in time.

    Parameters
    ----------
    order : (n,) the rows in random order
    """
    n = len(order)
    if time_order:
        return np.asarray(np.arange(n) >= n // 2, dtype=np.intp)
    _, unit = np.unique(np.arange(n) if groups is None else groups, return_inverse=True)
    # Groups in the order in which their first rows come.
    first = np.unique(unit[order], return_index=True)[1]
    place = np.argsort(np.argsort(first))
    return place[unit] % 2


def metric_kernels(X: Array, Y: Array, ridge: float) -> dict[str, ScalarKernel]:
    """Materns in a metric of all directions, and Laplacians in metrics of the axes, by their names.

    Parameters
    ----------
    X : (n, p) inputs of comparable scales
    Y : (n, d) outputs in units of their deviations about 0, nan where one was not observed
    ridge : the alpha of the regression whose gradients are followed
    """
    # One that is missing is taken as the mean: it flattens the gradients and leaves their directions.
    Y = np.where(np.isnan(Y), 0.0, Y)

    def learned(*, steps: int, power: float, diagonal: bool) -> tuple[Array, Array]:
        metric = GradientMetric(Matern(1.5), ridge, steps=steps, power=power, diagonal=diagonal).fit(X, Y)
        return metric.components_, metric.transform(X)

    R, U = learned(steps=2, power=0.5, diagonal=False)
    width = median_distance(U)
    result: dict[str, ScalarKernel] = {f"metric, Matern 3/2 {f:g}": Mapped(Matern(1.5, f * width), R) for f in WIDTHS}
    for name, steps, power in (("axes", 3, 0.5), ("few axes", 5, 1.0)):
        R, U = learned(steps=steps, power=power, diagonal=True)
        width = median_distance(U, "cityblock")
        result |= {f"metric of {name}, Laplacian {f:g}": Mapped(Laplacian(f * width), R) for f in WIDTHS}
    return result
