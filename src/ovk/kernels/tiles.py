"""Fused evaluation of a kernel in tiles: distances and profile in one visit to memory.

A tile is a block of whole rows small enough to stay in cache. Its squared distances come from one product of
augmented matrices,

    -|x - z|^2 / 2 = [x, -|x|^2/2, 1] . [z, 1, -|z|^2/2],

and the kernel's profile is applied to them in place. Tiles are shared among threads, with one BLAS thread inside each:
a product this small is slower with two. As many tiles run at once as BLAS would have used threads, so the usual ways
to limit BLAS (``OPENBLAS_NUM_THREADS``, `threadpoolctl`, joblib's workers) limit this as well.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from ovk.base import Array, Indices, one_blas_thread, tile_threads

#: Replaces squared distances by values of a kernel, in place.
EntrywiseMap = Callable[[Array], None]
#: Entries in a tile: two MiB of doubles.
TILE_ENTRIES = 1 << 18
#: Multiplications that one thread does in less time than it takes to share them.
MAX_WORK_OF_ONE_THREAD = 1 << 22
#: Squared distances below this part of the squared norms are taken from differences where a kernel is rough.
NEAR_SHARE = 1e-8
#: Numbers of points whose differences from a single row stay in cache.
MAX_NUMBERS_OF_ONE_ROW = 1 << 16
#: Inputs from which products cost more than copying half of a symmetric matrix.
MANY_INPUTS = 64


#: Arrays to work in that belong to one thread.
_own = threading.local()


@lru_cache(maxsize=4)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="ovk-tile")


if hasattr(os, "register_at_fork"):
    # A forked child inherits the pool object but none of its threads: waiting on it would never end.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def over_rows(work: Callable[[int, int], None], n: int, width: int, cost: int = 1) -> None:
    """Call ``work(start, stop)`` on blocks of the rows 0..n, each a tile of `width` columns.

    `cost` is the work of an entry, in multiplications: a block that is soon done is not worth waking a thread for.
    """
    if n * width <= TILE_ENTRIES and n * width * cost <= MAX_WORK_OF_ONE_THREAD:
        work(0, n)
        return
    threads = tile_threads()
    step = max(1, min(TILE_ENTRIES // max(width, 1), -(-n // threads)))
    starts = range(0, n, step)
    with one_blas_thread():
        if threads == 1:
            for start in starts:
                work(start, min(start + step, n))
        else:
            # list() waits for all of them and raises the first error.
            list(_pool(threads).map(lambda start: work(start, min(start + step, n)), starts))


def radial(X: Any, Z: Any | None, scale: float | Array, profile: EntrywiseMap, *, rough: bool = False) -> Array:
    """Matrix (n, m) of a radial kernel, of arrays or scipy sparse matrices; `Z` None means `X`.

    The `profile` replaces h = -|x - z|^2 / (2 scale^2) by the kernel's values, in place; rounding can leave h above 0
    by less than 1e-11. The length scale is one or (p,). The values of a `rough` kernel change with |x - z| itself near
    zero: the square root of a rounded zero is 1e-8, so small distances are then taken from differences.
    """
    same = Z is None
    if sparse.issparse(X) or sparse.issparse(Z):
        h = _sparse_half_distances(X, X if same else Z, scale, rough)
        if same:
            np.fill_diagonal(h, 0.0)
        profile(h)
        return h
    X = np.asarray(X, dtype=np.float64)
    Z = X if same else np.asarray(Z, dtype=np.float64)
    if len(X) == 1 and Z.size <= MAX_NUMBERS_OF_ONE_ROW:
        return _one_row(X, Z, scale, profile)
    X, Z, scale = _in_range(X, Z, scale)
    n, m, p = len(X), len(Z), X.shape[1]
    out = np.empty((n, m))
    if n == 0 or m == 0:
        return out
    distances = _HalfDistances(Z, scale, rough)
    mirror = same and p >= MANY_INPUTS

    def work(start: int, stop: int) -> None:
        h = out[start:stop, :stop] if mirror else out[start:stop]
        distances.fill(distances.left(X[start:stop]), 0, h)
        if same:
            rows = np.arange(stop - start)
            h[rows, rows + start] = 0.0
        profile(h)
        if mirror:
            out[:start, start:stop] = h[:, :start].T

    over_rows(work, n, m, cost=p + 16)
    return out


def radial_product(
    X: Array,
    Z: Array,
    scale: float | Array,
    profile: EntrywiseMap,
    W: Array,
    since: Indices | None = None,
    *,
    rough: bool = False,
) -> Array:
    """The matrix of a radial kernel times W, (n, q), one tile at a time: the matrix itself is never there.

    Besides memory this saves time, as fresh pages of a large array cost as much as the exponentials in it. `since`,
    (n,), is the first point that each row sees, never decreasing; None for all points.
    """
    if len(X) == 1 and Z.size <= MAX_NUMBERS_OF_ONE_ROW:
        first = 0 if since is None else int(since[0])
        return _one_row(X, Z[first:], scale, profile) @ W[first:]
    X, Z, scale = _in_range(X, Z, scale)
    n, m, p = len(X), len(Z), X.shape[1]
    total: Array = np.zeros((n, W.shape[1]))
    if n == 0 or m == 0:
        return total
    distances = _HalfDistances(Z, scale, rough)
    width = min(m, MAX_TILE_COLUMNS)

    def work(start: int, stop: int) -> None:
        left = distances.left(X[start:stop])
        # Points that no row of the tile sees are left out; those that some do not see stand in front of the others.
        lowest, front = (0, 0) if since is None else (int(since[start]), int(since[stop - 1]))
        for first in range(lowest, m, width):
            last = min(first + width, m)
            h = _scratch("tile", (stop - start, last - first))
            distances.fill(left, first, h)
            profile(h)
            if since is not None and first < front:
                _hide(h, since[start:stop] - first)
            total[start:stop] += h @ W[first:last]

    over_rows(work, n, width, cost=(p + 16) * -(-m // width))
    return total


def _one_row(x: Array, Z: Array, scale: float | Array, profile: EntrywiseMap) -> Array:
    """The kernel's values of a single row, (1, m), from differences: nothing has to be prepared for the points."""
    if not isinstance(scale, float) or not 1e-140 < scale < 1e140:
        x, Z, scale = x / scale, Z / scale, 1.0
    squares = Z - x
    squares *= squares
    h: Array = (squares @ np.full(Z.shape[1], -0.5 / (scale * scale)))[None]
    profile(h)
    return h


def _hide(h: Array, since: Indices) -> None:
    """Put 0 in front of column since_i of each row, (n,), a few rows at a time: most of it is whole rectangles."""
    for start in range(0, len(h), ROWS_HIDDEN_AT_ONCE):
        rows = slice(start, start + ROWS_HIDDEN_AT_ONCE)
        low, high = max(int(since[start]), 0), int(since[rows][-1])
        if high > 0:
            h[rows, :low] = 0.0
            step = h[rows, low:high]
            step *= np.arange(low, low + step.shape[1]) >= since[rows, None]


def _in_range(X: Array, Z: Array, scale: float | Array) -> tuple[Array, Array, float | Array]:
    """Rows, points and scale such that the square of the scale neither overflows nor vanishes."""
    scale = np.asarray(scale, dtype=np.float64)
    if scale.min() > 1e-140 and scale.max() < 1e140:
        return X, Z, scale
    return X / scale, Z / scale, np.float64(1.0)


class _HalfDistances:
    """-|x - z|^2 / (2 scale^2) to the points Z."""

    def __init__(self, Z: Array, scale: float | Array, rough: bool) -> None:
        m, p = Z.shape
        self._rough = rough
        self._centre = _middle(Z)
        # The scale stands on the side of the rows, which there are fewer of.
        self._weight = 1.0 / np.square(np.asarray(scale, dtype=np.float64))
        self._right = _scratch("points", (m, p + 2))
        with np.errstate(over="ignore"):
            np.subtract(Z, self._centre, out=self._right[:, :p])
            self._right[:, p] = 1.0
            self._right[:, p + 1] = norms = self._norms(self._right[:, :p])
        self._near = norms.min() > -SAFE_SQUARE

    def _norms(self, A: Array) -> Array:
        """-|a|^2 / (2 scale^2) of every row, (n,)."""
        if self._weight.ndim == 0:
            squares: Array = np.einsum("ij,ij->i", A, A)
            squares *= -0.5 * self._weight
            return squares
        return np.asarray(np.einsum("ij,ij,j->i", A, A, -0.5 * self._weight))

    def left(self, X: Array) -> Array:
        """The factor of some rows, (n, p + 2)."""
        left = np.empty((len(X), X.shape[1] + 2))
        with np.errstate(over="ignore"):
            np.subtract(X, self._centre, out=left[:, :-2])
            left[:, -2] = self._norms(left[:, :-2])
            left[:, -1] = 1.0
            left[:, :-2] *= self._weight
        return left

    def fill(self, left: Array, first: int, h: Array) -> None:
        """Put the values for the points from `first` on into h, (n, any number of points)."""
        right = self._right[first : first + h.shape[1]].T
        # Rounding can leave a distance negative, far from the centre by much. Near it a profile does not mind, or sees
        # to it itself: going over a tile costs a fifth of all its work. (Written so that nan counts as far.)
        if self._near and left[:, -2].min() > -SAFE_SQUARE:
            np.matmul(left, right, out=h)
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                np.matmul(left, right, out=h)
                np.minimum(h, 0.0, out=h)
                self._bring_back(left, first, h)
        if self._rough:
            self._sharpen(left, first, h)

    def _bring_back(self, left: Array, first: int, h: Array) -> None:
        """Values that are not finite, for points further out than the square root of the largest number, again from
        differences: infinity less infinity may well be 0."""
        rows, columns = np.nonzero(~np.isfinite(h))
        if len(rows):
            difference = left[rows, :-2] / self._weight - self._right[first + columns, :-2]
            h[rows, columns] = np.maximum(np.nan_to_num(self._norms(difference), nan=-MAX_SQUARE), -MAX_SQUARE)

    def _sharpen(self, left: Array, first: int, h: Array) -> None:
        """Small distances again, from differences."""
        right = self._right[first : first + h.shape[1]]
        rows, columns = np.nonzero(h >= NEAR_SHARE * np.add.outer(left[:, -2], right[:, -1]))
        if len(rows):
            difference = left[rows, :-2] / self._weight - right[columns, :-2]
            h[rows, columns] = self._norms(difference)


#: -|a|^2 / (2 scale^2) of points whose distances are right to 1e-11.
SAFE_SQUARE = 1024.0

#: The same of points so far out that larger numbers would not be finite in all profiles.
MAX_SQUARE = 1e300

#: Rows of which the points that they do not see are hidden together.
ROWS_HIDDEN_AT_ONCE = 32

#: Points in a tile of a product, at most: with fewer rows than these leave room for, products are slow.
MAX_TILE_COLUMNS = 1 << 12


def _scratch(name: str, shape: tuple[int, int]) -> Array:
    """An array to work in, whose contents are whatever was there: this thread's own, if it is not too large to keep."""
    size = shape[0] * shape[1]
    if size > 2 * TILE_ENTRIES:
        return np.empty(shape)
    flat = getattr(_own, name, None)
    if flat is None or flat.size < size:
        flat = np.empty(size)
        setattr(_own, name, flat)
    return flat[:size].reshape(shape)


def _middle(Z: Array) -> Array:
    """A point in the middle of the support, (p,), to measure from: products of large numbers lose the small differences
    between them. The median, not the mean: one row far out must not spoil the others."""
    some = np.sort(Z[:: -(-len(Z) // 33)], axis=0)
    return np.asarray(some[len(some) // 2])


def _sparse_half_distances(X: Any, Z: Any, scale: float | Array, rough: bool) -> Array:
    inverse = sparse.diags_array(np.broadcast_to(1.0 / np.asarray(scale, dtype=float), X.shape[1]).copy())
    X, Z = sparse.csr_array(X) @ inverse, sparse.csr_array(Z) @ inverse
    own, other = (0.5 * np.asarray(A.multiply(A).sum(axis=1)).ravel() for A in (X, Z))
    h: Array = (X @ Z.T).toarray()
    h -= own[:, None]
    h -= other
    np.minimum(h, 0.0, out=h)
    if rough:
        size = own[:, None] + other
        rows, columns = np.nonzero((size > 0) & (-h <= NEAR_SHARE * size))
        for start in range(0, len(rows), MAX_NUMBERS_OF_ONE_ROW):
            some = slice(start, start + MAX_NUMBERS_OF_ONE_ROW)
            difference = X[rows[some]] - Z[columns[some]]
            h[rows[some], columns[some]] = -0.5 * np.asarray(difference.multiply(difference).sum(axis=1)).ravel()
    return h


def products(X: Any, Z: Any | None) -> Array:
    """Matrix of inner products <x, z>, (n, m), of arrays or scipy sparse matrices."""
    if sparse.issparse(X) or sparse.issparse(Z):
        # In their own dtype, products of booleans are booleans and products of small integers overflow.
        product = X.astype(np.float64) @ (X if Z is None else Z).astype(np.float64).T
        return np.asarray(product.toarray() if sparse.issparse(product) else product, dtype=np.float64)
    X = np.asarray(X, dtype=np.float64)
    Z = X if Z is None else np.asarray(Z, dtype=np.float64)
    return np.asarray(X @ Z.T)


def square_norms(X: Any) -> Array:
    """|x|^2 of every row, (n,)."""
    if sparse.issparse(X):
        X = X.astype(np.float64)
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    X = np.asarray(X, dtype=np.float64)
    return np.asarray(np.einsum("ij,ij->i", X, X))
