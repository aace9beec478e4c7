"""MovKL at the size of the paper: comparison with its Gauss-Seidel algorithm, and growth of the time."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings
from ovk import MovKL
from ovk.batch import kernel_grid
from reproduce.data import make_bci

ALPHA = 0.1


def _fit(X: Any, Y: Any, r: float, **options: Any) -> MovKL:
    grid = np.linspace(0.0, 1.0, Y.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return MovKL(kernel_grid(X), ALPHA, r, grid=grid, **options).fit(X, Y)


def cases(settings: Settings) -> Iterator[Case]:
    """A fit of 24 kernels for r = 2 and r = 1; Gauss-Seidel on the same data; twice the curves and points."""
    n, d = settings.pick(toy=12, quick=120, default=317), settings.pick(toy=10, quick=80, default=200)
    curves = make_bci(2 * n, segment=2 * d, random_state=0)
    X, Y = curves.data, curves.target
    rounds = settings.pick(toy=1, quick=2, default=3)
    plain, fine = "MovKL", "MovKL, Gauss-Seidel route"

    for r in (2.0, 1.0):
        yield Case(
            f"seconds, r={r:g}",
            {"n": n, "d": d, "kernels": 24, "alpha": ALPHA, "r": r},
            [
                Contender(plain, lambda r=r: _fit(X[:n], Y[:n, ::2], r)),
                Contender("MovKL, r=inf: one solve", lambda: _fit(X[:n], Y[:n, ::2], np.inf)),
            ],
            rounds,
            lambda seconds: [Check("a fit takes at most 5 seconds", seconds[plain], 5.0)],
        )

    def slow() -> Any:
        # The algorithm of the paper with as many rounds and the same accuracy. Two rounds represent all.
        return _fit(X[:n], Y[:n, ::2], 2.0, solver="gauss-seidel", max_iter=2)

    def quick() -> Any:
        return _fit(X[:n], Y[:n, ::2], 2.0, max_iter=2)

    def ratio(seconds: Seconds) -> list[Check]:
        return [Check("Gauss-Seidel takes at least 20 x", seconds[fine] / seconds[plain], 20.0, at_least=True)]

    yield Case(
        "two rounds, r=2",
        {"n": n, "d": d, "kernels": 24, "alpha": ALPHA},
        [Contender(plain, quick), Contender(fine, slow)],
        1,
        ratio,
    )
    yield Case(
        "growth",
        {"n": n, "d": d, "kernels": 24, "alpha": ALPHA, "r": 2.0},
        [
            Contender(plain, lambda: _fit(X[:n], Y[:n, ::2], 2.0)),
            Contender("twice the curves", lambda: _fit(X, Y[:, ::2], 2.0)),
            Contender("twice the points", lambda: _fit(X[:n], Y[:n], 2.0)),
        ],
        rounds,
        lambda seconds: [
            Check("twice the curves at most 8 x", seconds["twice the curves"] / seconds[plain], 8.0),
            Check("twice the points at most 4 x", seconds["twice the points"] / seconds[plain], 4.0),
        ],
    )


BENCHMARK = Benchmark("movkl", "24 kernels at the paper's size", cases)
