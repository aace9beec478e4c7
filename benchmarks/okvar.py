"""Nonlinear autoregression: operator and coefficients in turn, compared with the same steps on dense matrices."""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings
from ovk import OKVAR
from ovk.batch.okvar.alternate import AlternatingMinimiser, Entrywise
from ovk.kernels import Gaussian
from ovk.objectives import L1
from ovk.operators import Identity
from reproduce.data import make_gene_network

OURS, NAIVE = "OKVAR.fit", "the same steps on the (n d)^2 matrix"
ALPHA, WEIGHT, OPERATOR, TOL, ROUNDS = 0.1, 0.05, 0.3, 1e-3, 10


def _model(d: int, rounds: int) -> OKVAR:
    kernel = Gaussian(float(np.sqrt(2 * d))) * Identity()
    return OKVAR(kernel, ALPHA, L1(WEIGHT), True, operator_weight=OPERATOR, tol=TOL, max_rounds=rounds)


def fit(series: list[np.ndarray], rounds: int) -> OKVAR:
    """A complete fit, whether it converges or not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return _model(series[0].shape[1], rounds).fit(series)


def dense(series: list[np.ndarray], rounds: int) -> None:
    """The same minimisation with the gram of d x d blocks as a dense matrix."""
    model = _model(series[0].shape[1], rounds)
    regression = model.regression(series)
    Z, d = regression.Z, regression.Y.shape[1]
    G = Gaussian(float(np.sqrt(2 * d)))(Z)
    blocks = np.broadcast_to(G[:, None, :, None], (len(Z), d, len(Z), d)).copy()
    settings = (ALPHA, L1(WEIGHT), OPERATOR, TOL, 5000, rounds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        AlternatingMinimiser(Entrywise(blocks), regression, *settings).minimise(np.eye(d))


def cases(settings: Settings) -> Iterator[Case]:
    """Ten genes as in DREAM3, and a hundred."""
    points = settings.pick(toy=4, quick=21, default=21)
    genes = settings.pick(toy=3, quick=10, default=10)
    small = make_gene_network(genes, 4, points, random_state=0).series
    rounds = settings.pick(toy=1, quick=ROUNDS, default=ROUNDS)
    rows = 4 * (points - 1)

    def small_checks(seconds: Seconds) -> list[Check]:
        return [
            Check(f"{genes} genes x {rows} transitions in a second", seconds[OURS], 1.0),
            Check("faster than dense", seconds[OURS] / seconds[NAIVE], 1.0),
        ]

    yield Case(
        f"{genes} genes",
        {"genes": genes, "transitions": rows, "rounds": rounds},
        [
            Contender(OURS, lambda: fit(small, rounds)),
            Contender(NAIVE, lambda: dense(small, rounds)),
        ],
        settings.pick(toy=1, quick=3, default=5, long=9),
        small_checks,
    )
    d, count, length = settings.pick(toy=(4, 2, 5), quick=(30, 10, 21), default=(100, 46, 22))
    large = make_gene_network(d, count, length, random_state=0).series
    n = count * (length - 1)

    def scores() -> tuple[dict[str, float], list[Check]]:
        tracemalloc.start()
        start = time.perf_counter()
        fit(large, 1)
        seconds = time.perf_counter() - start
        peak = tracemalloc.get_traced_memory()[1] / 2**30
        tracemalloc.stop()
        return {"one round, seconds while memory is traced": seconds, "peak GiB": peak}, [
            Check("peak memory in GiB", peak, 2.0)
        ]

    yield Case(
        f"{d} genes",
        {"genes": d, "transitions": n, "rounds": rounds, "bytes of the dense matrix": 8 * (n * d) ** 2},
        [
            Contender(OURS, lambda: fit(large, rounds), light=lambda: fit(large, 1)),
            Contender("one round", lambda: fit(large, 1)),
        ],
        1,
        lambda seconds: [Check(f"{d} genes x {n} transitions in five minutes", seconds[OURS], 300.0)],
        scores,
    )


BENCHMARK = Benchmark("okvar", "operator and coefficients of an autoregression learned in turn", cases)
