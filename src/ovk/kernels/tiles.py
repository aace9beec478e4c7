"""Evaluation of radial kernels in tiles that stay in cache.

The squared distances of a tile, a block of whole rows, are one product of augmented matrices,

    -|x - z|^2 / 2 = [x, -|x|^2/2, 1] . [z, 1, -|z|^2/2],

and the kernel's profile is applied to them in place. Threads share the tiles, with one BLAS thread each, because such
small products are slower with two. There are as many threads as BLAS would use, so limits of BLAS
(``OPENBLAS_NUM_THREADS``, `threadpoolctl`, joblib) also apply here.
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

from ovk.base import Array, DeviceMatrix, Indices, one_blas_thread, paired, tile_threads

#: Replaces squared distances by values of a kernel, in place.
EntrywiseMap = Callable[[Array], None]
#: Maximum number of entries in a tile: two MiB of doubles.
MAX_TILE_ENTRIES = 1 << 18
#: Maximum number of multiplications that are faster in one thread.
MAX_WORK_FOR_ONE_THREAD = 1 << 22
#: Squared distances below this share of the squared norms are computed from differences if a kernel is rough.
NEAR_SHARE = 1e-8
#: Maximum size of the points whose differences from a single row stay in cache.
MAX_SINGLE_ROW_SIZE = 1 << 16
#: Number of inputs from which half of a symmetric matrix is copied rather than computed.
MIN_INPUTS_TO_MIRROR = 64
#: Work arrays of each thread.
_own = threading.local()


@lru_cache(maxsize=4)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="ovk-tile")


if hasattr(os, "register_at_fork"):
    # A forked child inherits the pool but none of its threads, so waiting for it would never end.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def over_rows(work: Callable[[int, int], None], n: int, width: int, cost: int = 1) -> None:
    """Call ``work(start, stop)`` on blocks of the rows 0..n, each a tile of `width` columns.

    `cost` is the number of multiplications per entry; small problems use one thread.
    """
    if n * width <= MAX_TILE_ENTRIES and n * width * cost <= MAX_WORK_FOR_ONE_THREAD:
        work(0, n)
        return
    threads = tile_threads()
    step = max(1, min(MAX_TILE_ENTRIES // max(width, 1), -(-n // threads)))
    starts = range(0, n, step)
    with one_blas_thread():
        if threads == 1:
            for start in starts:
                work(start, min(start + step, n))
        else:
            # list() waits for all results and raises the first error.
            list(_pool(threads).map(lambda start: work(start, min(start + step, n)), starts))


def radial(X: Any, Z: Any | None, scale: float | Array, profile: EntrywiseMap, *, rough: bool = False) -> Array:
    """Matrix (n, m) of a radial kernel, of arrays or scipy sparse matrices; `Z` None means `X`.

    The `profile` replaces h = -|x - z|^2 / (2 scale^2), at most 1e-11 above 0 by rounding, by the kernel's values, in
    place. The scale is a number or (p,). A `rough` kernel depends on |x - z| near zero, where the square root of a
    rounding error is 1e-8: its small distances are computed from differences.
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
    if len(X) == 1 and Z.size <= MAX_SINGLE_ROW_SIZE:
        return _one_row(X, Z, scale, profile)
    X, Z, scale = _in_range(X, Z, scale)
    n, m, p = len(X), len(Z), X.shape[1]
    out = np.empty((n, m))
    if n == 0 or m == 0:
        return out
    distances = _HalfDistances(Z, scale, rough)
    mirror = same and p >= MIN_INPUTS_TO_MIRROR

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
    """The matrix of a radial kernel times W, (n, q), one tile at a time, without forming the matrix.

    This also saves time: fresh pages of a large array cost as much as its exponentials. `since`, (n,) and
    non-decreasing, is the first point that each row uses; None means all.
    """
    if len(X) == 1 and Z.size <= MAX_SINGLE_ROW_SIZE:
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
        # Skip the points that no row of the tile uses; those that only some rows use come next.
        lowest, front = (0, 0) if since is None else (int(since[start]), int(since[stop - 1]))
        for first in range(lowest, m, width):
            last = min(first + width, m)
            h = _scratch("tile", (stop - start, last - first))
            distances.fill(left, first, h)
            profile(h)
            if since is not None and first < front:
                _zero_before(h, since[start:stop] - first)
            total[start:stop] += h @ W[first:last]

    over_rows(work, n, width, cost=(p + 16) * -(-m // width))
    return total


def _one_row(x: Array, Z: Array, scale: float | Array, profile: EntrywiseMap) -> Array:
    """The kernel's values of a single row, (1, m), from differences, without augmented matrices."""
    if not isinstance(scale, float) or not 1e-140 < scale < 1e140:
        x, Z, scale = x / scale, Z / scale, 1.0
    squares = Z - x
    squares *= squares
    h: Array = (squares @ np.full(Z.shape[1], -0.5 / (scale * scale)))[None]
    profile(h)
    return h


def _zero_before(h: Array, since: Indices) -> None:
    """Set each row to zero before its column since_i, a few rows at a time, so that most of it is a rectangle."""
    for start in range(0, len(h), ROWS_PER_RECTANGLE):
        rows = slice(start, start + ROWS_PER_RECTANGLE)
        low, high = max(int(since[start]), 0), int(since[rows][-1])
        if high > 0:
            h[rows, :low] = 0.0
            step = h[rows, low:high]
            step *= np.arange(low, low + step.shape[1]) >= since[rows, None]


def _in_range(X: Array, Z: Array, scale: float | Array) -> tuple[Array, Array, float | Array]:
    """Rows, points and scale such that the square of the scale neither overflows nor underflows."""
    scale = np.asarray(scale, dtype=np.float64)
    if scale.min() > 1e-140 and scale.max() < 1e140:
        return X, Z, scale
    return X / scale, Z / scale, np.float64(1.0)


class _HalfDistances:
    """-|x - z|^2 / (2 scale^2) to the points Z."""

    def __init__(self, Z: Array, scale: float | Array, rough: bool) -> None:
        m, p = Z.shape
        self._rough = rough
        # A median: products of large numbers lose small differences.
        some = np.sort(Z[:: -(-m // 33)], axis=0)
        self._centre = np.asarray(some[len(some) // 2])
        # The scale is applied to the rows of a tile, of which there are fewer.
        self._weight = 1.0 / np.square(np.asarray(scale, dtype=np.float64))
        self._right = _scratch("points", (m, p + 2))
        with np.errstate(over="ignore"):
            np.subtract(Z, self._centre, out=self._right[:, :p])
            self._right[:, p] = 1.0
            self._right[:, p + 1] = norms = self._norms(self._right[:, :p])
        self._near = norms.min() > -MAX_SAFE_SQUARE

    def _norms(self, A: Array) -> Array:
        """-|a|^2 / (2 scale^2) of every row, (n,)."""
        if self._weight.ndim == 0:
            squares: Array = np.einsum("ij,ij->i", A, A)
            squares *= -0.5 * self._weight
            return squares
        return np.asarray(np.einsum("ij,ij,j->i", A, A, -0.5 * self._weight))

    def left(self, X: Array) -> Array:
        """The augmented matrix of some rows, (n, p + 2)."""
        left = np.empty((len(X), X.shape[1] + 2))
        with np.errstate(over="ignore"):
            np.subtract(X, self._centre, out=left[:, :-2])
            left[:, -2] = self._norms(left[:, :-2])
            left[:, -1] = 1.0
            left[:, :-2] *= self._weight
        return left

    def fill(self, left: Array, first: int, h: Array) -> None:
        """Write the values for the points from `first` on to h, (n, number of points)."""
        right = self._right[first : first + h.shape[1]].T
        # Far from the centre, rounding can make squared distances very negative. Near it, profiles allow for rounding:
        # another pass over a tile costs a fifth of its time. (nan counts as far.)
        if self._near and left[:, -2].min() > -MAX_SAFE_SQUARE:
            np.matmul(left, right, out=h)
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                np.matmul(left, right, out=h)
                np.minimum(h, 0.0, out=h)
                self._recompute_overflow(left, first, h)
        if self._rough:
            self._recompute_small(left, first, h)

    def _recompute_overflow(self, left: Array, first: int, h: Array) -> None:
        """Compute values that are not finite from differences: the difference of two overflows may be 0."""
        rows, columns = np.nonzero(~np.isfinite(h))
        if len(rows):
            difference = left[rows, :-2] / self._weight - self._right[first + columns, :-2]
            h[rows, columns] = np.maximum(np.nan_to_num(self._norms(difference), nan=-MAX_SQUARE), -MAX_SQUARE)

    def _recompute_small(self, left: Array, first: int, h: Array) -> None:
        """Compute small distances from differences."""
        right = self._right[first : first + h.shape[1]]
        rows, columns = np.nonzero(h >= NEAR_SHARE * np.add.outer(left[:, -2], right[:, -1]))
        if len(rows):
            h[rows, columns] = self._norms(left[rows, :-2] / self._weight - right[columns, :-2])


#: Maximum of |a|^2 / (2 scale^2) for distances that are accurate to 1e-11.
MAX_SAFE_SQUARE = 1024.0
#: Maximum of the same for which all profiles are finite.
MAX_SQUARE = 1e300
#: Rows that `_zero_before` handles together.
ROWS_PER_RECTANGLE = 32
#: Maximum number of points in a tile of a product: tiles with few rows are slow.
MAX_TILE_COLUMNS = 1 << 12


def _scratch(name: str, shape: tuple[int, int]) -> Array:
    """An uninitialised work array; the thread's own, unless it is too large to keep."""
    size = shape[0] * shape[1]
    if size > 2 * MAX_TILE_ENTRIES:
        return np.empty(shape)
    flat = getattr(_own, name, None)
    if flat is None or flat.size < size:
        flat = np.empty(size)
        setattr(_own, name, flat)
    return flat[:size].reshape(shape)


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
        for start in range(0, len(rows), MAX_SINGLE_ROW_SIZE):
            some = slice(start, start + MAX_SINGLE_ROW_SIZE)
            difference = X[rows[some]] - Z[columns[some]]
            h[rows[some], columns[some]] = -0.5 * np.asarray(difference.multiply(difference).sum(axis=1)).ravel()
    return h


def products(X: Any, Z: Any | None) -> Array:
    """Matrix of inner products <x, z>, (n, m), of arrays, scipy sparse matrices or matrices on a device."""
    if sparse.issparse(X) or sparse.issparse(Z):
        # Products of booleans would be boolean, and those of small integers would overflow.
        product = X.astype(np.float64) @ (X if Z is None else Z).astype(np.float64).T
        return np.asarray(product.toarray() if sparse.issparse(product) else product, dtype=np.float64)
    on_device = paired(X, Z)
    if on_device is not None:
        return on_device[0] @ on_device[1].T  # type: ignore[no-any-return]
    X = np.asarray(X, dtype=np.float64)
    Z = X if Z is None else np.asarray(Z, dtype=np.float64)
    return np.asarray(X @ Z.T)


def square_norms(X: Any) -> Array:
    """|x|^2 of every row, (n,)."""
    if sparse.issparse(X):
        X = X.astype(np.float64)
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    if isinstance(X, DeviceMatrix):
        return DeviceMatrix(X.xp.sum(X.values**2, axis=1)).host()
    X = np.asarray(X, dtype=np.float64)
    return np.asarray(np.einsum("ij,ij->i", X, X))
