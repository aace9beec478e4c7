"""OLOK on data of the shape of the paper's Click data, compared with a ring-buffer loop and the bare kernel."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings
from benchmarks.ring_buffer import Array, RingBuffer
from ovk import OLOK
from ovk.kernels import Gaussian
from ovk.online import Window
from ovk.operators import Dense

OURS, LOOP, BARE = "OLOK", "loop with a ring buffer", "bare kernel and products"
ALPHA, ETA = 0.1, 0.5


def paper_operator(d: int) -> Array:
    """J: one on the diagonal and a tenth elsewhere."""
    return 0.9 * np.eye(d) + 0.1


def bare(X: Array, points: Array, A: Array, T: Array, kernel: Gaussian, block: int) -> None:
    """The minimum work: the kernel between a block and the window and within the block, and products."""
    for start in range(0, len(X), block):
        rows = X[start : start + block]
        (kernel.product(rows, points, A) @ T).sum()
        kernel(rows)


def cases(settings: Settings) -> Iterator[Case]:
    """A full window, with default BLAS threads and with one thread."""
    p, d = 120, 16
    window = settings.pick(toy=100, quick=2000, default=2000)
    n = settings.pick(toy=300, quick=2560, default=5120)
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((window + n, p)), rng.standard_normal((window + n, d))
    T, mu = paper_operator(d), 2.0 * p
    kernel = Gaussian.from_mu(mu)
    A = rng.standard_normal((window, d))
    first, rest = slice(0, window), slice(window, window + n)

    def ours() -> tuple[OLOK]:
        model = OLOK(kernel * Dense(T), ALPHA, ETA, truncation=Window(window))
        return (model.partial_fit(X[first], Y[first]),)

    def loop() -> tuple[RingBuffer]:
        model = RingBuffer(p, T, mu, ALPHA, ETA, window)
        model.predict_then_learn(X[first], Y[first])
        return (model,)

    def agreement() -> tuple[dict[str, float], list[Check]]:
        some = slice(window, window + min(n, 500))
        ([a], [b]) = ours(), loop()
        gap = np.abs(a.predict_then_learn(X[some], Y[some]) - b.predict_then_learn(X[some], Y[some])).max()
        return {"largest difference to the loop": float(gap)}, [Check("the loop's predictions", float(gap), 1e-10)]

    def checks(seconds: Seconds) -> list[Check]:
        return [
            Check("at least 8 x the loop", seconds[LOOP] / seconds[OURS], 8.0, at_least=True),
            Check("at most 2.0 x the bare kernel", seconds[OURS] / seconds[BARE], 2.0),
        ]

    for name, threads in (("threads as they are", None), ("one thread", 1)):
        yield Case(
            name,
            {"n": n, "p": p, "d": d, "window": window, "alpha": ALPHA, "eta": ETA, "mu": mu},
            [
                Contender(OURS, lambda model: model.predict_then_learn(X[rest], Y[rest]), ours),
                Contender(LOOP, lambda model: model.predict_then_learn(X[rest], Y[rest]), loop),
                Contender(BARE, lambda: bare(X[rest], X[first], A, T, kernel, 256)),
            ],
            settings.pick(toy=1, quick=3, default=7, long=20),
            checks,
            agreement,
            threads,
        )


BENCHMARK = Benchmark("online_click", "first-order learning on the shape of the Click data", cases)
