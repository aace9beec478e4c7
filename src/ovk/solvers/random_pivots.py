"""Randomly pivoted Cholesky: a few columns of a large positive semi-definite matrix that tell most of it.

Column i joins with probability d_i / sum d, d the diagonal of what the columns so far do not explain (Chen, Epperly,
Tropp and Webber, 2023). Proposals are drawn a block at a time from the d of its beginning, and the later ones are
accepted with the share of their d that the earlier left (rejection sampling), so the columns have the same law as drawn
one by one, and all work is in products of matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ovk._progress import ProgressBar
from ovk._types import Array, Indices
from ovk.solvers.triangular import whitened_rows

#: Columns that are proposed at a time, at most.
BLOCK = 100
#: Diagonal entries below this part of the largest are rounding.
ROUNDING = 1e-13


class PivotedFactor(NamedTuple):
    """F F' approximates the matrix, exactly in the rows and columns `pivots`."""

    pivots: Indices  # (m,)
    F: Array  # (n, m)
    left: float  # trace of what is not explained, relative to the whole


def random_pivots(
    entries: Callable[[Indices, Indices], Array],
    diagonal: Array,
    rank: int,
    rng: np.random.Generator,
    tol: float = 0.0,
) -> PivotedFactor:
    """Choose up to `rank` columns, fewer where less than `tol` of the trace is left.

    Parameters
    ----------
    entries : gives the matrix at rows (r,) and columns (c,), as (r, c)
    diagonal : (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Gaussian
    >>> from ovk.solvers.random_pivots import random_pivots
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> found = random_pivots(lambda i, j: Gaussian(0.3)(X[i], X[j]), np.ones(200), 8, np.random.default_rng(0))
    >>> found.F.shape, bool(found.left < 1e-3)
    ((200, 8), True)
    """
    n = len(diagonal)
    d: Array = np.array(diagonal, dtype=np.float64)
    whole, largest = float(d.sum()), float(d.max(initial=0.0))
    every = np.arange(n)
    F, pivots = np.empty((n, min(rank, n))), np.empty(min(rank, n), dtype=np.intp)
    k = 0
    with ProgressBar("choosing points", total=len(pivots)) as bar:
        while k < len(pivots) and d.sum() > tol * whole and d.max() > ROUNDING * largest:
            proposed = rng.choice(n, size=min(BLOCK, max(len(pivots) // 10, 1), len(pivots) - k), p=d / d.sum())
            inner = entries(proposed, proposed) - F[proposed, :k] @ F[proposed, :k].T
            kept, L = _accepted(inner, d[proposed], rng, ROUNDING * largest)
            new = proposed[kept]
            a = k + len(new)
            F[:, k:a] = whitened_rows(L, entries(every, new) - F[:, :k] @ F[new, :k].T)
            pivots[k:a] = new
            d -= np.einsum("ij,ij->i", F[:, k:a], F[:, k:a])
            np.maximum(d, 0.0, out=d)
            d[new] = 0.0
            bar.update(len(new))
            k = a
    return PivotedFactor(pivots[:k], F[:, :k], float(d.sum()) / whole if whole > 0 else 0.0)


def _accepted(inner: Array, before: Array, rng: np.random.Generator, least: float) -> tuple[Indices, Array]:
    """Proposals that are accepted, and the Cholesky factor of their block."""
    b = len(inner)
    rest, columns = inner.copy(), np.zeros((b, b))
    kept: list[int] = []
    draws = rng.uniform(size=b)
    for i in range(b):
        if rest[i, i] > max(draws[i] * before[i], least):
            column = rest[:, i] / np.sqrt(rest[i, i])
            columns[:, len(kept)] = column
            rest -= np.outer(column, column)
            kept.append(i)
    chosen = np.array(kept, dtype=np.intp)
    return chosen, np.ascontiguousarray(np.tril(columns[chosen, : len(kept)]))
