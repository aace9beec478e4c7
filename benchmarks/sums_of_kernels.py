"""A sum of products k1 T + k2 T + ... at the cost of the scalar sum, (k1 + k2 + ...) T."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import add

import numpy as np

from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings
from ovk import OLOK
from ovk.kernels import Gaussian, Linear
from ovk.online import Window
from ovk.operators import MixedEffect
from ovk.ovkernels import OperatorKernel, WeightedSum

TERMS, SCALAR = "sum of products", "product with the scalar sum"


def cases(settings: Settings) -> Iterator[Case]:
    """A sum of two kernels, and a mean of eight, in a stream with a window."""
    n, p, d = settings.pick(toy=300, quick=4000, default=8000), 8, 4
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, d))
    T = MixedEffect(0.5)
    eight = [*[Gaussian(float(s)) for s in np.logspace(-0.5, 1.0, 7)], Linear()]
    sums = {
        "two kernels": (Gaussian(2.0) * T + Linear() * T, (Gaussian(2.0) + Linear()) * T),
        "even sum of eight": (WeightedSum([k * T for k in eight], np.full(8, 1 / 8)), 1 / 8 * reduce(add, eight) * T),
    }

    def checks(seconds: Seconds) -> list[Check]:
        return [Check("at most 1.1 x the scalar sum", seconds[TERMS] / seconds[SCALAR], 1.1)]

    def learn(kernel: OperatorKernel) -> OLOK:
        return OLOK(kernel, alpha=1e-3, truncation=Window(500)).fit(X, Y)

    for name, (terms, scalar) in sums.items():
        yield Case(
            name,
            {"n": n, "d": d, "p": p},
            [
                Contender(TERMS, lambda K=terms: learn(K)),  # type: ignore[misc]
                Contender(SCALAR, lambda K=scalar: learn(K)),  # type: ignore[misc]
            ],
            settings.pick(toy=1, quick=9, default=11, long=20),
            checks,
        )


BENCHMARK = Benchmark("sums_of_kernels", "sums of products that share an operator", cases)
