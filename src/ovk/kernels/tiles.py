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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import ThreadpoolController

from ovk._validation import Array

#: Entries in a tile: two MiB of doubles.
TILE = 1 << 18
#: Multiplications that one thread does in less time than it takes to share them.
LITTLE = 1 << 22
#: Inputs from which products cost more than copying half of a symmetric matrix.
MANY_INPUTS = 64

Profile = Callable[[Array], None]


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


@lru_cache(maxsize=4)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="ovk-tile")


if hasattr(os, "register_at_fork"):
    # A forked child inherits the pool object but none of its threads: waiting on it would never end.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def _threads() -> int:
    return max((library.num_threads or 1 for library in _blas().lib_controllers), default=1)


def over_rows(work: Callable[[int, int], None], n: int, width: int, cost: int = 1) -> None:
    """Call ``work(start, stop)`` on blocks of the rows 0..n, each a tile of `width` columns.

    `cost` is the work of an entry, in multiplications: a block that is soon done is not worth waking a thread for.
    """
    if n * width <= TILE and n * width * cost <= LITTLE:
        work(0, n)
        return
    threads = _threads()
    step = max(1, min(TILE // max(width, 1), -(-n // threads)))
    starts = range(0, n, step)
    with _blas().limit(limits=1):
        if threads == 1:
            for start in starts:
                work(start, min(start + step, n))
        else:
            # list() waits for all of them and raises the first error.
            list(_pool(threads).map(lambda start: work(start, min(start + step, n)), starts))


def radial(X: Any, Z: Any | None, scale: float | Array, profile: Profile) -> Array:
    """Matrix of a radial kernel.

    Parameters
    ----------
    X, Z : (n, p) and (m, p) arrays or scipy sparse matrices; `Z` None means `X`
    scale : length scale, one or (p,)
    profile : replaces h = -|x - z|^2 / (2 scale^2), an array of values <= 0, by the kernel's values, in place

    Returns
    -------
    (n, m) array
    """
    same = Z is None
    if sparse.issparse(X) or sparse.issparse(Z):
        h = _sparse_half_distances(X, X if same else Z, scale)
        if same:
            np.fill_diagonal(h, 0.0)
        profile(h)
        return h
    X = np.asarray(X, dtype=np.float64)
    Z = X if same else np.asarray(Z, dtype=np.float64)
    n, m, p = len(X), len(Z), X.shape[1]
    out = np.empty((n, m))
    if n == 0 or m == 0:
        return out
    # Products of large numbers lose the small differences between them: measure from the middle of the support. The
    # median, not the mean: one row far out must not spoil the others.
    centre = np.median(Z[:: -(-m // 33)], axis=0)
    right = np.empty((p + 2, m))
    np.subtract(Z, centre, out=right[:p].T)
    right[:p] /= np.reshape(scale, (-1, 1))
    right[p] = 1.0
    np.einsum("ij,ij->j", right[:p], right[:p], out=right[p + 1])
    right[p + 1] *= -0.5
    mirror = same and p >= MANY_INPUTS

    def work(start: int, stop: int) -> None:
        left = np.empty((stop - start, p + 2))
        np.subtract(X[start:stop], centre, out=left[:, :p])
        left[:, :p] /= scale
        np.einsum("ij,ij->i", left[:, :p], left[:, :p], out=left[:, p])
        left[:, p] *= -0.5
        left[:, p + 1] = 1.0
        h = out[start:stop, :stop] if mirror else out[start:stop]
        np.matmul(left, right[:, : h.shape[1]], out=h)
        # Rounding can leave a distance slightly negative, and that of a point to itself not quite zero.
        np.minimum(h, 0.0, out=h)
        if same:
            rows = np.arange(stop - start)
            h[rows, rows + start] = 0.0
        profile(h)
        if mirror:
            out[:start, start:stop] = h[:, :start].T

    over_rows(work, n, m, cost=p + 16)
    return out


def _sparse_half_distances(X: Any, Z: Any, scale: float | Array) -> Array:
    inverse = sparse.diags_array(np.broadcast_to(1.0 / np.asarray(scale, dtype=float), X.shape[1]).copy())
    X, Z = sparse.csr_array(X) @ inverse, sparse.csr_array(Z) @ inverse
    h: Array = (X @ Z.T).toarray()
    h -= 0.5 * np.asarray(X.multiply(X).sum(axis=1)).reshape(-1, 1)
    h -= 0.5 * np.asarray(Z.multiply(Z).sum(axis=1)).reshape(1, -1)
    return np.minimum(h, 0.0, out=h)


def products(X: Any, Z: Any | None) -> Array:
    """Matrix of inner products <x, z>, (n, m), of arrays or scipy sparse matrices."""
    if sparse.issparse(X) or sparse.issparse(Z):
        # In their own dtype, products of booleans are booleans and products of small integers overflow.
        product = X.astype(np.float64) @ (X if Z is None else Z).astype(np.float64).T
        result: Array = np.asarray(product.toarray() if sparse.issparse(product) else product, dtype=np.float64)
        return result
    X = np.asarray(X, dtype=np.float64)
    Z = X if Z is None else np.asarray(Z, dtype=np.float64)
    gram: Array = X @ Z.T
    return gram


def square_norms(X: Any) -> Array:
    """|x|^2 of every row, (n,)."""
    if sparse.issparse(X):
        X = X.astype(np.float64)
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    X = np.asarray(X, dtype=np.float64)
    norms: Array = np.einsum("ij,ij->i", X, X)
    return norms
