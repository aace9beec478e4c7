"""Second-order learners: time per row compared with sequential updates and bare BLAS, and with one batch fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import dsyrk, dtrsm
from scipy.linalg.lapack import dpotrf

from benchmarks.data import patients
from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings
from ovk import KAWV, PKAWV, OVKRidge
from ovk.features import Given, Nystrom
from ovk.kernels import Gaussian, median_distance
from ovk.online.second_order.block_ridge import MAX_BLOCK_POINTS, MIN_BLOCK_POINTS
from ovk.operators import MixedEffect

Array = npt.NDArray[np.float64]

OURS, NUMBA, LIMIT = "PKAWV", "numba, one row at a time", "limit: bare BLAS"
EXACT, BATCH = "KAWV, all forecasts", "OVKRidge.fit"


def cases(settings: Settings) -> Iterator[Case]:
    """Features at four sizes, the exact forecaster, and a long stream."""
    for m in settings.pick(toy=(8,), quick=(50, 200), default=(50, 100, 200, 500)):
        yield _features(m, settings.pick(toy=200, quick=2000, default=20_000), settings)
    yield _parkinsons(settings)
    if settings.size == "long":
        yield _features(100, 6_000_000, settings, p=22, rounds=1)


def _stream(n: int, p: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    return X, np.sin(X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.1 * rng.standard_normal(n)


def _features(m: int, n: int, settings: Settings, p: int = 8, rounds: int | None = None) -> Case:
    """One pass over n rows with m Nystrom features, predicting every row before learning it."""
    X, y = _stream(n, p)
    kernel, points = Gaussian(float(np.sqrt(p))), X[:m]
    L = np.linalg.cholesky(kernel(points) + 1e-9 * np.eye(m))
    model = PKAWV(kernel, 1.0, Nystrom(Given(points)))
    others = [Contender(LIMIT, lambda: bare(kernel, points, L, X, y))]
    if find_spec("numba") is not None:
        step = compiled()
        step(kernel(X[:2], points), L, y[:2], 1.0)  # compiles
        others.append(Contender(NUMBA, lambda: sequential(step, kernel, points, L, X, y)))

    def checks(seconds: Seconds) -> list[Check]:
        found = [Check("at most 2x the bare BLAS cost", seconds[OURS] / seconds[LIMIT], 2.0)]
        if NUMBA in seconds and m >= 100:
            least = 1.5 if m >= 500 else 1.0
            ratio = seconds[NUMBA] / seconds[OURS]
            found.append(Check(f"at least {least}x numba's rank-one updates", ratio, least, at_least=True))
        return found

    name = f"m={m}, n={n}"
    described = {"m": m, "n": n, "p": p, "numba": find_spec("numba") is not None}
    times = settings.pick(toy=1, quick=2, default=5) if rounds is None else rounds
    return Case(
        name,
        described,
        [Contender(OURS, lambda: model.replace().partial_fit(X, y)), *others],
        times,
        checks,
        threads=1,
    )


def bare(kernel: Gaussian, points: Array, L: Array, X: Array, y: Array) -> None:
    """Kernel values, the whitening, S, its factor, the block's factor: the minimum work of an exact block algorithm."""
    m = len(points)
    b = min(max(MIN_BLOCK_POINTS, 32 * (m // 64)), MAX_BLOCK_POINTS)
    L = np.asfortranarray(L)
    S = np.zeros((m, m), order="F")
    B = np.zeros(m)
    for start in range(0, len(X), b):
        phi = dtrsm(1.0, L, kernel(X[start : start + b], points).T, lower=1, overwrite_b=1)
        A = S.copy(order="F")
        A[np.diag_indices(m)] += 1.0
        root, _ = dpotrf(A, lower=1, overwrite_a=1)
        U = dtrsm(1.0, root, phi, lower=1)
        G = U.T @ U
        G[np.diag_indices(len(G))] += 1.0
        dpotrf(G.T, lower=1, overwrite_a=1)
        S = dsyrk(1.0, phi, beta=1.0, c=S, lower=1, overwrite_c=1)
        B += phi @ y[start : start + b]


def compiled() -> Callable[..., Any]:
    """The forecaster by rank-one updates of the inverse, compiled."""
    import numba

    @numba.njit(cache=False, fastmath=True)
    def step(K: Array, L: Array, y: Array, alpha: float, P: Array, w: Array) -> Array:  # pragma: no cover
        n, m = K.shape
        Z, phi, v = np.empty(n), np.empty(m), np.empty(m)
        for t in range(n):
            for i in range(m):
                s = K[t, i]
                for j in range(i):
                    s -= L[i, j] * phi[j]
                phi[i] = s / L[i, i]
            h, ridge = 0.0, 0.0
            for i in range(m):
                s = 0.0
                for j in range(m):
                    s += P[i, j] * phi[j]
                v[i] = s
                h += s * phi[i]
                ridge += w[i] * phi[i]
            Z[t] = ridge / (1.0 + h)
            error = (y[t] - ridge) / (1.0 + h)
            for i in range(m):
                w[i] += v[i] * error
                scaled = v[i] / (1.0 + h)
                for j in range(m):
                    P[i, j] -= scaled * v[j]
        return Z

    def run(K: Array, L: Array, y: Array, alpha: float, state: tuple[Array, Array] | None = None) -> Any:
        m = K.shape[1]
        P, w = (np.eye(m) / alpha, np.zeros(m)) if state is None else state
        return step(K, L, y, alpha, P, w), (P, w)

    return run


def sequential(step: Callable[..., Any], kernel: Gaussian, points: Array, L: Array, X: Array, y: Array) -> Array:
    """The same pass, one row at a time, with kernel values in blocks."""
    state, found = None, []
    for start in range(0, len(X), 1024):
        rows = slice(start, start + 1024)
        Z, state = step(kernel(X[rows], points), L, y[rows], 1.0, state)
        found.append(Z)
    return np.concatenate(found)


def _parkinsons(settings: Settings) -> Case:
    """All progressive forecasts of the shuffled rows, compared with one batch fit."""
    rows = patients(settings)
    n = settings.pick(toy=100, quick=1500, default=len(rows.X))
    order = np.random.default_rng(0).permutation(len(rows.X))[:n]
    X, Y, first = rows.X[order], rows.Y[order], int(0.8 * n)
    X = (X - X[:first].mean(axis=0)) / X[:first].std(axis=0)
    Y = (Y - Y[:first].mean(axis=0)) / Y[:first].std(axis=0)
    kernel, alpha = Gaussian(0.25 * median_distance(X[:first])) * MixedEffect(0.5, 2), 0.1
    kept: dict[str, Array] = {}

    def forecasts() -> None:
        kept[EXACT] = KAWV(kernel, alpha, forecaster="ridge").predict_then_learn(X, Y)

    def scores() -> tuple[dict[str, Any], list[Check]]:
        batch = OVKRidge(kernel, alpha, fit_intercept=False).fit(X[:first], Y[:first]).predict(X[first:])
        safe = KAWV(kernel, alpha).predict_then_learn(X, Y)

        def error(F: Array) -> float:
            return float(np.mean((F - Y[first:]) ** 2))

        ours, theirs = error(kept[EXACT][first:]), error(batch)
        found = {"batch on the first 80%": theirs, "ridge forecaster": ours, "AWV forecaster": error(safe[first:])}
        return found, [Check("last 20% within 3% of the batch (ridge forecaster)", ours / theirs, 1.03)]

    def checks(seconds: Seconds) -> list[Check]:
        return [Check("at most 2x one batch fit", seconds[EXACT] / seconds[BATCH], 2.0)]

    both = [
        Contender(EXACT, forecasts),
        Contender(BATCH, lambda: OVKRidge(kernel, alpha, fit_intercept=False).fit(X, Y)),
    ]
    described = {"n": n, "kernel": repr(kernel), "alpha": alpha}
    return Case(f"Parkinson, n={n}", described, both, settings.pick(toy=1, quick=2, default=3), checks, scores)


BENCHMARK = Benchmark("second_order", "progressive ridge regression in blocks, on features and exactly", cases)
