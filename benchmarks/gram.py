"""The fused Gaussian gram against scikit-learn's."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from benchmarks.data import Array
from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings
from ovk.kernels import Gaussian

OURS, PEER, LIMIT = "ovk Gaussian", "sklearn rbf_kernel", "limit: exp + GEMM"


def cases(settings: Settings) -> Iterator[Case]:
    """Numbers of inputs and of threads."""
    n = settings.pick(toy=100, quick=2000, default=4000)
    for p in (8, 22, 120):
        for threads in (1, 2):
            yield _case(n, p, threads, settings)


def _case(n: int, p: int, threads: int, settings: Settings) -> Case:
    X = np.random.default_rng(0).standard_normal((n, p))
    kernel = Gaussian(float(np.sqrt(2 * p)))
    gamma = 1.0 / (4 * p)

    # NumPy's exp uses one thread, so the reference splits the work among as many threads.
    bounds = np.linspace(0, n, threads + 1).astype(int)
    parts = [slice(a, b) for a, b in pairwise(bounds)]

    def limit(A: Array, out: Array, pool: ThreadPoolExecutor) -> None:
        np.matmul(X, X.T, out=out)
        list(pool.map(lambda rows: np.exp(A[rows], out=out[rows]), parts))

    def blank() -> tuple[Array, Array, ThreadPoolExecutor]:
        return np.full((n, n), -0.5), np.zeros((n, n)), ThreadPoolExecutor(threads)

    def checks(seconds: Seconds) -> list[Check]:
        bound = 3.0 if p == 8 else 1.0
        name = "at least 3x the peer" if p == 8 else "never slower than the peer"
        return [Check(name, seconds[PEER] / seconds[OURS], bound, at_least=True)]

    return Case(
        f"p={p} threads={threads}",
        {"n": n, "p": p},
        [
            Contender(OURS, lambda: kernel(X)),
            Contender(PEER, lambda: rbf_kernel(X, gamma=gamma)),
            Contender(LIMIT, limit, blank),
        ],
        settings.pick(toy=1, quick=7, default=15, long=40),
        checks,
        threads=threads,
    )


BENCHMARK = Benchmark("gram", "one Gaussian gram, distances and exponential in one visit to memory", cases)
