"""A hundred coupled outputs cost about as much as uncoupled ones plus one eigendecomposition."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings
from ovk import OVKRidge
from ovk.kernels import Gaussian
from ovk.operators import Dense, Identity

DENSE, IDENTITY, EIGH = "OVKRidge.fit, dense T", "OVKRidge.fit, Identity", "one eigh of the gram"


def cases(settings: Settings) -> Iterator[Case]:
    """One case."""
    n, d, p = (
        settings.pick(toy=120, quick=1000, default=2000),
        settings.pick(toy=12, quick=100, default=100),
        10,
    )
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    mixing = rng.standard_normal((d, d))
    operator = Dense(mixing @ mixing.T / d)
    Y = np.sin(X @ rng.standard_normal((p, d))) @ mixing + 0.1 * rng.standard_normal((n, d))
    kernel = Gaussian(float(np.sqrt(2 * p)))

    def checks(seconds: Seconds) -> list[Check]:
        parts = seconds[IDENTITY] + seconds[EIGH]
        return [Check("dense T at most 1.5 x (Identity + one eigh)", seconds[DENSE] / parts, 1.5)]

    yield Case(
        f"d={d}",
        {"n": n, "d": d, "p": p, "alpha": 0.1},
        [
            Contender(DENSE, lambda: OVKRidge(kernel * operator, alpha=0.1, fit_intercept=False).fit(X, Y)),
            Contender(IDENTITY, lambda: OVKRidge(kernel * Identity(), alpha=0.1, fit_intercept=False).fit(X, Y)),
            Contender(EIGH, np.linalg.eigh, lambda: (kernel(X),)),
        ],
        settings.pick(toy=1, quick=7, default=9, long=20),
        checks,
    )


BENCHMARK = Benchmark("many_outputs", "a dense operator on many outputs", cases)
