"""The quantile that a new score stays below with a given probability, when it is exchangeable with the known ones."""

from __future__ import annotations

import numpy as np

from ovk._types import Array, Indices


def masses(seen: Array, groups: Indices | None) -> Array:
    """The probability (n,) that each known score has among those of a new one.

    n scores and the new one share the probability equally, 1 / (n + 1) for each. Rows that come in K groups, of which
    the new one is another, share 1 / (K + 1) within each group (Lee, Barber and Willett, 2023). What is missing from 1
    is the new score's own, which may be anything.

    Parameters
    ----------
    seen : (n,) bool, whether there is a score
    groups : (n,) the group of each row, or None when every row is one of its own
    """
    if groups is None:
        return np.asarray(seen / (seen.sum() + 1.0))
    _, numbers = np.unique(groups, return_inverse=True)
    counts = np.bincount(numbers, weights=seen)
    own = np.divide(1.0, counts, out=np.zeros(len(counts)), where=counts > 0)
    return np.asarray(seen * own[numbers] / ((counts > 0).sum() + 1.0))


def upper_quantile(values: Array, mass: Array, level: float) -> Array:
    """The smallest of `values`, (..., n), up to which their masses (n,) reach `level`; infinite where they never do.

    >>> upper_quantile(np.arange(1.0, 20.0), np.full(19, 1 / 20), 0.9)
    array(18.)
    >>> upper_quantile(np.arange(1.0, 5.0), np.full(4, 1 / 5), 0.9)
    array(inf)
    """
    order = np.argsort(values, axis=-1)
    # A sum of n equal masses may miss the level by rounding.
    reached = np.cumsum(mass[order], axis=-1) >= level - 1e-12
    first = np.take_along_axis(order, reached.argmax(axis=-1)[..., None], axis=-1)
    found = np.take_along_axis(values, first, axis=-1)[..., 0]
    return np.where(reached[..., -1], found, np.inf)
