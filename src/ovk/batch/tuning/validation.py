"""Residuals of rows that were not learned from, for a whole path of alphas: rows, groups, or the time to come.

With A = W^1/2 G W^1/2 + alpha I, u = w^1/2 and P = A^-1 - A^-1 u u'A^-1 / (u'A^-1 u) as in `ovk.solvers.leave_one_out`,

    rows      c_i / P_ii,  c = P y
    groups    P_II^-1 c_I
    forward   a block B of rows from the rows before it: with A = C C', e = C^-1 y, o = C^-1 u and the intercept
              b = o_<'e_< / o_<'o_< of the rows before, C_BB (e_B - o_B b)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Self, TypeVar

import numpy as np
from joblib import Parallel, delayed
from scipy.linalg import solve_triangular

from ovk.base import Array, Indices, one_blas_thread, progress_shown, track
from ovk.operators import Spectrum
from ovk.solvers import SeparablePath, eigenpairs

#: Parts of a series in time: the first only to learn from, each other predicted from those before it.
PARTS = 6


class Validation(ABC):
    """Which rows are predicted from which, for rows that have one kernel and outputs without coupling."""

    @abstractmethod
    def rows(self, chosen: Indices) -> Self:
        """The same for some of the rows."""

    def units(self, n: int) -> int:
        """How many of the errors of n rows know nothing of each other."""
        return n

    @abstractmethod
    def residuals(self, G: Array, Y: Array, u: Array | None, alphas: Array) -> Array:
        """(alphas, n, d) residuals of weighted rows; nan for rows that are never predicted.

        Parameters
        ----------
        G : (n, n) gram, with weights W^1/2 G W^1/2
        Y : (n, d) complete outputs, with weights W^1/2 Y
        u : (n,) the square roots of the weights, the column of the intercept; None without intercept
        """

    def path(self, G: Array, Y: Array, alphas: Array, weight: Array | None = None, *, intercept: bool = True) -> Array:
        """(alphas, n, d) residuals; nan where an output was not observed. Outputs seen in the same rows go together."""
        result = np.full((len(alphas), *Y.shape), np.nan)
        v = np.ones(len(Y)) if weight is None else np.sqrt(weight)
        patterns, number = np.unique(~np.isnan(Y), axis=1, return_inverse=True)
        for p in range(patterns.shape[1]):
            rows, columns = np.flatnonzero(patterns[:, p]), np.flatnonzero(number.reshape(-1) == p)
            if len(rows) > 2:
                some = self if len(rows) == len(Y) else self.rows(rows)
                own = G if len(rows) == len(Y) else G[np.ix_(rows, rows)]
                s = v[rows]
                scaled, u = Y[np.ix_(rows, columns)] * s[:, None], s if intercept else None
                found = some.residuals(own * s[:, None] * s, scaled, u, alphas)
                result[:, rows[:, None], columns] = found / s[:, None]
        return result


class EachRow(Validation):
    """Every row is left out on its own."""

    def rows(self, chosen: Indices) -> Self:
        return self

    def residuals(self, G: Array, Y: Array, u: Array | None, alphas: Array) -> Array:
        return _left_out(G, Y, u, alphas, None)


class EachGroup(Validation):
    """All rows of a group are left out together.

    Parameters
    ----------
    groups : (n,) numbers of the rows' groups
    """

    def __init__(self, groups: Indices) -> None:
        self._groups = groups

    def rows(self, chosen: Indices) -> Self:
        return type(self)(self._groups[chosen])

    def units(self, n: int) -> int:
        return len(np.unique(self._groups))

    def residuals(self, G: Array, Y: Array, u: Array | None, alphas: Array) -> Array:
        if len(np.unique(self._groups)) < 2:
            return np.full((len(alphas), *Y.shape), np.nan)
        return _left_out(G, Y, u, alphas, self._groups)


def _left_out(G: Array, Y: Array, u: Array | None, alphas: Array, together: Indices | None) -> Array:
    d = Y.shape[1]
    path = SeparablePath(eigenpairs(G), Y, u, together)
    return np.array(list(path.path(Spectrum(np.ones(d), np.eye(d)), alphas)))


class Forward(Validation):
    """Rows in the order of time: each part of the series is predicted from the parts before it."""

    def rows(self, chosen: Indices) -> Self:
        return self

    def residuals(self, G: Array, Y: Array, u: Array | None, alphas: Array) -> Array:
        n = len(Y)
        result = np.full((len(alphas), *Y.shape), np.nan)
        edges = np.linspace(0, n, PARTS + 1).round().astype(int)
        for a, alpha in enumerate(alphas):
            C = np.linalg.cholesky(G + alpha * np.eye(n))
            white = solve_triangular(C, np.column_stack([Y, np.zeros(n) if u is None else u]), lower=True)
            e, o = white[:, :-1], white[:, -1]
            for start, stop in pairwise(edges[1:]):
                b = np.zeros(Y.shape[1]) if u is None else (o[:start] @ e[:start]) / (o[:start] @ o[:start])
                part = slice(start, stop)
                result[a, part] = C[part, part] @ (e[part] - np.outer(o[part], b))
        return result


def mean_loss(R: Array, threshold: Array, weight: Array | None = None) -> Array:
    """(..., d) means over rows of r^2, or of 2 t |r| - t^2 beyond the threshold t, for residuals (..., n, d)."""
    size = np.abs(R)
    with np.errstate(invalid="ignore"):
        loss = np.where(size <= threshold, size**2, 2.0 * threshold * size - threshold**2)
    seen = ~np.isnan(R)
    mass = seen * (1.0 if weight is None else weight[:, None])
    total = np.where(seen, loss, 0.0) * mass
    counts = mass.sum(axis=-2)
    return np.asarray(total.sum(axis=-2) / np.where(counts > 0, counts, 1.0))


# Candidates in several threads, with results that do not depend on how many there are.

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_threads(
    work: Callable[[Item], Result], items: Sequence[Item], n_jobs: int | None, label: str
) -> Iterator[Result]:
    """work(item) for each of the items in their order, behind a progress bar.

    With a number of threads each of them has one thread of BLAS: how BLAS shares a product among several changes its
    last bits. With None there is one item after the other, and BLAS has its threads.

    >>> list(map_threads(lambda x: x**2, [1, 2, 3], 2, "squaring"))
    [1, 4, 9]
    """
    if n_jobs is None:
        yield from track((work(item) for item in items), label, len(items))
        return
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise ValueError(f"n_jobs must be None, a number of threads, or -1 for one for each processor, got {n_jobs!r}")

    def alone(item: Item) -> Result:
        # Bars of several threads at once would write over each other.
        with one_blas_thread(tiles=1), progress_shown(False):
            return work(item)

    results = Parallel(n_jobs=int(n_jobs), prefer="threads", return_as="generator")(delayed(alone)(i) for i in items)
    yield from track(results, label, len(items))
