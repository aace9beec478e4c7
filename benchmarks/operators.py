"""An exact fit between fields with given kernel and ridge, compared with bare gram, Cholesky and solve."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import lapack

from benchmarks.data import Array
from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings, interleave
from ovk import OperatorRidge
from ovk.curves import ProductGrid
from ovk.kernels import Gaussian

OURS, BARE = "OperatorRidge.fit", "limit: gram + Cholesky + solve"
ALPHA, WIDTH = 1e-6, 6.0
#: Number of waves in the input fields, and of functions in the outputs.
WAVES, RANK = 100, 100
#: Fields predicted at a time.
TOGETHER = 200
#: Maximum memory of a fit of 20,000 pairs, including the pairs.
MOST_GB = 12.0


def fields(n: int, side: int) -> tuple[Array, Array, Array]:
    """Coordinates (n, 100) of random fields, the fields (n, side^2), and fields that depend smoothly on them."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((n, WAVES)) / np.arange(1.0, WAVES + 1)
    patterns = rng.standard_normal((WAVES + RANK, side * side))
    hidden = np.tanh(Z @ rng.standard_normal((WAVES, RANK)) / np.arange(1.0, RANK + 1))
    return Z, Z @ patterns[:WAVES], hidden @ patterns[WAVES:]


def bare(Z: Array, T: Array) -> Array:
    """(K + alpha I)^-1 T with one n x n matrix: the cost without a library."""
    A = Gaussian(WIDTH)(Z)
    A[np.diag_indices_from(A)] += ALPHA
    L, _ = lapack.dpotrf(A.T, lower=1, clean=0, overwrite_a=1)
    return np.asarray(lapack.dpotrs(L, T, lower=1)[0])


def cases(settings: Settings) -> Iterator[Case]:
    """Fields of 64 x 64 points."""
    n, side = settings.pick(toy=60, quick=2000, default=8000, long=20_000), settings.pick(toy=8, quick=64, default=64)
    Z, X, Y = fields(n, side)
    grid = ProductGrid.regular((side, side))
    T = np.random.default_rng(1).standard_normal((n, RANK))
    model = OperatorRidge(Gaussian(WIDTH), ALPHA, decay=1.0, groups=1, input_grid=grid, output_grid=grid)
    peak = {}

    def ours() -> None:
        # There are few, large arrays, so tracing them is cheap.
        tracemalloc.start()
        model.fit(X, Y)
        peak[OURS] = (tracemalloc.get_traced_memory()[1] + X.nbytes + Y.nbytes) / 2**30
        tracemalloc.stop()

    def checks(seconds: Seconds) -> list[Check]:
        # Principal components and leave-one-out errors use a few thousand pairs, for any n.
        limit = settings.pick(toy=100.0, quick=8.0, default=2.5, long=1.3)
        return [Check(f"time at most {limit:g} x the limit's", seconds[OURS] / seconds[BARE], limit)]

    def scores() -> tuple[dict[str, Any], list[Check]]:
        predicting = interleave([Contender(OURS, lambda: model.predict(X[:TOGETHER]))], 3)[OURS]
        each = 1e3 * min(predicting.cpu) / min(TOGETHER, n)
        return {"GB, pairs included": dict(peak), "ms a prediction": {OURS: each}}, [
            Check(f"memory below {MOST_GB:g} GB", peak[OURS], MOST_GB)
        ]

    yield Case(
        f"exact fit, fields of {side} x {side}",
        {"n": n, "points": side * side, "alpha": ALPHA, "length_scale": WIDTH},
        [Contender(OURS, ours), Contender(BARE, lambda: bare(Z, T))],
        settings.pick(toy=1, quick=3, default=2, long=1),
        checks,
        scores,
    )


BENCHMARK = Benchmark("operators", "an exact fit between fields", cases)
